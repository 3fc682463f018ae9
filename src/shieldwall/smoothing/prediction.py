"""Prediction: PREDICT of Cohen et al. (2019), the smoothed classifier's answer without a radius."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from shieldwall.errors import UserError
from shieldwall.smoothing import bounds
from shieldwall.smoothing.certification import ABSTAIN
from shieldwall.smoothing.classify import by_argmax
from shieldwall.smoothing.noise import Noise
from shieldwall.smoothing.sample import stream_counts


@dataclass(frozen=True)
class Predictions:
    """Answers of the smoothed classifier at M inputs."""

    labels: Tensor
    """(M,) int64; ABSTAIN where the two leading classes cannot be told apart."""
    p_values: Tensor
    """(M,) float64 of the test that both leading classes are equally likely."""
    counts: Tensor
    """(M, K) int64: how often each class won."""


def predict(
    classifier: Callable[[Tensor], Tensor],
    x: Tensor,
    *,
    noise: Noise,
    n: int = 1_000,
    alpha: float = 0.001,
    seed: int = 0,
    **options: Any,
) -> Predictions:
    """The smoothed classifier's label at x (M, ...), or ABSTAIN.

    The label is wrong (not the smoothed classifier's own) with probability at most alpha: it is given
    only if a two-sided binomial test of the top two counts rejects a tie at level alpha. The other
    arguments are those of `certify`.
    """
    bounds.check_alpha(alpha)
    if n < 1:
        raise UserError(f"n, the number of draws, must be at least 1; given: {n}")
    found = stream_counts(by_argmax(classifier), [classifier], x, noise, 0, n, seed=seed, **options)
    counts = torch.stack([one[0, 1] for one in found])
    top = counts.topk(2).values
    p_values = torch.from_numpy(bounds.two_sided_sign_test(top[:, 0].numpy(), top[:, 1].numpy()))
    labels = torch.where(p_values <= alpha, counts.argmax(-1), ABSTAIN)
    return Predictions(labels, p_values, counts)
