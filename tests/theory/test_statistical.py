"""The bounds of statistical robustness against closed forms, real votes and many draws."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from shieldwall.ensembles.votes import max_margin, weighted
from shieldwall.errors import UserError
from shieldwall.theory.statistical import (
    confident_lambda,
    lambda_ratio,
    max_margin_portion,
    mme_bound,
    mme_margin,
    mme_moments,
    single_bound,
    single_portion,
    symmetric_tail,
    threshold_score,
    thresholds,
    unconfident_share,
    we_bound,
    we_bound_mcdiarmid,
    we_margin,
    we_moments,
    weight_concentration,
    weighted_portion,
)

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]

DRAWS = 200_000
SYMMETRIC: dict[str, Draw] = {
    "uniform": lambda rng, shape: rng.uniform(0.3, 0.9, shape),
    "triangular": lambda rng, shape: rng.triangular(0.3, 0.6, 0.9, shape),
    "beta": lambda rng, shape: 0.3 + 0.6 * rng.beta(0.6, 0.6, shape),
    "two points": lambda rng, shape: rng.choice([0.4, 0.8], shape),
    "three points": lambda rng, shape: rng.choice([0.3, 0.6, 0.9], shape, p=[0.1, 0.8, 0.1]),
}
MU = 0.6


def simplex(rng: np.random.Generator, members: int, draws: int, classes: int) -> Floats:
    return rng.dirichlet(np.full(classes, 0.7), (members, draws))


def share_error(share: float, draws: int = DRAWS) -> float:
    """What a frequency of this probability misses it by with probability under 1e-6: five deviations."""
    return 5 * float(np.sqrt(max(share * (1 - share), 1 / draws) / draws))


def test_portions_are_the_definitions_written_out() -> None:
    rng = np.random.default_rng(0)
    f, w = simplex(rng, 3, 50, 4), np.array([0.2, 0.0, 1.7])
    truth = rng.integers(0, 4, 50)
    single, we, mme = single_portion(f, truth), weighted_portion(f, truth, w), max_margin_portion(f, truth)
    for d in range(50):
        y0 = truth[d]
        wrong = [y for y in range(4) if y != y0]
        per_member = [max(f[i, d, y] for y in wrong) / (1 - f[i, d, y0]) for i in range(3)]
        np.testing.assert_allclose(single[:, d], per_member, rtol=1e-9)
        np.testing.assert_allclose(mme[d], max(per_member), rtol=1e-9)
        together = max(sum(w[i] * f[i, d, y] for i in range(3)) for y in wrong)
        np.testing.assert_allclose(
            we[d], together / sum(w[i] * (1 - f[i, d, y0]) for i in range(3)), rtol=1e-9
        )
    np.testing.assert_array_equal(
        weighted_portion(f, 2), weighted_portion(f, np.full(50, 2), np.full(3, 1.0))
    )


def test_a_portion_keeps_its_digits_where_the_true_class_has_nearly_all() -> None:
    logits = torch.tensor([[[60.0, 1.0, 0.0, 0.0]]])
    f = logits.softmax(-1).numpy()
    assert f[0, 0, 0] == 1.0
    np.testing.assert_allclose(single_portion(f, 0), np.e / (np.e + 2), rtol=1e-6)
    assert single_portion([[1.0, 0.0]], 0) == 0.0


def test_lambda_of_p_and_p_of_lambda() -> None:
    portions = np.array([0.1, 0.5, 0.5, 0.7, 0.9, 0.2, 0.3, 0.4, 0.6, 0.8])
    assert [confident_lambda(portions, p) for p in (0.0, 0.1, 0.25, 0.3, 0.9)] == [0.9, 0.8, 0.7, 0.6, 0.1]
    assert [unconfident_share(portions, lam) for lam in (0.9, 0.89, 0.5, 0.0)] == [0.0, 0.1, 0.4, 1.0]
    many = np.random.default_rng(1).random(100)
    for k in range(100):
        lam = confident_lambda(many, k / 100)
        assert unconfident_share(many, lam) == pytest.approx(k / 100)
        assert unconfident_share(many, np.nextafter(lam, 0)) > k / 100


def test_lambda_1_is_at_most_lambda_2_for_every_p_and_any_weights() -> None:
    rng = np.random.default_rng(2)
    f = simplex(rng, 5, 400, 6)
    mme = max_margin_portion(f, 0)
    for weights in rng.exponential(size=(20, 5)) ** 3:
        we = weighted_portion(f, 0, weights)
        assert (we <= mme + 1e-12).all()
        assert all(confident_lambda(we, p) <= confident_lambda(mme, p) + 1e-12 for p in (0.0, 0.01, 0.3))


def test_lambda_1_may_exceed_every_members_lambda_3() -> None:
    """Members that err on different draws: the paper's lambda_1 <= lambda_3 is a setting, not a fact."""
    f = np.tile([0.6, 0.2, 0.2], (3, 30, 1))
    for member, first in enumerate((0, 3, 6)):
        f[member, first : first + 3] = [0.01, 0.99, 0.0]
    assert [confident_lambda(single_portion(one, 0), 0.1) for one in f] == pytest.approx([0.5] * 3)
    assert confident_lambda(weighted_portion(f, 0), 0.1) > 0.7


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_a_positive_statistical_margin_means_the_vote_is_right(classes: int) -> None:
    """fact:connection-margin-robustness, draw by draw: confident and X-hat > 0, then right."""
    rng = np.random.default_rng(classes)
    f, w = simplex(rng, 3, 20_000, classes), np.array([1.0, 0.4, 2.0])
    scores, tensor = f[..., 0], torch.from_numpy(f)
    we_right = (weighted(tensor, torch.from_numpy(w)).argmax(-1) == 0).numpy()
    mme_right = (max_margin(tensor).argmax(-1) == 0).numpy()
    claimed = 0
    for lam in (0.5, 0.8, 1.0):
        we_claim = (weighted_portion(f, 0, w) <= lam) & (we_margin(scores, lam, w) > 1e-9)
        mme_claim = (max_margin_portion(f, 0) <= lam) & (mme_margin(scores, lam) > 1e-9)
        assert we_right[we_claim].all()
        assert mme_right[mme_claim].all()
        claimed += int(we_claim.sum()) + int(mme_claim.sum())
    assert claimed > 100


def test_a_margin_of_nothing_promises_nothing() -> None:
    """The lemma as printed has X-hat < 0 for X-hat <= 0: of a tie it would promise the true class."""
    tied = torch.tensor([[[0.5, 0.5]]], dtype=torch.float64)
    assert we_margin(tied[..., 1], 1.0) == mme_margin(tied[..., 1], 1.0) == 0.0
    assert weighted_portion(tied, 1) == 1.0
    assert weighted(tied).argmax(-1) == max_margin(tied).argmax(-1) == 0


def test_two_classes_make_the_margins_exact() -> None:
    """With two classes every portion is 1, and the vote is right exactly where its margin is positive."""
    f = simplex(np.random.default_rng(3), 4, 5_000, 2)
    tensor, w = torch.from_numpy(f), np.array([0.5, 1.0, 1.5, 3.0])
    np.testing.assert_array_equal(
        (weighted(tensor, torch.from_numpy(w)).argmax(-1) == 0).numpy(), we_margin(f[..., 0], 1.0, w) > 0
    )
    np.testing.assert_array_equal(
        (max_margin(tensor).argmax(-1) == 0).numpy(), mme_margin(f[..., 0], 1.0) > 0
    )


@pytest.mark.parametrize("name", SYMMETRIC)
def test_moments_and_tails_against_many_draws(name: str) -> None:
    """False alarms: 1e-6 for each mean and each tail, less for a variance, known to 0.5%."""
    rng = np.random.default_rng(list(SYMMETRIC).index(name))
    weights = np.array([1.0, 2.0, 0.5, 1.5, 1.0])
    scores = SYMMETRIC[name](rng, (5, DRAWS))
    s, s_f = scores.std(), scores.min(0).std()
    for lam in (0.4, 1.0):
        x1, x2 = we_margin(scores, lam, weights), mme_margin(scores, lam)
        one, two = we_moments(MU, s, lam, weights), mme_moments(MU, s_f, lam)
        for drawn, moments in ((x1, one), (x2, two)):
            assert abs(drawn.mean() - moments.mean) < 5 * drawn.std() / np.sqrt(DRAWS)
            share = (drawn <= 0).mean()
            assert share <= symmetric_tail(moments.mean, moments.variance) + share_error(share)
        assert x1.var() == pytest.approx(one.variance, rel=0.03)
        assert x2.var() <= two.variance * 1.03


@pytest.mark.parametrize("name", SYMMETRIC)
@pytest.mark.parametrize("members", [1, 2, 7])
def test_bounds_hold_for_votes_on_drawn_confidences(name: str, members: int) -> None:
    """The theorems whole: scores, wrong classes, lambda, p and the votes all from the draws.

    False alarms: 1e-6 for each frequency; the deviations are taken 2% above those drawn.
    """
    rng = np.random.default_rng([members, list(SYMMETRIC).index(name)])
    draws = 20_000
    scores = SYMMETRIC[name](rng, (members, draws))
    rest = rng.dirichlet([0.5, 0.5, 0.5], (members, draws))
    f = np.concatenate([scores[..., None], (1 - scores[..., None]) * rest], axis=-1)
    weights = rng.exponential(size=members)
    tensor = torch.from_numpy(f)
    right = {
        "single": (f[0].argmax(-1) == 0).mean(),
        "we": (weighted(tensor, torch.from_numpy(weights)).argmax(-1) == 0).double().mean().item(),
        "mme": (max_margin(tensor).argmax(-1) == 0).double().mean().item(),
    }
    portions = {
        "single": single_portion(f[0], 0),
        "we": weighted_portion(f, 0, weights),
        "mme": max_margin_portion(f, 0),
    }
    s, s_f, d_w = 1.02 * scores.std(), 1.02 * scores.min(0).std(), weight_concentration(weights)
    said = 0
    for p in (0.0, 0.02, 0.2):
        lam = {vote: confident_lambda(one, p) for vote, one in portions.items()}
        bounds = [
            ("single", single_bound(MU, s, lam["single"], p)),
            ("we", we_bound(MU, s, lam["we"], p, d_w)),
            ("we", we_bound_mcdiarmid(MU, lam["we"], p, d_w)),
            ("we", we_bound_mcdiarmid(MU, lam["we"], p, d_w, 0.6)),
            ("mme", mme_bound(MU, s_f, lam["mme"], p)),
        ]
        for vote, bound in bounds:
            assert right[vote] >= bound - share_error(right[vote], draws)
            said += bool(bound > 0)
    assert said > 0


def test_chebyshevs_half_is_attained() -> None:
    """X = 0 and 2m with probability q each, else m: P(X <= 0) = q = Var X / (2 m^2). No less would hold."""
    for q, m in itertools.product((0.01, 0.2, 0.5), (0.1, 0.25)):
        assert symmetric_tail(m, 2 * q * m**2) == pytest.approx(q)
        lam, p = 0.6, 0.03
        mu, s = float(threshold_score(lam)) + m, np.sqrt(2 * q) * m
        assert single_bound(mu, s, lam, p) == pytest.approx(1 - p - q)
        assert we_bound(mu, s, lam, p, 1.0) == mme_bound(mu, s, lam, p) == single_bound(mu, s, lam, p)


def test_the_bounds_are_the_printed_ones() -> None:
    rng = np.random.default_rng(4)
    for _ in range(200):
        lam, s, p, w = (
            rng.uniform(0.1, 1),
            rng.uniform(0.01, 0.3),
            rng.uniform(0, 0.1),
            rng.exponential(size=4),
        )
        level = 1 / (1 + 1 / lam)
        mu = rng.uniform(level + 0.01, 1)
        d_w = np.linalg.norm(w, 2) ** 2 / np.linalg.norm(w, 1) ** 2
        assert weight_concentration(w) == pytest.approx(d_w)
        single, ensemble = s**2 / (2 * (mu - level) ** 2), np.exp(-2 / d_w * (mu - level) ** 2)
        assert single_bound(mu, s, lam, p) == pytest.approx(1 - p - single)
        assert we_bound(mu, s, lam, p, d_w) == pytest.approx(1 - p - d_w * single)
        assert we_bound_mcdiarmid(mu, lam, p, d_w) == pytest.approx(1 - p - ensemble)
        assert mme_bound(mu, s, lam, p) == pytest.approx(1 - p - single)


def test_mcdiarmids_bound_is_tighter_for_many_members_and_may_be_looser_for_few() -> None:
    members = np.arange(1, 400)
    chebyshev = we_bound(0.6, 0.17, 0.8, 0.01, 1 / members)
    mcdiarmid = we_bound_mcdiarmid(0.6, 0.8, 0.01, 1 / members)
    tighter = mcdiarmid > chebyshev
    assert not tighter[0]
    assert tighter[-1]
    assert np.count_nonzero(np.diff(tighter)) == 1


def test_mcdiarmids_bound_needs_no_symmetry_and_chebyshevs_does() -> None:
    """One member whose score is 0.49 with probability 0.2 and 0.8 otherwise, against t(1) = 1/2."""
    mu, s = 0.2 * 0.49 + 0.8 * 0.8, 0.4 * (0.8 - 0.49)
    assert we_bound_mcdiarmid(mu, 1.0, 0.0, 1.0) < we_bound_mcdiarmid(mu, 1.0, 0.0, 1.0, 0.31) < 0.8
    assert single_bound(mu, s, 1.0, 0.0) > 0.8


def test_premises_that_fail_give_nan() -> None:
    mu = np.array([0.3, 0.5, 0.500001, 0.9])
    for bound in (
        single_bound(mu, 0.1, 1.0, 0.0),
        we_bound(mu, 0.1, 1.0, 0.0, 0.5),
        we_bound_mcdiarmid(mu, 1.0, 0.0, 0.5),
        mme_bound(mu, 0.1, 1.0, 0.0),
        lambda_ratio(mu, 1.0, 0.5),
    ):
        assert np.isnan(bound).tolist() == [True, True, False, False]


def random_cases(rng: np.random.Generator, count: int) -> tuple[Floats, Floats, Floats, Floats]:
    """mu, lambda_1, lambda_2 with both premises, and C up to 3."""
    lam1, lam2 = rng.uniform(0.05, 1.0, (2, count))
    least = threshold_score(np.maximum(lam1, lam2))
    return least + (1 - least) * rng.uniform(1e-3, 1, count), lam1, lam2, rng.uniform(0.02, 3.0, count)


def test_the_foundation_of_the_comparison_is_an_equivalence_for_every_positive_c() -> None:
    mu, lam1, lam2, c = random_cases(np.random.default_rng(6), 50_000)
    quotient = (mu - threshold_score(lam2)) / (mu - threshold_score(lam1))
    clear = np.abs(quotient / c - 1) > 1e-9
    np.testing.assert_array_equal((quotient < c)[clear], (lam1 / lam2 < lambda_ratio(mu, lam2, c))[clear])
    assert (c > 1).any()
    assert 0.1 < (quotient < c).mean() < 0.9


def test_the_comparison_corollary_for_any_weights() -> None:
    rng = np.random.default_rng(7)
    mu, lam1, lam2, c = random_cases(rng, 50_000)
    members = rng.integers(1, 30, 50_000)
    s, p = rng.uniform(0.01, 0.3, 50_000), rng.uniform(0, 0.2, 50_000)
    s_f = s * np.minimum(c, 1) / np.sqrt(members)
    found, ratio = thresholds(mu, lam2, s, s_f, members), lam1 / lam2
    below, above = ratio < found.we_below * (1 - 1e-9), ratio > found.mme_above * (1 + 1e-9)
    assert not (below & above).any()
    assert min(below.sum(), above.sum()) > 1_000
    mme = mme_bound(mu, s_f, lam2, p)
    for d_w in (1 / members, np.ones(50_000), rng.uniform(1 / members, 1.0)):
        we = we_bound(mu, s, lam1, p, d_w)
        assert (we > mme)[below].all()
        assert (mme > we)[above].all()
    equal_weights = we_bound(mu, s, lam1, p, 1 / members)
    not_above = ratio < found.mme_above * (1 - 1e-9)
    assert (equal_weights > mme)[not_above].all()


def test_concentration_of_weights() -> None:
    assert weight_concentration(np.full(7, 3.0)) == pytest.approx(1 / 7)
    assert weight_concentration([0.0, 2.0, 0.0]) == 1.0
    assert weight_concentration([1.0, 3.0]) == pytest.approx(10 / 16)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: threshold_score(-0.1), "lambda is a portion, not negative; given: -0.1"),
        (lambda: lambda_ratio(0.5, 0.0, 1.0), "lambda_2 must be positive to divide by it; given: 0"),
        (lambda: weight_concentration([1.0, -1.0]), r"given: \[1.0, -1.0\]"),
        (lambda: weight_concentration([0.0]), r"not all zero; given: \[0.0\]"),
        (lambda: we_margin(np.ones((2, 3)), 0.5, [1.0]), r"2 members need 2 weights; given: \[1.0\]"),
        (lambda: thresholds(0.9, 0.5, 0.1, 0.1, 0), "at least one member; given: 0"),
        (lambda: confident_lambda([0.5], 1.0), r"lies in \[0, 1\); given: 1.0"),
        (lambda: confident_lambda([[0.5]], 0.1), r"given: \(1, 1\)"),
        (lambda: unconfident_share([], 0.1), r"given: \(0,\)"),
        (lambda: single_portion([0.5, 0.5], 0), r"given: \(2,\)"),
        (lambda: single_portion([[0.5, 0.5]], 2), r"lies in 0 to 1; given: \[2\]"),
        (lambda: single_portion([[0.5, 0.5]], [0, 1]), r"one true class or 1 are needed; given: \(2,\)"),
    ],
)
def test_mistakes_are_said_in_one_line(call: Callable[[], object], message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        call()
    assert "\n" not in str(error.value)
