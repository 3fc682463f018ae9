"""Everything that a certificate's guarantee depends on, except the classifier."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from shieldwall.ensembles.votes import VoteSet
from shieldwall.noise.distributions import Noise
from shieldwall.recipes.recipe import Certification
from shieldwall.results.certificates import Certificates, Ints
from shieldwall.smoothing.certificates import Counts, certificates_from_counts
from shieldwall.smoothing.count_bounds import OneSided, TwoSided
from shieldwall.smoothing.eas import eas_from_counts
from shieldwall.smoothing.radius import Ball
from shieldwall.smoothing.stopping import FixedSampleSize, StopAtRadii, Stopping
from shieldwall.vocabulary import EAS


@dataclass(frozen=True)
class Plan:
    """How inputs of `size` numbers are certified."""

    noise: Noise
    size: int
    certification: Certification
    seed: int = 0
    correct_only: bool = False
    """Draw nothing to bound an input for which every vote chose a wrong class; its radius counts nowhere."""

    def __post_init__(self) -> None:
        _ = self.stopping  # refuses bad settings before any sampling

    @cached_property
    def ball(self) -> Ball:
        return Ball.of(self.noise, self.certification.norm, self.size)

    @cached_property
    def stopping(self) -> Stopping:
        c = self.certification
        if c.radii:
            return StopAtRadii(c.radii, self.ball, c.n, c.alpha)
        return FixedSampleSize(c.n, TwoSided() if c.bound == "two-sided" else OneSided())

    def settings(self) -> dict[str, Any]:
        """The plan as plain data, for the settings file beside the certificates."""
        c = self.certification
        return {
            "noise": str(self.noise), "size": self.size, "norm": self.ball.norm, "n0": c.n0, "n": c.n,
            "alpha": c.alpha, "bound": c.bound if c.radii else str(self.stopping.bound),
            **({"radii": sorted({float(radius) for radius in c.radii})} if c.radii else {}),
            "seed": self.seed, "precision": c.precision,
            **({"correct_only": True} if self.correct_only else {}),
        }  # fmt: skip

    def certificates(self, counts: Counts, votes: VoteSet) -> dict[str, Certificates]:
        """The certificate of each vote that is reported, at one input."""
        return self.certificates_of(counts.selection[None], counts.estimation[None], votes)

    def certificates_of(self, selection: Ints, estimation: Ints, votes: VoteSet) -> dict[str, Certificates]:
        """The same at M inputs, from their counts (M, V, K) that choose and that bound."""
        how: dict[str, Any] = {
            "noise": self.noise, "alpha": self.certification.alpha, "bound": self.stopping.bound,
            "norm": self.ball.norm, "size": self.size, "precision": self.certification.precision,
            "seed": self.seed,
        }  # fmt: skip
        kinds = selection.shape[-1]
        by_row = certificates_from_counts(selection.reshape(-1, kinds), estimation.reshape(-1, kinds), **how)
        num_votes = len(votes.counted)
        by_vote = {vote.name: by_row[k::num_votes] for k, vote in enumerate(votes.counted)}
        if EAS in votes.reported:
            in_order = votes.member_rows == list(range(len(votes.member_rows)))
            rows = slice(len(votes.member_rows)) if in_order else votes.member_rows  # a slice is no copy
            by_vote[EAS] = eas_from_counts(selection[:, rows], estimation[:, rows], **how)
        return {name: by_vote[name] for name in votes.reported}
