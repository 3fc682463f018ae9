"""Steps done by processes of this machine: the local engine.

An engine takes steps with what they need to finished run folders. This one keeps no state of its own: what
is done is read from the folders, so that it can be killed at any time, and two can share the same work.
"""

import contextlib
import json
import os
import platform
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from shieldwall.errors import UserError
from shieldwall.files import write_output
from shieldwall.studies.steps import Places, Step, cost, task

_POLL_SECONDS = 0.5
_SECONDS_BETWEEN_LINES = 60.0


@dataclass
class Outcome:
    """What is left of the steps, and why."""

    failed: dict[str, str] = field(default_factory=dict)
    """Step -> error."""
    left: list[Step] = field(default_factory=list)


def default_jobs() -> int:
    """A process for each GPU, or for each core where there is none."""
    gpus = Path("/proc/driver/nvidia/gpus")
    return len(list(gpus.iterdir())) if gpus.is_dir() else len(os.sched_getaffinity(0))


def machine_name(device: str | None) -> str:
    """The GPU, or what the cores are."""
    for file in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")) if device != "cpu" else ():
        return file.read_text().partition("Model:")[2].partition("\n")[0].strip()
    return f"cpu ({platform.machine()}, {os.cpu_count()} cores)"


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
    missing: dict[str, dict[str, Any]] = {}
    for step in steps:
        kind, count = cost(step, places)
        if count and kind not in known.get(machine, {}):
            missing[kind] = {**task(step, places), "kind": f"time {json.loads(kind)[0]}"}
    if missing:
        console.print(f"timing {len(missing)} kinds of steps on this machine", soft_wrap=True)
    for kind, seconds in _measured(missing, device, console):
        known.setdefault(machine, {})[kind] = seconds
        write_output(file, (json.dumps(known, indent=2) + "\n").encode())
    return known.get(machine, {}), machine


def run_steps(
    steps: Sequence[Step],
    places: Places,
    *,
    jobs: int,
    minutes: float | None,
    device: str | None,
    console: Console,
) -> Outcome:
    """Do all steps that are not done, each after those that it needs, by `jobs` processes.

    A failed step is noted, and what needs it is left. After `minutes`, or on Ctrl-C, all processes end at
    once: nothing is lost but the epoch or the input in progress.
    """
    if jobs < 1:
        raise UserError(f"--jobs must be at least 1; given: {jobs}")
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    open_steps = to_do(steps, places)
    total, outcome, last_line, told = len(open_steps), Outcome(), time.monotonic(), False
    with _Workers(min(jobs, total), device) as workers:
        while open_steps and (deadline is None or time.monotonic() < deadline):
            names = {step.name for step in open_steps}
            locked = set()
            busy = {step.run.key for step in workers.running.values()}
            for step in list(open_steps):
                ready = not any(need.name in names for need in step.needs) and step.run.key not in busy
                if not ready or step.name in outcome.failed or not workers.idle:
                    continue
                if places.is_done(step):  # by another process
                    open_steps.remove(step)
                elif places.is_locked(step.run):
                    locked.add(step.name)
                else:
                    places.note_failure(step, None)
                    workers.give(step, task(step, places))
                    busy.add(step.run.key)
            if not workers.running and not locked:
                if all(
                    any(need.name in names for need in step.needs) or step.name in outcome.failed
                    for step in open_steps
                ):
                    break
                continue
            if locked and not told:
                console.print(f"waiting for another process to finish {sorted(locked)[0]}", soft_wrap=True)
                told = True
            for step, answer, seconds in workers.wait(_POLL_SECONDS):
                if answer["locked"]:
                    continue
                error = answer["error"]
                if error is None and not places.is_done(step):
                    error = "it ended without its result"
                if error is None:
                    open_steps.remove(step)
                    done = f"{total - len(open_steps)} of {total} steps"
                    console.print(f"{step}: done in {seconds:.0f} s ({done})", soft_wrap=True)
                else:
                    outcome.failed[step.name] = error
                    places.note_failure(step, error)
                    console.print(f"{step}: failed: {error}", soft_wrap=True)
            if time.monotonic() - last_line > _SECONDS_BETWEEN_LINES:
                last_line = time.monotonic()
                for step in workers.running.values():
                    console.print(f"{step}: {places.state(step)}", soft_wrap=True)
    outcome.left = open_steps
    return outcome


def to_do(steps: Sequence[Step], places: Places) -> list[Step]:
    """What is not done of the last steps of each run, and of what they need."""
    needed = {need.name for step in steps for need in step.needs}
    wanted = {step.name for step in steps if step.name not in needed and not places.is_done(step)}
    for step in reversed(steps):
        if step.name in wanted:
            wanted |= {need.name for need in step.needs if not places.is_done(need)}
    return [step for step in steps if step.name in wanted]


def _measured(tasks: Mapping[str, Any], device: str | None, console: Console) -> Iterator[tuple[str, float]]:
    """The seconds of a unit of each kind, from a worker; kinds that cannot be measured are left out."""
    with _Workers(1, device) as workers:
        for kind, message in tasks.items():
            workers.give(None, message)
            while not (ended := workers.wait(_POLL_SECONDS)):
                pass
            answer = ended[0][1]
            if answer["error"] is None:
                yield kind, float(answer["value"])
            else:
                console.print(f"no cost for {kind}: {answer['error']}", soft_wrap=True)


class _Workers:
    """Processes of `work.py`, started when they are first needed, killed at the end."""

    def __init__(self, most: int, device: str | None) -> None:
        self.running: dict[int, Any] = {}
        """What each busy process does."""
        self._most, self._device = most, device
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._began: dict[int, float] = {}
        self._errors: dict[int, Any] = {}

    @property
    def idle(self) -> bool:
        return len(self.running) < self._most

    def give(self, step: Step | None, message: Mapping[str, Any]) -> None:
        number = next(k for k in range(self._most) if k not in self.running)
        if number not in self._processes:
            self._start(number)
        self.running[number], self._began[number] = step, time.monotonic()
        pipe = self._processes[number].stdin
        assert pipe is not None
        with contextlib.suppress(BrokenPipeError):  # it was killed; `wait` tells
            pipe.write(json.dumps(message) + "\n")
            pipe.flush()

    def wait(self, seconds: float) -> list[tuple[Any, dict[str, Any], float]]:
        """The steps that ended, each with its answer and its seconds; nothing after so long."""
        ended = []
        with selectors.DefaultSelector() as selector:
            for number in self.running:
                selector.register(self._processes[number].stdout or 0, selectors.EVENT_READ, number)
            for key, _ in selector.select(seconds):
                number, process = key.data, self._processes[key.data]
                assert process.stdout is not None
                line = process.stdout.readline()
                answer = json.loads(line) if line else self._crashed(number)
                ended.append((self.running.pop(number), answer, time.monotonic() - self._began[number]))
        return ended

    def _start(self, number: int) -> None:
        # One thread each; nothing compiles in processes of its own, which would outlive a kill.
        variables = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        self._errors[number] = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed with the process)
        self._processes[number] = subprocess.Popen(
            [sys.executable, "-m", "shieldwall.studies.work", str(number), self._device or ""],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors[number], text=True,
            env={**os.environ, **variables}, start_new_session=True,
        )  # fmt: skip

    def _crashed(self, number: int) -> dict[str, Any]:
        process, errors = self._processes.pop(number), self._errors.pop(number)
        code = process.wait()
        errors.seek(0)
        last = errors.read().strip().rpartition("\n")[2]
        _close(process, errors)
        how = f"signal {-code}" if code < 0 else f"code {code}"
        return {
            "error": f"its process ended with {how}{': ' if last else ''}{last}",
            "locked": False,
            "value": None,
        }

    def __enter__(self) -> "_Workers":
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for number, process in self._processes.items():
            process.wait()
            _close(process, self._errors[number])


def _close(process: "subprocess.Popen[str]", errors: Any) -> None:
    for pipe in (process.stdin, process.stdout, errors):
        assert pipe is not None
        with contextlib.suppress(BrokenPipeError):
            pipe.close()
