"""Steps done by processes of this machine: the local engine.

An engine takes steps with what they need to finished run folders. This one keeps no state of its own: what is
done is read from the folders, so that it can be killed at any time, and two can share the same work.
"""

import json
import multiprocessing
import os
import platform
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from rich.console import Console

from shieldwall.errors import LockedError, UserError
from shieldwall.files import write_output
from shieldwall.studies.steps import Places, Step, cost, task, to_do

_POLL_SECONDS = 0.5
_SECONDS_BETWEEN_LINES = 60.0
_GPUS = Path("/proc/driver/nvidia/gpus")
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
"""Of a worker. Nothing compiles in processes of its own, which would outlive a kill."""


@dataclass
class Outcome:
    """What is left of the steps, and why."""

    left: list[Step]
    failed: dict[str, str] = field(default_factory=dict)
    """Step -> error."""


def default_jobs() -> int:
    """A process for each GPU, or for each core where there is none."""
    return len(list(_GPUS.glob("*"))) or len(os.sched_getaffinity(0))


def machine_name(device: str | None) -> str:
    """The GPU, or what the cores are."""
    for file in sorted(_GPUS.glob("*/information")) if device != "cpu" else ():
        return file.read_text().partition("Model:")[2].partition("\n")[0].strip()
    return f"cpu ({platform.machine()}, {os.cpu_count()} cores)"


def run_steps(
    steps: Sequence[Step], places: Places, console: Console,
    *, jobs: int, minutes: float | None = None, device: str | None = None,
) -> Outcome:  # fmt: skip
    """Do all steps that are not done, each after those that it needs, by `jobs` processes.

    A failed step is noted, and what needs it is left. After `minutes`, or on Ctrl-C, all processes end at
    once: nothing is lost but the epoch or the input in progress.
    """
    if jobs < 1:
        raise UserError(f"--jobs must be at least 1; given: {jobs}")
    end = float("inf") if minutes is None else time.monotonic() + 60 * minutes
    outcome = Outcome(to_do(steps, places))
    left, total, last_line, has_waited = outcome.left, len(outcome.left), time.monotonic(), False
    with _Workers(min(jobs, total), device) as workers:
        while time.monotonic() < end:
            names = {step.name for step in left}
            busy = {step.run.key for step in workers.steps.values()}
            ready = [step for step in left if step.name not in outcome.failed and step.run.key not in busy]
            ready = [step for step in ready if not any(need.name in names for need in step.needs)]
            if not ready and not busy:
                break
            for step in ready if workers.idle else ():
                if step.run.key in busy or not workers.idle:
                    continue
                if places.is_done(step):  # by another process
                    left.remove(step)
                elif places.is_locked(step.run):
                    if not has_waited:
                        console.print(f"waiting for another process that works on {step.run}", soft_wrap=True)
                    has_waited = True
                else:
                    places.note_failure(step, None)
                    workers.give(step, task(step, places))
                    busy.add(step.run.key)
            for step, answer, seconds in workers.answers():
                error = answer["error"]
                if answer["locked"]:
                    continue
                if error is None and places.is_done(step):
                    left.remove(step)
                    done = f"{total - len(left)} of {total} steps"
                    console.print(f"{step}: done in {seconds:.1f} s ({done})", soft_wrap=True)
                    continue
                outcome.failed[step.name] = error or "it ended without its result"
                places.note_failure(step, outcome.failed[step.name])
                console.print(f"{step}: failed: {outcome.failed[step.name]}", soft_wrap=True)
            if time.monotonic() - last_line > _SECONDS_BETWEEN_LINES:
                last_line = time.monotonic()
                for step in workers.steps.values():
                    console.print(f"{step}: {places.state(step)}", soft_wrap=True)
    return outcome


def unit_seconds(
    steps: Sequence[Step], places: Places, device: str | None, console: Console | None
) -> tuple[dict[str, float], str]:
    """The seconds of a unit of each kind of step, and the machine; what is not known is measured once.

    Without a console nothing is measured, and seconds of another machine will do.
    """
    file, machine = places.roots[0] / "step-seconds.json", machine_name(device)
    known: dict[str, dict[str, float]] = json.loads(file.read_text()) if file.is_file() else {}
    if console is None:
        machine = machine if machine in known else next(iter(known), "")
        return known.get(machine, {}), machine
    units = [(*cost(step, places), step) for step in steps]
    done = known.get(machine, {})
    missing = {kind: step for kind, count, step in units if count and kind not in done}
    if missing:
        console.print(f"timing {len(missing)} kinds of steps on this machine", soft_wrap=True)
    with _Workers(1, device) as workers:
        for kind, step in missing.items():
            workers.give(step, {**task(step, places), "kind": f"time {json.loads(kind)[0]}"})
            while not (answers := list(workers.answers())):
                pass
            if answers[0][1]["error"] is not None:
                console.print(f"no cost for {kind}: {answers[0][1]['error']}", soft_wrap=True)
                continue
            known.setdefault(machine, {})[kind] = float(answers[0][1]["value"])
            write_output(file, (json.dumps(known, indent=2) + "\n").encode())
    return known.get(machine, {}), machine


class _Workers:
    """Processes of `work.py`, started when they are first needed, killed at the end."""

    def __init__(self, most: int, device: str | None) -> None:
        self.steps: dict[int, Step] = {}
        """What each busy process does."""
        self._most, self._device = most, device
        self._processes: dict[int, Any] = {}
        self._pipes: dict[int, Any] = {}
        self._began: dict[int, float] = {}

    @property
    def idle(self) -> bool:
        return len(self.steps) < self._most

    def give(self, step: Step, message: Mapping[str, Any]) -> None:
        number = next(k for k in range(self._most) if k not in self.steps)
        if number not in self._processes:
            self._start(number)
        self.steps[number], self._began[number] = step, time.monotonic()
        self._pipes[number].send(message)

    def answers(self) -> Iterator[tuple[Step, Mapping[str, Any], float]]:
        """The steps that ended, each with its answer and its seconds; it waits a moment for one."""
        ready = wait([self._pipes[number] for number in self.steps], _POLL_SECONDS)
        for number in [number for number in self.steps if self._pipes[number] in ready]:
            try:
                answer = self._pipes[number].recv()
            except (EOFError, ConnectionError):
                process = self._processes.pop(number)
                process.join()
                answer = {"error": f"its process ended with code {process.exitcode}", "locked": False}
            yield self.steps.pop(number), answer, time.monotonic() - self._began[number]

    def _start(self, number: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes[number], theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, number, self._device), daemon=True)
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for this process alone
        process.start()
        signal.signal(signal.SIGINT, before)
        theirs.close()
        self._processes[number] = process

    def __enter__(self) -> "_Workers":
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.join()


def _serve(pipe: Any, number: int, device: str | None) -> None:
    """What a worker does: steps as plain data, each answered. It ends with the process that started it."""

    def end_with_parent() -> None:
        parent = multiprocessing.parent_process()
        wait([parent.sentinel] if parent else [])
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    os.environ.update(_ONE_THREAD)
    from shieldwall.studies.work import device_of, perform

    while True:
        answer: dict[str, Any] = {"error": None, "locked": False}
        try:
            answer["value"] = perform(pipe.recv(), device_of(number, device))
        except UserError as error:
            answer |= {"error": " ".join(str(error).split()), "locked": isinstance(error, LockedError)}
        except Exception as error:  # a row that fails in any way must not stop the others
            answer["error"] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        pipe.send(answer)
