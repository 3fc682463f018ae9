"""One image's draws, made in turns, and what they prove after each.

    n0 draws choose class A;  of t <= n fresh ones, S return it
    radius(t) = noise.radius(p(t)),    p(t) = the `Sequential(n)` bound of S among t, at alpha

Why every number on the page may be believed. n is fixed before the first draw. With probability at least
1 - alpha / 5 the betting sequence lies below P(A) at all t < n at once (`smoothing.betting`); with at least
1 - 4 alpha / 5 Clopper and Pearson's bound does at t = n. So, with probability at least 1 - alpha, all radii
of one run hold together, those shown on the way and the last one, and the visitor may stop at any of them.
Nothing is picked by its outcome: each radius is a function of the counts beside it, and `from_counts` gives
it again. A second run of the same image has draws and an error of its own; the better of the two has both.

For ensemble-after-smoothing, P(A) of each of N members is bounded in this way at alpha / N, and the radius is
that of `smoothing.after`: with probability at least 1 - alpha, all bounds hold at all t at once.

Draws are named by a seed that the visitor does not know and that serves once.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from shieldwall.binomial import check_draws, clopper_pearson_lower
from shieldwall.errors import UserError
from shieldwall.models.members import inference
from shieldwall.serve.runs import Served
from shieldwall.smoothing.after import after_smoothing
from shieldwall.smoothing.ball import Ball
from shieldwall.smoothing.batch import Batch, InProgress
from shieldwall.smoothing.build import engine_for
from shieldwall.smoothing.certificates import Certificates, from_counts
from shieldwall.smoothing.confidence import LAST_LOOK, Sequential
from shieldwall.smoothing.precision import arithmetic
from shieldwall.smoothing.sample import NoiseStream
from shieldwall.smoothing.stopping import FixedDraws
from shieldwall.vocabulary import ABSTAIN, EAS

TURN_SECONDS = 0.025
"""How long one visitor's turn may take; a batch begun is finished."""
FIRST_LOOK = 16
"""Draws behind the first radius; the next looks come after twice as many each, while a turn allows it."""


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
        shape = tuple(image.shape)
        self._engine = engine_for(
            run.members, counted, run.noise, run.n0, FixedDraws(n, self.bound),
            shape=shape, device=device, seed=seed, batch_size=run.batch_size,
        )  # fmt: skip
        self._batch = Batch(self._engine)
        self._one = InProgress(0, 0, image.to(device), slot=0, stream=self._stream())

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
        pieces = [self.run.noise.perturb(self._one.image, piece) for piece in self._stream().take(count)]
        noisy = torch.cat(pieces)
        with inference(self._engine.owners), arithmetic(self._engine.precision):
            labels, _ = self._engine.classify(noisy)
        return noisy.cpu(), labels.T.tolist()

    def turns(self) -> Iterator[Standing]:
        """What is known after each turn, nothing at first; the last one has n draws."""
        end = self.run.n0 + self.n
        while self._one.drawn < end:
            looked = max(0, self._one.drawn - self.run.n0)
            goal = min(end, self.run.n0 + max(FIRST_LOOK, 2 * looked))
            yield self._draw_until(goal, time.monotonic() + TURN_SECONDS)

    def _draw_until(self, goal: int, deadline: float) -> Standing:
        while True:
            self._batch.add(self._one, min(goal - self._one.drawn, self._batch.size))
            self._batch.count()
            read = self._batch.read([self._one])
            if read.arrived is not None:
                read.arrived.synchronize()
            if self._one.drawn >= goal or time.monotonic() >= deadline:
                return self._standing(read.counts[:2].cpu())

    def _standing(self, counts: Tensor) -> Standing:
        """From the counts (2, V, K + 2) that choose the class and that bound it."""
        if counts[..., -1].any():
            raise UserError("the classifier returned NaN scores for a noisy image; check its weights")
        choice, bounding = counts[..., :-2]
        draws, most = int(bounding[0].sum()), bounding.amax(0).tolist()
        chosen = int(choice.flatten().argmax()) % choice.shape[-1]
        if not draws:
            return Standing(draws, most, chosen, label=None, radius=0.0, p_lower=0.0)
        found = self._certificate(choice, bounding)
        label = int(found.labels[0])
        return Standing(
            draws=draws,
            counts=most,
            chosen=chosen,
            label=None if label == ABSTAIN else label,
            radius=float(found.radii[0]),
            p_lower=float(found.p_lower[0]),
        )

    def _certificate(self, choice: Tensor, bounding: Tensor) -> Certificates:
        noise, alpha = self.run.noise, self.run.alpha
        if not self.is_by_member:
            return from_counts(choice, bounding, noise, alpha, bound=self.bound, size=self._size)
        return after_smoothing(
            choice[:, None], bounding[:, None], noise, alpha, sequential=self.bound, size=self._size
        )

    def _stream(self) -> NoiseStream:
        engine = self._engine
        return NoiseStream(engine.noise, engine.shape, engine.device, engine.seed, 0)

    @property
    def _size(self) -> int:
        return self._one.image.numel()

    @property
    def _ball(self) -> Ball:
        return Ball.of(self.run.noise, None, self._size)
