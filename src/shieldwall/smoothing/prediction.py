"""Prediction: PREDICT of Cohen et al. (2019), the smoothed classifier's answer without a radius."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from shieldwall import binomial
from shieldwall.errors import UserError, check_int
from shieldwall.models.members import infer_device
from shieldwall.noise.distributions import Noise
from shieldwall.smoothing.build import engine_for
from shieldwall.smoothing.inputs import check_inputs, numbered
from shieldwall.smoothing.stopping import FixedDraws
from shieldwall.vocabulary import ABSTAIN


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
    indices: Sequence[int] | None = None,
    batch_size: int | None = None,
    precision: str = "float32",
    device: torch.device | str | None = None,
    value_range: tuple[float, float] | None = (0.0, 1.0),
) -> Predictions:
    """The smoothed classifier's label at x (M, ...), or ABSTAIN.

    The label is wrong (not the smoothed classifier's own) with probability at most alpha: it is given
    only if a two-sided binomial test of the top two counts rejects a tie at level alpha. The other
    arguments are those of `certify`.
    """
    binomial.check_alpha(alpha)
    check_int("n", n)
    if n < 1:
        raise UserError(f"n, the number of draws, must be at least 1; given: {n}")
    check_inputs(x, noise, value_range)
    inputs = numbered(x, indices)
    engine = engine_for(
        [classifier], None, noise, 0, FixedDraws(n),
        shape=x.shape[1:], device=infer_device([classifier], x, device),
        seed=seed, batch_size=batch_size, precision=precision,
    )  # fmt: skip
    counts = torch.cat([found.counts for found in engine.counts(inputs)])
    top = counts.topk(2).values
    p_values = torch.from_numpy(binomial.two_sided_sign_test(top[:, 0].numpy(), top[:, 1].numpy()))
    labels = torch.where(p_values <= alpha, counts.argmax(-1), ABSTAIN)
    return Predictions(labels, p_values, counts)
