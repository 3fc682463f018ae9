"""Members with quadratic confidences: beta is known, and where a margin is lost is a root in closed form."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from shieldwall.ensembles import votes

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Quadratics:
    """f_i(x)_k = level + tilt . x + x^T bend x / 2 for N members in M cases, the input at 0 and y0 = 0."""

    level: Floats
    """(N, M, K)."""
    tilt: Floats
    """(N, M, K, d)."""
    bend: Floats
    """(N, M, K, d, d)."""
    beta: float

    @property
    def margins(self) -> Floats:
        return self.level[..., :1] - self.level[..., 1:]

    @property
    def gradients(self) -> Floats:
        return self.tilt[..., :1, :] - self.tilt[..., 1:, :]

    @property
    def margin_bends(self) -> Floats:
        return self.bend[..., :1, :, :] - self.bend[..., 1:, :, :]

    def confidences(self, points: Floats) -> Floats:
        """(N, M, P, K) at points (M, P, d)."""
        linear = np.einsum("nmkd,mpd->nmpk", self.tilt, points)
        bent = np.einsum("mpd,nmkde,mpe->nmpk", points, self.bend, points, optimize=True)
        return self.level[:, :, None] + linear + bent / 2.0


def random_quadratics(
    rng: np.random.Generator, *, members: int, cases: int, classes: int, dimension: int, beta: float
) -> Quadratics:
    """Confidences that add up to one near x0, each with ||bend||_2 <= beta and one per member with equality.

    A third of the bends is a multiple of the identity, where the conditions come close to being attained.
    """
    shape = (members, cases, classes)
    level = rng.dirichlet(np.ones(classes), size=(members, cases))
    tilt = rng.normal(size=(*shape, dimension)) * rng.lognormal(-0.5, 1.0, size=(1, cases, 1, 1))
    raw = rng.normal(size=(*shape, dimension, dimension))
    bend = (raw + raw.swapaxes(-1, -2)) / 2.0
    isotropic = rng.random(cases) < 1 / 3
    bend[:, isotropic] = rng.normal(size=(members, isotropic.sum(), classes, 1, 1)) * np.eye(dimension)
    tilt -= tilt.mean(2, keepdims=True)
    bend -= bend.mean(2, keepdims=True)
    largest = np.abs(np.linalg.eigvalsh(bend)).max((-1, -2))
    return Quadratics(level, tilt, bend * (beta / largest[..., None, None, None]), beta)


def subset(quadratics: Quadratics, cases: Bools) -> Quadratics:
    q = quadratics
    return Quadratics(q.level[:, cases], q.tilt[:, cases], q.bend[:, cases], q.beta)


def directions(rng: np.random.Generator, gradients: Floats) -> Floats:
    """Unit vectors (M, P, d) to search: many everywhere, and straight down every gradient (M, rivals, d)."""
    cases, _, dimension = gradients.shape
    if dimension == 1:
        return np.tile([[1.0], [-1.0]], (cases, 1, 1))
    if dimension == 2:
        angles = np.arange(180) * (2 * np.pi / 180)
        around = np.tile(np.stack([np.cos(angles), np.sin(angles)], axis=-1), (cases, 1, 1))
    else:
        around = rng.normal(size=(cases, 100, dimension))
    both = np.concatenate([around, -gradients], axis=1)
    return both / np.maximum(np.linalg.norm(both, axis=-1, keepdims=True), 1e-300)


def first_loss(margins: Floats, gradients: Floats, bends: Floats, along: Floats) -> Floats:
    """(M,): the least s at which m + s g.u + s^2 u^T B u / 2 falls below 0 for a rival and direction u.

    margins (M, rivals), gradients (M, rivals, d), bends (M, rivals, d, d), along (M, P, d).
    """
    m = margins[:, :, None]
    rate = np.einsum("mrd,mpd->mrp", gradients, along)
    half_bend = np.einsum("mpd,mrde,mpe->mrp", along, bends, along, optimize=True) / 2.0
    discriminant = rate**2 - 4.0 * half_bend * m
    denominator = -rate + np.sqrt(np.maximum(discriminant, 0.0))
    lost = (discriminant > 0) & (denominator > 0)
    root = np.divide(2.0 * m, denominator, out=np.full(rate.shape, np.inf), where=lost)
    return np.where(m < 0, 0.0, root).min((1, 2))


def pair_sums(first: Floats, second: Floats) -> Floats:
    """first (M, C, ...) and second (M, C, ...) -> half the sums for all pairs of classes, (M, C^2, ...)."""
    sums = (first[:, :, None] + second[:, None]) / 2.0
    return sums.reshape(len(first), -1, *first.shape[2:])


def vote_of(confidences: Floats, name: str, weights: Floats | None = None) -> NDArray[np.int64]:
    """Labels (M, P) of the library's own vote on confidences (N, M, P, K)."""
    members, cases, points, classes = confidences.shape
    flat = torch.from_numpy(confidences.reshape(members, cases * points, classes))
    if name == "we":
        scores = votes.weighted(flat, None if weights is None else torch.from_numpy(weights))
    elif name == "mme":
        scores = votes.max_margin(flat)
    else:
        scores = flat[int(name)]
    return scores.argmax(-1).numpy().reshape(cases, points)
