"""Two processes train as one does; only the first of them writes.

Run as a script, this file is one of the processes.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import shieldwall as sw
from shieldwall import recipes
from shieldwall.data.splits import TensorSplit
from shieldwall.distributed import TORCHRUN, ProcessGroup
from shieldwall.files import load_tensors
from shieldwall.models.registry import build_members
from shieldwall.training import loop
from shieldwall.training.loop import Record, train
from shieldwall.training.objective import Loss, NoisyBatch, Objective
from shieldwall.training.registry import build_objective

SECONDS = 120
"""No process of a test lives longer."""
DRT = {"name": "drt", "rho_gd": 2.0, "rho_cm": 1.0}
ROWS: dict[str, dict[str, Any]] = {
    "gaussian": {"name": "gaussian"},
    "smoothadv": {"name": "smoothadv", "steps": 2, "epsilon": 0.25},
    "macer": {"name": "macer", "num_noise": 4, "lam": 1.0},
    "stability": {"name": "stability"},
    "consistency": {"name": "consistency"},
    "adp": {"name": "adp"},
    "gal": {"name": "gal"},
    "drt": DRT,
    "drt-as-printed": {**DRT, "norm": "plain", "average": "batch", "cm_over": "pairs"},
    "drt-smoothadv": {**DRT, "base": {"name": "smoothadv", "steps": 2, "epsilon": 0.25}},
}
SCHEDULE = sw.Schedule(epochs=2, batch_size=63, lr=0.02)
TINY = sw.Schedule(epochs=2, batch_size=2, lr=0.02)
NOISE = sw.Gaussian(0.25)


def first_images(count: int) -> TensorSplit:
    whole = sw.load_data("digits").train
    assert isinstance(whole, TensorSplit)
    return TensorSplit(whole.pixels[:count], whole.labels[:count])


def state(members: Sequence[nn.Module]) -> Tensor:
    return torch.cat([value.double().flatten() for one in members for value in one.state_dict().values()])


def trained(row: str, images: int, schedule: sw.Schedule, world: ProcessGroup) -> tuple[list[Record], Tensor]:
    members = build_members("digits-cnn", 3, 10, (1, 8, 8), world.rank)  # all start from the first's weights
    objective = build_objective(ROWS[row], NOISE)
    records = train(members, first_images(images), objective, schedule=schedule, world=world)
    return records, state(members)


@contextmanager
def double_precision() -> Iterator[None]:
    """Rounding too small to be taken for an error, or an error for rounding."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def with_batch_norm(rank: int) -> list[nn.Module]:
    torch.manual_seed(rank)
    return [nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 10))]


def normed(world: ProcessGroup, checkpoint: Path, kept: Path | None = None) -> tuple[list[Record], Tensor]:
    """The attack of SmoothAdv sees the running statistics, and so the losses do. `kept` is a copy of the
    checkpoint after the first epoch."""
    members = with_batch_norm(world.rank)
    objective = build_objective({"name": "smoothadv", "warmup": 0, "steps": 2}, NOISE)

    def keep(records: list[Record]) -> None:
        if kept is not None and len(records) == 1:
            shutil.copy(checkpoint, kept)

    records = train(
        members, first_images(130), objective,
        schedule=SCHEDULE, checkpoint=checkpoint, on_epoch=keep, world=world,
    )  # fmt: skip
    return records, state(members)


def halfway(world: ProcessGroup, checkpoint: Path, kept: Path | None = None) -> tuple[list[Record], Tensor]:
    """`kept` is a copy of the checkpoint after the second of the three updates of the second epoch."""
    members = with_batch_norm(world.rank)

    def keep(seen: int) -> None:
        if kept is not None and seen == 130 + 2 * 63:
            shutil.copy(checkpoint, kept)

    records = train(
        members, first_images(130), build_objective(ROWS["gaussian"], NOISE), schedule=SCHEDULE,
        checkpoint=checkpoint if world.is_main else None, checkpoint_minutes=0.0, on_batch=keep, world=world,
    )  # fmt: skip
    return records, state(members)


class Broken(Objective):
    """Fails in one process only."""

    noise, num_noise = sw.Gaussian(0.25), 1

    def __call__(self, members: Sequence[nn.Module], batch: NoisyBatch) -> Loss:
        if ProcessGroup.from_environment().rank == 1:
            raise ZeroDivisionError
        return Loss(members[0](batch.x).square().mean(), {}, torch.ones(1))


class Diverging(Objective):
    """Infinite in the last process's rows only."""

    noise, num_noise = sw.Gaussian(0.25), 1

    def __call__(self, members: Sequence[nn.Module], batch: NoisyBatch) -> Loss:
        value = members[0](batch.x).square().mean()
        odd = value.detach() / int(ProcessGroup.from_environment().is_main)
        return Loss(value, {"odd": odd}, torch.ones(1))


def work(folder: Path) -> None:
    """What each of the processes does, one thing after the other."""
    world = ProcessGroup.from_environment()
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    with world.connected(torch.device("cpu")):
        for row in ROWS:
            found[row] = trained(row, 130, SCHEDULE, world)
        with double_precision():
            found["exact"] = trained("drt", 130, SCHEDULE, world)
        found["tiny"] = trained("drt", 5, TINY, world)
        found["whole"] = normed(world, folder / "whole", folder / "kept")
        found["resumed"] = normed(world, folder / "kept")
        loop.ASK_EVERY = 1
        found["mid whole"] = halfway(world, folder / "mid", folder / "mid kept")
        found["mid resumed"] = halfway(world, folder / "mid kept")
        try:
            train(with_batch_norm(0), first_images(9), Diverging(), schedule=SCHEDULE, world=world)
        except sw.UserError as error:
            found["diverged"] = str(error)
        torch.save(found, folder / f"{world.rank}.pt")
        train(with_batch_norm(0), first_images(9), Broken(), schedule=SCHEDULE, world=world)


@contextmanager
def processes(*command: str | Path, size: int = 2) -> Iterator[list[subprocess.Popen[str]]]:
    """Python processes that find around them what torchrun sets; gone afterwards, whatever happens."""
    place = dict(zip(TORCHRUN[2:], (str(size), "127.0.0.1", str(free_port())), strict=True))
    with ExitStack() as stack:
        started = []
        for rank in range(size):
            one = start(*command, RANK=str(rank), LOCAL_RANK=str(rank), **place)
            stack.enter_context(one)
            stack.callback(one.kill)
            started.append(one)
        yield started


def start(*command: str | Path, **extra: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80", **extra}
    return subprocess.Popen(
        [sys.executable, *map(str, command)], env=environment, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def torchrun(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The real thing, which ends its processes when it is asked to end."""
    where = ("--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}")
    with start("-m", "torch.distributed.run", *where, "-m", "shieldwall", *arguments) as running:
        try:
            out, err = running.communicate(timeout=SECONDS)
        except BaseException:
            running.terminate()
            running.wait(SECONDS)
            raise
    return subprocess.CompletedProcess([], running.returncode, out, err)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What either process found, and how it ended."""
    folder = tmp_path_factory.mktemp("processes")
    with processes(__file__, folder) as started:
        ended = [one.communicate(timeout=SECONDS)[1] for one in started]
        codes = [one.returncode for one in started]
    results = []
    for rank, (err, code) in enumerate(zip(ended, codes, strict=True)):
        assert (folder / f"{rank}.pt").is_file(), err
        results.append({**torch.load(folder / f"{rank}.pt"), "err": err, "code": code})
    return results


def close(records: list[Record], others: list[Record]) -> None:
    """Every term of every epoch agrees, but for what is no mean over images."""
    for one, other in zip(records, others, strict=True):
        assert one.keys() == other.keys()
        for name in one.keys() - {"seconds", "cosine"}:
            # Rounding may turn an image that lies between two classes.
            near = 0.005 if name.endswith("accuracy") else 1e-6
            assert one[name] == pytest.approx(other[name], rel=1e-5, abs=near), name


@pytest.mark.parametrize("row", ROWS)
def test_two_processes_train_as_one_does(row: str, found: list[dict[str, Any]]) -> None:
    records, weights = trained(row, 130, SCHEDULE, ProcessGroup())
    for rank in (0, 1):
        theirs, their_weights = found[rank][row]
        close(theirs, records)
        assert torch.allclose(their_weights, weights, rtol=1e-4, atol=1e-5)
    assert found[0][row][1].equal(found[1][row][1])


def test_they_differ_by_rounding_alone(found: list[dict[str, Any]]) -> None:
    with double_precision():
        records, weights = trained("drt", 130, SCHEDULE, ProcessGroup())
    theirs, their_weights = found[0]["exact"]
    assert [one["loss"] for one in theirs] == pytest.approx([one["loss"] for one in records], rel=1e-12)
    assert torch.allclose(their_weights, weights, rtol=1e-11, atol=1e-12)


def test_a_batch_may_be_smaller_than_the_world(found: list[dict[str, Any]]) -> None:
    records, weights = trained("drt", 5, TINY, ProcessGroup())  # the last of three batches has one image
    close(found[0]["tiny"][0], records)
    assert found[0]["tiny"][1].equal(found[1]["tiny"][1])
    assert torch.allclose(found[0]["tiny"][1], weights, rtol=1e-4, atol=1e-5)


def test_resuming_with_batch_norm_gives_the_same_losses(found: list[dict[str, Any]]) -> None:
    for one in found:
        (whole, weights), (resumed, resumed_weights) = one["whole"], one["resumed"]
        assert [record["loss"] for record in whole] == [record["loss"] for record in resumed]
        assert weights.equal(resumed_weights)
    assert found[0]["whole"][1].equal(found[1]["whole"][1])


def test_resuming_in_mid_epoch_gives_the_same_losses(found: list[dict[str, Any]]) -> None:
    """Up to the order in which the log's sums are added up."""
    for one in found:
        (whole, weights), (resumed, resumed_weights) = one["mid whole"], one["mid resumed"]
        assert weights.equal(resumed_weights)
        for record, again in zip(whole, resumed, strict=True):
            assert again["loss"] == pytest.approx(record["loss"], rel=1e-13)
    assert found[0]["mid whole"][1].equal(found[1]["mid whole"][1])


def test_all_processes_stop_at_what_one_finds_infinite(found: list[dict[str, Any]]) -> None:
    assert found[0]["diverged"] == found[1]["diverged"]
    assert found[0]["diverged"].startswith("training diverged in epoch 1: odd is not finite")


def test_no_process_waits_for_one_that_failed(found: list[dict[str, Any]]) -> None:
    assert found[0]["code"] == 1
    assert found[1]["code"] != 0  # gloo's threads may abort the failed process before python ends it with 1
    assert "ZeroDivisionError" in found[1]["err"]
    assert "UserError: lost contact with another process (" in found[0]["err"]


# At the recipe's own learning rate, rounding errors can grow a hundredfold in an epoch.
SMOKE = recipes.get("smoke")
SMOKE = replace(
    SMOKE,
    objective=DRT,
    independent=False,
    schedule=replace(SMOKE.schedule, epochs=3, batch_size=63, lr=0.01),
)


class Finished(NamedTuple):
    folder: Path
    before: int
    """Epochs that were done when the first attempt was killed."""
    out: str

    def log(self) -> list[Record]:
        return [json.loads(line) for line in (self.folder / "training.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A training by two processes, both killed after the first epoch, and finished by torchrun."""
    folder = tmp_path_factory.mktemp("killed") / "run"
    log, recipe = folder / "training.jsonl", folder.with_name("drt.yaml")
    recipe.write_text(SMOKE.to_yaml())
    with processes("-m", "shieldwall", "train", recipe, "--out", folder) as started:
        deadline = time.monotonic() + SECONDS
        while not log.exists():
            assert all(one.poll() is None for one in started), [one.communicate() for one in started]
            assert time.monotonic() < deadline
            time.sleep(0.002)
        for one in started:
            one.send_signal(signal.SIGKILL)
    before = len(log.read_bytes().splitlines())
    done = torchrun("train", recipe, "--out", folder)
    assert done.returncode == 0, done.stderr
    return Finished(folder, before, done.stdout)


@pytest.mark.slow
def test_a_killed_training_goes_on_to_the_losses_of_one_process(finished: Finished) -> None:
    assert 0 < finished.before < 3
    members = build_members(SMOKE.model, SMOKE.members, 10, (1, 8, 8), SMOKE.seed)
    objective = build_objective(SMOKE.objective, sw.Gaussian(SMOKE.sigma))
    data = sw.load_data("digits").train
    close(finished.log(), train(members, data, objective, schedule=SMOKE.schedule, seed=SMOKE.seed))
    for k, member in enumerate(members):
        saved, _ = load_tensors(finished.folder / f"members/member-{k + 1}.safetensors")
        for name, value in member.state_dict().items():
            assert torch.allclose(saved[name], value, rtol=1e-4, atol=1e-5), name


@pytest.mark.slow
def test_only_the_first_process_writes_and_speaks(finished: Finished) -> None:
    folder = finished.folder
    assert [record["epoch"] for record in finished.log()] == [1, 2, 3]
    assert not list(folder.rglob("*.part"))
    assert not (folder / "checkpoint.safetensors").exists()
    assert json.loads((folder / "environment.json").read_text())["train"]["processes"] == 2
    lines = finished.out.splitlines()
    assert sum("100%, done in" in line for line in lines) == 1
    assert len(lines) == len(set(lines))
    assert lines[-2:] == [f"run folder: {folder}", f"next: shieldwall certify {folder}"]


@pytest.mark.slow
def test_a_mistake_is_told_once(tmp_path: Path) -> None:
    done = torchrun("train", "smok", "--out", tmp_path / "run")
    assert done.returncode != 0
    assert re.findall("^error: .*$", done.stderr, re.MULTILINE) == [
        "error: unknown recipe 'smok'; did you mean 'smoke'?"
    ]
    assert re.search(r"exitcode +: 2 ", done.stderr)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("total", [1, 2, 3, 4, 5, 63, 64])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_shares_are_even_and_cover_the_batch(total: int, size: int) -> None:
    shares = [ProcessGroup(rank, size).share(total) for rank in range(size)]
    rows = [row for share in shares if not share.is_padding for row in range(total)[share.rows]]
    assert rows == list(range(total))
    counted = [share.num_rows for share in shares]
    assert sum(counted) == total
    assert max(counted) - min(counted) <= 1
    assert all(share.rows == slice(0, 1) for share in shares if share.is_padding)


@pytest.mark.parametrize("size", [2, 3, 7])
def test_processes_draw_the_rows_of_one_draw(size: int) -> None:
    x, y = torch.rand(5, 1, 4, 4), torch.arange(5)
    whole = sw.GaussianAugmentation(NOISE, 3).draw(x, y, torch.Generator().manual_seed(0))
    for rank in range(size):
        share = ProcessGroup(rank, size).share(5)
        part = (
            sw.GaussianAugmentation(NOISE, 3)
            .draw(x, y, torch.Generator().manual_seed(0))
            .rows_of(ProcessGroup(rank, size))
        )
        assert part.share == share
        assert part.x.equal(x[share.rows])
        for name in ("noise", "noisy", "labels"):
            assert part.by_copy(getattr(part, name)).equal(whole.by_copy(getattr(whole, name))[:, share.rows])


def test_a_plain_process_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in TORCHRUN:
        monkeypatch.delenv(name, raising=False)
    assert ProcessGroup.from_environment() == ProcessGroup()
    monkeypatch.setenv("RANK", "1")
    assert ProcessGroup.from_environment() == ProcessGroup()
    for name, value in zip(TORCHRUN, ("5", "1", "8", "127.0.0.1", "29500"), strict=True):
        monkeypatch.setenv(name, value)
    assert ProcessGroup.from_environment() == ProcessGroup(rank=5, size=8, local_rank=1)


if __name__ == "__main__":
    work(Path(sys.argv[1]))
