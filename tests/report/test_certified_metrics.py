"""Certified accuracy and its relatives, by hand and against slow oracles."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worked_log import curve

from shieldwall.errors import UserError
from shieldwall.results.certificates import Certificates
from shieldwall.results.metrics import default_radii
from shieldwall.results.record import Log


def made(outcomes: list[tuple[int, float]]) -> Certificates:
    """Certificates of inputs of class 0 from (predict, radius)."""
    predict = np.array([p for p, _ in outcomes])
    radius = np.array([r if p >= 0 else 0.0 for p, r in outcomes])
    return Certificates(predict, radius, truth=np.zeros_like(predict))


# Few distinct radii beside any radius, so that ties and radii on a step are common.
radii = st.one_of(st.sampled_from([0.0, 0.1, 0.15, 0.25, 0.3, 0.5, 1.0]), st.floats(0.0, 4.0))
logs = st.lists(st.tuples(st.sampled_from([-1, 0, 0, 1]), radii), min_size=1, max_size=40).map(made)


def test_worked_by_hand(worked: Log) -> None:
    """Correct at 0.5, 0.25, 0.1 and 1.05; wrong at 0.9; one abstention: six inputs.

    r = 0: 4/6. r = 0.25: 0.5, 0.25 (>=, so it counts) and 1.05, 3/6. r = 0.26 and r = 0.5: 0.5
    and 1.05, 2/6. r = 0.75: only 1.05, for the 0.9 is wrong, 1/6. r = 1.05: 1/6. r = 1.1: 0.
    ACR = (0.5 + 0.25 + 0.1 + 1.05) / 6 = 1.9 / 6. Abstained: 1/6.
    """
    at = [0, 0.25, 0.26, 0.5, 0.75, 1.05, 1.1]
    expected = np.array([4, 3, 2, 2, 1, 1, 0]) / 6
    assert worked.certificates.certified_accuracy(None, at).tolist() == expected.tolist()
    assert worked.certificates.certified_accuracy() == 4 / 6
    assert worked.certificates.acr() == pytest.approx(1.9 / 6)
    assert worked.certificates.abstention_rate == 1 / 6
    shifted = [1, 1, 1, 1, 4, 5]
    assert worked.certificates.certified_accuracy(shifted, [0.0, 0.95]).tolist() == [3 / 6, 1 / 6]
    assert worked.certificates.acr(shifted) == pytest.approx((0.25 + 0.9 + 1.05) / 6)


def test_curve_by_hand(worked: Log) -> None:
    """It steps down after each correct radius: 4/6 to 0.1, 3/6 to 0.25, 2/6 to 0.5, 1/6 to 1.05."""
    r, accuracy = curve(worked.certificates)
    assert r.tolist() == [0.0, 0.1, 0.25, 0.5, 1.05]
    assert accuracy.tolist() == (np.array([4, 4, 3, 2, 1]) / 6).tolist()


@given(logs, st.lists(radii, max_size=20))
def test_curve_is_the_certified_accuracy(log: Certificates, probes: list[float]) -> None:
    r, accuracy = curve(log)
    assert r[0] == 0
    assert (np.diff(r) > 0).all()
    near = [np.nextafter(x, side) for x in r for side in (0.0, np.inf)]
    for probe in [*probes, *r, *near]:
        oracle = sum(bool(c) and x >= probe for c, x in zip(log.correct, log.radii, strict=True))
        k = np.searchsorted(r, probe, side="left")
        assert (accuracy[k] if k < len(r) else 0.0) == oracle / len(log)
        assert log.certified_accuracy(None, probe) == oracle / len(log)


@given(logs)
def test_average_certified_radius_is_the_area_under_the_curve(log: Certificates) -> None:
    r, accuracy = curve(log)
    assert log.acr() == pytest.approx(np.sum(np.diff(r) * accuracy[1:]))


@pytest.mark.parametrize("bad", [-0.1, float("nan"), float("inf")])
def test_bad_radius(worked: Log, bad: float) -> None:
    with pytest.raises(UserError, match="finite and not negative"):
        worked.certificates.certified_accuracy(None, [0.0, bad])


@pytest.mark.parametrize(
    ("largest", "expected"),
    [
        (0.0, [0, 0.05, 0.1, 0.15, 0.2]),
        (0.07, [0, 0.05, 0.1, 0.15, 0.2]),
        (0.3, [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]),
        (0.45, [0, 0.1, 0.2, 0.3, 0.4]),
        (0.5, [0, 0.25, 0.5]),
        (1.05, [0, 0.25, 0.5, 0.75, 1]),
        (2.74, [0.25 * k for k in range(11)]),
        (2.75, [0, 0.5, 1, 1.5, 2, 2.5]),
        (12.0, [0, 2, 4, 6, 8, 10, 12]),
    ],
)
def test_default_radii(largest: float, expected: list[float]) -> None:
    assert default_radii([made([(0, largest), (1, 9.0)]), made([(0, 0.0)])]).tolist() == expected


@pytest.mark.parametrize(
    ("largest", "expected"),
    [
        (0.0, [0, 0.05, 0.1, 0.15, 0.2]),
        (0.000066, [0, 0.00001, 0.00002, 0.00003, 0.00004, 0.00005, 0.00006]),
        (0.018, [0, 0.0025, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.0175]),
        (0.02, [0, 0.005, 0.01, 0.015, 0.02]),
        (0.05, [0, 0.01, 0.02, 0.03, 0.04, 0.05]),
        (0.07, [0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07]),
        (0.3, [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]),
        (0.5, [0, 0.1, 0.2, 0.3, 0.4, 0.5]),
        (1.05, [0, 0.25, 0.5, 0.75, 1]),
        (399.0, [0, 50, 100, 150, 200, 250, 300, 350]),
    ],
)
@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_default_radii_of_other_norms(norm: str, largest: float, expected: list[float]) -> None:
    log = replace(made([(0, largest), (1, 9.0)]), norm=norm)
    assert default_radii([log]).tolist() == expected


@given(st.floats(-6.5, 6.0), st.integers(4, 10), st.sampled_from([1.0, 2.5, 5.0]))
def test_default_radii_of_other_norms_are_5_to_10_round_ones_at_every_scale(
    exponent: float, multiple: int, mantissa: float
) -> None:
    on_a_step = float(f"{multiple * mantissa * 10.0 ** round(exponent):.10g}")
    for largest in (10**exponent, on_a_step):
        log = replace(made([(0, largest)]), norm="linf")
        found = default_radii([log])
        assert 5 <= len(found) <= 10
        assert found[-1] <= largest * (1 + 1e-8)
        assert largest < found[-1] + found[1]
        assert f"{found[1]:.1e}"[:3] in ("1.0", "2.5", "5.0")
        assert found.tolist() == [float(f"{k * found[1]:.6g}") for k in range(len(found))]


@given(logs)
def test_default_radii_are_few_and_reach_far(log: Certificates) -> None:
    found = default_radii([log])
    largest = log.radii[log.correct].max(initial=0.0)
    assert (5 if largest < 0.5 else 3) <= len(found) <= 11
    assert largest < found[-1] + found[1]


@pytest.mark.parametrize("rounded", [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35])
def test_a_rounded_radius_counts_at_itself(rounded: float) -> None:
    log = made([(0, rounded)])
    found = default_radii([log]).tolist()
    assert rounded in found
    assert log.certified_accuracy(None, found)[found.index(rounded)] == 1


def test_abstaining_on_everything() -> None:
    log = made([(-1, 0.0)] * 3)
    assert (log.certified_accuracy(), log.acr(), log.abstention_rate) == (0, 0, 1)
    assert [part.tolist() for part in curve(log)] == [[0.0], [0.0]]
