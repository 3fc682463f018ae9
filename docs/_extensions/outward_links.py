"""Links of a page to files of the repository that are no pages: the built pages carry the files along."""

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

LINK = re.compile(r"\[([^\]`]+)\]\((\.\./[^)#]+)\)")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", _replace)
    return {"parallel_read_safe": True}


def _replace(app: Sphinx, page: str, source: list[str]) -> None:
    folder = (Path(app.srcdir) / page).parent

    def download(link: re.Match[str]) -> str:
        text, path = link[1], (folder / link[2]).resolve()
        if path.is_relative_to(app.srcdir):
            return link[0]
        if path.is_file():
            return f"{{download}}`{text} <{link[2]}>`"
        return f"{text} (`{link[2].removeprefix('../')}`)" if path.is_dir() else link[0]

    source[0] = LINK.sub(download, source[0])
