"""Weights: the grid against brute force, SWEEN against expectation maximisation."""

import math
from itertools import product

import pytest
import torch
from torch import Tensor, nn

import shieldwall as sw
from shieldwall.ensembles import votes, weights
from shieldwall.ensembles.weights import certified_accuracy, compositions, grid_search_weights, sween_weights


def table(
    num_members: int, num_images: int, num_classes: int = 4, *, copies: int = 1, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Confidences (N, M, C, K) that lean towards the labels, those of some members more than of others."""
    source = torch.Generator().manual_seed(seed)
    labels = torch.randint(num_classes, (num_images,), generator=source)
    logits = torch.randn(num_members, num_images, copies, num_classes, generator=source)
    skill = torch.linspace(0.3, 1.5, num_members)[:, None, None, None]
    return (logits + skill * nn.functional.one_hot(labels, num_classes)[:, None]).softmax(-1), labels


# The grid


def brute_force(confidences: Tensor, labels: Tensor, units: int, needed: int | None = None) -> list[float]:
    """Every point of the cube that lies on the simplex, with the vote as the ensemble takes it, copy by copy.

    What counts is the copies that are right, or the images of which `needed` are.
    """
    count, images, copies, _ = confidences.shape
    ranked = []
    for point in product(range(units + 1), repeat=count):
        if sum(point) == units:
            w = torch.tensor(point) / units
            correct = [
                sum(
                    int(votes.weighted(confidences[:, m, c, None], w).argmax()) == labels[m]
                    for c in range(copies)
                )
                for m in range(images)
            ]
            value = sum(correct) if needed is None else sum(copies >= needed for copies in correct)
            distance = math.dist([part / units for part in point], [1 / count] * count)
            ranked.append((-int(value), round(distance, 9), point))
    return [part / units for part in min(ranked)[2]]


@pytest.mark.parametrize(("count", "units"), [(1, 10), (2, 10), (3, 10), (3, 4), (4, 5), (5, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_grid_search_is_brute_force(count: int, units: int, seed: int) -> None:
    confidences, labels = table(count, 19, copies=2, seed=seed)
    found = grid_search_weights(confidences, labels, step=1 / units)
    assert found.tolist() == pytest.approx(brute_force(confidences, labels, units))


@pytest.mark.parametrize(("count", "units", "needed"), [(2, 10, 5), (3, 4, 1), (3, 5, 4), (3, 5, 6)])
@pytest.mark.parametrize("seed", range(3))
def test_grid_search_for_certified_accuracy_is_brute_force(
    count: int, units: int, needed: int, seed: int
) -> None:
    confidences, labels = table(count, 15, copies=6, seed=seed)
    score = certified_accuracy(needed)
    found = grid_search_weights(confidences, labels, step=1 / units, score=score)
    assert found.tolist() == pytest.approx(brute_force(confidences, labels, units, needed))


def test_certified_accuracy_prefers_few_whole_images_to_many_right_copies() -> None:
    """Member 1 is right at 3 of 4 copies of both images, member 2 at all of the first alone."""
    right, wrong = [0.9, 0.1], [0.1, 0.9]
    first = [[right, right, right, wrong]] * 2
    second = [[right] * 4, [wrong] * 4]
    confidences, labels = torch.tensor([first, second]), torch.tensor([0, 0])
    assert grid_search_weights(confidences, labels, step=1.0).tolist() == [1.0, 0.0]
    certified = grid_search_weights(confidences, labels, step=1.0, score=certified_accuracy(4))
    assert certified.tolist() == [0.0, 1.0]
    weighted = torch.stack([confidences[0], confidences[1]])
    assert certified_accuracy(4)(weighted, labels).tolist() == [0.0, 0.5]
    assert certified_accuracy(3)(weighted, labels).tolist() == [1.0, 0.5]


def test_more_copies_than_there_are_cannot_be_needed() -> None:
    confidences, labels = table(2, 5, copies=3)
    with pytest.raises(sw.UserError, match="4 correct copies are needed, but each image has 3"):
        grid_search_weights(confidences, labels, score=certified_accuracy(4))
    with pytest.raises(sw.UserError, match="at least 1; given: 0"):
        certified_accuracy(0)


def test_grid_search_finds_the_planted_weights() -> None:
    confidences, _ = table(3, 20_000)
    planted = torch.tensor([0.2, 0.7, 0.1])
    labels = votes.weighted(confidences[:, :, 0], planted).argmax(-1)
    assert grid_search_weights(confidences, labels).tolist() == pytest.approx([0.2, 0.7, 0.1])


def test_grid_search_takes_another_score() -> None:
    confidences, labels = table(3, 50)

    def first_member_s_disagreement(weighted: Tensor, labels: Tensor) -> Tensor:
        return (weighted - confidences[0]).abs().sum((1, 2, 3))

    found = grid_search_weights(confidences, labels, step=0.5, score=first_member_s_disagreement)
    assert found[0] == 0
    with pytest.raises(sw.UserError, match="6 numbers for 6 grid points"):
        grid_search_weights(confidences, labels, step=0.5, score=lambda weighted, labels: weighted)


def test_equal_scores_go_to_the_most_even_weights_then_to_the_first() -> None:
    confidences = torch.tensor([[[[0.9, 0.1]]]] * 3)
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
    with pytest.raises(sw.UserError, match=r"given: \(20, 5, 1, 4\) and \(4,\)"):
        grid_search_weights(confidences, labels[:4])
    with pytest.raises(sw.UserError, match=r"given: \(20, 5, 4\) and \(5,\)"):
        sween_weights(confidences[:, :, 0], labels)


# SWEEN


def cross_entropy(confidences: Tensor, labels: Tensor, w: Tensor) -> float:
    every_copy = labels.repeat_interleave(confidences.shape[2])
    p_y = votes.weighted(confidences.double().flatten(1, 2), w)[torch.arange(len(every_copy)), every_copy]
    return -float(p_y.log().mean())


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_sween_reaches_the_optimum_of_its_objective(count: int, seed: int) -> None:
    """Mixing weights by expectation maximisation: another way to the optimum of a convex problem."""
    confidences, labels = table(count, 100, copies=2, seed=seed)
    found = sween_weights(confidences, labels)
    assert float(found.sum()) == pytest.approx(1)
    assert bool((found >= 0).all())
    p_y = confidences.double()[:, torch.arange(len(labels)), :, labels].permute(1, 0, 2).flatten(1)
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
    found = sween_weights(torch.stack([guessing, right])[:, :, None], labels)
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
    assert sween_weights(confidences.expand(4, -1, -1, -1), labels).tolist() == [0.25] * 4


def test_sween_survives_labels_that_nobody_believes() -> None:
    confidences = torch.tensor([[[1.0, 0.0], [0.9, 0.1]], [[1.0, 0.0], [0.2, 0.8]]])
    found = sween_weights(confidences[:, :, None], torch.tensor([1, 1]))
    assert bool(found.isfinite().all())
    assert float(found[1]) > 0.5


def test_sween_is_deterministic_and_refuses_what_cannot_be() -> None:
    confidences, labels = table(3, 30)
    with torch.no_grad():
        assert sween_weights(confidences, labels).equal(sween_weights(confidences, labels))
    with pytest.raises(sw.UserError, match="at least 1; given: 0"):
        sween_weights(confidences, labels, steps=0)
