"""Certificates: what counts prove about the smoothed classifier."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shieldwall.binomial import check_alpha
from shieldwall.errors import UserError
from shieldwall.noise.distributions import Noise
from shieldwall.smoothing.ball import Ball
from shieldwall.smoothing.confidence import Bound, TwoSided, named
from shieldwall.smoothing.counts import whole_counts
from shieldwall.vocabulary import ABSTAIN


@dataclass(frozen=True)
class Certificates:
    """M certificates, with everything they were made from.

    With probability at least 1 - alpha over the draws of one of them, the smoothed classifier returns its
    label everywhere within its radius of the input.
    """

    labels: Tensor
    """(M,) int64; ABSTAIN where nothing is certified."""
    radii: Tensor
    """(M,) float64; 0 where nothing is certified."""
    p_lower: Tensor
    """(M,) float64: the lower bound on the probability of the class that the first n0 draws chose."""
    p_upper: Tensor
    """(M,) float64: the upper bound on the probability of every other class."""
    counts: Tensor
    """(M, K) int64: how often each class won on the draws of the bound; (M, N, K) by member for EAS."""
    selection_counts: Tensor
    """As counts, on the n0 draws of the choice."""
    noise: Noise
    alpha: float
    bound: str = "one-sided"
    """How the counts became bounds; a randomized one says with which u, input by input."""
    norm: str = "l2"
    """The norm of the radii."""
    precision: str = "float32"
    """The arithmetic of the classifier that is certified."""

    @property
    def n0(self) -> int:
        return int(self.selection_counts.sum(-1).flatten()[0])

    @property
    def n(self) -> Tensor:
        """(M,): the draws of the bound."""
        draws = self.counts.sum(-1)
        return draws if draws.ndim == 1 else draws[:, 0]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: slice) -> "Certificates":
        return replace(self, **{name: getattr(self, name)[rows] for name in _tensors()})

    @staticmethod
    def joined(parts: Sequence["Certificates"]) -> "Certificates":
        """The certificates of several inputs, made in the same way, as one."""
        changes: dict[str, Any] = {
            name: torch.cat([getattr(one, name) for one in parts]) for name in _tensors()
        }
        bounds = dict.fromkeys(one.bound for one in parts)
        return replace(parts[0], bound=",".join(bounds).replace("),randomized(", ","), **changes)


def from_counts(
    selection_counts: Tensor,
    counts: Tensor,
    noise: Noise,
    alpha: float,
    *,
    bound: Bound | str = "one-sided",
    norm: str | None = None,
    size: int | None = None,
    precision: str = "float32",
) -> Certificates:
    """Certificates from counts alone, (M, K) each: alpha can be revisited without drawing again.

    Args:
        bound: as a certificate records it: one-sided, two-sided, randomized(0.25) or sequential(1000).
        norm: of the radii; by default the noise's own.
        size: numbers per input, where radii depend on it.
        precision: what the classifier was run in.
    """
    check_alpha(alpha)
    selection_counts = whole_counts("selection_counts", selection_counts)
    counts = whole_counts("counts", counts)
    if counts.ndim != 2 or counts.shape[1] < 2 or selection_counts.shape != counts.shape:
        raise UserError(
            "selection_counts and counts must both be (M, K), with the same M inputs and K >= 2 classes; "
            f"given shapes: {tuple(selection_counts.shape)} and {tuple(counts.shape)}"
        )
    ball = Ball.of(noise, norm, size)
    bound = named(bound) if isinstance(bound, str) else bound
    chosen = selection_counts.argmax(-1)
    p_lower, p_upper = bound(chosen.numpy(), counts.numpy(), alpha)
    radii = torch.from_numpy(ball.radius(p_lower, p_upper if isinstance(bound, TwoSided) else None))
    return certified(
        chosen, (p_lower, p_upper), radii, selection_counts, counts, ball, alpha, str(bound), precision
    )


def certified(
    chosen: Tensor,
    p_bounds: tuple[NDArray[np.float64], NDArray[np.float64]],
    radii: Tensor,
    selection_counts: Tensor,
    counts: Tensor,
    ball: Ball,
    alpha: float,
    bound: str,
    precision: str,
) -> Certificates:
    """Certificates of the chosen classes, which abstain where there is no radius."""
    return Certificates(
        labels=torch.where(radii > 0, chosen, ABSTAIN),
        radii=radii,
        p_lower=torch.from_numpy(p_bounds[0]),
        p_upper=torch.from_numpy(p_bounds[1]),
        counts=counts,
        selection_counts=selection_counts,
        noise=ball.noise,
        alpha=alpha,
        bound=bound,
        norm=ball.norm,
        precision=precision,
    )


def _tensors() -> list[str]:
    return [field.name for field in fields(Certificates) if field.type is Tensor]
