"""Progress (a bar in a terminal, elsewhere a line every few seconds), and Ctrl-C."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rich import progress
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Column

from shieldwall.texts import shown

QUIET = Console(quiet=True)
SECONDS_BETWEEN_LINES = 10.0
Show = Callable[[int, str], None]  # show the amount done so far, and a note such as the speed


class PlainConsole(Console):
    """A console that shows text as it is: no markup, no emoji, and escapes for control characters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, highlight=False, emoji=False, **options)
        self._width = self._width or None  # no column is no width that anyone gave

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=shown(segment.text))


@contextmanager
def progress_bar(console: Console, title: str, total: int, done: int = 0) -> Iterator[Show]:
    """Show the progress of `title`; `done` of `total` is the amount done before."""
    if not (console.is_terminal or console.is_jupyter):
        yield _plain_lines(console, title, total)
        return
    columns = (
        progress.TextColumn("{task.description}", markup=False), progress.BarColumn(),
        progress.TaskProgressColumn(), progress.TimeElapsedColumn(table_column=Column(no_wrap=True)),
        progress.TextColumn("left"), progress.TimeRemainingColumn(table_column=Column(no_wrap=True)),
    )  # fmt: skip
    with progress.Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=total, completed=done)

        def show(now: int, note: str) -> None:
            # The note has a line of its own: beside the rest there is no room for it in 80 columns.
            bar.update(task, completed=now, description=f"{title}\n{note}".rstrip())

        yield show


def _plain_lines(console: Console, title: str, total: int) -> Show:
    """A line at the first report, every few seconds, and at the end; the pace is that since the first."""
    started = time.monotonic()
    first: tuple[float, int] | None = None
    printed = 0.0

    def show(now: int, note: str) -> None:
        nonlocal first, printed
        seconds = time.monotonic() - started
        if now < total and first is not None and seconds - printed < SECONDS_BETWEEN_LINES:
            return
        first, printed = first or (seconds, now), seconds
        when = f", done in {seconds:.1f} s"
        if now < total:
            since, before = seconds - first[0], now - first[1]
            when = f", {since * (total - now) / before:.0f} s left" if before > 0 else ""
        line = f"{title}: {100 * now / total:.0f}%{when}  {note}".rstrip()
        console.print(line, highlight=False, soft_wrap=True)

    return show


@contextmanager
def defer_interrupt(console: Console, what: str) -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether to stop: inside the block the first Ctrl-C only makes it true. The
    end of the block, or a second Ctrl-C, raises KeyboardInterrupt. Where Ctrl-C is ignored, it stays so."""
    asked = False
    advice, plain = f"finishing {what}; press Ctrl-C again to stop now", {"highlight": False, "markup": False}
    # A thread prints it: the interrupted code may hold the locks that printing needs.
    teller = threading.Thread(target=console.print, args=(advice,), kwargs=plain, daemon=True)

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        teller.start()

    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before in (signal.SIG_IGN, None):
        yield lambda: False
        return
    signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
        if asked:
            teller.join()
    if asked:
        raise KeyboardInterrupt
