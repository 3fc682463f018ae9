"""Figures as files: whole or not there, and the same bytes each time."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shieldwall.errors import UserError
from shieldwall.files import disk_errors, write_atomic

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Without these each file would hold the date and the version that drew it, and never be the same twice.
_METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
    ".svg": {"Date": None, "Creator": None},
}
_DESCRIPTION = {".png": "Description", ".pdf": "Subject", ".svg": "Description"}
"""What each kind of file calls the text that says what it shows."""


def check_figure_path(path: Path) -> None:
    """Refuse a suffix that no figure is written as."""
    if path.suffix.lower() not in _METADATA:
        raise UserError(f"{path}: a figure is written as .png, .pdf or .svg, by the file's suffix")


def write_figure(figure: "Figure", path: Path, about: str | None = None) -> None:
    """Write a figure as PNG, PDF or SVG, by the path's suffix; its folder is made.

    `about` says how it was made, in the file's metadata.
    """
    check_figure_path(path)
    content = _rendered(figure, path.suffix.lower(), about)
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, content)


def _rendered(figure: "Figure", suffix: str, about: str | None) -> bytes:
    from matplotlib import rc_context

    content, metadata = BytesIO(), {**_METADATA[suffix], _DESCRIPTION[suffix]: about}
    style = rc_context(
        {
            # TrueType fonts, whose text can be searched and edited; publishers refuse the default, Type 3.
            "pdf.fonttype": 42,
            # Text as text, for the same reason; without DejaVu Sans it is shown in another sans serif.
            "svg.fonttype": "none",
            # The names inside the file are hashes, salted at random without this.
            "svg.hashsalt": "shieldwall",
        }
    )
    with style:
        figure.savefig(content, format=suffix.removeprefix("."), dpi=160, metadata=metadata)
    return content.getvalue()
