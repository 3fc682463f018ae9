"""Certification: CERTIFY of Cohen et al. (2019) for any classifier, or for many votes in one pass.

n0 draws choose the class, n fresh draws bound its probability from below (Clopper-Pearson, exact),
and the noise turns the bound into a radius. With probability at least 1 - alpha over the draws, the
smoothed classifier returns `label` everywhere within `radius` of the input; or it abstains.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from shieldwall.ensembles.votes import Vote, resolve
from shieldwall.smoothing import bounds
from shieldwall.smoothing.classify import by_argmax, by_votes
from shieldwall.smoothing.noise import Noise
from shieldwall.smoothing.sample import stream_counts

ABSTAIN = -1
"""The label of an input whose class could not be told with the confidence asked for."""


@dataclass(frozen=True)
class Certificates:
    """Certificates of M inputs under one vote, with everything they were made from."""

    labels: Tensor
    """(M,) int64; ABSTAIN where nothing is certified."""
    radii: Tensor
    """(M,) float64; 0 where nothing is certified."""
    p_lower: Tensor
    """(M,) float64: the lower bound on the probability of the class that the first n0 draws chose."""
    counts: Tensor
    """(M, K) int64: how often each class won on the n draws of the bound."""
    selection_counts: Tensor
    """(M, K) int64: how often each class won on the n0 draws of the choice."""
    noise: Noise
    alpha: float

    @property
    def n0(self) -> int:
        return int(self.selection_counts[0].sum())

    @property
    def n(self) -> int:
        return int(self.counts[0].sum())

    def __len__(self) -> int:
        return len(self.labels)


def from_counts(selection_counts: Tensor, counts: Tensor, noise: Noise, alpha: float) -> Certificates:
    """Certificates from counts alone, (M, K) each: alpha can be revisited without drawing again."""
    chosen = selection_counts.argmax(-1)
    successes = counts.gather(-1, chosen[:, None])[:, 0]
    p_lower = bounds.clopper_pearson_lower(successes.numpy(), counts.sum(-1).numpy(), alpha)
    certified = torch.from_numpy(p_lower > 0.5)
    return Certificates(
        labels=torch.where(certified, chosen, ABSTAIN),
        radii=torch.where(certified, torch.from_numpy(noise.radius(p_lower)), 0.0),
        p_lower=torch.from_numpy(p_lower),
        counts=counts,
        selection_counts=selection_counts,
        noise=noise,
        alpha=alpha,
    )


def certify(
    classifier: Callable[[Tensor], Tensor],
    x: Tensor,
    *,
    noise: Noise,
    n0: int = 100,
    n: int = 100_000,
    alpha: float = 0.001,
    seed: int = 0,
    indices: Sequence[int] | None = None,
    batch_size: int | None = None,
    device: torch.device | str | None = None,
    value_range: tuple[float, float] | None = (0.0, 1.0),
) -> Certificates:
    """Certify any classifier from images (B, ...) to scores (B, K) at the inputs x (M, ...).

    Args:
        noise: what the classifier was trained with, such as `sw.Gaussian(0.5)`, in units of pixels.
        n0: draws that choose the class.
        n: draws that bound its probability.
        alpha: the probability, per input, that a certificate is wrong.
        seed: with an input's index, names its draws.
        indices: the inputs' own numbers, 0 to M - 1 unless given: an input keeps its certificate
            whichever other inputs are certified beside it.
        batch_size: noisy copies per call of the classifier; changes the speed, not the draws.
        device: where to run; by default where the classifier's parameters are.
        value_range: what x must lie in. Normalisation belongs inside the classifier, so that noise
            is added to pixels; `None` allows any finite values.
    """
    bounds.check_draws(n0, n, alpha)
    found = stream_counts(
        by_argmax(classifier), [classifier], x, noise, n0, n,
        seed=seed, indices=indices, batch_size=batch_size, device=device, value_range=value_range,
    )  # fmt: skip
    selection, counts = torch.stack([one[0] for one in found]).unbind(1)
    return from_counts(selection, counts, noise, alpha)


def certify_members(
    members: Iterable[nn.Module],
    x: Tensor,
    *,
    votes: Iterable[Vote | str] | None = None,
    noise: Noise,
    n0: int = 100,
    n: int = 100_000,
    alpha: float = 0.001,
    seed: int = 0,
    **options: Any,
) -> dict[str, Certificates]:
    """Certify every vote over the members in one pass: each member runs once per noisy batch.

    `votes` are `Vote`s or their names; by default each `member-1` to `member-N`, `we` and `mme`.
    The other arguments are those of `certify`, and so are the draws: `certify(WeightedEnsemble(...))`
    gives the very counts of `we`.
    """
    bounds.check_draws(n0, n, alpha)
    members = list(members)
    chosen = resolve(votes, len(members))
    found = stream_counts(by_votes(members, chosen), members, x, noise, n0, n, seed=seed, **options)
    by_vote = torch.stack(list(found), dim=1)  # (V, M, 2, K)
    return {
        vote.name: from_counts(counts[:, 0], counts[:, 1], noise, alpha)
        for vote, counts in zip(chosen, by_vote, strict=True)
    }
