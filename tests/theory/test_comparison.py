"""Two members against one: the corollary against members of known radii, and where it prints too much."""

import numpy as np
import pytest
from numpy.typing import NDArray
from quadratic_members import Quadratics, directions, first_loss, pair_sums, random_quadratics, subset

from shieldwall.errors import UserError
from shieldwall.theory import comparison as k
from shieldwall.theory.conditions import single_conditions, weighted_conditions

Floats = NDArray[np.float64]
WEIGHTS = np.array([1.0, 1.7])


def printed_gain(found: k.Comparison) -> Floats:
    """K as the paper prints it; infinite where it divides by 0."""
    root = np.sqrt(np.maximum(1 - found.evenness * (1 - found.cosine), 0.0))
    shrink = (1 - found.delta) / (1 + found.delta)
    return np.divide(shrink, root, out=np.full_like(shrink, np.inf), where=root > 0)


def ensemble_loss(q: Quadratics, vote: str, rng: np.random.Generator) -> Floats:
    parts = (q.margins, q.gradients, q.margin_bends)
    if vote == "we":
        of_vote = [np.tensordot(WEIGHTS, part, axes=1) for part in parts]
    else:
        of_vote = [pair_sums(part[0], part[1]) for part in parts]
    return first_loss(*of_vote, along=directions(rng, of_vote[1]))


def members_loss(q: Quadratics, rng: np.random.Generator) -> Floats:
    losses = [
        first_loss(q.margins[i], q.gradients[i], q.margin_bends[i], directions(rng, q.gradients[i]))
        for i in range(2)
    ]
    return np.minimum(*losses)


def compare(q: Quadratics, vote: str, r: Floats) -> k.Comparison:
    if vote == "we":
        return k.compare_weighted(q.margins, q.gradients, WEIGHTS, r=r, beta=q.beta)
    return k.compare_max_margin(q.margins, q.gradients, r=r, beta=q.beta)


@pytest.mark.parametrize("vote", ["we", "mme"])
@pytest.mark.parametrize(("dimension", "shrink"), [(1, 1.0), (2, 0.999)])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_ensemble_is_robust_within_the_radius(
    vote: str, dimension: int, shrink: float, classes: int
) -> None:
    """4 x 1500 quadratic pairs. On the line all directions are searched; in the plane 180 of them and every
    steepest one, so the members' radius is taken a thousandth smaller than found."""
    rng = np.random.default_rng(10 * dimension + classes)
    said, printed_too_large = 0, 0
    for beta in (1e-9, 0.003, 0.03, 0.3):
        q = random_quadratics(rng, members=2, cases=1500, classes=classes, dimension=dimension, beta=beta)
        q = subset(q, (q.margins > 0).all((0, 2)))
        r = members_loss(q, rng) * shrink
        q, r = subset(q, np.isfinite(r)), r[np.isfinite(r)]
        found, lost = compare(q, vote, r), ensemble_loss(q, vote, rng)
        assert (found.radius <= lost * (1 + 1e-9)).all()
        holds = ~np.isnan(found.delta)
        said += int(((found.gain > 1) & holds).sum())
        printed = r * printed_gain(found)
        too_large = holds & (printed > lost * (1 + 1e-6))
        assert (found.cosine[too_large] < 0).all()
        printed_too_large += int(too_large.sum())
    assert said > 50
    assert printed_too_large > 0


@pytest.mark.parametrize("vote", ["we", "mme"])
def test_linear_pairs_with_exact_radii(vote: str) -> None:
    """beta = 0, so Delta = 0 and every radius is a margin over a slope: 3000 pairs in 6 dimensions."""
    rng = np.random.default_rng(5)
    margins = rng.uniform(0.05, 1.0, size=(2, 3000, 3))
    gradients = rng.normal(size=(2, 3000, 3, 6)) + rng.normal(size=(1, 3000, 1, 6))
    r = single_conditions(margins, gradients, beta=0.0).certified_radius().min(0)
    zeros = np.zeros((2, 3000, 4, 6, 6))
    padding = [(0, 0), (0, 0), (1, 0)]
    q = Quadratics(np.pad(-margins, padding), np.pad(-gradients, [*padding, (0, 0)]), zeros, 0.0)
    found, lost = compare(q, vote, r), ensemble_loss(q, vote, rng)
    assert (found.delta == 0).all()
    assert (found.radius <= lost * (1 + 1e-9)).all()
    assert (found.radius >= r * (1 - 1e-12)).all()


def test_printed_radius_for_opposed_gradients_is_refuted() -> None:
    """Margins 0.5 both, slopes 1 and -0.1: both 0.5-robust; printed R infinite, WE lost at 1 / 0.9."""
    margins, gradients = np.array([[0.5], [0.5]]), np.array([[[1.0]], [[-0.1]]])
    found = k.compare_weighted(margins, gradients, r=0.5, beta=0.0)
    assert float(found.cosine) == -1.0
    assert float(found.evenness) == 0.5
    assert float(printed_gain(found)) == np.inf
    lost = float(weighted_conditions(margins, gradients, beta=0.0).possible_radius())
    assert lost == pytest.approx(1 / 0.9)
    assert float(found.radius) == 1.0


@pytest.mark.parametrize("cosine", [-0.3, 0.0, 0.4, 0.99])
def test_the_gain_is_the_printed_one_where_that_is_proved(cosine: float) -> None:
    """That is where cos(theta) >= -(1 - s) / (2 s): for equal shares down to -1/2."""
    assert float(k.radius_gain(0.5, cosine, 0.1)) == pytest.approx(
        0.9 / 1.1 / np.sqrt(1 - 0.5 * (1 - cosine))
    )


def test_delta_is_the_least_that_the_proviso_allows() -> None:
    rng = np.random.default_rng(6)
    margins, gradients = rng.uniform(0.1, 1.0, (2, 200, 2)), rng.normal(size=(2, 200, 2, 3))
    r = rng.uniform(0.05, 0.6, 200)
    found = k.compare_weighted(margins, gradients, r=r, beta=1.0)

    def excess(delta: Floats) -> Floats:
        c = np.maximum(k.radius_gain(found.evenness, found.cosine, delta), 1.0)
        return delta * margins.min((0, 2)) / (c * r) ** 2 - 1.0

    known = ~np.isnan(found.delta)
    assert np.array_equal(known, r**2 < margins.min((0, 2)))
    assert (excess(found.delta)[known] >= -1e-12).all()
    assert (excess(found.delta * (1 - 1e-9))[known] < 0).all()
    assert (found.radius[~known] == 0).all()
    assert (found.gain[~known] == 0).all()


def test_the_ensemble_wins_below_the_cosine_needed_and_not_at_it() -> None:
    """R > r if and only if cos(theta) < 1 - 4 Delta / (C (1 + Delta)^2); printed with <=, where R = r."""
    rng = np.random.default_rng(7)
    evenness, delta = rng.uniform(0.2, 0.5, 500), rng.uniform(0.0, 0.05, 500)
    needed = k.cosine_needed(evenness, delta)
    share = (1 + np.sqrt(1 - 2 * evenness)) / 2
    decided_by_cosine = needed > -(1 - share) / (2 * share)
    assert decided_by_cosine.sum() > 300
    gains = [k.radius_gain(evenness, needed + step, delta)[decided_by_cosine] for step in (-1e-6, 0.0, 1e-6)]
    assert (gains[0] > 1).all()
    assert gains[1] == pytest.approx(1.0, abs=1e-12)
    assert (gains[2] < 1).all()


def test_optimal_weights_are_those_a_search_finds() -> None:
    rng = np.random.default_rng(8)
    margins = rng.uniform(0.01, 1.0, size=(2, 50, 4))
    weights = k.optimal_weights(margins)
    assert weights.sum(-1) == pytest.approx(1.0)
    logs = np.linspace(-6, 6, 4001)
    for b in range(50):
        best = float(k.evenness_weighted(margins[:, b], weights[b]))
        searched = [float(k.evenness_weighted(margins[:, b], [np.exp(t), 1.0])) for t in logs[::40]]
        assert best >= max(searched) - 1e-12
        near = np.log(weights[b, 0] / weights[b, 1]) + np.array([-1e-3, 1e-3])
        assert all(float(k.evenness_weighted(margins[:, b], [np.exp(t), 1.0])) < best for t in near)


def test_optimal_weights_of_two_classes_are_the_other_member_s_margin() -> None:
    margins = np.array([[0.2], [0.6]])
    assert k.optimal_weights(margins) == pytest.approx([0.75, 0.25])
    assert float(k.evenness_weighted(margins, [0.75, 0.25])) == pytest.approx(0.5)
    assert float(k.evenness_weighted(margins)) == pytest.approx(2 * 0.2 * 0.6 / 0.8**2)
    assert float(k.evenness_max_margin(margins)) == pytest.approx(2 * 0.2 * 0.6 / 0.8**2)


def test_evenness_of_mme_is_the_worst_pair_of_classes() -> None:
    margins = np.array([[0.2, 0.9], [0.3, 0.5]])
    worst = min(2 * a * b / (a + b) ** 2 for a in margins[0] for b in margins[1])
    assert float(k.evenness_max_margin(margins)) == pytest.approx(worst)
    assert np.isnan(k.evenness_max_margin(-margins))


def test_joined_ensembles_beat_the_lesser_of_the_two() -> None:
    """prop:larger-n-better-robustness on 2000 cases: 2 and 3 members joined, with any weights."""
    rng = np.random.default_rng(9)
    margins, gradients = rng.uniform(0.02, 1.0, (5, 2000, 3)), rng.normal(size=(5, 2000, 3, 4))
    weights = rng.uniform(0.1, 2.0, 5)
    for beta in (0.0, 1.0, 10.0):
        radii = [
            weighted_conditions(margins[part], gradients[part], weights[part], beta=beta).certified_radius()
            for part in (slice(0, 2), slice(2, 5), slice(0, 5))
        ]
        assert (radii[2] > np.minimum(radii[0], radii[1])).all()
        assert (radii[2] < np.maximum(radii[0], radii[1])).any()


def test_parallel_gradients_gain_nothing() -> None:
    margins, gradients = np.array([[0.2], [0.4]]), np.array([[[1.0, 0.5]], [[2.0, 1.0]]])
    radii = k.radius_by_size(margins, gradients, beta=0.0)
    assert radii[1] == pytest.approx(radii[0], rel=1e-12)


def test_radii_by_size_follow_the_proposition() -> None:
    rng = np.random.default_rng(11)
    margins, gradients = rng.uniform(0.02, 1.0, (8, 300, 3)), rng.normal(size=(8, 300, 3, 10))
    weights = rng.uniform(0.5, 1.5, 8)
    radii = k.radius_by_size(margins, gradients, weights, beta=0.5)
    alone = single_conditions(margins, gradients, beta=0.5).certified_radius()
    assert radii[0] == pytest.approx(alone[0], rel=1e-12)
    assert (radii[1:] > np.minimum(radii[:-1], alone[1:])).all()
    assert (np.diff(radii.mean(-1)) > 0).all()


def test_mistakes_are_named() -> None:
    margins, gradients = np.ones((2, 3)), np.ones((2, 3, 4))
    with pytest.raises(UserError, match=r"two members are \(2, \.\.\., C\).*given: \(3, 3\)"):
        k.evenness_weighted(np.ones((3, 3)))
    with pytest.raises(UserError, match="2 weights"):
        k.compare_weighted(margins, gradients, [1.0, 2.0, 3.0], r=1.0, beta=0.0)
    with pytest.raises(UserError, match=r"r must be positive and beta not negative; given: 0\.0, 1\.0"):
        k.compare_max_margin(margins, gradients, r=0.0, beta=1.0)
    with pytest.raises(UserError, match=r"positive margins; given: -1\.0"):
        k.optimal_weights(-margins)
    with pytest.raises(UserError, match=r"shape \(2, 3, 'd'\); given: \(2, 4\)"):
        k.compare_max_margin(margins, gradients[:, 0], r=1.0, beta=1.0)
