"""Margins of real members, their gradients by autograd, and the robustness indicator of smoothed ones.

    f_j^{y0/y}(x) = f_j(x)_{y0} - f_j(x)_y                          f_j: the softmax of member j's logits
    I~_y = || E grad sum_j w_j f_j^{y0/y}(x0 + eps) || / ||w||_1
           - 1/(r ||w||_1) E sum_j w_j f_j^{y0/y}(x0 + eps)                                        eq:Itilde

`first_order` gives what the functions of `theory.conditions` take: margins and gradients of the members as
they are, of which `eri_weighted` makes eq:I. Those of soft-smoothed members, x -> E f_j(x + eps), are
estimated from noise samples in G groups. The mean of noisy gradients is longer than their expectation, much
longer in many dimensions, so inner products are averaged over pairs of different groups,

    <E g, E h> ~ 1/(G (G - 1)) sum_{a != b} <g_a, h_b>              g_a, h_a: means over group a

which has no bias. Standard errors come from leaving out one group at a time (the jackknife).

N members, B inputs, K classes, C = K - 1 rivals of the true class, D pixels, G groups.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from shieldwall import seeds
from shieldwall.ensembles.ensemble import confidences
from shieldwall.errors import UserError
from shieldwall.models.members import eval_mode
from shieldwall.noise.distributions import Noise
from shieldwall.theory.conditions import Conditions, normalized_weights

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class FirstOrder:
    """Margins against every rival of the true class, and their gradients.

    Of soft-smoothed members both have one more axis in front, G: their means over groups of noise samples.
    """

    rivals: Labels
    """(B, C): the classes other than the true one, in ascending order."""
    margins: Floats
    """(N, B, C) or (G, N, B, C)"""
    gradients: Floats
    """(N, B, C, D) or (G, N, B, C, D)"""


@dataclass(frozen=True)
class Estimate:
    """An estimate from noise samples, and its standard error."""

    value: Floats
    error: Floats


def first_order(members: Sequence[nn.Module], x: Tensor, y: Tensor) -> FirstOrder:
    """Margins and gradients of the members at inputs x (B, ...) of classes y (B,)."""
    with eval_mode(members):
        values, rows = zip(
            *(_jacobian(member, x, torch.zeros_like(x)[None]) for member in members), strict=True
        )
    return _against_rivals(y, np.stack(values), np.stack(rows))


def smoothed_first_order(
    members: Sequence[nn.Module],
    x: Tensor,
    y: Tensor,
    noise: Noise,
    *,
    draws: int = 200,
    groups: int = 20,
    seed: int = 0,
    indices: Sequence[int] | None = None,
    batch_size: int = 256,
) -> FirstOrder:
    """The same for the soft-smoothed members, estimated from noise samples in equal groups.

    The seed and an input's index determine its noise, which all members share; `draws` is rounded down to
    a multiple of `groups`. `batch_size` samples are evaluated at a time, at least one of each group.
    """
    if groups < 3 or draws < groups:
        raise UserError(f"draws must make at least 3 groups; given: {draws} draws in {groups} groups")
    values, rows = zip(
        *(
            _group_means(
                members, image, noise, draws // groups, groups, batch_size,
                seeds.generator(x.device, seed, "theory", index),
            )
            for image, index in zip(x, range(len(x)) if indices is None else indices, strict=True)
        ),
        strict=True,
    )  # fmt: skip
    return _against_rivals(y, np.stack(values, axis=2), np.stack(rows, axis=2))


def weighted_estimate(
    margins: Floats, gradients: Floats, weights: ArrayLike | None = None, *, beta: float
) -> Conditions:
    """`conditions.weighted_conditions` from group means (G, N, B, C) and (G, N, B, C, D), without bias.

    A single member is the ensemble with all weight on it.
    """
    shares = normalized_weights(weights, margins.shape[1])
    slope = length(np.einsum("j,gjbcd->gbcd", shares, gradients))
    return Conditions(np.einsum("j,gjbc->bc", shares, margins) / len(margins), slope, beta)


def max_margin_estimate(margins: Floats, gradients: Floats, *, beta: float) -> Conditions:
    """`conditions.max_margin_conditions` of two members likewise, (G, 2, B, C) and (G, 2, B, C, D)."""
    if margins.shape[1] != 2:
        raise UserError(f"these conditions are for MME of 2 members; given: {margins.shape[1]}")
    mean, (first, second) = margins.mean(0), gradients.swapaxes(0, 1)
    margin = (mean[0][..., :, None] + mean[1][..., None, :]) / 2
    of_sums, within = first.sum(0) @ second.sum(0).swapaxes(-1, -2), (first @ second.swapaxes(-1, -2)).sum(0)
    products = (of_sums - within) / (len(margins) * (len(margins) - 1))
    squares = inner(first, first)[..., :, None] + inner(second, second)[..., None, :] + 2 * products
    slope = np.sqrt(np.maximum(squares, 0.0)) / 2
    return Conditions(margin.reshape(len(margin), -1), slope.reshape(len(margin), -1), beta)


def max_margin_radius_estimate(margins: Floats, gradients: Floats, *, beta: float) -> Floats:
    """`conditions.max_margin_radius` of N >= 2 members likewise, (B,)."""
    members = range(margins.shape[1])
    radii = {
        (i, j): max_margin_estimate(margins[:, [i, j]], gradients[:, [i, j]], beta=beta).certified_radius()
        for i, j in combinations(members, 2)
    }
    worst = [np.min([radii[min(i, j), max(i, j)] for j in members if j != i], axis=0) for i in members]
    return np.asarray(np.max(worst, axis=0))


def smoothed_eri(smoothed: FirstOrder, r: float, weights: ArrayLike | None = None) -> Estimate:
    """eq:Itilde of WE for every input and rival, with standard errors, (B, C); equal weights by default."""
    return jackknife(
        lambda margins, gradients: weighted_estimate(margins, gradients, weights, beta=0.0).eri(r),
        smoothed.margins,
        smoothed.gradients,
    )


def inner(a: Floats, b: Floats) -> Floats:
    """<E a, E b> from group means (G, ..., D), without bias.  -> (...)"""
    groups = len(a)
    of_sums = np.einsum("...d,...d->...", a.sum(0), b.sum(0))
    within = np.einsum("g...d,g...d->...", a, b)
    return np.asarray((of_sums - within) / (groups * (groups - 1)))


def length(a: Floats) -> Floats:
    """||E a|| from group means (G, ..., D); 0 where its square is estimated below 0.  -> (...)"""
    return np.asarray(np.sqrt(np.maximum(inner(a, a), 0.0)))


def cosine(a: Floats, b: Floats) -> Floats:
    """The cosine of E a and E b from group means (G, ..., D), cut to [-1, 1].  -> (...)

    NaN where one is 0.
    """
    return _cosine(inner(a, b), length(a) * length(b))


def plain_cosine(a: Floats, b: Floats) -> Floats:
    """The cosine of a and b (..., D), NaN where one is 0.  -> (...)"""
    scale = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    return _cosine(np.asarray(np.einsum("...d,...d->...", a, b)), np.asarray(scale))


def jackknife(statistic: Callable[..., Floats], *grouped: Floats) -> Estimate:
    """A statistic of arrays (G, ...) of group means, and its standard error from leaving out each group."""
    groups = len(grouped[0])
    left_out = [statistic(*(np.delete(means, a, axis=0) for means in grouped)) for a in range(groups)]
    return Estimate(statistic(*grouped), np.sqrt((groups - 1) * np.var(left_out, axis=0)))


def _group_means(
    members: Sequence[nn.Module],
    x: Tensor,
    noise: Noise,
    per_group: int,
    groups: int,
    batch_size: int,
    generator: torch.Generator,
) -> tuple[Floats, Floats]:
    """Confidences (G, N, K) and gradients (G, N, K, D) at one input: means over each group of samples."""
    chunks = torch.split(noise.sample((per_group, groups, *x.shape), generator), max(1, batch_size // groups))
    copies = x.expand(groups, *x.shape)
    values, rows = [], []
    with eval_mode(members):
        for member in members:
            sums = [_jacobian(member, copies, chunk) for chunk in chunks]
            values.append(np.sum([confidence_sum for confidence_sum, _ in sums], axis=0) / per_group)
            rows.append(np.sum([gradient_sum for _, gradient_sum in sums], axis=0) / per_group)
    return np.stack(values, axis=1), np.stack(rows, axis=1)


def _jacobian(member: nn.Module, x: Tensor, offsets: Tensor) -> tuple[Floats, Floats]:
    """Confidences and gradients at x (B, ...), summed over offsets (m, B, ...): (B, K) and (B, K, D)."""
    points = x.detach().clone().requires_grad_()
    with torch.enable_grad():
        noisy = (points + offsets).flatten(0, 1)
        summed = confidences([member], noisy)[0].reshape(len(offsets), len(x), -1).sum(0)
        rows = [
            torch.autograd.grad(confidence.sum(), points, retain_graph=True)[0]
            for confidence in summed.unbind(1)
        ]
    gradients = torch.stack(rows, dim=1).flatten(2)
    return summed.detach().double().cpu().numpy(), gradients.double().cpu().numpy()


def _against_rivals(y: Tensor, values: Floats, rows: Floats) -> FirstOrder:
    """The true class's confidence and gradient less those of its rivals."""
    labels = y.cpu().numpy().astype(np.int64)[:, None]
    inputs, classes = np.arange(len(labels))[:, None], values.shape[-1]
    rivals = np.array([np.delete(np.arange(classes), label) for label in labels[:, 0]])
    return FirstOrder(
        rivals,
        values[..., inputs, labels] - values[..., inputs, rivals],
        rows[..., inputs, labels, :] - rows[..., inputs, rivals, :],
    )


def _cosine(products: Floats, scale: Floats) -> Floats:
    cosines = np.divide(products, scale, out=np.full(np.shape(products), np.nan), where=scale > 0)
    return np.asarray(np.clip(cosines, -1.0, 1.0))
