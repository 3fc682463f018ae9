"""Our rows beside the paper's: what differs, by how much, and when it is called a difference."""

import sys
from pathlib import Path

import numpy as np
import pytest

from shieldwall.results.certificates import Certificates
from shieldwall.results.record import Log

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from paper_comparison import (
    Row,
    accuracy_table,
    acr_cells,
    acr_differs,
    best_accuracy,
    shares_differ,
)

INPUTS = 1_000


def log_of(*levels: tuple[float, int]) -> Log:
    """1,000 inputs: so many correct ones at each radius, the rest wrong."""
    radius = np.concatenate([np.full(count, r) for r, count in levels])
    wrong = INPUTS - len(radius)
    label = np.zeros(INPUTS, dtype=np.int64)
    predict = np.concatenate([np.zeros(len(radius)), np.ones(wrong)]).astype(np.int64)
    radius = np.concatenate([radius, np.full(wrong, 9.0)])
    return Log("t", "r", "we", Certificates(predict, radius, indices=np.arange(INPUTS), truth=label))


@pytest.mark.parametrize(
    ("ours", "theirs", "differ"),
    [
        # p = 901/1002, q = 931/1002: 2.99 points against 1.96 sqrt(.0906/1002 + .0659/1002) = 2.45
        (0.900, 0.930, True),
        # q = 921/1002: 2.00 points against 2.51
        (0.900, 0.920, False),
        # p = 1001/1002, where a plain interval would have no width: 0.499 against 0.516, 0.599 against 0.552
        (1.000, 0.995, False),
        (1.000, 0.994, True),
        (1.000, 1.000, False),
        (0.000, 0.000, False),
    ],
)
def test_two_shares_by_hand(ours: float, theirs: float, differ: bool) -> None:
    assert shares_differ(ours, INPUTS, theirs, INPUTS) is differ
    assert shares_differ(theirs, INPUTS, ours, INPUTS) is differ


def test_fewer_inputs_allow_for_more() -> None:
    assert shares_differ(0.90, 1_000, 0.93, 1_000)
    assert not shares_differ(0.90, 100, 0.93, 1_000)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_equal_shares_are_told_apart_one_time_in_twenty_at_most(share: float) -> None:
    """4,000 pairs: 5% of them is 200 with a standard deviation of 14; 250 is passed with probability 2e-4."""
    draws = np.random.default_rng(7).binomial(INPUTS, share, size=(4_000, 2)) / INPUTS
    apart = sum(shares_differ(a, INPUTS, b, INPUTS) for a, b in draws.tolist())
    assert 80 < apart < 250


def test_classifiers_of_the_same_inputs_are_told_apart_less_often() -> None:
    """Half of the inputs are hard for both, the others easy for both: conservative, as the page says."""
    rng = np.random.default_rng(8)
    hard, easy = (rng.binomial(INPUTS // 2, share, size=(4_000, 2)) for share in (0.82, 0.98))
    apart = sum(shares_differ(a, INPUTS, b, INPUTS) for a, b in ((hard + easy) / INPUTS).tolist())
    mixed = rng.binomial(INPUTS, 0.90, size=(4_000, 2)) / INPUTS
    assert apart < sum(shares_differ(a, INPUTS, b, INPUTS) for a, b in mixed.tolist())


def test_the_best_of_several_at_each_radius() -> None:
    narrow, wide = log_of((0.3, 990)), log_of((0.3, 200), (1.2, 700))
    assert best_accuracy([narrow, wide], [0.0, 0.25, 1.0, 1.5]).tolist() == [0.99, 0.99, 0.7, 0.0]


def test_a_table_by_hand() -> None:
    """990 inputs certified at 0.3 and 700 of them at 1.2: 99.0 at 0 and 0.25, 70.0 at 1."""
    ours = (log_of((0.3, 290), (1.2, 700)),)
    paper = {0.0: 99.1, 0.25: 99.0, 1.0: 74.5}
    rows = [
        Row("WE", ours, paper),
        Row("DRT", ours, {0.0: 98.9}, "paper, rho 1, 2"),
        Row("MME", (), paper),
        Row("best", ours, paper, missing="sigma 1"),
        Row("EAS", ours, None),
    ]
    assert accuracy_table(rows, [0.0, 0.25, 1.0]) == (
        "|  | 0.00 | 0.25 | 1.00 |\n"
        "| :-- | --: | --: | --: |\n"
        "| WE | 99.0 | 99.0 | 70.0 |\n"
        "| &nbsp; paper | 99.1 | 99.0 | 74.5 |\n"
        "| &nbsp; difference | -0.1 | +0.0 | **-4.5** |\n"
        "| DRT | 99.0 | 99.0 | 70.0 |\n"
        "| &nbsp; paper, rho 1, 2 | 98.9 |  |  |\n"
        "| &nbsp; difference | +0.1 |  |  |\n"
        "| MME: not yet measured | - | - | - |\n"
        "| &nbsp; paper | 99.1 | 99.0 | 74.5 |\n"
        "| best: sigma 1 not yet measured | 99.0 | 99.0 | 70.0 |\n"
        "| &nbsp; paper | 99.1 | 99.0 | 74.5 |\n"
        "| EAS | 99.0 | 99.0 | 70.0 |\n"
        "\n"
        "Beyond the sampling error, in bold: 1 of 4 differences."
    )


def test_average_radii_by_hand() -> None:
    """500 at 1 and 500 at 2: ACR 1.5, spread 0.5003, error 1.96 * 0.5003 * sqrt(2 / 1000) = 0.0439."""
    log = log_of((1.0, 500), (2.0, 500))
    assert not acr_differs(log, 1.5 + 0.0438)
    assert acr_differs(log, 1.5 + 0.0439)
    assert acr_cells(log, 1.544) == ["1.500", "1.544", "**-0.044**"]
    assert acr_cells(log, 1.5004) == ["1.500", "1.500", "+0.000"]
    assert acr_cells(None, 1.5) == ["-", "1.500", ""]
    assert acr_cells(log, None) == ["1.500", "-", ""]
