"""What is chosen by a trial, with a clock that says how long everything takes."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

import shieldwall as sw
from shieldwall.errors import UserError
from shieldwall.smoothing import trial
from shieldwall.smoothing.sampler import Sampler
from shieldwall.smoothing.stopping import FixedSampleSize
from shieldwall.smoothing.trial import cost_note, fastest

Cost = Callable[[int, int, bool], float]
"""Seconds of a batch, by rows, threads and whether it is compiled."""


class Machine:
    """Samplers whose batches take as long as it says, by a clock of its own."""

    def __init__(self, cost: Cost, can_compile: bool = True) -> None:
        self.cost, self.can_compile = cost, can_compile
        self.now = 0.0
        self.asked: list[tuple[int | None, bool]] = []

    def clock(self) -> float:
        return self.now

    def build(self, *, batch_size: int | None, compile: bool) -> Sampler:
        self.asked.append((batch_size, compile))
        if compile and not self.can_compile:
            raise UserError("torch.compile does not work here: no compiler")
        made = Sampler(
            [nn.Linear(4, 2)], None, sw.Gaussian(1.0), 10, FixedSampleSize(1_000), seed=0, shape=(4,),
            device=torch.device("cpu"), batch_size=batch_size or 200,
        )  # fmt: skip
        made.is_compiled = compile
        classify = made.labeler

        class Timed:
            device, dtype, memory_format = classify.device, classify.dtype, classify.memory_format

            def __call__(_, noisy: torch.Tensor) -> tuple[torch.Tensor, int]:  # noqa: N805
                self.now += self.cost(len(noisy), torch.get_num_threads(), compile)
                return torch.zeros(1, len(noisy), dtype=torch.int64), 2

        made.labeler = Timed()  # type: ignore[assignment]
        return made

    def choose(self, draws: int = 10_000, **options: object) -> tuple[int, int, bool]:
        made = fastest(self.build, draws, [2, 1], clock=self.clock, **options)  # type: ignore[arg-type]
        return made.batch_size, torch.get_num_threads(), made.is_compiled


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        (lambda rows, threads, _: rows * 1e-5, (200, 2, False)),  # nothing matters: the defaults
        (lambda rows, threads, _: rows * 1e-5 / threads, (200, 2, False)),
        (lambda rows, threads, _: rows * (1.1e-4 if threads == 2 else 1e-5), (200, 1, False)),
        (lambda rows, threads, _: rows * 1e-5 * (1.04 if threads == 2 else 1.0), (200, 2, False)),
        (lambda rows, threads, _: 0.002 + rows * 1e-5, (1_024, 2, False)),
        (lambda rows, threads, _: rows * 1e-5 * (2 if rows > 100 else 1), (64, 2, False)),
        (lambda rows, threads, _: 0.5 + rows * 0.001, (256, 2, False)),  # 512 would take 1 s and more
    ],
)
def test_the_fastest_is_chosen(cost: Cost, expected: tuple[int, int, bool]) -> None:
    assert Machine(cost).choose() == expected


def test_a_batch_size_that_is_asked_for_is_taken() -> None:
    assert Machine(lambda rows, threads, _: 0.002 + rows * 1e-5).choose(batch_size=77)[0] == 77


def compiling(gain: float) -> Cost:
    return lambda rows, threads, compiled: rows * 1e-3 / (gain if compiled else 1.0)


@pytest.mark.parametrize(
    ("gain", "draws", "options", "expected"),
    [
        (1.5, 1_000_000, {}, True),
        (1.5, 500_000, {}, False),  # 500 s of work
        (1.02, 1_000_000, {}, False),
        (1.5, 1_000_000, {"compile": False}, False),
        (0.5, 10, {"compile": True}, True),
    ],
)
def test_compiling_where_it_pays(gain: float, draws: int, options: dict[str, bool], expected: bool) -> None:
    machine = Machine(compiling(gain))
    assert machine.choose(draws, **options)[2] is expected
    assert sum(compiled for _, compiled in machine.asked) == ((draws >= 600_000 and not options) or expected)


def test_no_compiler() -> None:
    assert Machine(compiling(2.0), can_compile=False).choose(10**6)[2] is False
    with pytest.raises(UserError, match="does not work here"):
        Machine(compiling(2.0), can_compile=False).choose(10**6, compile=True)


def test_the_mean_counts_after_the_first_batch() -> None:
    machine = Machine(lambda rows, threads, _: rows * 1e-5)
    sampler = machine.build(batch_size=None, compile=False)
    costs = iter([9.0, 0.1, 0.1, 0.4, 5.0])
    machine.cost = lambda *_: next(costs)
    assert trial.seconds_per_draw(sampler, 10, machine.clock) == pytest.approx(0.2 / 10)
    assert next(costs) == 5.0


def test_the_batch_is_where_the_labels_are_counted() -> None:
    devices = set()

    class OnAGpu:
        device, dtype = torch.device("meta"), torch.bfloat16

        def memory_format(self, shape: object) -> torch.memory_format:
            return torch.contiguous_format

        def __call__(self, noisy: torch.Tensor) -> tuple[torch.Tensor, int]:
            devices.add(noisy.device.type)
            return torch.zeros(1, len(noisy), dtype=torch.int64), 2

    machine = Machine(lambda *_: 0.0)
    sampler = machine.build(batch_size=None, compile=False)
    sampler.labeler = OnAGpu()  # type: ignore[assignment]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial, "MOST_BATCHES", 2)
        trial.seconds_per_draw(sampler, 10, machine.clock)
    assert devices == {"meta"}


@pytest.mark.parametrize(
    ("seconds", "inputs", "expected"),
    [
        (1e-3, 1_000, "about 1 s an image, 17 minutes in all; --radii 1 stops at an image once"),
        (1e-1, 500, "about 101 s an image, 14 hours in all; "),
        (1e-3, 50, ""),
        (1e-3, 10, ""),
    ],
)
def test_what_long_work_costs_is_said(seconds: float, inputs: int, expected: str) -> None:
    """1,010 samples an image; below a minute, or for little work, nothing is said."""
    machine = Machine(lambda rows, threads, compile: rows * seconds)
    note = cost_note(machine.build(batch_size=200, compile=False), inputs, "--radii 1", machine.clock)
    assert note.startswith(expected)
    assert bool(note) == bool(expected)
