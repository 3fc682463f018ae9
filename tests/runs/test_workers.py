"""The queue of inputs: each once, in long stretches, and no worker waits while another has plenty."""

import heapq
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shieldwall import UserError
from shieldwall.results.record import read_runs
from shieldwall.runs.workers import InputQueue, workers_of

RESULTS = Path(__file__).parents[2] / "results/mnist"


@given(st.integers(0, 60), st.integers(1, 7), st.data())
def test_each_input_is_given_once_whoever_asks(inputs: int, workers: int, data: st.DataObject) -> None:
    queue = InputQueue(range(inputs), workers)
    given = [queue.take(data.draw(st.integers(0, workers - 1))) for _ in range(inputs)]
    assert sorted(given) == list(range(inputs))  # type: ignore[type-var]
    assert {queue.take(k) for k in range(workers)} == {None}
    assert sum(queue.taken()) == inputs


def test_one_that_is_alone_takes_stretches_and_one_that_is_stopped_nothing() -> None:
    queue = InputQueue(range(64), 8)
    given = [queue.take(0) for _ in range(40)]
    assert sum(after != before + 1 for before, after in pairwise(given)) < 12
    queue.stop()
    assert queue.take(0) is None


def share_busy(costs: list[float], workers: int) -> float:
    """What part of the time workers that take inputs of these costs are busy, until the last is done."""
    queue, free, end = InputQueue(range(len(costs)), workers), [(0.0, k) for k in range(workers)], 0.0
    while free:
        now, worker = heapq.heappop(free)
        if (place := queue.take(worker)) is not None:
            end = max(end, now + costs[place])
            heapq.heappush(free, (now + costs[place], worker))
    return sum(costs) / (workers * end)


def samples_that_decide(name: str) -> list[float]:
    """What each input of a certified run needs to decide the radii 0.5, 1, ..., by the spread of its counts.

    A radius r is decided at about n with |p - Phi(r / sigma)| = 3.3 sqrt(p (1 - p) / n), at most at 100,000.
    """
    from scipy.stats import norm

    (record,) = read_runs([RESULTS / name])
    table = record.certificates["we"]
    assert table.counts is not None
    assert record.recipe is not None
    p = np.clip(table.counts.max(-1) / table.counts.sum(-1), 1e-4, 1 - 1e-4)
    edges = norm.cdf(np.arange(0, 3.1, 0.5) / record.recipe.sigma)
    n = (3.3**2 * p * (1 - p))[:, None] / (p[:, None] - edges) ** 2
    return [float(cost) for cost in 100 + np.clip(n.max(-1), 256, 100_000)]


@pytest.mark.parametrize(
    "name", ["mnist-short-gaussian-1.0-f0640540.tar.xz", "mnist-short-drt-1.0-2456afc3.tar.xz"]
)
def test_eight_are_busy_95_percent_of_the_time(name: str) -> None:
    costs = samples_that_decide(name)
    parts = np.array_split(costs, 8)
    assert share_busy(costs, 8) > 0.95
    assert share_busy([100_100.0] * len(costs), 8) > 0.95
    assert max(map(sum, parts)) * 8 * 0.95 > sum(costs), "equal parts would do as well, so this shows nothing"


def test_where_work_is_done_is_local_or_ray() -> None:
    with pytest.raises(UserError, match="--on takes local, ray or ray://HOST:PORT; given: 'slurm'"):
        workers_of("slurm", "", None, None)
