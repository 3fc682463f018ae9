"""Weights: the grid against brute force, SWEEN against expectation maximisation, the cache."""

import math
from itertools import product

import pytest
import torch
from torch import Tensor, nn

import shieldwall as sw
from shieldwall.data.dataset import ResidentSplit
from shieldwall.ensembles import votes, weights
from shieldwall.ensembles.ensemble import confidences as member_confidences
from shieldwall.ensembles.weights import (
    cache_confidences,
    compositions,
    grid_search_weights,
    sween_weights,
)


def table(num_members: int, num_inputs: int, num_classes: int = 4, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Confidences that lean towards the labels, some members more than others."""
    source = torch.Generator().manual_seed(seed)
    labels = torch.randint(num_classes, (num_inputs,), generator=source)
    logits = torch.randn(num_members, num_inputs, num_classes, generator=source)
    skill = torch.linspace(0.3, 1.5, num_members)[:, None, None]
    return (logits + skill * nn.functional.one_hot(labels, num_classes)).softmax(-1), labels


# The grid


def brute_force(confidences: Tensor, labels: Tensor, units: int) -> list[float]:
    """Every point of the cube that lies on the simplex; the vote as the ensemble takes it."""
    count = len(confidences)
    ranked = []
    for point in product(range(units + 1), repeat=count):
        if sum(point) == units:
            found = votes.weighted(confidences, torch.tensor(point) / units).argmax(-1)
            right = int((found == labels).sum())
            distance = math.dist([part / units for part in point], [1 / count] * count)
            ranked.append((-right, round(distance, 9), point))
    return [part / units for part in min(ranked)[2]]


@pytest.mark.parametrize(("count", "units"), [(1, 10), (2, 10), (3, 10), (3, 4), (4, 5), (5, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_grid_search_is_brute_force(count: int, units: int, seed: int) -> None:
    confidences, labels = table(count, 37, seed=seed)
    found = grid_search_weights(confidences, labels, step=1 / units)
    assert found.tolist() == pytest.approx(brute_force(confidences, labels, units))


def test_grid_search_finds_the_planted_weights() -> None:
    confidences, _ = table(3, 20_000)
    planted = torch.tensor([0.2, 0.7, 0.1])
    labels = votes.weighted(confidences, planted).argmax(-1)
    assert grid_search_weights(confidences, labels).tolist() == pytest.approx([0.2, 0.7, 0.1])


def test_grid_search_takes_another_score() -> None:
    confidences, labels = table(3, 50)

    def first_member_s_disagreement(weighted: Tensor, labels: Tensor) -> Tensor:
        return (weighted - confidences[0]).abs().sum((1, 2))

    found = grid_search_weights(confidences, labels, step=0.5, score=first_member_s_disagreement)
    assert found[0] == 0
    with pytest.raises(sw.UserError, match="6 numbers for 6 grid points"):
        grid_search_weights(confidences, labels, step=0.5, score=lambda weighted, labels: weighted)


def test_equal_scores_go_to_the_most_even_weights_then_to_the_first() -> None:
    confidences = torch.tensor([[[0.9, 0.1]]] * 3)
    labels = torch.tensor([0])
    assert grid_search_weights(confidences, labels).tolist() == pytest.approx([0.3, 0.3, 0.4])
    assert grid_search_weights(confidences[:2], labels).tolist() == [0.5, 0.5]
    assert grid_search_weights(confidences[:1], labels).tolist() == [1.0]


def test_the_grid_is_generated_whole_and_in_order() -> None:
    points = list(compositions(10, 3))
    assert len(points) == 66
    assert points == sorted(set(points))
    assert all(sum(point) == 10 and min(point) >= 0 for point in points)


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    confidences, labels = table(3, 40)
    whole = grid_search_weights(confidences, labels)
    for elements in (1, 40 * 4 * 7):
        monkeypatch.setattr(weights, "CHUNK_ELEMENTS", elements)
        assert grid_search_weights(confidences, labels).equal(whole)


def test_grids_that_cannot_be_searched_are_refused() -> None:
    confidences, labels = table(20, 5)
    with pytest.raises(sw.UserError, match="20,030,010 points"):
        grid_search_weights(confidences, labels)
    for step in (0.0, -0.1, 0.3, 2.0, float("nan")):
        with pytest.raises(sw.UserError, match="step must divide 1"):
            grid_search_weights(confidences, labels, step=step)
    with pytest.raises(sw.UserError, match=r"given: \(20, 5, 4\) and \(4,\)"):
        grid_search_weights(confidences, labels[:4])


# SWEEN


def cross_entropy(confidences: Tensor, labels: Tensor, w: Tensor) -> float:
    p_y = votes.weighted(confidences.double(), w)[torch.arange(len(labels)), labels]
    return -float(p_y.log().mean())


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_sween_reaches_the_optimum_of_its_objective(count: int, seed: int) -> None:
    """Mixing weights by expectation maximisation: another way to the optimum of a convex problem."""
    confidences, labels = table(count, 200, seed=seed)
    found = sween_weights(confidences, labels)
    assert float(found.sum()) == pytest.approx(1)
    assert bool((found >= 0).all())
    p_y = confidences.double()[:, torch.arange(len(labels)), labels]
    w = torch.full((count,), 1 / count, dtype=torch.float64)
    for _ in range(2_000):
        w = (w[:, None] * p_y / (w @ p_y)).mean(1)
    reached = cross_entropy(confidences, labels, found)
    assert reached <= cross_entropy(confidences, labels, torch.ones(count)) + 1e-12
    assert reached == pytest.approx(cross_entropy(confidences, labels, w), abs=1e-6)


def test_sween_prefers_the_better_member() -> None:
    labels = torch.tensor([0, 1, 0, 1])
    right = torch.eye(2)[labels] * 0.8 + 0.1
    guessing = torch.full((4, 2), 0.5)
    found = sween_weights(torch.stack([guessing, right]), labels)
    assert float(found[1]) > 0.95


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("seed", range(5))
def test_sween_never_loses_to_equal_weights(steps: int, seed: int) -> None:
    confidences, labels = table(3, 5, seed=seed)
    found = sween_weights(confidences, labels, steps=steps)
    equal = cross_entropy(confidences, labels, torch.ones(3))
    assert cross_entropy(confidences, labels, found) <= equal + 1e-12


def test_sween_keeps_equal_weights_where_nothing_is_better() -> None:
    confidences, labels = table(1, 20)
    assert sween_weights(confidences.expand(4, -1, -1), labels).tolist() == [0.25] * 4


def test_sween_survives_labels_that_nobody_believes() -> None:
    confidences = torch.tensor([[[1.0, 0.0], [0.9, 0.1]], [[1.0, 0.0], [0.2, 0.8]]])
    found = sween_weights(confidences, torch.tensor([1, 1]))
    assert bool(found.isfinite().all())
    assert float(found[1]) > 0.5


def test_sween_is_deterministic_and_refuses_what_cannot_be() -> None:
    confidences, labels = table(3, 30)
    with torch.no_grad():
        assert sween_weights(confidences, labels).equal(sween_weights(confidences, labels))
    with pytest.raises(sw.UserError, match="at least 1; given: 0"):
        sween_weights(confidences, labels, steps=0)


# The cache


class Counting(nn.Module):
    """A classifier that counts the inputs it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Dropout(0.5))
        self.seen = 0

    def forward(self, x: Tensor) -> Tensor:
        self.seen += len(x)
        return self.body(x)


def make_members(count: int) -> list[Counting]:
    torch.manual_seed(count)
    return [Counting() for _ in range(count)]


X = torch.randint(256, (7, 1, 2, 2), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
Y = torch.tensor([0, 1, 2, 0, 1, 2, 0])


def test_the_cache_holds_each_members_confidences_at_the_same_noise() -> None:
    members = make_members(3)
    members[0].eval()
    silent = cache_confidences(members, X / 255, Y, sw.Gaussian(1e-6), copies=4)
    assert silent.confidences.shape == (3, 28, 3)
    assert silent.labels.tolist() == [label for label in Y.tolist() for _ in range(4)]
    assert [member.seen for member in members] == [28, 28, 28], "each member runs once"
    assert [member.training for member in members] == [False, True, True]
    for member in members:
        member.eval()
    with torch.no_grad():
        expected = member_confidences(members, (X / 255).repeat_interleave(4, 0))
    assert torch.allclose(silent.confidences, expected, atol=1e-4)
    same = members[0]
    noisy = cache_confidences([same, same], X / 255, Y, sw.Gaussian(1.0), copies=4).confidences
    assert noisy[0].equal(noisy[1]), "members see the same noise"
    assert len(noisy[0].unique(dim=0)) == 28, "and every copy other noise"


def test_the_cache_depends_on_the_seed_and_not_on_batches() -> None:
    members, noise = make_members(2), sw.Gaussian(0.5)
    found = cache_confidences(members, X / 255, Y, noise, copies=3).confidences
    for batch_size in (1, 5, 21, 1_000):
        other = cache_confidences(members, X / 255, Y, noise, copies=3, batch_size=batch_size).confidences
        assert torch.allclose(other, found, atol=1e-6)
    assert not torch.allclose(cache_confidences(members, X / 255, Y, noise, copies=3, seed=1)[0], found)


def test_a_split_brings_its_own_labels() -> None:
    members, noise = make_members(2), sw.Gaussian(0.5)
    found = cache_confidences(members, ResidentSplit(X, Y), None, noise, copies=3)
    expected = cache_confidences(members, X / 255, Y, noise, copies=3)
    assert torch.allclose(found.confidences, expected.confidences, atol=1e-6)
    assert found.labels.equal(expected.labels)


def test_weights_are_found_on_the_cache_without_the_members() -> None:
    members = make_members(2)
    cached = cache_confidences(members, X / 255, Y, sw.Gaussian(0.5), copies=5)
    seen = [member.seen for member in members]
    for found in (sween_weights(*cached, steps=5), grid_search_weights(*cached)):
        assert sw.WeightedEnsemble(members, found).weights.shape == (2,)
    assert [member.seen for member in members] == seen


def test_images_without_labels_are_refused() -> None:
    members, noise = make_members(1), sw.Gaussian(0.5)
    with pytest.raises(sw.UserError, match=r"7 images need one label each.*given: none"):
        cache_confidences(members, X / 255, None, noise)
    with pytest.raises(sw.UserError, match=r"given: \(3,\)"):
        cache_confidences(members, X / 255, Y[:3], noise)
    with pytest.raises(sw.UserError, match="copies"):
        cache_confidences(members, X / 255, Y, noise, copies=0)
