"""How smooth Gaussian noise makes any confidence: thm:smoothness-bound and prop:smoothness-lower-bound.

    g(x) = E f(x + sigma z),    z ~ N(0, I),    f with values in [low, high]
    Hessian of g = E f(x + sigma z) (z z^T - I) / sigma^2

    ||Hessian||_2 <= 2 (high - low) / sigma^2                    thm:smoothness-bound and its remark
    ||Hessian||_2 <= sqrt(2 / (pi e)) (high - low) / sigma^2     the same, sharp
    some f reaches    (high - low) / (sqrt(2 pi e) sigma^2)      prop:smoothness-lower-bound, f = 1[x >= 0]

The sharp one: u^T Hessian u = E f (t^2 - 1) / sigma^2 with t = u . z a standard normal. Over all f with
values in [0, 1] this is largest for f = 1[|t| > 1] and least for f = 1[|t| < 1], where it is 2 phi(1) = 0.484
and -0.484, over sigma^2. So the paper's 2 can be divided by 4.13, and its lower bound is half of what is
reached.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shieldwall.errors import UserError

Floats = NDArray[np.float64]

REACH = 9.0
"""Quadrature leaves out what lies further than this many sigma from the input, 3e-17 in the mean of z^2."""


def smoothness_bound(sigma: float, low: float = 0.0, high: float = 1.0) -> float:
    """thm:smoothness-bound: a soft-smoothed confidence in [low, high] is 2 (high - low) / sigma^2-smooth."""
    return 2.0 * _scale(sigma, low, high)


def sharp_smoothness_bound(sigma: float, low: float = 0.0, high: float = 1.0) -> float:
    """The least beta that serves every confidence in [low, high]: sqrt(2 / (pi e)) (high - low) / sigma^2."""
    return float(np.sqrt(2.0 / (np.pi * np.e))) * _scale(sigma, low, high)


def smoothness_lower_bound(sigma: float, low: float = 0.0, high: float = 1.0) -> float:
    """prop:smoothness-lower-bound: a beta below (high - low) / (sqrt(2 pi e) sigma^2) is too small for some.

    The confidence that shows it steps from low to high; its soft-smoothed form is beta-smooth if and only if
    beta is at least this.
    """
    return _scale(sigma, low, high) / float(np.sqrt(2.0 * np.pi * np.e))


def smoothed_hessians(
    confidence: Callable[[Floats], Floats], points: ArrayLike, sigma: float, *, nodes: int = 61
) -> Floats:
    """The Hessians (M, d, d) of the soft-smoothed confidence at points (M, d), by the trapezoid rule.

    Args:
        confidence: from inputs (B, d) to one confidence each, (B,); it need not be differentiable.
        nodes: per axis, nodes^d in all. For differentiable confidences 61 give ten digits and more; for
            steps the error falls as 1 / nodes.
    """
    x = np.asarray(points, dtype=np.float64)
    if x.ndim != 2:
        raise UserError(f"points to measure smoothness at are (M, d); given: {x.shape}")
    if nodes < 3:
        raise UserError(f"quadrature needs at least 3 nodes per axis; given: {nodes}")
    scale = _scale(sigma, 0.0, 1.0)
    z, weight = _gaussian_grid(nodes, x.shape[1])
    kernel = weight[:, None, None] * (z[:, :, None] * z[:, None, :] - np.eye(x.shape[1]))
    return np.stack([np.einsum("b,bij->ij", confidence(point + sigma * z), kernel) * scale for point in x])


def measured_smoothness(
    confidence: Callable[[Floats], Floats], points: ArrayLike, sigma: float, *, nodes: int = 61
) -> float:
    """The largest ||Hessian||_2 of the soft-smoothed confidence over points (M, d).

    No beta below this one serves that confidence; see `smoothed_hessians` for the arguments.
    """
    hessians = smoothed_hessians(confidence, points, sigma, nodes=nodes)
    return float(np.abs(np.linalg.eigvalsh(hessians)).max())


def _gaussian_grid(nodes: int, dimension: int) -> tuple[Floats, Floats]:
    """Points (nodes^d, d) of a grid and the weights of a standard normal on them, which add up to one."""
    axis = np.linspace(-REACH, REACH, nodes)
    density = np.exp(-(axis**2) / 2.0)
    density /= density.sum()
    grids = np.meshgrid(*[axis] * dimension, indexing="ij")
    densities = np.meshgrid(*[density] * dimension, indexing="ij")
    return np.stack([g.ravel() for g in grids], axis=-1), np.prod([w.ravel() for w in densities], axis=0)


def _scale(sigma: float, low: float, high: float) -> float:
    if not (np.isfinite(sigma) and sigma > 0):
        raise UserError(f"sigma must be positive; given: {sigma}")
    if not low < high:
        raise UserError(f"confidences lie between two numbers, the lower first; given: {low}, {high}")
    return (high - low) / sigma**2
