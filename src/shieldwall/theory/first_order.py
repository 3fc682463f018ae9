"""Margins of real members, their gradients by autograd, and the robustness indicator of smoothed ones.

    f_j^{y0/y}(x) = f_j(x)_{y0} - f_j(x)_y                          f_j: the softmax of member j's logits
    I~_y = || E grad sum_j w_j f_j^{y0/y}(x0 + eps) || / ||w||_1
           - 1/(r ||w||_1) E sum_j w_j f_j^{y0/y}(x0 + eps)                                        eq:Itilde

`first_order` has the margins and gradients that `theory.conditions` takes. Those of soft-smoothed members,
x -> E f_j(x + eps), are estimated from noise samples in G groups. The mean of noisy gradients is longer than
their expectation, so inner products are averaged over pairs of different groups, which has no bias:

    <E g, E h> ~ 1/(G (G - 1)) sum_{a != b} <g_a, h_b>              g_a, h_a: means over group a

Standard errors come from leaving out one group at a time (the jackknife).

N members, B inputs, K classes, C = K - 1 rivals of the true class, D pixels, G groups.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from shieldwall import seeds
from shieldwall.ensembles.votes import confidences
from shieldwall.errors import check
from shieldwall.models.members import evaluating, modules_of
from shieldwall.noise.distributions import Noise
from shieldwall.theory.conditions import Conditions, Floats, best_pair_radius, normalized_weights


@dataclass(frozen=True)
class FirstOrder:
    """Margins against every rival of the true class, and gradients; G: means over groups of noise samples."""

    rivals: NDArray[np.int64]  #: (B, C): the classes other than the true one, in ascending order
    margins: Floats  #: (N, B, C) or (G, N, B, C)
    gradients: Floats  #: (N, B, C, D) or (G, N, B, C, D)


class Estimate(NamedTuple):
    value: Floats
    error: Floats  #: its standard error


def first_order(members: Sequence[nn.Module], x: Tensor, y: Tensor) -> FirstOrder:
    """Margins and gradients of the members at inputs x (B, ...) of classes y (B,)."""
    with evaluating(modules_of(members)):
        parts = [_jacobian(member, x, torch.zeros_like(x)[None]) for member in members]
    values, rows = (np.stack(of_members) for of_members in zip(*parts, strict=True))
    return _against_rivals(y, values, rows)


def smoothed_first_order(
    members: Sequence[nn.Module], x: Tensor, y: Tensor, noise: Noise, *, draws: int = 200, groups: int = 20,
    seed: int = 0, indices: Sequence[int] | None = None, batch_size: int = 256,
) -> FirstOrder:  # fmt: skip
    """The same for the soft-smoothed members, estimated from noise samples in equal groups.

    The seed and an input's index determine its noise, which all members share. `draws` is rounded down to
    a multiple of `groups`.
    """
    given = f"{draws} draws in {groups} groups"
    check(groups >= 3 and draws >= groups, "each of 3 groups or more needs a draw", given)
    parts = []
    for image, index in zip(x, range(len(x)) if indices is None else indices, strict=True):
        generator = seeds.generator(x.device, seed, "theory", index)
        samples = noise.sample((draws // groups, groups, *image.shape), generator)
        parts.append(_group_means(members, image, torch.split(samples, max(1, batch_size // groups))))
    values, rows = (np.stack(of_inputs, axis=2) for of_inputs in zip(*parts, strict=True))
    return _against_rivals(y, values, rows)


def weighted_estimate(
    margins: Floats, gradients: Floats, weights: ArrayLike | None = None, *, beta: float
) -> Conditions:
    """`conditions.weighted_conditions` from group means (G, N, B, C) and (G, N, B, C, D)."""
    shares = normalized_weights(weights, margins.shape[1])
    slope = length(np.einsum("j,gjbcd->gbcd", shares, gradients))
    return Conditions(np.einsum("j,gjbc->bc", shares, margins) / len(margins), slope, beta)


def max_margin_estimate(margins: Floats, gradients: Floats, *, beta: float) -> Conditions:
    """`conditions.max_margin_conditions` of two members from (G, 2, B, C) and (G, 2, B, C, D)."""
    check(margins.shape[1] == 2, "these conditions are for MME of 2 members", margins.shape[1])
    mean, (first, second) = margins.mean(0), gradients.swapaxes(0, 1)
    margin = (mean[0][..., :, None] + mean[1][..., None, :]) / 2
    of_sums, within = first.sum(0) @ second.sum(0).swapaxes(-1, -2), (first @ second.swapaxes(-1, -2)).sum(0)
    products = (of_sums - within) / (len(margins) * (len(margins) - 1))
    squares = inner(first, first)[..., :, None] + inner(second, second)[..., None, :] + 2 * products
    slope = np.sqrt(np.maximum(squares, 0.0)) / 2
    return Conditions(margin.reshape(len(margin), -1), slope.reshape(len(margin), -1), beta)


def max_margin_radius_estimate(margins: Floats, gradients: Floats, *, beta: float) -> Floats:
    """`conditions.max_margin_radius` of N >= 2 members from group means, (B,)."""
    m, g = margins, gradients
    return best_pair_radius(lambda pair: max_margin_estimate(m[:, pair], g[:, pair], beta=beta), m.shape[1])


def inner(a: Floats, b: Floats) -> Floats:
    """<E a, E b> from group means (G, ..., D) by the formula at the head.  -> (...)"""
    of_sums, within = np.einsum("...d,...d->...", a.sum(0), b.sum(0)), np.einsum("g...d,g...d->...", a, b)
    return np.asarray((of_sums - within) / (len(a) * (len(a) - 1)))


def length(a: Floats) -> Floats:
    """||E a|| from group means (G, ..., D); 0 where its square is estimated below 0.  -> (...)"""
    return np.asarray(np.sqrt(np.maximum(inner(a, a), 0.0)))


def cosine(a: Floats, b: Floats) -> Floats:
    """The cosine of E a and E b from group means (G, ..., D), cut to [-1, 1]; NaN where one is 0."""
    products, scale = inner(a, b), length(a) * length(b)
    cosines = np.divide(products, scale, out=np.full(scale.shape, np.nan), where=scale > 0)
    return np.asarray(cosines.clip(-1.0, 1.0))


def jackknife(statistic: Callable[..., Floats], *grouped: Floats) -> Estimate:
    """A statistic of arrays (G, ...) of group means, and its standard error from leaving out each group."""
    groups = len(grouped[0])
    left_out = [statistic(*(np.delete(means, a, axis=0) for means in grouped)) for a in range(groups)]
    return Estimate(statistic(*grouped), np.sqrt((groups - 1) * np.var(left_out, axis=0)))


def _group_means(members: Sequence[nn.Module], x: Tensor, chunks: Sequence[Tensor]) -> tuple[Floats, Floats]:
    """Means over groups at one input x, (G, N, K) and (G, N, K, D), of samples (m, G, ...) in chunks of m."""
    copies, per_group, parts = x.expand(chunks[0].shape[1:]), sum(map(len, chunks)), []
    with evaluating(modules_of(members)):
        for member in members:
            sums = zip(*(_jacobian(member, copies, chunk) for chunk in chunks), strict=True)
            parts.append([np.sum(of_chunks, axis=0) / per_group for of_chunks in sums])
    values, rows = (np.stack(of_members, axis=1) for of_members in zip(*parts, strict=True))
    return values, rows


def _jacobian(member: nn.Module, x: Tensor, offsets: Tensor) -> tuple[Floats, Floats]:
    """Confidences and gradients at x (B, ...), summed over offsets (m, B, ...): (B, K) and (B, K, D)."""
    points = x.detach().clone().requires_grad_()
    with torch.enable_grad():
        noisy = (points + offsets).flatten(0, 1)
        summed = confidences([member], noisy)[0].reshape(len(offsets), len(x), -1).sum(0)
        totals = summed.sum(0)
        rows = [torch.autograd.grad(total, points, retain_graph=True)[0] for total in totals]
    gradients = torch.stack(rows, dim=1).flatten(2)
    return summed.detach().double().cpu().numpy(), gradients.double().cpu().numpy()


def _against_rivals(y: Tensor, values: Floats, rows: Floats) -> FirstOrder:
    """The true class's confidence and gradient less those of its rivals."""
    labels = y.cpu().numpy().astype(np.int64)[:, None]
    inputs, classes = np.arange(len(labels))[:, None], values.shape[-1]
    rivals = np.array([np.delete(np.arange(classes), label) for label in labels[:, 0]])
    margins = values[..., inputs, labels] - values[..., inputs, rivals]
    return FirstOrder(rivals, margins, rows[..., inputs, labels, :] - rows[..., inputs, rivals, :])
