"""The conditions against members whose margins are quadratic, and against the votes themselves."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from quadratic_members import (
    Quadratics,
    directions,
    first_loss,
    pair_sums,
    random_quadratics,
    subset,
    vote_of,
)
from scipy.special import ndtr
from scipy.stats import norm

from shieldwall.errors import UserError
from shieldwall.theory import conditions as c
from shieldwall.theory.conditions import smoothness_bound

Floats = NDArray[np.float64]
WEIGHTS = np.array([0.5, 1.0, 2.5])
BELOW = np.array([0.2, 0.5, 0.8, 0.95, 1.0 - 1e-9])
ABOVE = np.array([1.0 + 1e-6, 1.0 + 1e-4, 1.001])


def rivals_of(vote: str, q: Quadratics) -> tuple[Floats, Floats, Floats]:
    """The margins that must stay positive for the vote, their gradients and bends: (M, rivals, ...) each."""
    parts = (q.margins, q.gradients, q.margin_bends)
    if vote == "we":
        shares = WEIGHTS / WEIGHTS.sum()
        return tuple(np.tensordot(shares, part, axes=1) for part in parts)  # type: ignore[return-value]
    if vote == "mme":
        return tuple(pair_sums(part[0], part[1]) for part in parts)  # type: ignore[return-value]
    return tuple(part[0] for part in parts)  # type: ignore[return-value]


def conditions_of(vote: str, q: Quadratics) -> c.Conditions:
    if vote == "we":
        return c.weighted_conditions(q.margins, q.gradients, WEIGHTS, beta=q.beta)
    if vote == "mme":
        return c.max_margin_conditions(q.margins, q.gradients, beta=q.beta)
    return c.single_conditions(q.margins[0], q.gradients[0], beta=q.beta)


def cases(vote: str, dimension: int, seed: int, *, count: int = 1000, classes: int = 3) -> list[Quadratics]:
    rng = np.random.default_rng(seed)
    members = {"we": 3, "mme": 2, "0": 1}[vote]
    return [
        random_quadratics(rng, members=members, cases=count, classes=classes, dimension=dimension, beta=beta)
        for beta in (0.1, 1.0, 6.0)
    ]


@pytest.mark.parametrize("vote", ["we", "mme", "0"])
@pytest.mark.parametrize("dimension", [1, 2, 8])
def test_the_first_loss_of_a_margin_lies_between_the_two_radii(vote: str, dimension: int) -> None:
    """3 x 1000 cases each; the lower radius for every direction, the upper for straight down."""
    rng = np.random.default_rng(dimension)
    for q in cases(vote, dimension, seed=10 + dimension):
        margins, gradients, bends = rivals_of(vote, q)
        found = conditions_of(vote, q)
        lost = first_loss(margins, gradients, bends, directions(rng, gradients))
        assert (found.certified_radius() <= lost * (1 + 1e-9)).all()
        assert (lost <= found.possible_radius() * (1 + 1e-9)).all()
        assert ((found.certified_radius() > 0) == (margins > 0).all(-1)).all()


@pytest.mark.parametrize("vote", ["we", "mme", "0"])
@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_search_never_refutes_what_is_sufficient(vote: str, dimension: int) -> None:
    """Every direction searched, at five distances up to the largest sufficient r, by the library's votes."""
    rng = np.random.default_rng(20 + dimension)
    weights = WEIGHTS if vote == "we" else None
    refuted_further_out = 0
    for q in cases(vote, dimension, seed=30 + dimension, count=300):
        q = subset(q, conditions_of(vote, q).certified_radius() > 0)
        found, (_, gradients, _) = conditions_of(vote, q), rivals_of(vote, q)
        radius = found.certified_radius()
        assert found.sufficient(radius * (1 - 1e-12)).all()
        assert not found.sufficient(radius * (1 + 1e-9)).any()
        along = directions(rng, gradients)
        for share in BELOW:
            points = along * (share * radius)[:, None, None]
            assert (vote_of(q.confidences(points), vote, weights) == 0).all()
        further = along * (2.0 * radius)[:, None, None]
        refuted_further_out += int((vote_of(q.confidences(further), vote, weights) != 0).any(-1).sum())
    assert refuted_further_out > 100


@pytest.mark.parametrize("vote", ["we", "mme", "0"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_search_refutes_whatever_is_not_necessary(vote: str, classes: int, dimension: int) -> None:
    """A little beyond the largest necessary r the library's vote changes, wherever the proviso holds."""
    rng = np.random.default_rng(40 + dimension)
    weights = WEIGHTS if vote == "we" else None
    judged = 0
    for q in cases(vote, dimension, seed=50 + dimension, count=600, classes=classes):
        bounded = conditions_of(vote, q).possible_radius()
        q = subset(q, (bounded > 0) & np.isfinite(bounded))
        found, (_, gradients, _) = conditions_of(vote, q), rivals_of(vote, q)
        radius = found.possible_radius()
        assert found.necessary(radius).all()
        assert not found.necessary(radius * (1 + 1e-9)).any()
        along = directions(rng, gradients)
        changed, proviso = np.zeros(len(radius), dtype=bool), np.ones(len(radius), dtype=bool)
        for share in ABOVE:
            confidences = q.confidences(along * (share * radius)[:, None, None])
            changed |= (vote_of(confidences, vote, weights) != 0).any(-1)
            margins = confidences[..., :1] - confidences[..., 1:]
            proviso &= c.at_most_one_above(margins).all(-1) if vote == "mme" else True
        assert changed[proviso].all()
        judged += int(proviso.sum())
    assert judged > 100


@pytest.mark.parametrize("members", [2, 3, 5])
def test_mme_of_many_keeps_its_class_within_the_radius(members: int) -> None:
    rng = np.random.default_rng(60 + members)
    for beta in (0.1, 1.0, 6.0):
        q = random_quadratics(rng, members=members, cases=600, classes=3, dimension=2, beta=beta)
        q = subset(q, c.max_margin_radius(q.margins, q.gradients, beta=beta) > 0)
        radius = c.max_margin_radius(q.margins, q.gradients, beta=beta)
        assert len(radius) > 30
        if members == 2:
            pair = c.max_margin_conditions(q.margins, q.gradients, beta=beta)
            assert np.array_equal(radius, pair.certified_radius())
        along = directions(rng, q.gradients.swapaxes(0, 1).reshape(len(radius), -1, 2))
        for share in BELOW:
            assert (vote_of(q.confidences(along * (share * radius)[:, None, None]), "mme") == 0).all()


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_both_radii_are_attained(sign: float) -> None:
    """Margins m - a x - beta x^2 and, along the descent, m - a x + beta x^2: their roots are the radii."""
    m, a, beta = 0.5, 1.5, 0.8
    q = Quadratics(
        level=np.array([[[m, 0.0]]]),
        tilt=np.array([[[[-a], [0.0]]]]),
        bend=sign * beta * np.array([[[[[1.0]], [[-1.0]]]]]),
        beta=beta,
    )
    found = c.single_conditions(q.margins[0], q.gradients[0], beta=beta)
    along = np.array([[[1.0], [-1.0]]])
    lost = first_loss(q.margins[0], q.gradients[0], q.margin_bends[0], along)
    attained = found.certified_radius() if sign < 0 else found.possible_radius()
    assert attained == pytest.approx(lost, rel=1e-12)


def test_linear_members_leave_no_gap() -> None:
    rng = np.random.default_rng(1)
    margins, gradients = rng.random((3, 500, 4)), rng.normal(size=(3, 500, 4, 6))
    found = c.weighted_conditions(margins, gradients, WEIGHTS, beta=0.0)
    exact = (found.margin / found.slope).min(-1)
    assert found.certified_radius() == pytest.approx(exact, rel=1e-12)
    assert found.possible_radius() == pytest.approx(exact, rel=1e-12)


def test_radii_at_the_edges() -> None:
    def radii(margin: float, slope: float, beta: float) -> tuple[float, float]:
        found = c.Conditions(np.array([margin]), np.array([slope]), beta)
        return float(found.certified_radius()), float(found.possible_radius())

    assert radii(0.3, 0.0, 0.0) == (np.inf, np.inf)
    assert radii(0.3, 1e-200, 0.0) == pytest.approx((3e199, 3e199))
    assert radii(0.3, 0.0, 0.3) == (1.0, np.inf)
    assert radii(0.0, 1.0, 1.0) == (0.0, 0.0)
    assert radii(0.0, 0.0, 0.0) == (0.0, np.inf)
    assert radii(-0.1, 0.0, 1.0) == (0.0, 0.0)
    assert radii(-0.1, 1.0, 1.0) == (0.0, 0.0)


def test_what_a_small_radius_refutes_a_large_one_does_not_redeem() -> None:
    """m = 0.1, a = 1, beta = 1: at r = 0.5 the printed condition fails, at r = 2 it would hold again."""
    found = c.Conditions(np.array([0.1]), np.array([1.0]), beta=1.0)
    assert 1.0 > 0.1 / 0.5 + 0.5
    assert 1.0 <= 0.1 / 2.0 + 2.0
    assert not found.necessary(0.5)
    assert not found.necessary(2.0)


def test_eri_is_the_printed_sum_and_decides_both_conditions() -> None:
    rng = np.random.default_rng(2)
    margins, gradients = rng.random((3, 40, 4)), rng.normal(size=(3, 40, 4, 5))
    r, beta = rng.uniform(0.05, 0.5, size=40), 0.7
    eri = c.weighted_conditions(margins, gradients, WEIGHTS, beta=0.0).eri(r)
    assert eri.shape == (40, 4)
    for b, y in itertools.product(range(40), range(4)):
        norm_of_sum = np.sqrt(
            sum(sum(WEIGHTS[j] * gradients[j, b, y, k] for j in range(3)) ** 2 for k in range(5))
        )
        margin_sum = sum(WEIGHTS[j] * margins[j, b, y] for j in range(3))
        assert eri[b, y] == pytest.approx(norm_of_sum / 4.0 - margin_sum / (r[b] * 4.0))
    found = c.weighted_conditions(margins, gradients, WEIGHTS, beta=beta)
    assert np.array_equal(found.sufficient(r), eri.max(-1) <= -beta * r)
    refuted = eri.max(-1) > beta * r
    assert not (refuted & found.necessary(r)).any()
    assert refuted.any()
    assert found.sufficient(r * 0.2).any()


def test_eri_of_mme_and_of_members_alone() -> None:
    rng = np.random.default_rng(3)
    margins, gradients = rng.random((2, 7, 3)), rng.normal(size=(2, 7, 3, 4))
    of_mme = c.max_margin_conditions(margins, gradients, beta=0.0).eri(0.3).reshape(7, 3, 3)
    alone = c.single_conditions(margins, gradients, beta=0.0).eri(0.3)
    assert alone.shape == (2, 7, 3)
    for b, y1, y2 in itertools.product(range(7), range(3), range(3)):
        length = np.linalg.norm(gradients[0, b, y1] + gradients[1, b, y2])
        expected = length / 2 - (margins[0, b, y1] + margins[1, b, y2]) / 0.6
        assert of_mme[b, y1, y2] == pytest.approx(expected)
    assert alone[1, 2, 0] == pytest.approx(np.linalg.norm(gradients[1, 2, 0]) - margins[1, 2, 0] / 0.3)
    # With all members alike, an ensemble is each of them.
    same, same_gradients = np.stack([margins[0]] * 2), np.stack([gradients[0]] * 2)
    of_we = c.weighted_conditions(same, same_gradients, [1, 3], beta=0.0).eri(0.3)
    assert of_we == pytest.approx(alone[0])
    of_pairs = c.max_margin_conditions(same, same_gradients, beta=0.0).eri(0.3).reshape(7, 3, 3)
    diagonal = np.diagonal(of_pairs, axis1=-2, axis2=-1)
    assert diagonal == pytest.approx(alone[0])


def test_the_largest_eri_decides_not_the_least() -> None:
    """The text after eq:I takes the minimum over classes. Linear, one class safe and one lost at 0.1."""
    margins, gradients = np.array([[0.5, 0.1]]), np.array([[[0.0], [1.0]]])
    found = c.weighted_conditions(margins, gradients, beta=0.0)
    eri = found.eri(0.2)
    assert eri.min() <= 0.0
    assert not found.sufficient(0.2)
    assert float(found.possible_radius()) == pytest.approx(0.1)


def test_a_tie_everywhere_is_not_sufficient() -> None:
    """Linear members of margins 0.1 + x and -0.1 - x always tie; printed, every r would be sufficient."""
    q = Quadratics(
        level=np.array([[[0.55, 0.45]], [[0.45, 0.55]]]),
        tilt=np.array([[[[0.5], [-0.5]]], [[[-0.5], [0.5]]]]),
        bend=np.zeros((2, 1, 2, 1, 1)),
        beta=0.0,
    )
    found = c.max_margin_conditions(q.margins, q.gradients, beta=0.0)
    assert np.abs(found.eri(1.0)).max() < 1e-15
    assert not found.sufficient(1.0).any()
    at_and_beside = np.array([[[0.0], [-0.25]]])
    assert vote_of(np.round(q.confidences(at_and_beside) * 64) / 64, "mme").tolist() == [[0, 1]]


def exact_confidences() -> Floats:
    """All confidences of three classes in eighths, which floating point adds without rounding: (45, 3)."""
    eighths = [(a, b, 8 - a - b) for a in range(9) for b in range(9 - a)]
    return np.array(eighths, dtype=np.float64) / 8


@pytest.mark.parametrize("y0", [0, 1, 2])
@pytest.mark.parametrize("members", [2, 3])
def test_gaps_decide_the_votes_for_all_confidences_in_eighths(members: int, y0: int) -> None:
    grid = exact_confidences()
    chosen = np.array(list(itertools.product(range(len(grid)), repeat=members))).T
    confidences = grid[chosen][:, :, None]
    others = [y for y in range(3) if y != y0]
    margins = confidences[:, :, 0, [y0]] - confidences[:, :, 0, others]
    weights = np.array([1.0, 3.0, 4.0][:members])

    is_y0 = vote_of(confidences, "we", weights)[:, 0] == y0
    gap = c.weighted_gap(margins, weights)
    assert is_y0[gap > 0].all()
    assert not is_y0[gap < 0].any()

    is_y0 = vote_of(confidences, "mme")[:, 0] == y0
    gap, proviso = c.max_margin_gap(margins), c.at_most_one_above(margins)
    assert is_y0[gap > 0].all()
    assert not is_y0[(gap < 0) & proviso].any()
    # Each of these is why the statement says what it says.
    assert is_y0[(gap < 0) & ~proviso].any()
    assert is_y0[gap == 0].any()
    assert not is_y0[gap == 0].all()


def test_margins_that_only_touch_zero_may_still_lose_the_class() -> None:
    """prop:sufficient-necessary-condition-weighted-ensemble asks for >= 0: at a tie another class may win."""
    touching = np.array([[[[0.5, 0.5]]]])
    of_the_second_class = touching[:, 0, :, 1] - touching[:, 0, :, 0]
    assert float(c.weighted_gap(of_the_second_class)) == 0.0
    assert vote_of(touching, "we").item() == 0


def soft_probit(slope: Floats, level: Floats, sigma: float, points: Floats) -> Floats:
    """E Phi(level + slope . (x + noise)): members (N, d), (N,), points (P, d) -> (N, P)."""
    spread = np.sqrt(1.0 + sigma**2 * (slope**2).sum(-1, keepdims=True))
    return np.asarray(ndtr((level[:, None] + slope @ points.T) / spread))


@pytest.mark.parametrize("vote", ["we", "mme"])
def test_smoothed_conditions_hold_for_smoothed_members(vote: str) -> None:
    """Two classes, f = Phi(level + slope . x): the soft-smoothed confidence is a Phi again, and the steep are
    nearly steps. 300 pairs of members in the plane; 360 directions, five distances."""
    rng = np.random.default_rng(4)
    sigma, certified = 0.5, 0
    angles = np.arange(360) * (2 * np.pi / 360)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    make: Callable[..., c.Conditions] = c.weighted_conditions if vote == "we" else c.max_margin_conditions
    for _ in range(300):
        slope = rng.normal(size=(2, 2)) * rng.lognormal(1.0, 1.5, size=(2, 1))
        level = rng.normal(0.5, 1.0, size=2) * np.linalg.norm(slope, axis=-1)
        spread = np.sqrt(1.0 + sigma**2 * (slope**2).sum(-1))
        margins = 2.0 * soft_probit(slope, level, sigma, np.zeros((1, 2))) - 1.0
        gradients = (2.0 * norm.pdf(level / spread) / spread)[:, None, None] * slope[:, None]
        found = make(margins, gradients, beta=smoothness_bound(sigma))
        assert found.beta == 2.0 / sigma**2
        radius = float(found.certified_radius())
        certified += radius > 0
        for share in BELOW:
            p = soft_probit(slope, level, sigma, circle * radius * share)
            assert radius == 0 or (vote_of(np.stack([p, 1 - p], axis=-1)[:, None], vote) == 0).all()
        steepest = -(gradients.sum(0)[0] / np.linalg.norm(gradients.sum(0)[0]))
        beyond = float(found.possible_radius()) * (1 + 1e-6)
        if 0 < beyond < np.inf:
            p = soft_probit(slope, level, sigma, beyond * steepest[None])
            assert vote_of(np.stack([p, 1 - p], axis=-1)[:, None], vote).item() == 1
    assert certified > 100


def test_a_batch_is_its_inputs_one_by_one() -> None:
    rng = np.random.default_rng(5)
    margins, gradients = rng.normal(0.2, 0.3, (2, 3, 4, 5)), rng.normal(size=(2, 3, 4, 5, 6))
    whole = c.weighted_conditions(margins, gradients, [1, 2], beta=0.3).certified_radius()
    pairs = c.max_margin_conditions(margins, gradients, beta=0.3).possible_radius()
    for a, b in itertools.product(range(3), range(4)):
        one = (margins[:, a, b], gradients[:, a, b])
        assert whole[a, b] == pytest.approx(
            float(c.weighted_conditions(*one, [1, 2], beta=0.3).certified_radius())
        )
        assert pairs[a, b] == pytest.approx(float(c.max_margin_conditions(*one, beta=0.3).possible_radius()))


def test_mistakes_are_named() -> None:
    margins, gradients = np.ones((3, 2)), np.ones((3, 2, 4))
    with pytest.raises(UserError, match="2 members; given: 3"):
        c.max_margin_conditions(margins, gradients, beta=1.0)
    with pytest.raises(UserError, match=r"\(3, 2, 'd'\); given: \(3, 4\)"):
        c.weighted_conditions(margins, gradients[:, 0], beta=1.0)
    with pytest.raises(UserError, match="3 members need 3 weights"):
        c.weighted_gap(margins, [1, 2])
    with pytest.raises(UserError, match="not negative and not all zero"):
        c.weighted_gap(margins, [1, 2, -1])
    with pytest.raises(UserError, match="beta must be finite and not negative; given: -1"):
        c.single_conditions(margins, gradients, beta=-1.0)
    with pytest.raises(UserError, match=r"radius must be positive; given: 0\.0"):
        c.single_conditions(margins, gradients, beta=1.0).eri(0.0)
    with pytest.raises(UserError, match="margins must be finite"):
        c.max_margin_gap(np.full((2, 2), np.nan))
    with pytest.raises(UserError, match="at least 2 members; given: 1"):
        c.max_margin_radius(margins[:1], gradients[:1], beta=1.0)
