"""Bad inputs by the thousand: does anything but an answer or an error of one line come back?

    python benchmarks/bad_inputs.py                   # 2,000 inputs from seed 0
    python benchmarks/bad_inputs.py --seed 7 --only files

Four kinds: command lines; files (recipes, studies, runs, packed runs, certificates, other tools' logs,
images,
data sets); surroundings (variables, folders that cannot be written, closed and full streams, limits of the
process), each in a process of its own; and Python calls. An input is counted as

    refused      an error of one line (exit code 1 or 2), or a UserError
    answered     a result; where the right one is known, it is that one
    traceback    any other exception, or an error of several lines
    hang         no end after a minute
    wrong        an answer to what must be refused, or another answer than that of the sound input

The last three are faults, and each is printed.
"""

import argparse
import io
import lzma
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import shieldwall as sw
from shieldwall import cli
from shieldwall.results.archive import pack, read_archive

LIMIT_SECONDS = 60
FAULTS = ("traceback", "hang", "wrong")
READ_ONLY = ["unshare", "--mount", "sh", "-c",
             'mount --bind . . && mount -o remount,ro,bind . && cd "$PWD" && exec "$0" "$@"']  # fmt: skip
"""Runs a command in this folder, which it cannot write; where root may do so."""


class Hang(BaseException):
    """The time is over."""


@dataclass(frozen=True)
class Outcome:
    verdict: str
    said: str = ""


@dataclass(frozen=True)
class Case:
    """An input, and how to try it in the folder of a sound run."""

    name: str
    run: Callable[[Path], Outcome]


# What is tried: in this process, or in one of its own.


def timed(action: Callable[[], Outcome]) -> Outcome:
    def end(number: int, frame: object) -> None:
        raise Hang

    signal.signal(signal.SIGALRM, end)
    signal.alarm(LIMIT_SECONDS)
    try:
        return action()
    except Hang:
        return Outcome("hang")
    finally:
        signal.alarm(0)


def shieldwall(*arguments: str) -> Outcome:
    """A command line in this process."""
    out, err, show = io.StringIO(), io.StringIO(), warnings.showwarning
    before = sys.argv
    try:
        sys.argv = ["shieldwall", *arguments]
        with redirect_stdout(out), redirect_stderr(err):
            cli.main()
        return Outcome("traceback", "main() came back")
    except SystemExit as end:
        return judged(end.code or 0, out.getvalue(), err.getvalue())
    except Hang:
        raise
    except BaseException as error:
        return Outcome("traceback", f"{type(error).__name__}: {error}")
    finally:
        sys.argv, warnings.showwarning = before, show


def process(
    *arguments: str,
    variables: dict[str, str | None] | None = None,
    before: Sequence[str] = (),
    **options: Any,
) -> Outcome:
    """A command line in a process of its own, with other variables; None takes one away."""
    given = {**os.environ, **(variables or {})}
    environment = {name: value for name, value in given.items() if value is not None}
    command = [*before, sys.executable, "-m", "shieldwall", *arguments]
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with subprocess.Popen(command, env=environment, start_new_session=True, **streams) as started:
        try:
            out, err = started.communicate(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            return Outcome("hang")
    texts = [(text or b"").decode(errors="replace") for text in (out, err)]
    return judged(started.returncode, *texts)


def judged(code: int | str, out: str, err: str) -> Outcome:
    """What an exit code and the two streams say."""
    if "Traceback (most recent call last)" in out + err:
        return Outcome("traceback", err[-400:] or out[-400:])
    if code == 0:
        return Outcome("answered", out)
    if code not in (1, 2):
        return Outcome("traceback", f"exit code {code}: {err[-300:]}")
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    is_one_line = len(lines) == 1 or "Usage: " in err or code == 1
    return Outcome("refused" if is_one_line else "traceback", err[-400:])


def called(call: Callable[[], object], *, must_refuse: bool) -> Outcome:
    """A Python call."""
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            answer = f"answered {str(call())[:100]!r}"
    except sw.UserError as error:
        lines = str(error).splitlines()
        return Outcome("refused" if len(lines) == 1 else "traceback", str(error))
    except Hang:
        raise
    except BaseException as error:
        return Outcome("traceback", f"{type(error).__name__}: {error}")
    return Outcome("wrong" if must_refuse else "answered", answer)


def same_or_refused(outcome: Outcome, sound: str) -> Outcome:
    """An answer must be that of the sound input."""
    if outcome.verdict == "answered" and outcome.said != sound:
        return Outcome("wrong", outcome.said[-600:])
    return outcome


# The folder of each trial: a small run and one of every kind of file.

RECIPE = """\
name: small
summary: a small run
data: digits
model: digits-cnn
sigma: 0.25
objective: {name: gaussian, num_noise: 1}
members: 2
schedule: {epochs: 1, batch_size: 256, lr: 0.05}
certification: {n0: 10, n: 100, every: 60}
"""
STUDY = "summary: one row\nschedule.epochs: 1\ncertification.n: 100\nrows:\n  a: {recipe: digits-gaussian}\n"
OTHER_LOG = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n" + "".join(
    f"{k}\t{k % 10}\t{k % 10}\t{0.1 * (k % 9):.3g}\t1\t0:00:01\n" for k in range(20)
)
MODEL = """\
import torch

def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
"""


def lay_out(folder: Path) -> None:
    """What a trial finds around it."""
    os.chdir(folder)
    Path("mine.yaml").write_text(RECIPE)
    Path("study.yaml").write_text(STUDY)
    Path("other.log").write_text(OTHER_LOG)
    Path("bad_inputs_model.py").write_text(MODEL)
    for command in (["train", "mine.yaml", "--out", "run"], ["certify", "run"]):
        outcome = shieldwall(*command)
        if outcome.verdict != "answered":
            raise SystemExit(f"{command}: {outcome.said}")
    pack(Path("run"), Path("packed.tar.xz"))
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
    for name in ("image.png", "image.jpg", "image.bmp", "image.gif", "image.ppm", "image.tiff", "image.webp"):
        Image.fromarray(pixels).save(name)
    for kind in ("a", "b", "c"):
        photos = Path("photos") / kind
        photos.mkdir(parents=True)
        Image.fromarray(pixels).save(photos / "1.png")
    Path("photos/labels.csv").write_text("file,label\na/1.png,a\nb/1.png,b\nc/1.png,c\n")
    idx, cifar = Path("sets/mnist"), Path("sets/cifar-10-batches-bin")
    idx.mkdir(parents=True)
    cifar.mkdir()
    for part in ("train", "t10k"):
        (idx / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, 4, 28, 28) + bytes(4 * 784))
        (idx / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, 4) + bytes([0, 1, 2, 3]))
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
        (cifar / f"{name}.bin").write_bytes(bytes(2 * 3_073))
    os.mkfifo("pipe")


# Values.

NO_INT = ["x", "", "1.5", "nan", "1e3", "0x10", "--", "1 2", "\u00bd", "9" * 5_000]
NO_NUMBER = ["x", "", "nan", "0x10", "--", "1,5", "1 2", "\u00bd"]
INT = [*NO_INT, "0", "-1", "1", "-0", "9" * 30, "-" + "9" * 30, "9223372036854775808", "\u0663"]
NUMBER = [*NO_NUMBER, "0", "-1", "inf", "-inf", "1e308", "1e-320", "1e400", "-0.0", "9" * 400]
TEXT = ["", " ", "x", "..", "../..", "/", "-", "~", "a/b", "\x1b[2J", "\u202eabc", "\u00e9" * 300, "{}",
        "[" * 3_000,
        "'", "$(id)", "=1+1", "<b>", "%s", "a\nb", "\udcff", "os:system", "nan", "None", "*", ",",
        "&a [*a]"]  # fmt: skip
PATHS = ["", "/", ".", "..", "pipe", "/dev/null", "/dev/zero", "nowhere", "run", "image.png", "a" * 300, "-",
         "/proc/self/mem", "/nowhere/x", "mine.yaml", "x\n.csv", "\udcff.csv",
         "run/recipe.yaml/x"]  # fmt: skip
SETTINGS = ["sigma", "seed", "members", "name", "data", "model", "noise", "schedule", "schedule.lr",
            "objective",
            "schedule.epochs", "schedule.batch_size", "schedule.clip", "schedule.warmup", "schedule.curve",
            "objective.name", "objective.num_noise", "certification.n", "certification.alpha", "independent",
            "certification.radii", "certification.limit", "certification.every", "init_from", "holdout_every",
            "", ".", "a.b.c", "schedule.", ".lr", "sigma.x", "\udcff"]  # fmt: skip
YAML = [*TEXT, *NUMBER, "2020-99-99", "!!python/object:os.system", "true", "yes", "~", "[1, 2]", "{a: 1}",
        "1:1:1",
        "0b" + "1" * 9_000, "!!binary x", "- 1", "? x", "<<: 3", "\t", "1_0", "0o17", "|"]  # fmt: skip
REFUSED = {"int": NO_INT, "number": NO_NUMBER}
VALUES = {"int": INT, "number": NUMBER, "text": TEXT, "path": PATHS, "yaml": YAML}
BASES: dict[str, list[str]] = {
    "train": ["mine.yaml", "--out", "new"],
    "certify": ["run", "--to", "new", "--limit", "1", "--n", "20"],
    "certify --model": ["--model", "bad_inputs_model:make", "--images", "photos", "--sigma", "0.25",
    "--out", "new",
                        "--limit", "1", "--n", "20"],
    "tune-weights": ["run"],
    "predict": ["run", "--index", "0", "--n", "20"],
    "merge": ["run"],
    "report": ["run"],
    "verify": ["run", "--redraw", "0"],
    "gate": ["run", "--at", "0.1", "--at-least", "0.0"],
    "recipes": ["smoke"],
    "serve": ["nowhere", "--no-open"],
    "study list": [],
    "study show": ["study.yaml", "--no-cost"],
    "study report": ["study.yaml"],
    "data list": [],
    "data fetch": ["digits"],
    "theory diagnose": ["run", "--limit", "1", "--draws", "4", "--n", "20"],
}  # fmt: skip
"""Commands that end in a moment."""
OPTIONS: dict[str, dict[str, str]] = {
    "train": {"--out": "path", "--from": "path", "--set": "setting", "--seed": "int", "--data-dir": "path",
              "--device": "text"},
    "certify": {"--n0": "int", "--n": "int", "--alpha": "number", "--every": "int", "--limit": "int",
                "--seed": "int", "--to": "text", "--votes": "text", "--radii": "text", "--bound": "text",
                "--norm": "text", "--precision": "text", "--batch-size": "int", "--shard": "text",
                "--on": "text",
                "--jobs": "jobs", "--data-dir": "path", "--device": "text", "--correct-only": "",
                "--held-out": "",
                "--exact-noise": ""},
    "certify --model": {"--model": "text", "--images": "path", "--labels": "path", "--size": "int",
                        "--sigma": "number", "--out": "path", "--n": "int"},
    "tune-weights": {"--method": "text", "--objective": "text", "--radius": "number", "--copies": "int"},
    "predict": {"--index": "text", "--vote": "text", "--n": "jobs", "--alpha": "number", "--seed": "int",
                "--precision": "text", "--data-dir": "path", "--device": "text"},
    "merge": {"--to": "text"},
    "report": {"--radii": "text", "--votes": "text", "--best-over": "text", "--choose-on": "text",
               "--table": "path", "--plot": "path", "--html": "path", "--data-dir": "path",
               "--intervals": ""},
    "verify": {"--redraw": "text", "--data-dir": "path", "--device": "text"},
    "gate": {"--at": "number", "--at-least": "number", "--confidence": "number", "--not-worse-than": "path",
             "--vote": "text", "--json": ""},
    "recipes": {},
    "serve": {"--port": "jobs", "--host": "text", "--data-dir": "path", "--device": "text"},
    "study list": {},
    "study show": {"--rows": "text", "--sigma": "text", "--scale": "number", "--runs": "path",
    "--data-dir": "path"},
    "study report": {"--rows": "text", "--sigma": "text", "--scale": "number", "--runs": "path",
    "--to": "path"},
    "data list": {"--data-dir": "path"},
    "data fetch": {"--to": "path", "--from-url": "text"},
    "theory diagnose": {"--radius": "number", "--draws": "jobs", "--n": "jobs",
                        "--every": "int", "--seed": "int", "--device": "text"},
}  # fmt: skip


def command_lines(chance: random.Random, count: int) -> Iterator[Case]:
    for number in range(count):
        verb = chance.choice(list(BASES))
        base = list(BASES[verb])
        must_refuse = False
        if OPTIONS[verb] and chance.random() < 0.85:
            for option in chance.sample(
                list(OPTIONS[verb]), min(len(OPTIONS[verb]), chance.choice([1, 1, 2]))
            ):
                kind = OPTIONS[verb][option]
                if kind == "setting":
                    value = (
                        f"{chance.choice(SETTINGS)}{chance.choice(['=', '=', '=', ''])}{chance.choice(YAML)}"
                    )
                elif kind == "jobs":  # so large a number that is right is work, not a bad input
                    value = chance.choice([*NO_INT, "0", "-1"])
                    must_refuse |= value in NO_INT
                elif kind:
                    value = chance.choice(VALUES[kind])
                    must_refuse |= value in REFUSED.get(kind, ())
                else:
                    value = ""
                base += [option, value] if kind else [option]
        elif base:
            base[chance.randrange(len(base))] = chance.choice([*TEXT, *PATHS])
        else:
            base = [chance.choice(TEXT)]
        words = [*verb.partition(" --")[0].split(), *base]
        words = [word.replace("\0", "") for word in words]
        run = shieldwall if number % 5 else process
        yield Case(f"shieldwall {' '.join(map(ascii, words))[:300]}", refusing(run, words, must_refuse))


def refusing(run: Callable[..., Outcome], words: list[str], must_refuse: bool) -> Callable[[Path], Outcome]:
    def tried(folder: Path) -> Outcome:
        outcome = run(*words)
        wrong = must_refuse and outcome.verdict == "answered"
        return Outcome("wrong", "it was not refused") if wrong else outcome

    return tried


# Files.


def damaged(content: bytes, chance: random.Random) -> bytes:
    """The content with one or two faults of a disk, an editor or an enemy."""
    for _ in range(chance.choice([1, 1, 2])):
        place = chance.randrange(len(content) + 1)
        until = min(len(content), place + chance.choice([1, 1, 4, 50]))
        digits = [k for k, byte in enumerate(content) if 48 <= byte < 58] or [0]
        digit = chance.choice(digits)
        content = chance.choice([
            content[:place],
            content[:place] + bytes([chance.randrange(256)]) + content[place + 1 :],
            content[:place] + chance.randbytes(chance.choice([1, 8, 100])) + content[place:],
            content[:place] + content[until:],
            content[:until] + content[place:],
            content[:digit] + bytes([48 + chance.randrange(10)]) + content[digit + 1 :],
            content[:digit] + b"9" * chance.choice([3, 25, 5_000]) + content[digit + 1 :],
            content[:digit] + chance.choice([b"nan", b"-1", b"1e309", b"-0", b"1e-400", b"true", b"~"])
            + content[digit + 1 :],
            content + chance.choice([b"\n", b"\0", b"x", content, b"\xff\xfe"]),
            b"\n".join(chance.sample(lines := content.split(b"\n"), len(lines))),
            content.replace(b"\n", b"\r\n"),
            b"\xef\xbb\xbf" + content,
            chance.choice([b"", b"\0" * 100, b"null", b"[]", b"[" * 5_000, b"a: &a [*a]", b"\xff", b"{}"]),
        ])  # fmt: skip
    return content


OF_RUN = ["recipe.yaml", "environment.json", "training.jsonl", "SHA256SUMS", "certificates/settings.yaml",
          "certificates/we.tsv", "certificates/mme.tsv", "certificates/eas.tsv", "certificates/member-1.tsv",
          "members/member-1.safetensors"]  # fmt: skip


def files(chance: random.Random, count: int) -> Iterator[Case]:
    makers = [of_run] * 6 + [packed] * 3 + [edited_certificate] * 2
    makers += [plain, plain, plain, plain, data_set, data_set]
    for _ in range(count):
        yield chance.choice(makers)(chance)


def of_run(chance: random.Random) -> Case:
    """A file of a run with digests: the answer is the sound one, or none."""
    name, seed = chance.choice(OF_RUN), chance.randrange(2**32)
    command = chance.choice([
        ["report", "run"], ["predict", "run", "--index", "0", "--n", "20", "--seed", "1"], ["verify", "run"],
        ["gate", "run", "--at", "0.1", "--at-least", "0"], ["report", "run", "--intervals"],
    ])  # fmt: skip

    def tried(folder: Path) -> Outcome:
        sound = shieldwall(*command).said
        path = folder / "run" / name
        path.write_bytes(damaged(path.read_bytes(), random.Random(seed)))
        outcome = shieldwall(*command)
        return outcome if command[0] == "verify" else same_or_refused(outcome, sound)

    return Case(f"{name} damaged (seed {seed}): {' '.join(command)}", tried)


def packed(chance: random.Random) -> Case:
    """A packed run, damaged as it is or in one of its files."""
    seed, inside = chance.randrange(2**32), chance.random() < 0.7
    command = ["report", "packed.tar.xz"]

    def tried(folder: Path) -> Outcome:
        path, mine, sound = folder / "packed.tar.xz", random.Random(seed), shieldwall(*command).said
        if inside:
            content = read_archive(path)
            name = mine.choice(sorted(content))
            content[name] = damaged(content[name], mine)
            plain = io.BytesIO()
            with tarfile.open(fileobj=plain, mode="w") as archive:
                for key, value in content.items():
                    member = tarfile.TarInfo(
                        mine.choice([key, key, key, key, key, "../" + key, "/" + key, key * 9])
                    )
                    member.size = len(value)
                    member.type = mine.choice([*[tarfile.REGTYPE] * 30, tarfile.SYMTYPE, tarfile.DIRTYPE])
                    archive.addfile(member, io.BytesIO(value))
            path.write_bytes(lzma.compress(plain.getvalue(), preset=0))
        else:
            path.write_bytes(damaged(path.read_bytes(), mine))
        return same_or_refused(shieldwall(*command), sound)

    return Case(f"a packed run damaged (seed {seed}, {'inside' if inside else 'outside'})", tried)


def edited_certificate(chance: random.Random) -> Case:
    """A certificate's class, radius or bound edited, and the digests taken away: `verify` counts it."""
    seed = chance.randrange(2**32)

    def tried(folder: Path) -> Outcome:
        mine, path = random.Random(seed), folder / "run/certificates/we.tsv"
        (folder / "run/SHA256SUMS").unlink()
        header, *lines = path.read_text().splitlines()
        names, row = header.split("\t"), mine.randrange(len(lines))
        cells = lines[row].split("\t")
        column = names.index(mine.choice(["predict", "radius", "p_lower"]))
        value = mine.choice(
            [str(float(cells[column]) + mine.choice([0.05, 0.2, 1])), "0.999", "7", "nan", ""]
        )
        cells[column] = value if column != names.index("predict") else str((int(cells[column]) + 1) % 10)
        lines[row] = "\t".join(cells)
        path.write_text("\n".join([header, *lines]) + "\n")
        outcome = shieldwall("verify", "run")
        return Outcome("wrong", outcome.said[-300:]) if outcome.verdict == "answered" else outcome

    return Case(f"a certificate edited (seed {seed}): verify run", tried)


def plain(chance: random.Random) -> Case:
    """A file that has no digest: any answer of one line."""
    seed = chance.randrange(2**32)
    name, command = chance.choice([
        ("mine.yaml", ["recipes", "mine.yaml"]), ("mine.yaml", ["train", "mine.yaml", "--out", "new"]),
        ("study.yaml", ["study", "show", "study.yaml", "--no-cost"]), ("other.log", ["report", "other.log"]),
        ("other.log", ["report", "other.log", "--table", "x.csv", "--html", "x.html"]),
        *((f"image.{kind}", ["predict", "run", f"image.{kind}", "--n", "20"])
          for kind in ("png", "jpg", "bmp", "gif", "ppm", "tiff", "webp")),
        ("photos/labels.csv", ["certify", "--model", "bad_inputs_model:make", "--images", "photos",
         "--labels",
                               "photos/labels.csv", "--sigma", "0.25", "--limit", "1", "--n", "20", "--out",
                               "new"]),
        ("photos/a/1.png", ["certify", "--model", "bad_inputs_model:make", "--images", "photos", "--sigma",
         "0.25",
                            "--limit", "1", "--n", "20", "--out", "new"]),
    ])  # fmt: skip

    def tried(folder: Path) -> Outcome:
        path = folder / name
        path.write_bytes(damaged(path.read_bytes(), random.Random(seed)))
        return shieldwall(*command)

    return Case(f"{name} damaged (seed {seed}): {' '.join(command)}", tried)


def data_set(chance: random.Random) -> Case:
    """A data set's header or length."""
    seed = chance.randrange(2**32)
    name = chance.choice(["mnist", "cifar10"])

    def tried(folder: Path) -> Outcome:
        mine = random.Random(seed)
        path = mine.choice(sorted((folder / "sets").rglob("*ubyte" if name == "mnist" else "*.bin")))
        content = path.read_bytes()
        head = bytearray(content[:16])
        head[mine.randrange(8 if "labels" in path.name else 16)] ^= 1 << mine.randrange(8)
        is_cut = mine.random() < 0.5 or name == "cifar10"
        changed = content[: mine.randrange(len(content))] if is_cut else bytes(head) + content[16:]
        path.write_bytes(changed)
        # Of CIFAR-10, a whole number of images is a smaller set.
        return called(
            lambda: sw.load_data(name, folder / "sets"),
            must_refuse=not changed or name == "mnist" or len(changed) % 3_073 > 0,
        )

    return Case(f"{name} damaged (seed {seed})", tried)


# Surroundings.

VARIABLES: dict[str, list[str | None]] = {
    **{name: ["0", "-1", "x", "", "1", "99999999999", "1.5"] for name in ("COLUMNS", "LINES",
    "TERMINAL_WIDTH")},
    **{name: [None, "", "/nowhere", "/dev/null", "~", "\udcff", "a" * 5_000, "pipe"]
       for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "SHIELDWALL_DATA", "TMPDIR", "MPLCONFIGDIR")},
    "SHIELDWALL_TRUST_CODE": ["", "all", "x", ",", "\udcff"],
    **{name: ["C", "POSIX", "xx_YY", "", "C.UTF-8", "tr_TR.UTF-8", "\udcff"] for name in ("LANG", "LC_ALL")},
    "PYTHONIOENCODING": ["ascii", "latin-1", "utf-16"],
    "PYTHONUTF8": ["0", "1"],
    "PYTHONHASHSEED": ["0", "1"],
    "PYTHONWARNINGS": ["error"],
    "PYTHONOPTIMIZE": ["1", "2"],
    **{name: ["abc", "5", "-1", "", "1e3", "9" * 40] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")},
    "MASTER_PORT": ["x", "0", "99999999"],
    "TERM": ["", "dumb", "xterm-256color", "\udcff", "x" * 3_000],
    "NO_COLOR": ["1"],
    "FORCE_COLOR": ["1", "x"],
    "TZ": ["", "Nowhere/X", "UTC+99"],
    "SLURM_ARRAY_TASK_ID": ["x", "-1", "9" * 40],
    "SLURM_ARRAY_TASK_COUNT": ["x", "0"],
    "JOB_COMPLETION_INDEX": ["x", "-1"],
    "CUDA_VISIBLE_DEVICES": ["", "-1", "99", "x"],
    "https_proxy": ["x", "http://127.0.0.1:9"],
    "NO_AT_BRIDGE": ["1"],
}  # fmt: skip
QUICK = [["recipes"], ["recipes", "smoke"], ["report", "run"], ["report", "packed.tar.xz"], ["data", "list"],
         ["study", "list"], ["--version"], ["--help"], ["verify", "run"], ["gate", "run", "--at", "0",
          "--at-least", "0"],
         ["report", "run", "--html", "x.html", "--plot", "x.png"], ["predict", "run", "--index", "0", "--n",
          "20"],
         ["certify", "run", "--to", "new", "--limit", "1"], ["train", "mine.yaml", "--out", "new"],
         ["certify", "run", "--to", "new", "--shard", "auto"], ["study", "show", "study.yaml",
          "--no-cost"]]  # fmt: skip


def without_room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))


def without_folder() -> None:
    gone = Path(tempfile.mkdtemp())
    os.chdir(gone)
    gone.rmdir()


def without_streams() -> None:
    os.close(1)
    os.close(0)


def surroundings(chance: random.Random, count: int) -> Iterator[Case]:
    ways = [without_room, few_files, without_folder, without_streams]
    for _ in range(count):
        command = chance.choice(QUICK)
        if chance.random() < 0.3:
            way = chance.choice(ways)
            yield Case(
                f"{way.__name__}: shieldwall {' '.join(command)}", surrounded(command, {}, preexec_fn=way)
            )
        elif chance.random() < 0.1 and os.geteuid() == 0:
            name = f"a folder that is read-only: shieldwall {' '.join(command)}"
            yield Case(name, surrounded(command, {}, before=READ_ONLY))
        elif chance.random() < 0.1:
            yield Case(f"a full stdout: shieldwall {' '.join(command)}", surrounded(command, {}, full=True))
        else:
            names = chance.sample(list(VARIABLES), chance.choice([1, 1, 2, 3]))
            given = {name: chance.choice(VARIABLES[name]) for name in names}
            shown = " ".join(f"{name}={value!r:.60}" for name, value in given.items())
            yield Case(f"{shown} shieldwall {' '.join(command)}", surrounded(command, given))


def surrounded(
    command: list[str], given: dict[str, str | None], full: bool = False, **options: Any
) -> Callable[[Path], Outcome]:
    def tried(folder: Path) -> Outcome:
        if not full:
            outcome = process(*command, variables=given, **options)
            is_silent = outcome.verdict == "answered" and not outcome.said.strip()
            hears = options.get("preexec_fn") is not without_streams
            return Outcome("wrong", "it printed nothing") if is_silent and hears else outcome
        with Path("/dev/full").open("wb") as stream:
            outcome = process(*command, variables=given, stdout=stream)
        return Outcome("wrong", "nobody was told") if outcome.verdict == "answered" else outcome

    return tried


# Python calls.

X = torch.full((2, 1, 4, 4), 0.5)
BAD: dict[str, list[Any]] = {
    "int": ["x", 1.5, float("nan"), [], {}, object(), True, b"1", 1j, np.array([1, 2]), "5"],
    "number": ["x", [], {}, object(), float("nan"), 1j, True, b"1", np.array([1.0, 2.0])],
    "text": [5, "nope", "", b"l2", [], object(), 1.5, "L3", "\u00e9"],
    "images": [None, "x", 5, [], X.long(), X * float("nan"), X[:0], X.to_sparse(), X * 1j, X[0, 0, 0],
    X * 9, X - 1,
               np.array([["a"]]), np.array([None]), X.double(), torch.tensor(0.5), object()],
    "noise": [None, True, "gaussian", sw.Gaussian, torch.tensor(0.5), -1, 0, float("nan"), float("inf"), [],
    {}],
    "model": [None, 5, "lenet", torch.nn.Linear, torch.nn.Linear(3, 3), lambda x: "x", lambda x: x,
              lambda x: x.flatten(1) * float("nan"), lambda x: None, lambda x: torch.zeros(len(x)),
              lambda x: x.flatten(1)[:1], [], {}, lambda: None],
    "models": [None, 5, "x", [], [None], [5], torch.nn.Linear(16, 3), {}, [lambda x: x], object()],
    "numbers": [5, "x", [], ["x"], [float("nan")], [None], object(), [-1.0], {"a": 1}, [[0.1]]],
    "indices": [5, "xy", [0], [0.5, 1.5], [None, 1], [10**30, 1], object(), [0, 1, 2], ["a", "b"]],
    "counts": [None, "x", 5, [[1.5, 2.5]], [[-1, 5]], [[float("nan"), 1]], [], [["a"]], [[10**30, 1]],
    object(), [[[1]]]],
    "range": [5, "x", [], [1], (1, 0), (0, 0), (float("nan"), 1), ("a", "b"), (0, 1, 2), object(), (0, True,
    None)],
    "path": [5, [], "", "nowhere", "a" * 300, "\0", object(), "pipe", b"run", ".", "image.png"],
    "labels": [None, "x", 5, [], torch.tensor([0.5, 1.5]), torch.tensor([-1, 99]), torch.tensor([0]),
    object()],
    "confidences": [None, "x", 5, torch.zeros(2), torch.full((2, 2, 3, 3), float("nan")), torch.zeros(0, 2,
    3, 3),
                    torch.zeros(2, 2, 3, 3).long(), object(), []],
}  # fmt: skip
"""By kind, what no argument of that kind may be."""


def flat() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))


def calls() -> list[tuple[str, Callable[..., object], dict[str, Any], dict[str, str]]]:
    """(name, function, sound arguments, kind of each argument to spoil)."""
    noise = sw.Gaussian(0.25)
    sampling = {"n": "int", "alpha": "number", "indices": "indices", "seed": "int", "batch_size": "int",
                "precision": "text", "device": "text", "value_range": "range", "x": "images",
                "noise": "noise"}  # fmt: skip
    certifying = {**sampling, "n0": "int", "bound": "text", "radii": "numbers", "norm": "text"}
    sound = {"x": X, "noise": noise, "n": 20}
    counted = {"selection_counts": [[9, 1]], "counts": [[90, 10]], "noise": noise, "alpha": 0.01, "size": 16}
    of_counts = {"selection_counts": "counts", "counts": "counts", "noise": "noise", "alpha": "number",
                 "bound": "text", "norm": "text", "size": "int", "precision": "text"}  # fmt: skip
    digits = sw.load_data("digits").train
    some = sw.Schedule(epochs=1, batch_size=512)
    trained = {"members": [flat_digits()], "data": digits, "objective": sw.GaussianAugmentation(noise, 1),
               "schedule": some}  # fmt: skip
    confidences = torch.softmax(torch.zeros(2, 4, 3, 3), -1)
    labels = torch.tensor([0, 1, 2, 0])
    methods: list[tuple[str, Any, dict[str, str]]] = [
        ("GaussianAugmentation", sw.GaussianAugmentation, {}),
        ("SmoothAdv", sw.SmoothAdv, {"epsilon": "number", "steps": "int", "warmup": "int"}),
        ("MACER", sw.MACER, {"lam": "number", "gamma": "number", "beta": "number", "defer": "int"}),
        ("Stability", sw.Stability, {"lam": "number", "divergence": "text", "order": "number"}),
        ("Consistency", sw.Consistency, {"lam": "number", "eta": "number"}),
        ("ADP", sw.ADP, {"alpha": "number", "beta": "number"}),
        ("GAL", sw.GAL, {"weight": "number"}),
    ]
    every: list[tuple[str, Callable[..., object], dict[str, Any], dict[str, str]]] = [
        ("certify", sw.certify, {"classifier": flat(), **sound}, {**certifying, "classifier": "model"}),
        ("predict", sw.predict, {"classifier": flat(), **sound}, {**sampling, "classifier": "model"}),
        ("certify_members", sw.certify_members, {"members": [flat(), flat()], **sound},
         {**certifying, "members": "models", "votes": "models"}),
        ("certificates_from_counts", sw.certificates_from_counts, counted, of_counts),
        ("eas_from_counts", sw.eas_from_counts,
         {**counted, "selection_counts": [[[9, 1]]], "counts": [[[90, 10]]]}, of_counts),
        ("noisy_confidences", sw.noisy_confidences, {"members": [flat()], "images": X, "noise": noise,
         "copies": 2},
         {"members": "models", "images": "images", "noise": "noise", "copies": "int", "seed": "int",
          "indices": "indices", "batch_size": "int", "device": "text"}),
        ("sween_weights", sw.sween_weights, {"confidences": confidences, "labels": labels, "steps": 2},
         {"confidences": "confidences", "labels": "labels", "steps": "int"}),
        ("grid_search_weights", sw.grid_search_weights, {"confidences": confidences, "labels": labels},
         {"confidences": "confidences", "labels": "labels", "step": "number"}),
        ("WeightedEnsemble", sw.WeightedEnsemble, {"members": [flat(), flat()]},
         {"members": "models", "weights": "numbers"}),
        ("MaxMarginEnsemble", sw.MaxMarginEnsemble, {"members": [flat()]}, {"members": "models"}),
        ("Normalize", sw.Normalize, {"mean": [0.5], "std": [0.5]}, {"mean": "numbers", "std": "numbers"}),
        ("Classifier", sw.Classifier, {"model": flat()}, {"value_range": "range"}),
        ("build_members", sw.build_members,
         {"names": "digits-cnn", "count": 1, "num_classes": 10, "shape": (1, 8, 8), "seed": 0},
         {"names": "text", "count": "int", "num_classes": "int", "seed": "int", "shape": "indices"}),
        ("dataset_spec", sw.dataset_spec, {"name": "digits"}, {"name": "text"}),
        ("load_data", sw.load_data, {"name": "digits"}, {"name": "text"}),
        ("load", sw.load, {"what": "run"}, {"what": "path", "vote": "text"}),
        ("read", sw.read, {"path": "run"}, {"path": "path"}),
        ("compare", sw.compare, {"certificates": {"a": sw.certify(flat(), X, noise=noise, n=20)},
         "labels": [0, 1]},
         {"radii": "numbers", "certificates": "models", "labels": "indices"}),
        ("Schedule", sw.Schedule, {},
         {"epochs": "int", "batch_size": "int", "lr": "number", "momentum": "number",
          "weight_decay": "number",
          "curve": "text", "decay_every": "int", "decay": "number", "warmup": "int", "clip": "number",
          "precision": "text"}),
        ("train", sw.train, trained,
         {"members": "models", "data": "images", "objective": "model", "schedule": "model", "seed": "int",
          "device": "text", "checkpoint_minutes": "number"}),
        ("DRT", sw.DRT, {"base": sw.GaussianAugmentation(noise), "rho_gd": 1.0, "rho_cm": 1.0},
         {"base": "model", "rho_gd": "number", "rho_cm": "number", "norm": "text", "average": "text",
          "cm_over": "text", "points": "text", "design": "text", "runner_up": "text", "update": "int",
          "warmup": "int"}),
        *((kind.__name__, kind, {name: 0.25}, {name: "number"})
          for kind, name in ((sw.Gaussian, "sigma"), (sw.ExactGaussian, "sigma"), (sw.Uniform, "lam"),
                             (sw.Laplace, "lam"))),
    ]  # fmt: skip
    every += [(name, make, {"noise": noise}, {**kinds, "noise": "noise", "num_noise": "int"})
              for name, make, kinds in methods]  # fmt: skip
    return every


def flat_digits() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))


def is_sound(function: str, argument: str, value: Any) -> bool:
    """Whether a value that is bad elsewhere is right here, or is a fault of the caller's own function."""
    if function == "Normalize" and argument == "mean" and value == [-1.0]:
        return True
    return function.endswith("Ensemble") and isinstance(value, list) and bool(value) and callable(value[0])


def python_calls(chance: random.Random, count: int) -> Iterator[Case]:
    every = [(name, call, sound, argument, kind) for name, call, sound, kinds in calls()
             for argument, kind in kinds.items()]  # fmt: skip
    for _ in range(count):
        name, call, sound, argument, kind = chance.choice(every)
        value = chance.choice(BAD[kind])
        must_refuse = not is_sound(name, argument, value)

        def tried(
            folder: Path, call=call, sound=sound, argument=argument, value=value, must=must_refuse
        ) -> Outcome:  # type: ignore[no-untyped-def]
            return called(lambda: call(**{**sound, argument: value}), must_refuse=must)

        yield Case(f"sw.{name}({argument}={str(value)[:60]!r} of {type(value).__name__})", tried)


KINDS: dict[str, tuple[Callable[[random.Random, int], Iterator[Case]], float]] = {
    "command lines": (command_lines, 0.35),
    "files": (files, 0.3),
    "surroundings": (surroundings, 0.1),
    "python calls": (python_calls, 0.25),
}


def try_all(count: int, seed: int, only: str, work: Path) -> int:
    sound, place, faults = work / "sound", work / "place", 0
    os.environ.update(
        XDG_STATE_HOME=str(work / "state"), XDG_CACHE_HOME=str(work / "cache"), OMP_NUM_THREADS="1"
    )
    os.environ.setdefault("PYTHONPATH", str(Path(sw.__file__).parents[1]))
    torch.set_num_threads(1)
    sys.path.insert(0, "")
    sound.mkdir()
    lay_out(sound)
    for kind, (make, share) in KINDS.items():
        if only and only != kind:
            continue
        tally: Counter[str] = Counter()
        cases = make(random.Random(f"{kind} {seed}"), round(count * share))
        os.chdir(work)
        for case in cases:
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(sound, place, ignore=shutil.ignore_patterns("pipe"))
            os.mkfifo(place / "pipe")
            os.chdir(place)
            outcome = timed(lambda case=case: case.run(place))  # type: ignore[misc]
            tally[outcome.verdict] += 1
            if outcome.verdict in FAULTS:
                faults += 1
                print(f"{outcome.verdict}: {case.name}\n    {ascii(outcome.said)[:500]}", flush=True)
        counts = ", ".join(f"{number} {verdict}" for verdict, number in sorted(tally.items()))
        print(f"{kind}: {sum(tally.values())} tried: {counts}", flush=True)
    return int(faults > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(KINDS), default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(try_all(options.count, options.seed, options.only, Path(folder).resolve()))
