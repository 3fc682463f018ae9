"""Each cell of a table carries its column's name, which a phone shows where cells stand below each other."""

import re
from collections.abc import Iterator
from html import escape, unescape
from itertools import cycle
from typing import Any

from sphinx.application import Sphinx

TABLE = re.compile(r"(<thead>.*?</thead>)(.*?)(?=</table>)", re.DOTALL)
HEADING = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
TAG = re.compile(r"<[^>]+>")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", _name)
    return {"parallel_read_safe": True}


def _name(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object) -> None:
    if "body" in context:
        context["body"] = named(context["body"])


def named(page: str) -> str:
    """The page with a `data-column` in every cell of its tables."""
    return TABLE.sub(lambda table: table[1] + _cells(table[2], _headings(table[1])), page)


def _headings(head: str) -> Iterator[str]:
    return cycle([unescape(TAG.sub("", heading)).strip() for heading in HEADING.findall(head)])


def _cells(rows: str, headings: Iterator[str]) -> str:
    return re.sub("<td", lambda _: f'<td data-column="{escape(next(headings))}"', rows)
