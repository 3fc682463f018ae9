"""One HTML file that asks for nothing: page.html.j2 filled in, with its style and its scripts inside.

Scripts run only if their checksum is in the file's own Content-Security-Policy, so that no name in a log can
become one; the charts' expressions are interpreted, not evaluated.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from shieldwall.data.datasets import roots
from shieldwall.files import disk_errors, write_atomic
from shieldwall.report.page.content import content
from shieldwall.report.page.palette import rules
from shieldwall.results.record import Log

_HERE = "shieldwall.report.page"
_SCRIPTS = ("tip.js", "curves.js", "gallery.js")
_EXPORTED = "window.vegaEmbed = vegaEmbed;"


def write_page(
    logs: Sequence[Log], out: Path, *, data_dir: Path | None = None, radii: Sequence[float] | None = None
) -> None:
    """Write the report of logs, as `read_logs` reads them, to `out`.

    The same input gives the same bytes. `data_dir` is where the pictures of the gallery are looked for first;
    `radii` are those of the tables, by default the paper's where it has rows for these runs.
    """
    if data_dir is not None:
        roots(data_dir)  # a data folder that does not exist is an error, not a gallery without pictures
    page = _rendered(content(logs, data_dir, radii))
    with disk_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(out, page.encode())


def _rendered(names: Mapping[str, Any]) -> str:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        autoescape=True,
        loader=FunctionLoader(_file),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "sort_keys": True}
    scripts = [_library(), *(_file(name) for name in _SCRIPTS)]
    return environment.get_template("page.html.j2").render(
        **names,
        style=_file("page.css") + rules(),
        scripts=scripts,
        checksums=[_checksum(script) for script in scripts],
    )


@cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script; it takes a second to put together."""
    import vl_convert

    return vl_convert.javascript_bundle(_EXPORTED).replace("</script", r"<\/script")


def _file(name: str) -> str:
    return resources.files(_HERE).joinpath(name).read_text(encoding="utf-8")


def _checksum(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
