"""Everything that a certificate's guarantee depends on, but the classifier."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from shieldwall import binomial, seeds
from shieldwall.errors import UserError, unknown_name
from shieldwall.noise.distributions import Noise
from shieldwall.smoothing.after import after_smoothing
from shieldwall.smoothing.ball import Ball
from shieldwall.smoothing.certificates import Certificates, from_counts
from shieldwall.smoothing.confidence import Bound, OneSided, Randomized, Sequential, TwoSided
from shieldwall.smoothing.stopping import AtRadii, FixedDraws, Stopping, Within

BOUNDS = ("one-sided", "two-sided", "randomized")


@dataclass(frozen=True)
class Plan:
    """How inputs of `size` numbers are certified."""

    noise: Noise
    size: int
    n0: int = 100
    n: int = 100_000
    alpha: float = 0.001
    seed: int = 0
    bound: str = "one-sided"
    radii: Sequence[float] | None = None
    """Stop an input as soon as each of these radii is decided."""
    tolerance: float | None = None
    """Stop an input as soon as its radius cannot change by more."""
    norm: str | None = None
    """The norm of the radii; None for the noise's own."""
    precision: str = "float32"

    def __post_init__(self) -> None:
        if self.bound not in BOUNDS:
            raise unknown_name("bound", self.bound, BOUNDS)
        binomial.check_draws(self.n0, self.n, self.alpha, share=0.5 if self.bound == "two-sided" else 1.0)
        if self.radii is not None and self.tolerance is not None:
            raise UserError("radii and tolerance are two rules for stopping: give one of them")
        if self.is_sequential and self.bound != "one-sided":
            raise UserError(
                f"the {self.bound} bound holds for a fixed number of draws: leave out radii and tolerance"
            )
        _ = self.stopping  # refuses what it cannot do before anything is drawn

    @property
    def is_sequential(self) -> bool:
        return self.radii is not None or self.tolerance is not None

    @cached_property
    def ball(self) -> Ball:
        return Ball.of(self.noise, self.norm, self.size)

    @cached_property
    def stopping(self) -> Stopping:
        if self.radii is not None:
            return AtRadii(self.radii, self.ball, self.n, self.alpha)
        if self.tolerance is not None:
            return Within(self.tolerance, self.ball, self.n, self.alpha)
        return FixedDraws(self.n, TwoSided() if self.bound == "two-sided" else OneSided())

    def settings(self) -> dict[str, Any]:
        """The plan in plain data, for a file that says what certificates were made with."""
        stopping: dict[str, Any] = {}
        if self.radii is not None:
            stopping = {"radii": sorted({float(radius) for radius in self.radii})}
        elif self.tolerance is not None:
            stopping = {"tolerance": self.tolerance}
        return {
            "noise": str(self.noise), "size": self.size, "norm": self.ball.norm, "n0": self.n0, "n": self.n,
            "alpha": self.alpha,
            "bound": self.bound, **stopping, "seed": self.seed, "precision": self.precision,
        }  # fmt: skip

    def bound_at(self, index: int, count: int) -> Bound:
        """The bound for `count` certificates of one input."""
        if self.bound != "randomized":
            return self.stopping.bound
        u = np.random.default_rng(seeds.derive(self.seed, "randomized bound", index)).random()
        return Randomized(np.full(count, u))

    def certificates(self, index: int, selection: Tensor, counts: Tensor) -> Certificates:
        """The certificates of one input under V votes from their counts (V, K)."""
        return from_counts(
            selection, counts, self.noise, self.alpha,
            bound=self.bound_at(index, len(counts)), norm=self.ball.norm, size=self.size,
            precision=self.precision,
        )  # fmt: skip

    def after_smoothing(self, selection: Tensor, counts: Tensor) -> Certificates:
        """The certificate of ensemble-after-smoothing at one input from the members' counts (N, K)."""
        bound = self.stopping.bound
        return after_smoothing(
            selection[:, None], counts[:, None], self.noise, self.alpha,
            two_sided=self.bound == "two-sided", sequential=bound if isinstance(bound, Sequential) else None,
            norm=self.ball.norm, size=self.size, precision=self.precision,
        )  # fmt: skip
