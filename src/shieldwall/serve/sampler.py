"""One thread that samples for all visitors: every job advances by one turn, then the next one does.

    line of jobs:  first -> one turn -> to the end of the line, unless it is done

With J jobs a visitor waits for J turns between two updates, whatever the others asked for.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from shieldwall.errors import UserError

MOST_JOBS = 16

Message = dict[str, Any]

log = logging.getLogger(__name__)


class Job:
    """Work that yields a message per turn, and where the messages go."""

    def __init__(self, turns: Iterator[Message], tell: Callable[[Message], None]) -> None:
        self.turns = turns
        self.tell = tell
        self.is_cancelled = False

    def cancel(self) -> None:
        """No further turn; the one under way is not heard of."""
        self.is_cancelled = True


class Sampler:
    """The thread and its line of jobs."""

    def __init__(self, most_jobs: int = MOST_JOBS) -> None:
        self._most_jobs = most_jobs
        self._line: deque[Job] = deque()
        self._under_way: Job | None = None
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="sampler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End after the turn under way."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def submit(self, job: Job) -> None:
        """Put the job at the end of the line, if there are not too many."""
        with self._changed:
            waiting = [one for one in (self._under_way, *self._line) if one and not one.is_cancelled]
            if len(waiting) >= self._most_jobs:
                raise UserError(
                    f"{len(waiting)} others are sampling at the moment; try again in a little while"
                )
            self._line.append(job)
            self._changed.notify()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            goes_on = self._turn(job)
            with self._changed:
                self._under_way = None
                if goes_on:
                    self._line.append(job)

    def _next(self) -> Job | None:
        with self._changed:
            while not self._line and not self._is_closed:
                self._changed.wait()
            self._under_way = None if self._is_closed else self._line.popleft()
            return self._under_way

    def _turn(self, job: Job) -> bool:
        """Whether the job wants more turns."""
        if job.is_cancelled:
            return False
        try:
            message = next(job.turns, None)
        except UserError as error:
            message = {"type": "error", "message": str(error)}
        except Exception as error:  # one job's fault must not end the others'
            log.error("a job failed: %s: %s", type(error).__name__, error)
            message = {"type": "error", "message": "the server failed at this image; its console says why"}
        if message is None or job.is_cancelled:
            return False
        with suppress(RuntimeError):  # the visitor's event loop may be gone
            job.tell(message)
        return bool(message["type"] != "error")
