"""Docstrings as they are written here, in plain text, turned into what Sphinx reads.

    an indented block              a formula, kept as it stands
    a block that begins with |     a table, kept as it stands
    `name`                         code
    * | \\ _ in a sentence          themselves, not markup
    Args:                          a list of parameters

So nothing under `src` has to be written for a documentation tool.
"""

import re
from itertools import groupby
from typing import Any

from sphinx.application import Sphinx

ARGUMENTS = "Args:\n"
ARGUMENT = re.compile(r"^    (\w+): ", re.MULTILINE)
TOKEN = re.compile(r"`(?P<code>[^`]+)`(?=(?P<glued>\w?))|[*|\\]|_(?!\w)")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", _replace)
    return {"parallel_read_safe": True}


def _replace(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    lines[:] = converted(lines)


def converted(lines: list[str]) -> list[str]:
    """The lines of a docstring as reStructuredText."""
    texts = ["\n".join(block) for is_text, block in groupby(lines, key=_is_text) if is_text]
    return [line for text in texts for line in (*_block(text).split("\n"), "")]


def _is_text(line: str) -> bool:
    return bool(line.strip())


def _block(text: str) -> str:
    if text.startswith(("|", " ")):
        return "::\n\n" + "\n".join(f"    {line}" for line in text.split("\n"))
    if text.startswith(ARGUMENTS):
        return ARGUMENT.sub(r":param \1: ", prose(text.removeprefix(ARGUMENTS)))
    return prose(text)


def prose(text: str) -> str:
    """Code in double backticks, everything else as it reads."""
    return TOKEN.sub(_token, text)


def _token(found: re.Match[str]) -> str:
    if found["code"] is None:
        return f"\\{found[0]}"
    glue = "\\ " if found["glued"] else ""
    return f"``{' '.join(found['code'].split())}``{glue}"
