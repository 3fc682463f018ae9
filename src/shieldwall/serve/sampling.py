"""One image's draws, made in turns, and what they prove after each.

    n0 draws choose class A;  of t <= n fresh ones, S return it
    radius(t) = noise.radius(p(t)),    p(t) = the `Sequential(n)` bound of S among t, at alpha

Why every number on the page may be believed. n is fixed before the first draw. With probability at least
1 - alpha / 5 the betting sequence lies below P(A) at all t < n at once (`smoothing.betting`); with at least
1 - 4 alpha / 5 Clopper and Pearson's bound does at t = n. So, with probability at least 1 - alpha, all radii
of one run hold together, those shown on the way and the last one, and the visitor may stop at any of them.
Nothing is picked by its outcome: each radius is a function of the counts beside it, and
`certificates_from_counts` gives it again. A second run of the same image has draws and an error of its own;
the better of the two has both.

For ensemble-after-smoothing, P(A) of each of N members is bounded in this way at alpha / N, and the radius is
that of `smoothing.eas`: with probability at least 1 - alpha, all bounds hold at all t at once.

Draws are named by a seed that the visitor does not know and that serves once.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from shieldwall.binomial import check_draws, clopper_pearson_lower
from shieldwall.results.certificates import Certificates
from shieldwall.serve.runs import Served
from shieldwall.smoothing.certificates import Counts, certificates_from_counts
from shieldwall.smoothing.count_bounds import LAST_LOOK, Sequential
from shieldwall.smoothing.eas import eas_from_counts
from shieldwall.smoothing.radius import Ball
from shieldwall.smoothing.sampler import FIRST_VIEW, Sampler
from shieldwall.smoothing.stopping import FixedSampleSize
from shieldwall.vocabulary import ABSTAIN, EAS

TURN_SECONDS = 0.025
"""How long one visitor's turn may take; a batch begun is finished."""


@dataclass(frozen=True)
class Standing:
    """What is known after some of the draws."""

    draws: int
    counts: list[int]
    """How often each class won; for ensemble-after-smoothing, the most that a member returned it."""
    chosen: int
    """The class that the first n0 draws return most often, so far if they are not made."""
    label: int | None
    """The certified class; None while nothing is certified."""
    radius: float
    p_lower: float


class Sampling:
    """The draws of one image under one vote of a run, or under ensemble-after-smoothing."""

    def __init__(
        self, run: Served, vote: str, image: Tensor, n: int, seed: int, device: torch.device
    ) -> None:
        counted = run.votes[vote]
        self._share = LAST_LOOK / len(counted)
        check_draws(run.n0, n, run.alpha, share=self._share)
        self.run, self.n, self.bound = run, n, Sequential(n)
        self.is_by_member = vote == EAS
        self._image = image.to(device)
        self._sampler = Sampler(
            run.members, counted, run.noise, run.n0, FixedSampleSize(n, self.bound),
            shape=image.shape, device=device, seed=seed, batch_size=run.batch_size,
        )  # fmt: skip

    @property
    def limit(self) -> float:
        """The radius if every draw returns class A: n draws certify no more."""
        p_lower = clopper_pearson_lower(self.n, self.n, self._share * self.run.alpha)
        return float(self._ball.radius(p_lower))

    @property
    def norm(self) -> str:
        return self._ball.norm

    def first_draws(self, count: int) -> tuple[Tensor, list[list[int]]]:
        """The first noisy images (count, C, H, W) of the sequence, and the votes on each."""
        noisy, labels = self._sampler.first_draws(self._image, count)
        return noisy, labels.T.tolist()

    def turns(self) -> Iterator[Standing]:
        """What is known after each turn, nothing at first; the last one has n draws."""
        deadline, seen = time.monotonic() + TURN_SECONDS, 0
        for counts in self._sampler.stream(self._image):
            drawn = int(counts.estimation[0].sum())
            # A turn ends at twice the draws of the last one, or when its time is up.
            if drawn >= max(FIRST_VIEW, 2 * seen) or drawn == self.n or time.monotonic() >= deadline:
                yield self._standing(counts)
                deadline, seen = time.monotonic() + TURN_SECONDS, drawn

    def _standing(self, counts: Counts) -> Standing:
        draws, most = int(counts.estimation[0].sum()), counts.estimation.max(0).tolist()
        chosen = int(counts.selection.argmax()) % counts.selection.shape[-1]
        if not draws:
            return Standing(draws, most, chosen, label=None, radius=0.0, p_lower=0.0)
        certificate = self._certificate(counts)
        label = int(certificate.labels[0])
        return Standing(
            draws=draws,
            counts=most,
            chosen=chosen,
            label=None if label == ABSTAIN else label,
            radius=float(certificate.radii[0]),
            p_lower=0.0 if certificate.p_lower is None else float(certificate.p_lower[0]),
        )

    def _certificate(self, counts: Counts) -> Certificates:
        noise, alpha = self.run.noise, self.run.alpha
        if not self.is_by_member:
            return certificates_from_counts(
                counts.selection, counts.estimation, noise, alpha, bound=self.bound, size=self._size
            )
        return eas_from_counts(
            counts.selection[None], counts.estimation[None], noise, alpha, bound=self.bound, size=self._size
        )

    @property
    def _size(self) -> int:
        return self._image.numel()

    @property
    def _ball(self) -> Ball:
        return Ball.of(self.run.noise, None, self._size)
