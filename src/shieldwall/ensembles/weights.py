"""Weights of the weighted ensemble: learned (SWEEN, Liu et al. 2020) or searched on a grid.

Both work on confidences p (N, M, K) of members that ran once, on noisy versions of images that neither
training nor the final certification should see, with their labels y (M,):

    SWEEN   minimise over theta  -1/M sum_x log( sum_i w_i p_i(x)_y ),       w = softmax(theta)
    grid    maximise over w in {0, step, 2 step, ..., 1}^N with sum_i w_i = 1 the accuracy of
            argmax_c sum_i w_i p_i(x)_c                                      (adx-subsec:optimize-weights)
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor, nn

from shieldwall import seeds
from shieldwall.data.dataset import Split
from shieldwall.ensembles.ensemble import confidences as member_confidences
from shieldwall.errors import UserError
from shieldwall.models.members import infer_device, inference
from shieldwall.noise.distributions import Noise

MAX_POINTS = 1_000_000
"""Grid points beyond which a search is refused."""
CHUNK_ELEMENTS = 2**22
"""Weighted confidences held at a time, 32 MiB of them."""

Score = Callable[[Tensor, Tensor], Tensor]
"""How good weights are: weighted confidences (P, M, K) of P grid points, labels (M,) -> (P,)"""


class CachedConfidences(NamedTuple):
    confidences: Tensor
    """(N, M * copies, K), the copies of an image side by side."""
    labels: Tensor
    """(M * copies,)"""


def cache_confidences(
    members: Sequence[nn.Module],
    images: Tensor | Split,
    labels: Tensor | None,
    noise: Noise,
    *,
    copies: int = 10,
    seed: int = 0,
    batch_size: int = 1_000,
    device: torch.device | str | None = None,
) -> CachedConfidences:
    """Every member's confidences at `copies` noisy versions of each image, on the CPU.

    Args:
        images: (M, C, H, W) in [0, 1], or a split; from held-out data.
        labels: (M,); None for a split's own.
        seed: fixes the noise, image by image, whatever the batch size.
        batch_size: noisy images in memory at a time.
    """
    labels = images.labels if labels is None and isinstance(images, Split) else labels
    if labels is None or labels.shape != (len(images),) or not len(images):
        given = "none" if labels is None else str(tuple(labels.shape))
        raise UserError(f"{len(images)} images need one label each, and one image at least; given: {given}")
    if copies < 1 or batch_size < 1:
        raise UserError(f"copies and batch_size must be at least 1; given: {copies}, {batch_size}")
    where = infer_device(members, labels, device)
    parts = []
    for rows in torch.split(torch.arange(len(images)), max(1, batch_size // copies)):
        x = images.images(rows) if isinstance(images, Split) else images[rows.to(images.device)]
        drawn = [
            noise.sample((copies, *x.shape[1:]), seeds.generator(where, seed, "weights", index))
            for index in rows.tolist()
        ]
        noisy = (x.to(where)[:, None] + torch.stack(drawn)).flatten(0, 1)
        with inference(members):
            parts.append(member_confidences(members, noisy).cpu())
    # Joined outside of inference mode: what was made inside cannot take part in learning.
    return CachedConfidences(torch.cat(parts, dim=1), labels.cpu().repeat_interleave(copies))


def sween_weights(confidences: Tensor, labels: Tensor, *, steps: int = 100) -> Tensor:
    """SWEEN's weights (N,): at most so many steps of L-BFGS over all inputs at once, from equal weights."""
    check_cached(confidences, labels)
    if steps < 1:
        raise UserError(f"steps must be at least 1; given: {steps}")
    p_y = confidences.double().gather(2, labels.expand(len(confidences), -1)[..., None])[..., 0]
    p_y = p_y.clamp_min(torch.finfo(torch.float32).tiny)  # where nobody gives the label any confidence

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
    """The fraction of inputs whose weighted vote is the label.  (P, M, K), (M,) -> (P,)"""
    return (weighted.argmax(-1) == labels).double().mean(-1)


def grid_search_weights(
    confidences: Tensor, labels: Tensor, *, step: float = 0.1, score: Score = accuracy
) -> Tensor:
    """The weights (N,) of the best score on the simplex grid of this step.

    Among equal scores the weights nearest to equal ones win, and of those the lexicographically first.
    """
    check_cached(confidences, labels)
    units = round(1 / step) if 0 < step <= 1 else 0
    if not units or abs(units * step - 1) > 1e-9:
        raise UserError(f"step must divide 1, such as 0.1 or 0.25; given: {step}")
    num_members, num_inputs, num_classes = confidences.shape
    num_points = math.comb(units + num_members - 1, units)
    if num_points > MAX_POINTS:
        raise UserError(
            f"the grid of step {step:g} over {num_members} members has {num_points:,} points, more than "
            f"{MAX_POINTS:,}; take a larger step, or sween_weights"
        )
    exact = confidences.double()
    points = compositions(units, num_members)
    best: tuple[float, int, tuple[int, ...]] | None = None
    while chunk := list(islice(points, max(1, CHUNK_ELEMENTS // (num_inputs * num_classes)))):
        # Whole multiples in float64 are exact sums: ties between classes stay ties.
        multiples = torch.tensor(chunk).to(exact)
        scores = score(torch.tensordot(multiples, exact, dims=1) / units, labels)
        if scores.shape != (len(chunk),) or scores.isnan().any():
            raise UserError(
                f"a score must give {len(chunk)} numbers for {len(chunk)} grid points; given: {scores}"
            )
        for value, point in zip(scores.tolist(), chunk, strict=True):
            unevenness = sum((num_members * part - units) ** 2 for part in point)
            rank = (-value, unevenness, point)
            best = rank if best is None else min(best, rank)
    assert best is not None
    return torch.tensor(best[2]).to(exact) / units


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write `total` as a sum of `parts` numbers from 0, in lexicographic order."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


def check_cached(confidences: Tensor, labels: Tensor) -> None:
    if confidences.ndim != 3 or not confidences.numel() or labels.shape != confidences.shape[1:2]:
        raise UserError(
            "confidences (N members, M inputs, K classes) and labels (M,) are expected; given: "
            f"{tuple(confidences.shape)} and {tuple(labels.shape)}"
        )
