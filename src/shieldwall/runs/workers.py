"""Workers that take tasks and answer them: processes of this machine here, Ray's in `cluster.py`.

What a worker does is a function (task, worker's number, iterator of inputs), named `module:function`, so that
only workers import it. Those that share the inputs of one certification take them from an `InputQueue`, one
by one, so that none waits for the slowest.
"""

import os
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, Generic, TypeVar

from shieldwall.errors import LockedError, UserError

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
"""Of a worker. Nothing compiles in processes of its own, which would outlive a kill."""
POLL_SECONDS = 0.5
_TAKE = "take"

T = TypeVar("T")


class InputQueue:
    """Places in the list of inputs, each for the worker that asks first.

    A worker is given consecutive ones, so that no rows of its batches stay empty (`smoothing/sampler.py`).
    One with none left takes over the second half of the longest stretch.
    """

    def __init__(self, places: Sequence[int], workers: int) -> None:
        ends = [len(places) * k // workers for k in range(workers + 1)]
        self._stretches = [deque(places[ends[k] : ends[k + 1]]) for k in range(workers)]
        self._taken = [0] * workers

    def take(self, worker: int) -> int | None:
        own = self._stretches[worker]
        if not own:
            longest = max(self._stretches, key=len)
            own.extendleft([longest.pop() for _ in range((len(longest) + 1) // 2)])
        self._taken[worker] += bool(own)
        return own.popleft() if own else None

    def taken(self) -> list[int]:
        """How many inputs each worker was given."""
        return self._taken

    def stop(self) -> None:
        """Give out no more."""
        for stretch in self._stretches:
            stretch.clear()


class Workers(ABC, Generic[T]):
    """Each task given has a name, of any kind, and is answered once."""

    def __init__(self, work: str, most: int) -> None:
        if most < 1:
            raise UserError(f"--jobs must be at least 1; given: {most}")
        self.work, self.most = work, most
        self.busy: dict[Any, tuple[T, float]] = {}
        """The tasks that are not answered, and since when."""

    @property
    def names(self) -> list[T]:
        return [name for name, _ in self.busy.values()]

    @property
    def idle(self) -> bool:
        return len(self.busy) < self.most

    @abstractmethod
    def give(self, name: T, task: Mapping[str, Any]) -> None: ...

    @abstractmethod
    def answers(self) -> Iterator[tuple[T, Mapping[str, Any], float]]:
        """The tasks that ended, each with its answer and its seconds; it waits a moment for one."""

    @abstractmethod
    def taken(self) -> list[int]:
        """How many of the shared inputs each has taken."""

    @abstractmethod
    def stop(self) -> None:
        """Let those that share inputs end after the current ones."""

    @abstractmethod
    def close(self) -> None:
        """End all at once."""

    def __enter__(self) -> "Workers[T]":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Processes(Workers[T]):
    """Processes of this machine with one thread each, started when they are first needed."""

    def __init__(self, work: str, most: int, places: Sequence[int] = ()) -> None:
        super().__init__(work, most)
        self._queue = InputQueue(places, most)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._pipes: dict[int, Connection] = {}

    def give(self, name: T, task: Mapping[str, Any]) -> None:
        number = next(k for k in range(self.most) if k not in self.busy)
        if number not in self._processes:
            self._start(number)
        self.busy[number] = name, time.monotonic()
        self._pipes[number].send((self.work, task))

    def answers(self) -> Iterator[tuple[T, Mapping[str, Any], float]]:
        end, number_busy = time.monotonic() + POLL_SECONDS, len(self.busy)
        while len(self.busy) == number_busy and (left := end - time.monotonic()) > 0:
            yield from self._next(left)

    def _next(self, seconds: float) -> Iterator[tuple[T, Mapping[str, Any], float]]:
        ready = wait([self._pipes[number] for number in self.busy], seconds)
        for number in [number for number in self.busy if self._pipes[number] in ready]:
            try:
                answer = self._pipes[number].recv()
                if answer == _TAKE:
                    self._pipes[number].send(self._queue.take(number))
                    continue
            except (EOFError, ConnectionError):
                (process := self._processes.pop(number)).communicate()
                answer = {"error": f"its process ended with code {process.returncode}", "locked": False}
            name, began = self.busy.pop(number)
            yield name, answer, time.monotonic() - began

    def taken(self) -> list[int]:
        return self._queue.taken()

    def stop(self) -> None:
        self._queue.stop()

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.communicate()

    def _start(self, number: int) -> None:
        """A session of its own: Ctrl-C is for this process alone. Its stdin ends when this process does."""
        self._pipes[number], theirs = Pipe()
        command = "from shieldwall.runs.workers import serve; serve()"
        self._processes[number] = subprocess.Popen(
            [sys.executable, "-c", command, str(number), str(theirs.fileno())], env=os.environ | ONE_THREAD,
            pass_fds=[theirs.fileno()], stdin=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        theirs.close()


def serve() -> None:
    """What a worker process does: it answers tasks, and ends with the process that started it."""

    def end_with_parent() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    number, pipe = int(sys.argv[1]), Connection(int(sys.argv[2]))

    def take() -> int | None:
        pipe.send(_TAKE)
        place: int | None = pipe.recv()
        return place

    while True:
        work, task = pipe.recv()
        pipe.send(answer(work, task, number, take))


def answer(work: str, task: Mapping[str, Any], number: int, take: Callable[[], int | None]) -> dict[str, Any]:
    """What became of a task; a mistake, or a failure of any kind, is for the one who gave it to tell."""
    try:
        module, _, function = work.partition(":")
        value = getattr(import_module(module), function)(task, number, iter(take, None))
        return {"error": None, "locked": False, "value": value}
    except UserError as error:
        return {"error": " ".join(str(error).split()), "locked": isinstance(error, LockedError)}
    except Exception as error:  # a row that fails in any way must not stop the others
        said = " ".join(str(error).split())[:300]
        return {"error": f"{type(error).__name__}: {said}", "locked": False}
