"""Weights of the weighted ensemble: learned (SWEEN, Liu et al. 2020) or searched on a grid.

Both take confidences p (N, M, C, K) of the members at C noisy copies x' of each of M images that neither
training nor the final certification should see, as `noisy_confidences` gives them, and labels y (M,):

    SWEEN   minimise over theta  -1/(M C) sum_x' log( sum_i w_i p_i(x')_y ),       w = softmax(theta)
    grid    maximise a score over w in {0, step, 2 step, ..., 1}^N with sum_i w_i = 1
            (adx-subsec:optimize-weights)

The scores of the grid, with F(x') = argmax_c sum_i w_i p_i(x')_c:

    accuracy              the share of copies with F(x') = y
    certified_accuracy    the share of images with F(x') = y at as many of the copies as certifying a radius
                          needs: an estimate of certified accuracy at this radius, not a certificate
"""

import math
from collections.abc import Callable, Iterator
from itertools import combinations, islice, pairwise

import torch
from torch import Tensor

from shieldwall.errors import UserError, check, checked, describe

MAX_POINTS = 1_000_000  # grid points beyond which a search is refused
CHUNK_ELEMENTS = 2**22  # weighted confidences held at a time, 32 MiB of them

Score = Callable[[Tensor, Tensor], Tensor]
"""How good weights are: weighted confidences (P, M, C, K) of P grid points, labels (M,) -> (P,)"""


@checked
def sween_weights(confidences: Tensor, labels: Tensor, *, steps: int = 100) -> Tensor:
    """SWEEN's weights (N,), by at most this many steps of L-BFGS, started at equal weights."""
    check_confidences(confidences, labels)
    check(steps >= 1, "steps must be at least 1", steps)
    by_copy = labels[None, :, None, None].expand(*confidences.shape[:3], 1)
    p_y = confidences.double().gather(3, by_copy).flatten(1)
    p_y = p_y.clamp_min(torch.finfo(torch.float32).tiny)  # where no member gives the label any confidence

    def cross_entropy(theta: Tensor) -> Tensor:
        return -(theta.softmax(0) @ p_y).log().mean()

    equal = p_y.new_zeros(len(p_y))
    theta = equal.clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [theta], max_iter=steps, tolerance_grad=1e-9, tolerance_change=1e-12, line_search_fn="strong_wolfe"
    )

    def closure() -> float:
        loss = cross_entropy(theta)
        (theta.grad,) = torch.autograd.grad(loss, theta)
        return loss.item()

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    learned = theta.detach()
    return (learned if cross_entropy(learned) < cross_entropy(equal) else equal).softmax(0)


def accuracy(weighted: Tensor, labels: Tensor) -> Tensor:
    """The share of noisy copies whose weighted vote is the label.  (P, M, C, K), (M,) -> (P,)"""
    return (weighted.argmax(-1) == labels[:, None]).double().mean((1, 2))


def certified_accuracy(needed: int) -> Score:
    """The score: the share of images whose weighted vote is the label at `needed` copies or more."""
    check(needed >= 1, "the number of copies needed must be at least 1", needed)

    def score(weighted: Tensor, labels: Tensor) -> Tensor:
        if needed > weighted.shape[2]:
            raise UserError(f"{needed} correct copies are needed, but each image has {weighted.shape[2]}")
        return ((weighted.argmax(-1) == labels[:, None]).sum(-1) >= needed).double().mean(1)

    return score


@checked
def grid_search_weights(
    confidences: Tensor, labels: Tensor, *, step: float = 0.1, score: Score = accuracy
) -> Tensor:
    """The weights (N,) of the best score on the simplex grid of this step.

    Among equal scores the weights nearest to equal ones win, and of those the lexicographically first.
    """
    check_confidences(confidences, labels)
    units = round(1 / step) if 0 < step <= 1 else 0
    check(units and abs(units * step - 1) <= 1e-9, "step must divide 1, such as 0.1 or 0.25", step)
    num_members = len(confidences)
    num_points = math.comb(units + num_members - 1, units)
    if num_points > MAX_POINTS:
        grid = f"the grid of step {step:g} over {num_members} members has {num_points:,} points"
        raise UserError(f"{grid}, more than {MAX_POINTS:,}; take a larger step, or sween_weights")
    exact = confidences.double()
    points = compositions(units, num_members)
    best: tuple[float, float, tuple[int, ...]] = math.inf, math.inf, ()
    while chunk := list(islice(points, max(1, CHUNK_ELEMENTS // exact[0].numel()))):
        # Whole multiples in float64 are exact sums: ties between classes stay ties.
        multiples = torch.tensor(chunk).to(exact)
        scores = score(torch.tensordot(multiples, exact, dims=1) / units, labels)
        are_numbers = scores.shape == (len(chunk),) and not scores.isnan().any()
        check(are_numbers, f"a score must give {len(chunk)} numbers for {len(chunk)} grid points", scores)
        for value, point in zip(scores.tolist(), chunk, strict=True):
            unevenness = sum((num_members * part - units) ** 2 for part in point)
            best = min(best, (-value, unevenness, point))
    return torch.tensor(best[2]).to(exact) / units


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write `total` as a sum of `parts` numbers from 0, in lexicographic order."""
    for bars in combinations(range(total + parts - 1), parts - 1):  # between stars
        yield tuple(after - before - 1 for before, after in pairwise([-1, *bars, total + parts - 1]))


def check_confidences(confidences: Tensor, labels: Tensor) -> None:
    for name, given in (("confidences", confidences), ("labels", labels)):
        check(isinstance(given, Tensor), f"{name} must be a torch tensor", describe(given))
    fit = confidences.ndim == 4 and confidences.numel() and labels.shape == confidences.shape[1:2]
    rule = "confidences (N members, M images, C copies, K classes) and labels (M,) are expected"
    check(fit, rule, f"{tuple(confidences.shape)} and {tuple(labels.shape)}")
