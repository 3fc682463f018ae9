"""EAS against members whose probabilities are known, at the input and around it."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from linear import Linear
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import binom
from torch import Tensor

import shieldwall as sw
from shieldwall.noise.distributions import Gaussian, Laplace, Noise, Uniform
from shieldwall.smoothing.certificates import eas_from_counts
from shieldwall.smoothing.count_bounds import Sequential

SIGMA = 0.3
NOISE = sw.Gaussian(SIGMA)
Floats = NDArray[np.float64]
BOUNDS = ("one-sided", "two-sided")


def counts_of(probabilities: Floats, n: int) -> Tensor:
    """The counts (1, N, K) of a sample that happens to have these frequencies (N, K)."""
    first = np.rint(np.asarray(probabilities) * n).astype(np.int64)
    first[:, -1] = n - first[:, :-1].sum(-1)
    return torch.from_numpy(first)[None]


def linear_probabilities(members: list[Linear], x: Tensor) -> Floats:
    """P(class 0) of every member at every x (B, D), exactly: (N, B)."""
    scores = [ndtr((m.signed(x) / (SIGMA * m.w.norm())).double().detach().numpy()) for m in members]
    return np.stack(scores)


def answers(p0: Floats) -> NDArray[np.int64]:
    """def:eas, literally, for two classes: the class of the member whose top class is likeliest."""
    top = np.maximum(p0, 1 - p0)
    return np.take_along_axis((p0 < 0.5).astype(np.int64), top.argmax(0)[None], axis=0)[0]


def test_the_answer_never_changes_within_the_radius() -> None:
    """2-D: every direction on a grid of 720, at 40 distances up to the radius.

    The certificates of 60 inputs are made from draws at alpha = 1e-9: false alarm below 1.2e-7.
    """
    members = [Linear(2, seed=4), Linear(2, seed=11), Linear(2, seed=5)]
    x = torch.rand(60, 2, generator=torch.Generator().manual_seed(2))
    found = sw.certify_members(members, x, noise=NOISE, n0=100, n=10_000, alpha=1e-9)
    votes = [found[f"member-{k}"] for k in (1, 2, 3)]
    selection = np.stack([vote.selection_counts for vote in votes], axis=1)
    counts = np.stack([vote.counts for vote in votes], axis=1)
    angles = torch.arange(720) * (2 * torch.pi / 720)
    directions = torch.stack([angles.cos(), angles.sin()], dim=1)
    for two_sided in (False, True):
        eas = eas_from_counts(selection, counts, NOISE, 1e-9, bound=BOUNDS[two_sided])
        certified = np.flatnonzero(eas.labels != sw.ABSTAIN).tolist()
        assert len(certified) > 20
        for k in certified:
            distances = torch.linspace(0, 1, 40) * float(eas.radii[k])
            ball = (x[k] + distances[:, None, None] * directions).reshape(-1, 2)
            assert (answers(linear_probabilities(members, ball)) == int(eas.labels[k])).all()


def test_two_classes_give_the_printed_theorem_in_the_limit() -> None:
    """(max r_i + min r_i) / 2, members that disagree among them."""
    n = 10**10
    rng = np.random.default_rng(0)
    disagreeing = 0
    for _ in range(200):
        p0 = rng.uniform(0.02, 0.98, size=3)
        y0 = int(answers(p0[:, None])[0])
        signed = SIGMA * ndtri(p0 if y0 == 0 else 1 - p0)
        expected = max((signed.max() + signed.min()) / 2, 0.0)
        counts = counts_of(np.stack([p0, 1 - p0], axis=1), n)
        for two_sided in (False, True):
            found = eas_from_counts(counts, counts, NOISE, 0.001, bound=BOUNDS[two_sided])
            assert float(found.radii[0]) == pytest.approx(expected, abs=2e-4)
            assert float(found.radii[0]) <= expected
            assert int(found.labels[0]) == (y0 if found.radii[0] > 0 else sw.ABSTAIN)
        disagreeing += bool((signed < 0).any() and expected > 1e-3)
    assert disagreeing > 20


@pytest.mark.parametrize(
    ("noise", "cdf"),
    [
        (Gaussian(0.3), lambda t: ndtr(t / 0.3)),
        (Uniform(0.5), lambda t: np.clip((t + 0.5) / 1.0, 0, 1)),
        (Laplace(0.2), lambda t: np.where(t < 0, np.exp(-abs(t) / 0.2) / 2, 1 - np.exp(-abs(t) / 0.2) / 2)),
    ],
)
def test_every_kind_of_noise(noise: Noise, cdf: Callable[[Floats], Floats]) -> None:
    """1-D members that cut the line at t, P(left of t) = cdf(t - x): brute force over all moves."""
    rng = np.random.default_rng(5)
    for _ in range(200):
        cuts, flipped = rng.normal(0, 0.35, size=3), rng.random(3) < 0.2

        def p0(x: Floats, cuts: Floats = cuts, flipped: Floats = flipped) -> Floats:
            left = cdf(cuts[:, None] - x)
            return np.where(flipped[:, None], 1 - left, left)

        here = p0(np.zeros(1))[:, 0]
        counts = counts_of(np.stack([here, 1 - here], axis=1), 10**10)
        found = eas_from_counts(counts, counts, noise, 0.001)
        if found.labels[0] != sw.ABSTAIN:
            moves = np.linspace(-1, 1, 401) * float(found.radii[0])
            assert (answers(p0(moves)) == int(found.labels[0])).all()
            assert found.norm == noise.norm


def test_the_radius_is_attained_by_parallel_members() -> None:
    """Two members with one normal: the weaker one overtakes on the other side just past the radius."""
    strong, weak = Linear(2, seed=4), Linear(2, seed=4)
    with torch.no_grad():
        weak.b += 0.2 * weak.w.norm()
        x = (0.5 + 0.4 * strong.w / strong.w.norm())[None]
        strong.b += 0.5 * strong.w.norm()
    p0 = linear_probabilities([strong, weak], x)[:, 0]
    counts = counts_of(np.stack([p0, 1 - p0], axis=1), 10**10)
    radius = float(eas_from_counts(counts, counts, NOISE, 0.001).radii[0])
    step = -(strong.w / strong.w.norm()).detach()
    inside, outside = x + (radius - 1e-3) * step, x + (radius + 1e-3) * step
    assert answers(linear_probabilities([strong, weak], torch.cat([inside, outside]))).tolist() == [0, 1]


def test_the_printed_theorem_fails_below_one_half_and_this_does_not() -> None:
    """Member 1 answers 0 left of two cuts, 2 between them and 1 to the right; member 2 is no help."""
    first, second = np.array([0.40, 0.39, 0.21]), np.array([0.33, 0.35, 0.32])
    printed = (SIGMA * ndtri(0.40) - SIGMA * ndtri(0.35)) / 2
    shift = 0.5 * printed
    moved = ndtr(ndtri(first[:2]) + np.array([-1, 1]) * shift / SIGMA)
    highest_of_second = ndtr(ndtri(second.max()) + shift / SIGMA)
    assert printed > 0.019
    assert moved[1] > max(moved[0], highest_of_second)
    counts = counts_of(np.stack([first, second]), 10**10)
    found = eas_from_counts(counts, counts, NOISE, 0.001, bound="two-sided")
    true_radius = SIGMA * (ndtri(0.40) - ndtri(0.39)) / 2
    assert int(found.labels[0]) == 0
    assert 0.99 * true_radius < float(found.radii[0]) < true_radius


def test_one_member_is_ordinary_certification_to_the_bit() -> None:
    generator = torch.Generator().manual_seed(0)
    counts = torch.stack([torch.bincount(row, minlength=4) for row in _labels(generator, 500, 1_000)])
    selection = torch.stack([torch.bincount(row, minlength=4) for row in _labels(generator, 500, 50)])
    for alpha in (0.05, 0.001):
        one = sw.certificates_from_counts(selection, counts, NOISE, alpha)
        eas = eas_from_counts(selection[:, None], counts[:, None], NOISE, alpha)
        assert 100 < int((one.labels != sw.ABSTAIN).sum()) < 500
        assert np.array_equal(eas.labels, one.labels)
        assert np.array_equal(eas.radii, one.radii)
        assert np.array_equal(eas.p_lower, one.p_lower)
        assert np.array_equal(eas.counts[:, 0], one.counts)
        assert np.array_equal(eas.selection_counts[:, 0], one.selection_counts)
        assert (eas.n0, eas.n.tolist(), len(eas)) == (50, [1_000] * 500, 500)


def _labels(generator: torch.Generator, inputs: int, draws: int) -> Tensor:
    """Labels 0 to 3 whose distribution changes from near certain to even over the inputs."""
    leading = torch.rand(inputs, draws, generator=generator) < torch.linspace(0.3, 1.0, inputs)[:, None]
    return torch.where(leading, 0, torch.randint(0, 4, (inputs, draws), generator=generator))


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("case", ["equal members", "one disagrees", "one member"])
def test_bounds_hold_as_often_as_promised(case: str, two_sided: bool) -> None:
    """20,000 certificates at alpha = 5%: both bounds hold but for Binomial(20000, <= 5%) of them.

    False alarm below 1e-7 each. With equal members, leaving out the union bound would fail 40% of them;
    one-sided bounds should also fail nearly as often as they may, being nearly exact at n = 1,000.
    """
    p = {
        "equal members": np.array([[0.7, 0.3, 0.0]] * 10),
        "one disagrees": np.array([[0.9, 0.05, 0.05], [0.2, 0.6, 0.2]]),
        "one member": np.array([[0.45, 0.35, 0.2]]),
    }[case]
    trials, n, alpha = 20_000, 1_000, 0.05
    rng = np.random.default_rng(3)
    counts = np.stack([rng.multinomial(n, row, size=trials) for row in p], axis=1)
    selection = np.broadcast_to([100, 0, 0], counts.shape)
    found = eas_from_counts(selection, counts, NOISE, alpha, bound=BOUNDS[two_sided])
    best, other = p[:, 0].max(), p[:, 1:].max()
    failed = (found.p_lower > best) | (found.p_upper < other)
    too_far = found.radii > max(NOISE.sigma / 2 * (ndtri(best) - ndtri(other)), 0.0)
    assert int(too_far.sum()) <= int(failed.sum()) <= binom.isf(1e-7, trials, alpha)
    if case == "equal members":
        assert int(failed.sum()) >= binom.ppf(1e-7, trials, 0.7 * alpha)


def test_two_sides_certify_where_a_member_disagrees() -> None:
    counts = counts_of(np.array([[0.98, 0.01, 0.01], [0.01, 0.7, 0.29]]), 10_000)
    one = eas_from_counts(counts, counts, NOISE, 0.001)
    assert (one.labels.tolist(), one.radii.tolist()) == ([sw.ABSTAIN], [0.0])
    assert one.bound == "after-smoothing"
    two = eas_from_counts(counts, counts, NOISE, 0.001, bound="two-sided")
    assert two.labels.tolist() == [0]
    assert 0 < float(two.radii[0]) < SIGMA * (ndtri(0.98) - ndtri(0.7)) / 2


def test_the_class_is_chosen_by_other_draws_than_bound_it() -> None:
    """By hand: the n0 draws say 1, the n draws say 0; class 1 is what is bounded."""
    selection = torch.tensor([[[6, 4], [3, 7]]])
    counts = torch.tensor([[[990, 10], [980, 20]]])
    for two_sided in (False, True):
        found = eas_from_counts(selection, counts, NOISE, 0.001, bound=BOUNDS[two_sided])
        assert (found.labels.tolist(), found.radii.tolist()) == ([sw.ABSTAIN], [0.0])
        assert found.p_lower.item() < 0.02
        assert found.p_upper.item() > 0.98


@pytest.mark.parametrize(
    ("selection", "label"),
    [
        ([[5, 5, 0], [0, 2, 8]], 2),  # the surest member's class
        ([[1, 9, 0], [9, 0, 1]], 1),  # a tie of members: the first one's
        ([[5, 5, 0], [5, 0, 5]], 0),  # a tie within it: the lowest class
    ],
)
def test_the_surest_member_on_the_selection_draws_is_heard(selection: list[list[int]], label: int) -> None:
    certain = torch.nn.functional.one_hot(torch.tensor([[label] * 2]), 3) * 1_000
    found = eas_from_counts([selection], certain, NOISE, 0.001)
    assert found.labels.tolist() == [label]


def test_a_bound_that_is_not_cleared_is_an_abstention() -> None:
    counts = counts_of(np.array([[0.52, 0.48], [0.51, 0.49]]), 1_000)
    found = eas_from_counts(counts, counts, NOISE, 0.001)
    assert (found.labels.tolist(), found.radii.tolist()) == ([sw.ABSTAIN], [0.0])
    assert found.p_lower.item() < 0.5 < found.p_upper.item()


def test_the_sampling_error_widens_both_bounds() -> None:
    counts = counts_of(np.array([[0.9, 0.1], [0.8, 0.2]]), 1_000)

    class Off(sw.Gaussian):
        def total_variation(self, size: int) -> float:
            return 0.01 * size

    off, far_off = (eas_from_counts(counts, counts, Off(NOISE.sigma), 0.001, size=size) for size in (1, 60))
    p_lower, p_upper = off.p_lower.item() - 0.01, off.p_upper.item() + 0.01
    assert off.radii.item() == pytest.approx(float(NOISE.radius(p_lower, p_upper)))
    assert 0 < off.radii.item() < eas_from_counts(counts, counts, NOISE, 0.001).radii.item()
    assert far_off.labels.tolist() == [sw.ABSTAIN]


def test_counts_that_a_rule_stopped_take_its_bound() -> None:
    counts = counts_of(np.array([[0.9, 0.1], [0.8, 0.2]]), 1_000)
    fixed = eas_from_counts(counts, counts, NOISE, 0.001)
    stopped = eas_from_counts(counts, counts, NOISE, 0.001, bound=Sequential(5_000))
    lower = Sequential(5_000).lower(np.array([900, 800]), np.array([1_000, 1_000]), 0.001 / 2)
    assert stopped.p_lower.item() == lower[0] < fixed.p_lower.item()
    assert stopped.p_upper.item() == 1 - lower[1]
    assert stopped.bound == "after-smoothing-sequential(5000,0.35,0.25)"
    again = eas_from_counts(counts, counts, "gaussian(0.3)", 0.001, bound=stopped.bound)
    assert again.radii == stopped.radii


def test_counts_that_cannot_be_members_are_refused() -> None:
    good = torch.full((3, 2, 4), 25)
    with pytest.raises(sw.UserError, match=r"given: \(3, 2, 4\) and \(3, 2, 3\)"):
        eas_from_counts(good, good[..., :3], NOISE, 0.001)
    uneven = good.clone()
    uneven[2, 1, 0] -= 1
    with pytest.raises(sw.UserError, match=r"same samples; for the bounds they have \[100, 99\]"):
        eas_from_counts(good, uneven, NOISE, 0.001)
    with pytest.raises(sw.UserError, match="alpha"):
        eas_from_counts(good, good, NOISE, 1.5)
