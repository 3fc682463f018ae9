"""The corollary that compares smoothing before and after, enumerated; and the tables that show it."""

import itertools
import subprocess
import sys
from io import StringIO

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from rich.console import Console
from scipy.special import ndtri
from scipy.stats import binom

import shieldwall as sw
from shieldwall.ensembles.votes import named, pair_names
from shieldwall.noise.distributions import Laplace, Noise, Uniform
from shieldwall.report.strategies import Certified, Comparison, Pair, as_tsv, summary, summary_tables, table
from shieldwall.smoothing.after import after_smoothing
from shieldwall.smoothing.strategies import PairEstimates, compare_pair

NOISE = sw.Gaussian(0.5)
Counts = NDArray[np.int64]


def two_class_counts(wins: Counts, n: int) -> Counts:
    """(M,) wins of class 0 of n -> (M, 2)."""
    return np.stack([wins, n - wins], axis=-1)


def compare_wins(
    a: Counts, b: Counts, mme: Counts, both: Counts, n: int, noise: Noise = NOISE
) -> PairEstimates:
    votes = (two_class_counts(wins, n) for wins in (a, b, mme, both))
    return compare_pair(*votes, np.zeros(len(a), dtype=int), n, noise)


def every_joint_distribution(n: int) -> list[Counts]:
    """a, b, mme and both (M,) each, for every way to share n draws among the six things that can happen.

    Both are right; only a is, and MME follows it or does not; only b, likewise; neither. Nothing but right
    or wrong matters, however many classes there are.
    """
    bars = np.array(list(itertools.combinations(range(n + 5), 5)))
    edges = np.concatenate([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), n + 5)], axis=1)
    both, a_followed, a_not, b_followed, b_not, _ = (np.diff(edges) - 1).T
    return [both + a_followed + a_not, both + b_followed + b_not, both + a_followed + b_followed, both]


@pytest.mark.parametrize("noise", [NOISE, Uniform(0.5), Laplace(0.5)])
def test_the_corollary_holds_for_every_joint_distribution_of_14_draws(noise: Noise) -> None:
    a, b, mme, both = every_joint_distribution(14)
    found = compare_wins(a, b, mme, both, 14, noise)
    assert len(found) == 11_628
    counted = {one: int((found.verdict == one).sum()) for one in ("EBS", "EAS", "open", "premises fail")}
    assert sum(counted.values()) == len(found)
    assert min(counted.values()) > 100
    ebs, eas = found.verdict == "EBS", found.verdict == "EAS"
    assert (found.r_ebs[ebs] > found.r_eas[ebs]).all()
    assert (found.r_eas[eas] >= found.r_ebs[eas] - 1e-15).all()
    assert (found.premises == ((a > 7) & (b > 7))).all()


def test_every_quantity_is_the_printed_one() -> None:
    a, b, mme, both = every_joint_distribution(14)
    found = compare_wins(a, b, mme, both, 14)
    kept = found.premises & (found.delta > 0)
    with np.errstate(divide="ignore"):
        printed = 0.5 + 1 / (2 + 4 * (found.p_min - found.p_ab)[kept] / found.delta[kept])
    np.testing.assert_allclose(found.threshold[kept], printed, rtol=1e-12)
    p_a, p_b, p_mme, p_ab = (one[kept] / 14 for one in (a, b, mme, both))
    np.testing.assert_allclose(p_mme, p_ab + found.p[kept] * (p_a + p_b - 2 * p_ab), atol=1e-14)
    finite = (np.maximum(p_a, p_b) < 1) & (p_mme > 0) & (p_mme < 1)
    np.testing.assert_allclose(found.r_ebs[kept][finite], 0.5 * ndtri(p_mme[finite]), atol=1e-14)
    r_h = 0.25 * (ndtri(p_a[finite]) + ndtri(p_b[finite]))
    np.testing.assert_allclose(found.r_eas[kept][finite], r_h, atol=1e-14)
    decided = np.abs(found.p[kept] - printed) > 1e-9
    literal = found.p[kept] > printed
    assert ((found.verdict[kept] == "EBS") == literal)[decided].all()
    assert ((found.verdict[kept] == "EAS") == (found.p[kept] <= 0.5)).all()


@pytest.mark.parametrize(
    ("wins", "p", "threshold", "verdict"),
    [
        ((9, 9, 9, 9), np.nan, np.nan, "open"),  # nobody is ever alone
        ((9, 8, 9, 8), 1.0, 1.0, "open"),  # p_min = p_ab: b is never right alone
        ((9, 8, 8, 8), 0.0, 1.0, "EAS"),
        ((8, 8, 9, 7), 1.0, 0.5, "EBS"),  # delta = 0
        ((8, 8, 8, 7), 0.5, 0.5, "EAS"),
        ((9, 8, 9, 7), 2 / 3, 2 / 3, "open"),  # exactly at the threshold
        ((10, 10, 10, 10), np.nan, np.nan, "open"),
        ((9, 5, 9, 5), 1.0, 1.0, "premises fail"),
        ((0, 0, 0, 0), np.nan, np.nan, "premises fail"),
    ],
)
def test_edges(wins: tuple[int, int, int, int], p: float, threshold: float, verdict: str) -> None:
    found = compare_wins(*(np.array([one]) for one in wins), n=10)
    assert found.verdict.tolist() == [verdict]
    np.testing.assert_allclose(found.p, [p])
    np.testing.assert_allclose(found.threshold, [threshold])
    assert np.isnan(found.r_ebs[0]) == np.isnan(found.r_eas[0]) == (verdict == "premises fail")


def test_intervals_hold_the_truth_as_often_as_promised() -> None:
    """20,000 samples of 300 draws: misses are Binomial(20000, <= 10%), false alarm below 1e-7 each."""
    both, a_followed, a_not, b_followed, b_not, neither = joint = 0.6, 0.12, 0.05, 0.06, 0.04, 0.13
    trials, n = 20_000, 300
    x = np.random.default_rng(1).multinomial(n, joint, size=trials).T
    found = compare_pair(
        *(two_class_counts(one, n) for one in (x[:3].sum(0), x[[0, 3, 4]].sum(0), x[[0, 1, 3]].sum(0), x[0])),
        np.zeros(trials, dtype=int), n, NOISE, confidence=0.9,
    )  # fmt: skip
    alone = 1 - both - neither
    truths = ((a_followed + b_followed) / alone, max(a_followed + a_not, b_followed + b_not) / alone)
    for interval, truth in zip((found.p_interval, found.threshold_interval), truths, strict=True):
        low, high = interval.T
        assert int(((low > truth) | (high < truth)).sum()) <= binom.isf(1e-7, trials, 0.1)
        assert float((high - low).mean()) < 0.25
    assert float(found.threshold_interval.min()) >= 0.5


def test_votes_give_counts_of_which_the_identity_is_exact() -> None:
    """Confidences on a coarse grid, so that ties within members and between margins abound."""
    generator = torch.Generator().manual_seed(0)
    tables = torch.randint(0, 4, (3, 4_000, 3), generator=generator).float()
    labels = {name: named(name, 3)(tables) for name in [*(f"member-{k}" for k in (1, 2, 3)), *pair_names(3)]}
    for a, b in ((1, 2), (1, 3), (2, 3)):
        first, second = labels[f"member-{a}"], labels[f"member-{b}"]
        mme, agree = labels[f"mme-{a}-{b}"], labels[f"agree-{a}-{b}"]
        assert bool(((mme == first) | (mme == second)).all())
        assert agree.equal(torch.where(first == second, first, 3))
        n = len(first)
        votes = [
            torch.bincount(one, minlength=4)[None, :3].expand(3, 3) for one in (first, second, mme, agree)
        ]
        found = compare_pair(*votes, torch.arange(3), n, NOISE)
        for y in range(3):
            alone = (first == y) ^ (second == y)
            assert found.p[y] == float((mme == y)[alone].double().mean())
            assert found.p_ab[y] == float(((first == y) & (second == y)).double().mean())


def test_counts_of_other_draws_are_refused() -> None:
    for wins in ((9, 8, 9, 9), (9, 8, 10, 8), (9, 8, 6, 7), (9, 8, 9, 6)):
        with pytest.raises(sw.UserError, match="not of the same draws"):
            compare_wins(*(np.array([one]) for one in wins), n=10)
    good = np.array([[9, 1]])
    with pytest.raises(sw.UserError, match="true class"):
        compare_pair(good, good, good, good, [2], 10, NOISE)
    with pytest.raises(sw.UserError, match="given"):
        compare_pair(good, good, good, good[0], [0], 10, NOISE)
    with pytest.raises(sw.UserError, match=r"confidence .* given: 95"):
        compare_pair(good, good, good, good, [0], 10, NOISE, confidence=95)


@pytest.fixture
def compared() -> Comparison:
    """Three inputs of class 0, 10,000 draws: MME helps; it hurts; b is sure of class 1."""
    n = 10_000
    wins = np.array([[9_300, 9_900, 9_800], [9_300, 9_000, 100], [9_600, 9_100, 9_000], [9_000, 8_950, 95]])
    a, b, mme, both = (two_class_counts(one, n) for one in wins)
    a, b, mme = (torch.from_numpy(one) for one in (a, b, mme))
    truth = np.zeros(3, dtype=np.int64)
    eas = after_smoothing(torch.stack([a, b]), torch.stack([a, b]), NOISE, 0.001)
    ebs = sw.from_counts(mme, mme, NOISE, 0.001)
    estimates = compare_pair(a, b, mme, both, truth, n, NOISE)
    of_ebs, of_eas = (Certified(one.labels.numpy(), one.radii.numpy()) for one in (ebs, eas))
    we = Certified(np.array([0, 1, -1]), np.array([0.25, 0.5, 0.0]))
    return Comparison(
        np.array([0, 20, 40]), truth, we, of_ebs, of_eas, {"1-2": Pair(estimates, of_ebs, of_eas)}
    )


def rendered(*shown: object) -> str:
    console = Console(file=StringIO(), width=60, color_system=None)
    for one in shown:
        console.print(one, crop=False)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())  # type: ignore[attr-defined]


SHOWN = """\
certified radius around the truth
idx  truth  EBS-WE  EBS-MME    EAS  larger  pair      p   p_ab  p_min  delta  threshold        verdict
──────────────────────────────────────────────────────────────────────────────────────────────────────
  0      0   0.250    0.840  0.707     MME   1-2  1.000  0.900  0.930  0.000      0.500            EBS
 20      0   wrong    0.643  0.858     EAS   1-2  0.150  0.895  0.900  0.090      0.950            EAS
 40      0       -    0.614  wrong     MME   1-2  0.917  0.009  0.010  0.970      0.999  premises fail"""


def test_the_table_to_the_letter_however_narrow_the_terminal(compared: Comparison) -> None:
    assert rendered(table(compared)) == SHOWN


def test_the_summary_to_the_letter(compared: Comparison) -> None:
    assert rendered(*summary_tables(compared)) == (
        "both strategies\n"
        "         mean radius    ACR  abst. %  > EAS %  < EAS %\n"
        "──────────────────────────────────────────────────────\n"
        "EBS-WE         0.250  0.083     33.3      0.0     66.7\n"
        "EBS-MME        0.699  0.699      0.0     66.7     33.3\n"
        "EAS            0.526  0.521      0.0\n"
        "3 inputs\n"
        "inputs by the corollary's verdict on a pair\n"
        "pair  EBS  EAS  open  premises fail  radii agree\n"
        "────────────────────────────────────────────────\n"
        " 1-2    1    1     0              1       2 of 2"
    )


def test_the_summary_s_numbers(compared: Comparison) -> None:
    found = summary(compared)
    mme, eas, we = (found.strategies[name] for name in ("EBS-MME", "EAS", "EBS-WE"))
    assert mme.average_certified_radius == pytest.approx(float(compared.mme.radii.mean()))
    assert (mme.above_eas, mme.below_eas) == (2 / 3, 1 / 3)
    assert (eas.above_eas, eas.below_eas, eas.abstention_rate) == (0.0, 0.0, 0.0)
    assert eas.average_certified_radius == pytest.approx(float(compared.eas.radii[:2].sum()) / 3)
    assert (we.mean_radius, we.average_certified_radius, we.abstention_rate) == (0.25, 0.25 / 3, 1 / 3)
    assert found.pairs["1-2"].verdicts == {"EBS": 1, "EAS": 1, "open": 0, "premises fail": 1}
    assert (found.pairs["1-2"].agreeing, found.pairs["1-2"].decided) == (2, 2)


def test_tsv_reads_back_to_the_bit(compared: Comparison) -> None:
    header, *lines = (line.split("\t") for line in as_tsv(compared).splitlines())
    columns = dict(zip(header, zip(*lines, strict=True), strict=True))
    assert [float(one) for one in columns["EBS-MME_radius"]] == compared.mme.radii.tolist()
    assert [float(one) for one in columns["EAS_radius_1-2"]] == compared.eas.radii.tolist()
    assert [float(one) for one in columns["p_1-2"]] == compared.pairs["1-2"].estimates.p.tolist()
    assert [int(one) for one in columns["EBS-WE_predict"]] == [0, 1, -1]
    assert list(columns["verdict_1-2"]) == ["EBS", "EAS", "premises fail"]
    assert list(columns["larger"]) == ["MME", "EAS", "MME"]


def test_twenty_inputs_are_shown_unless_all_are_asked_for() -> None:
    some = Certified(np.zeros(30, dtype=np.int64), np.linspace(0.1, 1.0, 30))
    many = Comparison(np.arange(30), np.zeros(30, dtype=np.int64), some, some, some)
    assert rendered(table(many)).endswith("the first 20 of 30 inputs")
    assert table(many).row_count == 20
    assert table(many, all_rows=True).row_count == 30
    assert "WE=MME=EAS" in rendered(table(many))
    assert len(summary_tables(many)) == 1


def test_other_numbers_of_inputs_do_not_compare() -> None:
    some, fewer = (Certified(np.zeros(k, dtype=np.int64), np.zeros(k)) for k in (3, 2))
    with pytest.raises(sw.UserError, match=r"the same inputs; given: \[2, 3\]"):
        Comparison(np.arange(3), np.zeros(3, dtype=np.int64), some, fewer, some)


def test_the_tables_start_without_torch() -> None:
    code = "import sys, shieldwall.report.strategies; sys.exit(' '.join({'torch', 'scipy'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""
