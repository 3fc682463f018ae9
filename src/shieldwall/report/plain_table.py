"""The look that all tables in the terminal share."""

from typing import Any

from rich import box
from rich.table import Table


class PlainTable(Table):
    """A rule below the headings and no other lines; title and caption at the left."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            show_edge=False,
            collapse_padding=True,
            title_justify="left",
            caption_justify="left",
            **options,
        )
