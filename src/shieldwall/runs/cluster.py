"""Where work is done: by processes of this machine, or by Ray, as the option `--on` says.

On Ray a step is a task, and the inputs of one certification are shared by actors. Ray decides where and when
each runs, by the CPUs and GPUs that it declares. All nodes need the same folders: a worker works in the one
that the command was given in.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar
from warnings import catch_warnings

from shieldwall.errors import UserError, require
from shieldwall.runs.workers import ONE_THREAD, POLL_SECONDS, InputQueue, Processes, Workers, answer

LOCAL, RAY = "local", "ray"
GPUS = Path("/proc/driver/nvidia/gpus")

T = TypeVar("T")


def workers_of(
    on: str, work: str, jobs: int | None, device: str | None, places: Sequence[int] | None = None
) -> Workers[Any]:
    """Workers of this machine (`local`) or of Ray; by default one for each GPU, or each core without one."""
    if on == LOCAL:
        default = (device != "cpu" and len(list(GPUS.glob("*")))) or len(os.sched_getaffinity(0))
        if jobs is not None and jobs > (most := 4 * (os.cpu_count() or 1)):
            raise UserError(f"--jobs must be at most {most} on this machine; given: {jobs}")
        return Processes(work, _at_most(places, default if jobs is None else jobs), places or ())
    if on != RAY and not on.startswith("ray://"):
        raise UserError(f"--on takes local, ray or ray://HOST:PORT; given: {on!r}")
    return RayWorkers(on, work, jobs, device, places)


def _at_most(places: Sequence[int] | None, jobs: int) -> int:
    """No more than there are inputs, where these are what is shared."""
    return jobs if places is None else min(jobs, max(1, len(places)))


class RayWorkers(Workers[T]):
    """Tasks, or actors where there are inputs to share; `jobs` of them, each with its part of the GPUs."""

    def __init__(
        self, on: str, work: str, jobs: int | None, device: str | None, places: Sequence[int] | None = None
    ) -> None:
        require("cluster", f"--on {on}")
        self._ray: Any = import_module("ray")
        self._is_ours = not (ray := self._ray).is_initialized()
        if self._is_ours:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            try:
                with catch_warnings(action="ignore"):  # the error says the same
                    ray.init(
                        None if on == RAY else on, logging_level="ERROR", log_to_driver=False,
                        runtime_env={"env_vars": ONE_THREAD},
                    )  # fmt: skip
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise UserError(f"cannot connect to Ray at {on}: {str(error).splitlines()[0]}") from error
        there = ray.cluster_resources()
        gpus, cpus = there.get("GPU", 0) if device != "cpu" else 0, there.get("CPU", 1)
        jobs = int(gpus or cpus) if jobs is None else jobs
        super().__init__(work, _at_most(places, jobs))
        self._needs = {"num_cpus": 1, "num_gpus": min(1, gpus / max(1, jobs))}
        self._actors: dict[Any, Any] = {}
        self._queue: Any = None
        if places is not None:
            self._queue = ray.remote(num_cpus=0)(InputQueue).remote(places, self.most)

    def give(self, name: T, task: Mapping[str, Any]) -> None:
        if self._queue is None:
            # One that gives its inputs to actors only waits for them.
            needs = {"num_cpus": 0} if task.get("on", "local") != "local" else self._needs
            reference = self._ray.remote(**needs)(_perform).remote(self.work, task, str(Path.cwd()))
        else:
            number, actor = len(self._actors), self._ray.remote(**self._needs)(_Actor).remote()
            reference = actor.perform.remote(self.work, task, str(Path.cwd()), self._queue, number)
            self._actors[reference] = number, actor
        self.busy[reference] = name, time.monotonic()

    def answers(self) -> Iterator[tuple[T, Mapping[str, Any], float]]:
        if not self.busy:
            time.sleep(POLL_SECONDS)
            return
        ready, _ = self._ray.wait(list(self.busy), timeout=POLL_SECONDS)
        for reference in ready:
            name, began = self.busy.pop(reference)
            try:
                said = self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                said = {"error": f"its Ray worker ended: {str(error).splitlines()[0]}", "locked": False}
            yield name, said, time.monotonic() - began
        if ready and self._queue is not None:  # it is empty: those that Ray has not begun have nothing to do
            taken = self.taken()
            for reference in [each for each in self.busy if not taken[self._actors[each][0]]]:
                self._ray.kill(self._actors[reference][1])
                del self.busy[reference]

    def taken(self) -> list[int]:
        counts: list[int] = self._ray.get(self._queue.taken.remote())
        return counts

    def stop(self) -> None:
        self._ray.get(self._queue.stop.remote())

    def close(self) -> None:
        for _, actor in self._actors.values():
            self._ray.kill(actor)
        if self._is_ours:
            self._ray.shutdown()


class _Actor:
    def perform(self, *arguments: Any) -> dict[str, Any]:
        return _perform(*arguments)


def _perform(
    work: str, task: Mapping[str, Any], folder: str, queue: Any = None, number: int = 0
) -> dict[str, Any]:
    ray: Any = import_module("ray")

    def take() -> int | None:
        place: int | None = ray.get(queue.take.remote(number))
        return place

    try:
        os.chdir(folder)
    except OSError:
        error = (
            f"{folder} is not on the node {ray.util.get_node_ip_address()}; all nodes need the same folders"
        )
        return {"error": error, "locked": False}
    return answer(work, task, 0, take)
