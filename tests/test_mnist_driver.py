"""benchmarks/mnist.py on a handful of images: one file for each run, nothing done twice, an end in time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from shieldwall.results.archive import read_archive
from shieldwall.results.record import read_logs

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "data"))
from tiny_sets import write_mnist  # noqa: E402

TINY = ["--set", "schedule.decay_every=9", "--n", "100", "--sigmas", "0.5"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mnist-tables")
    write_mnist(folder / "data" / "mnist", extra=34)
    return folder


def call(place: Path, script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / script), *arguments, "--data-dir", "data"],
        cwd=place, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def filled(place: Path) -> Path:
    call(place, "mnist.py", "gaussian", "drt", "--set", "schedule.epochs=1", *TINY)
    return place


def test_each_run_is_one_file_with_every_vote(filled: Path) -> None:
    files = [filled / "results" / "mnist" / f"{row}-0.5.tar.xz" for row in ("gaussian", "drt")]
    votes = ["member-1", "member-2", "member-3", "we", "mme", "eas", "we-grid", "we-sween"]
    for file in files:
        logs = read_logs([file])
        assert [log.vote for log in logs] == votes
        assert {
            (len(log.certificates), log.certificates.fixed_n, log.certificates.alpha) for log in logs
        } == {(1, 100, 0.001)}  # every 10th of 3
    recipe = read_archive(files[1])["recipe.yaml"].decode()
    assert "init_from: runs/mnist/gaussian-0.5\n" in recipe
    assert "holdout_every: 20\n" in recipe


def test_what_is_done_is_not_done_again(filled: Path) -> None:
    def times() -> dict[str, float]:
        kept = [*filled.glob("runs/**/*.safetensors"), *filled.glob("runs/**/*.tsv")]
        return {str(path): path.stat().st_mtime_ns for path in kept}

    before = times()
    said = call(filled, "mnist.py", "gaussian", "drt", "--set", "schedule.epochs=1", *TINY)
    assert said.count("is trained already") == 2
    assert times() == before
    assert len(before) == 2 * (3 + 8)


def sitting(place: Path, written: Path, *arguments: str) -> str:
    """Three seconds of work, and as many more as a busy machine needs to have `written` something."""
    for _ in range(5):
        said = call(place, "mnist.py", *arguments, "--minutes", "0.05", *TINY)
        assert "the same command goes on" in said
        if written.exists():
            return written.read_text()
    raise AssertionError(f"{written} was not written")


def test_it_ends_in_time_and_goes_on(place: Path) -> None:
    log = place / "later" / "gaussian-0.5" / "training.jsonl"
    long = ["gaussian", "--work", "later", "--set", "schedule.epochs=100000"]
    first, *_, last = [sitting(place, log, *long) for _ in range(3)]
    epochs = [json.loads(line)["epoch"] for line in last.splitlines()]
    assert last.startswith(first)
    assert 0 < len(first) < len(last)
    assert epochs == list(range(1, len(epochs) + 1))


def test_a_row_named_is_changed_and_not_the_one_it_starts_from(place: Path) -> None:
    recipe = place / "alone" / "gaussian-0.5" / "recipe.yaml"
    assert "decay_every: 30\n" in sitting(
        place, recipe, "drt", "--work", "alone", "--set", "objective.rho_gd=7"
    )


def test_a_search_uses_held_out_images_alone(filled: Path) -> None:
    said = call(
        filled, "mnist_search.py", "runs/mnist/gaussian-0.5", "--epochs", "1", "--n", "100", "--images", "2",
        "--try", "0.1,0.1,0.001,warmup=2,clip=1", "--out", "tries.jsonl",
    )  # fmt: skip
    assert [line.split(" | ")[0] for line in said.splitlines()][1:] == [
        "none",
        "0.1,0.1,0.001,warmup=2,clip=1",
    ]
    none, tried = map(json.loads, (filled / "tries.jsonl").read_text().splitlines())
    assert none["radii"] == tried["radii"] == [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]
    assert tried["last"]["epoch"] == 1
