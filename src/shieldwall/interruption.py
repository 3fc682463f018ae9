"""Ctrl-C that lets the work in progress finish: the first asks, the second insists."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console


@contextmanager
def finishing_first(console: Console, what: str) -> Iterator[Callable[[], bool]]:
    """Meanwhile the first Ctrl-C only answers the given question with yes: should the work end now?

    Leaving the block after that raises KeyboardInterrupt.
    """
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        console.print(f"finishing {what}; Ctrl-C again stops at once", highlight=False, markup=False)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
    if asked:
        raise KeyboardInterrupt
