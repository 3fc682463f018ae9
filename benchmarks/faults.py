"""Kills, full disks and a jumping clock: does a run end with the bytes of an undisturbed one?

    python benchmarks/faults.py             # 100 kills of a certification, 100 of a study, and the rest
    python benchmarks/faults.py --kills 10 --seed 1

A certification of 360 digits, a small study (two rows: train, certify, pack), and a certification of 10,000
images (of noise, with few samples) are disturbed again and again, and each time the same command is run again
until it ends. Then every file is compared with that of an undisturbed run, but for times and dates, and with
its digest in SHA256SUMS.

A kill (SIGKILL) comes at a random time to all processes, to the first one alone, or to one worker alone. The
full disk is a small tmpfs, which needs root. The clock jumps by up to 1,000 hours whenever it is read, which
needs a C compiler, and so do the dates of all files between two commands.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from shieldwall.results.archive import SUFFIX, read_archive
from shieldwall.results.checks import SUMS, Sums

SECONDS_COLUMN = 5
MANY = 10_000
MOST_SECONDS = 600
"""Of undisturbed work, for rounds with a clock that jumps."""
TIMED = {".lock", "environment.json", SUMS}
"""Files that say when something was done, digests of these among them."""
LOG = Path(tempfile.gettempdir()) / f"faults-{os.getpid()}.txt"
"""What the last command said; not on the disk that fills up."""
STUDY = """\
summary: two rows on digits
schedule.epochs: 3
certification.n: 300
certification.every: 3
rows:
  gaussian: {recipe: digits-gaussian}
  drt: {recipe: digits-drt, from: gaussian}
"""
CLOCK = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t kind, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) { srandom(getpid()); real = dlsym(RTLD_NEXT, "clock_gettime"); }
  int result = real(kind, now);
  if (kind == CLOCK_REALTIME) now->tv_sec += (random() % 2001 - 1000) * 3600;
  return result;
}
time_t time(time_t *to) {
  struct timespec now; clock_gettime(CLOCK_REALTIME, &now);
  if (to) *to = now.tv_sec;
  return now.tv_sec;
}
int gettimeofday(struct timeval *to, void *zone) {
  struct timespec now; clock_gettime(CLOCK_REALTIME, &now);
  to->tv_sec = now.tv_sec; to->tv_usec = now.tv_nsec / 1000;
  return 0;
}
"""


@dataclass(frozen=True)
class Job:
    """A command that can be run again until it is done; `make` fills the folder that it runs in."""

    name: str
    make: Callable[[Path], object]
    command: Sequence[str]


@dataclass
class Tally:
    """What was done to a job, and what came of it."""

    done: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return ", ".join(f"{count} {what}" for what, count in self.done.items())


def start(
    command: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **(variables or {})}
    with LOG.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "shieldwall", *command],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
        )


def finish(command: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None) -> int:
    return start(command, folder, variables).wait(timeout=600)


def below(process: int) -> list[int]:
    """The processes that a process started, and those that these did."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            number, _, rest = path.read_text().rpartition(")")
            children.setdefault(int(rest.split()[1]), []).append(int(number.split()[0]))
    found = list(children.get(process, []))
    for child in found:
        found += children.get(child, [])
    return found


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def contents(folder: Path) -> dict[str, bytes]:
    """Every file, also those in packed runs, without times."""
    found: dict[str, bytes] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = str(path.relative_to(folder))
        inner = read_archive(path) if name.endswith(SUFFIX) else {"": path.read_bytes()}
        for part, content in inner.items():
            if Path(part or name).name not in TIMED:
                found[f"{name}:{part}"] = timeless(part or name, content)
    return found


def timeless(name: str, content: bytes) -> bytes:
    if name.endswith(".tsv"):
        lines = [line.split(b"\t") for line in content.split(b"\n")]
        return b"\n".join(b"\t".join(line[:SECONDS_COLUMN] + line[SECONDS_COLUMN + 1 :]) for line in lines)
    if name.endswith("training.jsonl"):
        records = [json.loads(line) for line in content.splitlines()]
        return json.dumps(
            [{k: v for k, v in record.items() if k != "seconds"} for record in records]
        ).encode()
    return content


def faults_of(folder: Path, expected: Mapping[str, bytes]) -> list[str]:
    """Where a folder differs from an undisturbed one, or from its own digests."""
    ours = contents(folder)
    wrong = [name for name in sorted(ours | expected) if ours.get(name) != expected.get(name)]
    for sums in folder.rglob(SUMS):
        for name, digest in Sums.read(sums.parent).by_name.items():
            if hashlib.sha256((sums.parent / name).read_bytes()).hexdigest() != digest:
                wrong.append(f"{sums.parent / name} against {SUMS}")
    return wrong


def close(job: Job, folder: Path, expected: Mapping[str, bytes], tally: Tally) -> None:
    """The end of a round: the job is done, and is as it should be."""
    tally.done["rounds"] += 1
    tally.faults += faults_of(folder, expected)
    shutil.rmtree(folder)


def with_kills(
    job: Job, folder: Path, expected: Mapping[str, bytes], kills: int, seconds: float, chance: random.Random
) -> Tally:
    """Kill the job at random times in this many seconds from its start, and go on until it is done."""
    tally = Tally()
    while tally.done["kills"] < kills:
        jobs, ended = ["--jobs", chance.choice("12")], None
        folder.mkdir()
        job.make(folder)
        while ended != 0:
            process = start([*job.command, *jobs], folder)
            try:
                if tally.done["kills"] >= kills:
                    ended = process.wait(timeout=600)
                else:
                    ended = process.wait(chance.uniform(0, seconds))
                tally.faults += (
                    [] if ended == 0 else [f"{job.name} ended with code {ended}: {LOG.read_text()[-300:]}"]
                )
            except subprocess.TimeoutExpired:
                kill(process, chance, tally)
        close(job, folder, expected, tally)
    return tally


def kill(process: subprocess.Popen[bytes], chance: random.Random, tally: Tally) -> None:
    """Kill all processes, the first or a worker; the others must end by themselves."""
    workers = below(process.pid)
    who = chance.choice(["all", "the first", "a worker"] if workers else ["all"])
    victims = {"all": [process.pid, *workers], "the first": [process.pid], "a worker": workers[-1:]}[who]
    for victim in victims:
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    tally.done["kills"] += 1
    tally.done[f"of {who}"] += 1
    try:
        process.wait(timeout=300)
    except subprocess.TimeoutExpired:
        tally.faults.append("the first process waits for ever for a worker that was killed")
        process.kill()
    end = time.monotonic() + 60
    while left := [worker for worker in workers if is_alive(worker)]:
        if time.monotonic() > end:
            tally.faults.append(f"{len(left)} workers outlive a kill")
            for worker in left:
                os.kill(worker, signal.SIGKILL)
        time.sleep(0.05)


def with_full_disk(job: Job, folder: Path, expected: Mapping[str, bytes], chance: random.Random) -> Tally:
    """Run the job on a disk that has room for a little more each time."""
    tally = Tally()
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)], check=True)
    try:
        place, filler = folder / "place", folder / "filler"
        place.mkdir()
        job.make(place)
        ended = None
        while ended != 0:
            disk = shutil.disk_usage(folder)
            room = chance.randrange(4, 32) * (1 + tally.done["full disks"]) << 10
            with filler.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, max(1, disk.free - room))
            ended = finish(job.command, place)
            filler.unlink()
            said = LOG.read_text(errors="replace")
            if ended != 0:
                tally.done["full disks"] += 1
                if "the disk is full" not in said or "Traceback" in said:
                    tally.faults.append(f"a full disk: {said[-300:]}")
        close(job, place, expected, tally)
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()
    return tally


def with_jumping_clock(
    job: Job, folder: Path, expected: Mapping[str, bytes], rounds: int, seconds: float, library: Path,
    chance: random.Random,
) -> Tally:  # fmt: skip
    """Kill the job once under a clock that jumps, change the dates of all files, and run it again."""
    tally = Tally()
    for _ in range(rounds):
        folder.mkdir()
        job.make(folder)
        for limit in (chance.uniform(0, seconds), 600):
            process = start(job.command, folder, {"LD_PRELOAD": str(library)})
            try:
                if (code := process.wait(limit)) != 0:
                    tally.faults.append(f"under a jumping clock {job.name}: {code}, {LOG.read_text()[-300:]}")
            except subprocess.TimeoutExpired:
                kill(process, chance, tally)
            for path in folder.rglob("*"):
                date = time.time() + 3600 * chance.randrange(-1_000, 1_000)
                os.utime(path, (date, date))
        if finish(job.command, folder) != 0:
            tally.faults.append(f"{job.name} does not end after a jumping clock")
        close(job, folder, expected, tally)
    return tally


def build_clock(folder: Path) -> Path:
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return library


def write_noise_images(folder: Path) -> None:
    """100 training images and 10,000 test images in MNIST's format."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for part, count in (("train", 100), ("t10k", MANY)):
        pixels = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = rng.integers(0, 10, count, dtype=np.uint8)
        for kind, magic, array in (("images-idx3", 2051, pixels), ("labels-idx1", 2049, labels)):
            header = struct.pack(f">{1 + array.ndim}i", magic, *array.shape)
            (folder / f"{part}-{kind}-ubyte").write_bytes(header + array.tobytes())


def jobs(work: Path) -> list[Job]:
    base = work / "base"
    base.mkdir()
    train = ["train", "digits-gaussian", "--set", "schedule.epochs=2", "--set", "members=2", "--out", "run"]
    if finish(train, base) != 0:
        raise SystemExit(LOG.read_text())
    write_noise_images(work / "mnist")
    large = ["train", "mnist-short-gaussian-1.0", "--set", "schedule.epochs=1", "--set", "members=1"]
    large += ["--set", "schedule.precision=float32", "--data-dir", str(work), "--out", "large"]
    if finish(large, base) != 0:
        raise SystemExit(LOG.read_text())
    few = [
        "--n0",
        "10",
        "--n",
        "50",
        "--alpha",
        "0.1",
        "--every",
        "1",
        "--no-compile",
        "--data-dir",
        str(work),
    ]
    return [
        Job(
            "a certification",
            lambda folder: shutil.copytree(base / "run", folder / "run"),
            ["certify", "run", "--n", "1000"],
        ),
        Job(
            "a study", lambda folder: (folder / "mine.yaml").write_text(STUDY), ["study", "run", "mine.yaml"]
        ),
        Job(
            f"{MANY:,} inputs",
            lambda folder: shutil.copytree(base / "large", folder / "large"),
            ["certify", "large", *few, "--data-dir", str(work)],
        ),
    ]


def disturb(
    job: Job, work: Path, kills: int, library: Path | None, chance: random.Random
) -> Iterator[tuple[str, Tally]]:
    began, whole = time.monotonic(), work / "undisturbed"
    whole.mkdir()
    job.make(whole)
    if finish(job.command, whole) != 0:
        raise SystemExit(LOG.read_text())
    seconds, expected, folder = time.monotonic() - began, contents(whole), work / "disturbed"
    print(f"{job.name}: {len(expected)} files to compare, undisturbed in {seconds:.0f} s", flush=True)
    shutil.rmtree(whole)
    yield "kills", with_kills(job, folder, expected, kills, min(0.6 * seconds, 12.0), chance)
    if os.geteuid() == 0:
        yield "full disk", with_full_disk(job, folder, expected, chance)
    if library is not None:
        rounds = max(1, min(kills // 10, int(MOST_SECONDS / seconds)))
        tally = with_jumping_clock(job, folder, expected, rounds, seconds, library, chance)
        yield "jumping clock", tally


def main(kills: int, seed: int, only: str, work: Path) -> int:
    chance, faults = random.Random(seed), 0
    library = build_clock(work) if shutil.which("cc") else None
    for job in (job for job in jobs(work) if only in job.name):
        for name, tally in disturb(job, work, kills, library, chance):
            faults += len(tally.faults)
            print(f"  {name}: {tally}; faults: {len(tally.faults)}", *tally.faults, sep="\n    ", flush=True)
    return int(faults > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="certification, study or inputs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            sys.exit(main(options.kills, options.seed, options.only, Path(folder)))
        finally:
            LOG.unlink(missing_ok=True)
