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

    Leaving the block after that raises KeyboardInterrupt. Where Ctrl-C is ignored, as in a shell's
    background jobs, it still is.
    """
    asked = False

    def tell() -> None:
        console.print(f"finishing {what}; Ctrl-C again stops at once", highlight=False, markup=False)

    # A thread tells: what the signal interrupts may be holding the locks that printing takes.
    teller = threading.Thread(target=tell, daemon=True)

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
