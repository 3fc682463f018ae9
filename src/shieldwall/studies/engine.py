"""Doing the steps of a study: by processes of this machine, or by Ray.

What is done is read from the run folders, so that it can be killed at any time, and two can share the work.
"""

import json
import os
import platform
import time
from collections.abc import Sequence
from functools import partial

from rich.console import Console

from shieldwall.files import write_output
from shieldwall.runs.workers import GPUS, LOCAL, RAY, workers_of
from shieldwall.studies.steps import Places, Step, cost, task, to_do
from shieldwall.texts import json_value, read_file

_WORK = "shieldwall.studies.work:perform"
_SECONDS_BETWEEN_LINES = 60.0
_SAMPLES_TO_SHARE = 1_000_000  # of a certification that is worth workers of its own, which start in seconds


def machine_name(device: str | None) -> str:
    for file in sorted(GPUS.glob("*/information")) if device != "cpu" else ():
        return file.read_text().partition("Model:")[2].partition("\n")[0].strip()
    return f"cpu ({platform.machine()}, {os.cpu_count()} cores)"


def run_steps(
    steps: Sequence[Step], places: Places, console: Console,
    *, on: str = LOCAL, jobs: int | None = None, minutes: float | None = None, device: str | None = None,
) -> tuple[list[Step], dict[str, str]]:  # fmt: skip
    """Do all steps, each after those that it needs.  -> what is left, and the errors of failed steps by name

    What needs a failed step is left. After `minutes`, or on Ctrl-C, all processes end at once: nothing is
    lost but the epoch or the input in progress."""
    say = partial(console.print, soft_wrap=True)
    end = float("inf") if minutes is None else time.monotonic() + 60 * minutes
    left, failed = to_do(steps, places), dict[str, str]()
    if not left:
        return left, failed
    total, last_line, has_waited = len(left), time.monotonic(), False
    with workers_of(on, _WORK, jobs, device) as workers:
        while time.monotonic() < end:
            names, busy = {step.name for step in left}, {step.run.key for step in workers.names}
            ready = [step for step in left if not names & {need.name for need in step.needs}]
            ready = [step for step in ready if step.name not in failed]
            if not ready and not busy:
                break
            for step in ready:
                if step.run.key in busy or len(workers.busy) == workers.most:
                    continue
                if places.is_done(step):  # by another process
                    left.remove(step)
                elif places.is_locked(step.run):
                    if not has_waited:
                        say(f"waiting for another process that works on {step.run}")
                    has_waited = True
                else:
                    places.note_failure(step, None)
                    shared = {}
                    if on != LOCAL and step.kind == "certify" and cost(step, places)[1] > _SAMPLES_TO_SHARE:
                        shared = {"on": RAY, "jobs": workers.most}
                    workers.give(step, {**task(step, places), "device": device, **shared})
                    busy.add(step.run.key)
            for step, answer, seconds in workers.answers():
                if (answer.error is None or answer.is_lost) and places.is_done(step):
                    left.remove(step)
                    say(f"{step}: done in {seconds:.1f} s ({total - len(left)} of {total} steps)")
                elif not answer.is_locked:
                    failed[step.name] = answer.error or "it ended without its result"
                    places.note_failure(step, failed[step.name])
                    say(f"{step}: failed: {failed[step.name]}")
            if time.monotonic() - last_line > _SECONDS_BETWEEN_LINES:
                last_line = time.monotonic()
                for step in workers.names:
                    say(f"{step}: {places.state(step)}")
    return left, failed


def unit_seconds(
    steps: Sequence[Step], places: Places, device: str | None, console: Console | None
) -> tuple[dict[str, float], str]:
    """The seconds of a unit of each kind of step, and the machine; what is not known is measured once.
    Without a console nothing is measured, and another machine's will do."""
    file, machine = places.roots[0] / "step-seconds.json", machine_name(device)
    known: dict[str, dict[str, float]] = json_value(read_file(file), str(file)) if file.is_file() else {}
    if console is None:
        machine = machine if machine in known else next(iter(known), "")
        return known.get(machine, {}), machine
    done = known.setdefault(machine, {})
    units = [(*cost(step, places), step) for step in steps]
    missing = {kind: step for kind, count, step in units if count and kind not in done}
    if missing:
        console.print(f"timing {len(missing)} kinds of steps on this machine", soft_wrap=True)
    with workers_of(LOCAL, _WORK, 1, device) as workers:
        while missing or workers.busy:
            if not workers.busy:
                kind, step = missing.popitem()
                what = {"kind": f"time {json.loads(kind)[0]}", "device": device}
                workers.give(kind, task(step, places) | what)
            for kind, answer, _ in workers.answers():
                if answer.error is not None:
                    console.print(f"no cost for {kind}: {answer.error}", soft_wrap=True)
                    continue
                done[kind] = float(answer.value)
                write_output(file, (json.dumps(known, indent=2) + "\n").encode())
    return done, machine
