"""Long names in code may break after a dot, an underscore or a slash, where tables leave them no room."""

import re
from typing import Any

from sphinx.application import Sphinx

CODE = re.compile(r'(?<=<span class="pre">)[^<]+')
JOINT = re.compile(r"(?<=\w[._/])(?=\w)")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", _mark)
    return {"parallel_read_safe": True}


def _mark(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    if "body" in context:
        context["body"] = CODE.sub(lambda code: JOINT.sub("<wbr>", code[0]), context["body"])
