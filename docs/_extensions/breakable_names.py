"""Long names in code may break after a dot, an underscore or a slash, where tables leave them no room.

Numbers and options such as --exact-noise stay whole.
"""

import re
from typing import Any

from sphinx.application import Sphinx

CODE = re.compile(r'(?<=<span class="pre">)[^<]+')
JOINT = re.compile(r"(?<=\w[._/])(?<!\d\.)(?=\w)")
OPTION = re.compile(r"--\w[\w-]*")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", _mark)
    return {"parallel_read_safe": True}


def _mark(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    if "body" in context:
        context["body"] = CODE.sub(lambda code: marked(code[0]), context["body"])


def marked(code: str) -> str:
    return OPTION.sub(r'<span class="whole">\g<0></span>', JOINT.sub("<wbr>", code))
