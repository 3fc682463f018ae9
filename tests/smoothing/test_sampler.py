"""The engine: batches that cross inputs, looks, interruptions, and too little memory."""

import shutil
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import shieldwall as sw
from shieldwall.errors import UserError
from shieldwall.models.members import is_channels_last
from shieldwall.smoothing.certificates import Counts
from shieldwall.smoothing.count_bounds import Bound, OneSided
from shieldwall.smoothing.inference import default_batch_size
from shieldwall.smoothing.sampler import Sampler
from shieldwall.smoothing.stopping import FixedSampleSize, Stopping

CPU = torch.device("cpu")
_ONE_SIDED = OneSided()


@dataclass(frozen=True)
class Spy:
    """Two classes by the sign of the first number; remembers the rows it was given."""

    seen: list[Tensor]
    most: int = 10_000
    """It runs out of memory for more rows."""

    def __call__(self, noisy: Tensor) -> Tensor:
        if len(noisy) > self.most:
            raise torch.OutOfMemoryError("no room")
        self.seen.append(noisy.clone())
        return torch.stack([noisy[:, 0], -noisy[:, 0]], dim=1)


@dataclass(frozen=True)
class WhenBehind(Stopping):
    """Stops at the first look at which class 0 has not won every draw."""

    bound: Bound = _ONE_SIDED

    def looks(self) -> list[int]:
        return [5, 12, 40]

    def is_decided(self, chosen: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.asarray(counts[..., 1] > 0)


def sampler(stopping: Stopping, batch_size: int, most: int = 10_000, n0: int = 3) -> tuple[Sampler, Spy]:
    spy = Spy([], most)
    made = Sampler(
        [spy], None, sw.Gaussian(1.0), n0, stopping, shape=(4,), device=CPU, seed=0, batch_size=batch_size
    )
    return made, spy


def inputs(count: int) -> Iterator[tuple[int, Tensor]]:
    """From surely class 0 to a coin."""
    for k in range(count):
        yield 10 * k, torch.full((4,), 3.0 * (1 - k / count))


def table(found: list[Counts]) -> list[tuple[int, list[int], list[int]]]:
    return [(one.index, one.selection[0].tolist(), one.estimation[0].tolist()) for one in found]


def test_batches_cross_inputs_and_are_all_of_one_shape() -> None:
    made, spy = sampler(FixedSampleSize(20), batch_size=50)
    found = list(made.counts(inputs(10)))
    assert [len(rows) for rows in spy.seen] == [50] * 5  # 230 draws
    assert [one.index for one in found] == list(range(0, 100, 10))
    assert all(int(one.selection.sum()) == 3 and int(one.estimation.sum()) == 20 for one in found)


@pytest.mark.parametrize("stopping", [FixedSampleSize(20), WhenBehind()])
@pytest.mark.parametrize("batch_size", [1, 7, 23, 100, 1_000])
def test_batches_change_no_count(stopping: Stopping, batch_size: int) -> None:
    reference = table(list(sampler(stopping, 64)[0].counts(inputs(30))))
    assert table(list(sampler(stopping, batch_size)[0].counts(inputs(30)))) == reference


def test_each_input_stops_at_its_own_look_and_comes_in_order() -> None:
    found = list(sampler(WhenBehind(), 16)[0].counts(inputs(40)))
    assert [one.index for one in found] == list(range(0, 400, 10))
    draws = [int(one.estimation.sum()) for one in found]
    assert set(draws) == {5, 12, 40}
    for one, drawn in zip(found, draws, strict=True):
        assert drawn == 40 or int(one.estimation[0, 1]) > 0


def test_an_input_draws_no_more_than_its_looks_ask_for() -> None:
    made, spy = sampler(WhenBehind(), 16)
    found = list(made.counts(inputs(40)))
    needed = sum(int(one.estimation.sum() + one.selection.sum()) for one in found)
    rows = sum(len(rows) for rows in spy.seen)
    assert needed <= rows < needed + 16 * 4  # only the last inputs leave rows empty


def test_a_draw_keeps_its_row_wherever_the_work_began() -> None:
    made, spy = sampler(FixedSampleSize(20), batch_size=50)
    list(made.counts(inputs(10)))
    whole = torch.stack(spy.seen)
    later, spy_later = sampler(FixedSampleSize(20), batch_size=50)
    found = list(later.counts(list(inputs(10))[6:], first_place=6))
    start = 6 * 23
    for number, rows in enumerate(spy_later.seen):
        batch = start // 50 + number
        first = start % 50 if not number else 0
        last = min(50, 10 * 23 - batch * 50)
        assert rows[first:last].equal(whole[batch, first:last])
    assert table(found) == table(list(made.counts(inputs(10))))[6:]


def test_a_source_that_ends_early_ends_the_work_after_what_it_gave() -> None:
    whole = table(list(sampler(FixedSampleSize(20), 16)[0].counts(inputs(10))))
    given: list[int] = []

    def stopping_source() -> Iterator[tuple[int, Tensor]]:
        for one in inputs(10):
            if len(given) == 4:
                return
            given.append(one[0])
            yield one

    assert table(list(sampler(FixedSampleSize(20), 16)[0].counts(stopping_source()))) == whole[:4]


def test_inputs_are_taken_as_there_is_room_for_them() -> None:
    taken: list[int] = []

    def source() -> Iterator[tuple[int, Tensor]]:
        for one in inputs(200):
            taken.append(one[0])
            yield one

    made, _ = sampler(FixedSampleSize(200), 32)
    for number, _ in enumerate(made.counts(source())):
        assert len(taken) <= number + 2


@pytest.mark.parametrize("stopping", [FixedSampleSize(50), WhenBehind()])
def test_smaller_batches_when_memory_runs_out(stopping: Stopping) -> None:
    reference = table(list(sampler(stopping, 64)[0].counts(inputs(12))))
    made, spy = sampler(stopping, 64, most=20)
    assert table(list(made.counts(inputs(12)))) == reference
    assert {len(rows) for rows in spy.seen} == {16}


def test_memory_that_runs_out_later_repeats_the_inputs_under_way() -> None:
    reference = table(list(sampler(FixedSampleSize(50), 64)[0].counts(inputs(12))))
    seen: list[Tensor] = []

    def tightening(noisy: Tensor) -> Tensor:
        return Spy(seen, 64 if len(seen) < 4 else 40)(noisy)

    made = Sampler(
        [tightening],
        None,
        sw.Gaussian(1.0),
        3,
        FixedSampleSize(50),
        shape=(4,),
        device=CPU,
        seed=0,
        batch_size=64,
    )
    assert table(list(made.counts(inputs(12)))) == reference
    assert {len(rows) for rows in seen} == {64, 32}


def test_no_memory_at_all_is_one_clear_line() -> None:
    made, _ = sampler(FixedSampleSize(50), 64, most=0)
    with pytest.raises(UserError, match="one noisy input at a time does not fit into memory"):
        list(made.counts(inputs(3)))


def test_other_errors_come_through_as_the_cause() -> None:
    def broken(noisy: Tensor) -> Tensor:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    made = Sampler(
        [broken],
        None,
        sw.Gaussian(1.0),
        3,
        FixedSampleSize(50),
        shape=(4,),
        device=CPU,
        seed=0,
        batch_size=64,
    )
    with pytest.raises(UserError, match=r"fails at inputs of shape \(4,\): mat1") as caught:
        list(made.counts(inputs(3)))
    assert type(caught.value.__cause__) is RuntimeError


@pytest.mark.slow
def test_memory_stays_flat_over_ten_thousand_inputs() -> None:
    def by_sign(noisy: Tensor) -> Tensor:
        return noisy[:, :1] * torch.tensor([[1.0, -1.0]])

    made = Sampler(
        [by_sign], None, sw.Gaussian(1.0), 3, FixedSampleSize(5), seed=0, shape=(4,),
        device=CPU, batch_size=256,
    )  # fmt: skip
    tracemalloc.start()
    try:
        held = []
        for number, _ in enumerate(made.counts(inputs(10_000))):
            if number % 1_000 == 999:
                held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert len(held) == 10
    assert held[-1] < held[0] + 50_000


def test_a_stream_grows_to_the_counts_of_the_whole() -> None:
    made, _ = sampler(FixedSampleSize(100), batch_size=40, n0=10)
    image = torch.full((4,), 0.5)
    views = list(made.stream(image, index=6))
    assert [int(counts.estimation.sum()) for counts in views] == [16, 32, 64, 100]
    assert [int(counts.selection.sum()) for counts in views] == [10] * 4
    (whole,) = made.counts([(6, image)])
    assert table(views[-1:]) == table([whole])
    small, _ = sampler(FixedSampleSize(100), batch_size=7, n0=10)
    views = list(small.stream(image, index=6))
    assert int(views[0].selection.sum()) == 7
    assert int(views[0].estimation.sum()) == 0
    assert table(views[-1:]) == table([whole])


def test_precisions() -> None:
    model = sw.build_members("digits-cnn", 1, 10, (1, 8, 8), seed=5)[0]
    x = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    exact = sw.certify(model, x, noise=sw.Gaussian(2.0), n=2_000)
    rough = sw.certify(model, x, noise=sw.Gaussian(2.0), n=2_000, precision="bfloat16")
    assert (exact.precision, rough.precision) == ("float32", "bfloat16")
    assert next(model.parameters()).dtype == torch.float32
    assert not np.array_equal(exact.counts, rough.counts)
    assert np.abs(exact.counts - rough.counts).sum() < 100
    with pytest.raises(UserError, match="precision"):
        sw.certify(model, x, noise=sw.Gaussian(0.5), n=500, precision="float8")
    with pytest.raises(UserError, match="only a torch module can be run in float16"):
        sw.certify(lambda x: x.flatten(1), x, noise=sw.Gaussian(0.5), n=500, precision="float16")


needs_a_compiler = pytest.mark.skipif(
    shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU"
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile's own
@needs_a_compiler
def test_compiled_members_agree() -> None:
    """The scores that stand nearest decide few of 900 draws, so rounding moves hardly any vote."""
    members = sw.build_members("digits-cnn", 2, 10, (1, 8, 8), seed=5)
    x = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    plain, compiled = (
        sw.certify_members(members, x, noise=sw.Gaussian(0.5), n=300, compile=compile)
        for compile in (False, True)
    )
    for vote, certificates in plain.items():
        assert np.array_equal(certificates.labels, compiled[vote].labels)
        assert np.abs(certificates.counts - compiled[vote].counts).sum() <= 4


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile's own
@needs_a_compiler
def test_members_are_compiled_on_a_cpu_with_their_channels_last() -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2))
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    made, plain = (
        Sampler([model], None, sw.Gaussian(0.5), 3, FixedSampleSize(20), shape=(2, 4, 4), device=CPU, seed=0,
                   compile=compile)
        for compile in (True, False)
    )  # fmt: skip
    assert is_channels_last(made.labeler.modules)
    assert not is_channels_last([model])
    assert list(plain.labeler.modules) == [model]
    assert all(weight.equal(before[name]) for name, weight in model.state_dict().items())


@pytest.mark.parametrize(
    ("shape", "rows"), [((1, 8, 8), 2_048), ((1, 28, 28), 256), ((3, 32, 32), 64), ((3, 224, 224), 64)]
)
def test_the_batch_on_a_cpu_by_default(shape: tuple[int, ...], rows: int) -> None:
    assert default_batch_size(CPU, shape, draws=100_000) == rows
    assert default_batch_size(CPU, shape, draws=40) == 40
