"""Workers that take tasks and answer them: processes of this machine, or tasks of Ray, as `--on` says.

What a worker does is a function (task, worker's number, iterator of inputs), named `module:function`, so that
only workers import it. Those that share the inputs of one certification take them from an `InputQueue`, one
by one, so that none waits for the slowest. Ray decides where and when each runs. All its nodes need the same
folders: a worker works in the one that the command was given in.
"""

import os
import subprocess
import sys
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any
from warnings import catch_warnings

from shieldwall.errors import LockedError, UserError, check, require

LOCAL, RAY = "local", "ray"
GPUS = Path("/proc/driver/nvidia/gpus")
# Of a worker: nothing compiles in processes of its own either, which would outlive a kill.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
POLL_SECONDS = 0.5
_TAKE = "take"


@dataclass(frozen=True)
class Answer:
    error: str | None = None
    is_locked: bool = False  # by another process, and not begun
    is_lost: bool = False  # the worker ended without an answer, maybe after all was done
    value: Any = None


class InputQueue:
    """Places in the list of inputs. A worker is given consecutive ones, so that no rows of its batches stay
    empty (`smoothing/sampler.py`); one with none left takes over the second half of the longest stretch."""

    def __init__(self, places: Sequence[int], workers: int) -> None:
        ends = [len(places) * k // workers for k in range(workers + 1)]
        self._stretches = [list(places[start:end]) for start, end in pairwise(ends)]
        self._taken = [0] * workers

    def take(self, worker: int) -> int | None:
        if not self._stretches[worker]:
            longest = max(self._stretches, key=len)
            half = len(longest) // 2
            longest[half:], self._stretches[worker] = [], longest[half:]
        if not (own := self._stretches[worker]):
            return None
        self._taken[worker] += 1
        return own.pop(0)

    def taken(self) -> list[int]:
        return self._taken

    def stop(self) -> None:
        self._stretches = [[] for _ in self._stretches]


class Workers(AbstractContextManager["Workers"]):
    """At most `most` tasks at a time. Each has a name, of any kind, and is answered once."""

    def __init__(self, work: str, jobs: int, places: Sequence[int] | None) -> None:
        check(jobs >= 1, "--jobs must be at least 1", jobs)
        self.work = work
        self.most = jobs if places is None else min(jobs, max(1, len(places)))
        self.busy: dict[Any, tuple[Any, float]] = {}  # names of the tasks not answered yet, and since when
        self._queue: Any = InputQueue(places or (), self.most)

    @property
    def names(self) -> list[Any]:
        return [name for name, _ in self.busy.values()]

    def give(self, name: Any, task: Mapping[str, Any]) -> None:
        self.busy[self._send(task)] = name, time.monotonic()

    def answers(self) -> Iterator[tuple[Any, Answer, float]]:
        """The tasks that ended, each with its answer and its seconds; it waits a moment for one."""
        for key, answer in self._ended():
            name, began = self.busy.pop(key)
            yield name, answer, time.monotonic() - began

    @abstractmethod
    def _send(self, task: Mapping[str, Any]) -> Any: ...  # begin a task  -> what it is known by here

    @abstractmethod
    def _ended(self) -> Iterator[tuple[Any, Answer]]: ...

    def ask(self, question: str) -> Any:
        """Call a method of the queue of inputs: `taken`, or `stop`."""
        return getattr(self._queue, question)()

    @abstractmethod
    def __exit__(self, *exception: object) -> None: ...  # all ends at once


class Processes(Workers):
    """Processes of this machine with one thread each, started when they are first needed."""

    def __init__(self, work: str, jobs: int, places: Sequence[int] | None) -> None:
        super().__init__(work, jobs, places)
        self._workers: dict[int, tuple[subprocess.Popen[bytes], Connection]] = {}

    def _send(self, task: Mapping[str, Any]) -> int:
        number = next(k for k in range(self.most) if k not in self.busy)
        if number not in self._workers:
            self._workers[number] = _start(number)
        self._workers[number][1].send((self.work, task))
        return number

    def _ended(self) -> Iterator[tuple[int, Answer]]:
        end, number_busy = time.monotonic() + POLL_SECONDS, len(self.busy)
        while len(self.busy) == number_busy and (left := end - time.monotonic()) > 0:
            pipes = {number: self._workers[number][1] for number in self.busy}
            ready = wait(list(pipes.values()), left)
            for number, pipe in pipes.items():
                if pipe not in ready:
                    continue
                try:
                    if (said := pipe.recv()) == _TAKE:
                        pipe.send(self._queue.take(number))
                        continue
                except (EOFError, ConnectionError):
                    (process := self._workers.pop(number)[0]).communicate()
                    said = Answer(f"its process ended with code {process.returncode}", is_lost=True)
                yield number, said

    def __exit__(self, *exception: object) -> None:
        for process, _ in self._workers.values():
            process.kill()
        for process, _ in self._workers.values():
            process.communicate()


def _start(number: int) -> tuple[subprocess.Popen[bytes], Connection]:
    """A session of its own: Ctrl-C is for this process alone. Its stdin ends when this process does."""
    ours, theirs = Pipe()
    command = f"from shieldwall.runs.workers import serve; serve({number}, {theirs.fileno()})"
    process = subprocess.Popen(
        [sys.executable, "-c", command], env=os.environ | ONE_THREAD, pass_fds=[theirs.fileno()],
        stdin=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    theirs.close()
    return process, ours


def serve(number: int, file: int) -> None:
    """What a worker process does: it answers tasks, and ends with the process that started it."""

    def end_with_parent() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    pipe = Connection(file)

    def take() -> Any:
        pipe.send(_TAKE)
        return pipe.recv()

    while True:
        work, task = pipe.recv()
        pipe.send(answer(work, task, number, take))


def answer(work: str, task: Mapping[str, Any], number: int, take: Callable[[], Any]) -> Answer:
    """Do a task; a mistake, or a failure of any kind, is for the one who gave it to tell."""
    try:
        module, _, function = work.partition(":")
        return Answer(value=getattr(import_module(module), function)(task, number, iter(take, None)))
    except UserError as error:
        return Answer(" ".join(str(error).split()), isinstance(error, LockedError))
    except Exception as error:  # a row that fails in any way must not stop the others
        return Answer(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")


class RayWorkers(Workers):
    """Tasks of Ray, each with its part of the GPUs; by default as many as there are GPUs, or CPUs without."""

    def __init__(self, on: str, work: str, jobs: int | None, device: str | None,
                 places: Sequence[int] | None) -> None:  # fmt: skip
        require("cluster", f"--on {on}")
        self._ray: Any = import_module("ray")
        self._is_ours = not (ray := self._ray).is_initialized()
        if self._is_ours:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            address, how = None if on == RAY else on, {"logging_level": "ERROR", "log_to_driver": False}
            try:
                with catch_warnings(action="ignore"):  # the error says the same
                    ray.init(address, runtime_env={"env_vars": ONE_THREAD}, **how)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise UserError(f"cannot connect to Ray at {on}: {str(error).splitlines()[0]}") from error
        there = ray.cluster_resources()
        gpus, cpus = there.get("GPU", 0) if device != "cpu" else 0, there.get("CPU", 1)
        jobs = int(gpus or cpus) if jobs is None else jobs
        super().__init__(work, jobs, places)
        self._needs = {"num_cpus": 1, "num_gpus": min(1, gpus / jobs)}
        self._numbers: dict[Any, int] = {}  # of the tasks that share inputs, by their order
        self._queue = None
        if places is not None:  # what a worker that ends had taken is lost: another would not make it again
            self._needs["max_retries"] = 0
            self._queue = ray.remote(num_cpus=0)(InputQueue).remote(places, self.most)

    def _send(self, task: Mapping[str, Any]) -> Any:
        # One that gives its inputs to others only waits for them.
        needs = {"num_cpus": 0} if task.get("on", LOCAL) != LOCAL else self._needs
        number, perform = len(self._numbers), self._ray.remote(**needs)(_perform)
        reference = perform.remote(self.work, task, str(Path.cwd()), self._queue, number)
        self._numbers[reference] = number
        return reference

    def _ended(self) -> Iterator[tuple[Any, Answer]]:
        if not self.busy:
            time.sleep(POLL_SECONDS)
            return
        ready, _ = self._ray.wait(list(self.busy), timeout=POLL_SECONDS)
        for reference in ready:
            try:
                yield reference, self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                yield reference, Answer(f"its Ray worker ended: {str(error).splitlines()[0]}", is_lost=True)
        if ready and self._queue is not None:  # it is empty: those that Ray has not begun have nothing to do
            taken = self.ask("taken")
            for reference in [each for each in self.busy if not taken[self._numbers[each]]]:
                self._ray.cancel(reference, force=True)
                del self.busy[reference]

    def ask(self, question: str) -> Any:
        return self._ray.get(getattr(self._queue, question).remote())

    def __exit__(self, *exception: object) -> None:
        for reference in self.busy:
            self._ray.cancel(reference, force=True)
        if self._is_ours:
            self._ray.shutdown()


def _perform(work: str, task: Mapping[str, Any], folder: str, queue: Any, number: int) -> Answer:
    ray: Any = import_module("ray")
    if not Path(folder).is_dir():
        node = ray.util.get_node_ip_address()
        return Answer(f"{folder} is not on the node {node}; all nodes need the same folders")
    os.chdir(folder)
    return answer(work, task, 0, lambda: ray.get(queue.take.remote(number)))


def workers_of(on: str, work: str, jobs: int | None, device: str | None,
               places: Sequence[int] | None = None) -> Workers:  # fmt: skip
    """Workers of this machine or of Ray; by default one for each GPU, or each core, at most one a place."""
    if on == RAY or on.startswith("ray://"):
        return RayWorkers(on, work, jobs, device, places)
    if on != LOCAL:
        raise UserError(f"--on takes local, ray or ray://HOST:PORT; given: {on!r}")
    if jobs is None:
        jobs = (device != "cpu" and len(list(GPUS.glob("*")))) or len(os.sched_getaffinity(0))
    most = 4 * (os.cpu_count() or 1)
    check(jobs <= most, f"--jobs must be at most {most} on this machine", jobs)
    return Processes(work, jobs, places)
