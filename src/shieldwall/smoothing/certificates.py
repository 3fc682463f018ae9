"""From counts to certificates, before and after smoothing: what they prove about the smoothed classifier."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from shieldwall.binomial import check_alpha
from shieldwall.errors import UserError, check, check_name, checked
from shieldwall.noise.distributions import Noise
from shieldwall.recipes.recipe import Certification
from shieldwall.results.certificates import Certificates, Ints
from shieldwall.smoothing.count_bounds import Ball, Bound, OneSided, TwoSided, parse_bound
from shieldwall.smoothing.stopping import FixedSampleSize, StopAtRadii, Stopping
from shieldwall.vocabulary import ABSTAIN, EAS, PRECISIONS

if TYPE_CHECKING:
    from torch import Tensor

    from shieldwall.ensembles.votes import VoteSet

PREFIX = "after-smoothing"  # what the bound of EAS begins with in a file


@dataclass(frozen=True)
class Counts:
    """How often each class won at one input, (V, K) for V votes."""

    index: int
    selection: Ints  # on the n0 samples that select the class
    estimation: Ints  # on the fresh samples that bound its probability


@checked
def certificates_from_counts(
    selection_counts: "ArrayLike | Tensor", counts: "ArrayLike | Tensor", noise: Noise | str | float,
    alpha: float, *, bound: Bound | str = "one-sided", norm: str | None = None, size: int | None = None,
    precision: str = "float32", seed: int | None = None,
) -> Certificates:  # fmt: skip
    """Certificates from counts alone, (M, K) each: another alpha needs no new samples.

    `noise` and `bound` may be their texts in a certificate file: gaussian(0.25), two-sided(0.05), ... `norm`
    is that of the radii, by default that of the noise. `size` is the number of values per input, for norms
    in which radii depend on it. `precision` and the noise `seed` are noted.
    """
    selection, estimation = _whole("selection_counts", selection_counts), _whole("counts", counts)
    fits = estimation.ndim == 2 and estimation.shape[1] >= 2 and selection.shape == estimation.shape
    rule = "selection_counts and counts must both be (M, K), with the same M inputs and K >= 2 classes"
    if not fits:
        raise UserError(f"{rule}; given shapes: {selection.shape} and {estimation.shape}")
    return _certificates(selection, estimation, noise, alpha, parse_bound(bound), norm, size, precision, seed)


@checked
def eas_from_counts(
    selection_counts: "ArrayLike | Tensor", counts: "ArrayLike | Tensor", noise: Noise | str, alpha: float,
    *, bound: Bound | str = "one-sided", norm: str | None = None, size: int | None = None,
    precision: str = "float32", seed: int | None = None,
) -> Certificates:  # fmt: skip
    """Certificates of ensemble-after-smoothing, EAS, from its members' counts, (M, N, K) each.

    The options are those of `certificates_from_counts`; a bound may also be given as these certificates
    record it, such as after-smoothing-two-sided(0.05). p_lower bounds A, and p_upper B. The member surest of
    its smoothed answer gives it (def:eas):

        g_i,y(x) = P(F_i(x + noise) = y),    H(x) = argmax_y max_i g_i,y(x)
        A = max_i g_i,y0(x),    B = max of g_i,y(x) over members i and classes y != y0
        H stays y0 within r = sigma/2 (Phi^-1(A) - Phi^-1(B))    (thm:rob-radii-after)

    The radius. `noise.radius(a, b)` is proved event by event: within it, what has probability at least a at
    the input stays likelier than what has at most b, be they answers of one classifier or of two. So EAS is
    certified for every noise here, in its own norm; the formula above is the Gaussian's. The paper prints
    another one, which is false below A = 1/2 (docs/equations.md).

    The bounds. y0 is chosen by the n0 draws, so it is fixed as far as the n draws are concerned.

        one-sided    L_i bounds g_i,y0 from below at alpha / N;
                     p_lower = max_i L_i,  p_upper = max_i (1 - L_i)

    All L_i hold at once with probability at least 1 - alpha, whatever draws the members share. Then p_lower
    <= A, whichever member attains it, and g_i,y <= 1 - g_i,y0 <= 1 - L_i, so B <= p_upper.

        two-sided    L_i at (1 - s) alpha / N;  U_i,y bounds g_i,y from above at s alpha;
                     p_lower = max_i L_i,  p_upper = max_i min(1 - L_i, max over y != y0 of U_i,y)

    The U_i,y need no union bound: B is g_j,z for one pair (j, z) that is fixed before the n draws are made,
    and p_upper >= min(1 - L_j, U_j,z) >= B if the L_i and this single U_j,z hold, which fails with
    probability at most (1 - s) alpha + s alpha.
    """
    selection, estimation = _whole("selection_counts", selection_counts), _whole("counts", counts)
    fits = estimation.ndim == 3 and 0 not in estimation.shape[1:] and selection.shape == estimation.shape
    rule = "ensemble-after-smoothing takes every member's counts (M, N, K) of the choice and of the bounds"
    check(fits, rule, f"{selection.shape} and {estimation.shape}")
    for name, by_member in (("choice", selection), ("bounds", estimation)):
        draws = by_member.sum(-1)
        unequal = ((draws != draws[:, :1]) | (draws < (name == "choice"))).any(1)
        if unequal.any():
            given = draws[unequal][0].tolist()
            raise UserError(f"members must be counted on the same samples; for the {name} they have {given}")
    if isinstance(bound, str):
        bound = "one-sided" if bound == PREFIX else bound.removeprefix(f"{PREFIX}-")
    return _certificates(selection, estimation, noise, alpha, parse_bound(bound), norm, size, precision, seed)


def _whole(name: str, counts: "ArrayLike | Tensor") -> Ints:
    """The counts as int64; fractions and negative numbers are refused. Read-only ones are not copied."""
    from_device = getattr(counts, "cpu", None)  # of a tensor
    array = np.asarray(counts if from_device is None else from_device().numpy())
    rule = f"{name} must be whole numbers, such as int64"
    check(np.issubdtype(array.dtype, np.integer), rule, array.dtype)
    array = array.astype(np.int64, copy=array.flags.writeable)
    check(not (array < 0).any(), f"{name} must not be negative", array.min(initial=0))
    return array


def _certificates(
    selection: Ints, estimation: Ints, noise: Noise | str | float, alpha: float, bound: Bound,
    norm: str | None, size: int | None, precision: str, seed: int | None,
) -> Certificates:  # fmt: skip
    """Certificates of one classifier from its counts (M, K), or of EAS from its members', (M, N, K)."""
    check_alpha(alpha)
    check_name("precision", precision, PRECISIONS)
    ball, is_eas = Ball.of(noise, norm, size), estimation.ndim == 3
    by_member = estimation if is_eas else estimation[:, None]
    inputs, members, classes = by_member.shape
    # The class with the highest count of all members, the lowest member's on a tie.
    chosen = selection.reshape(inputs, members * classes).argmax(-1) % classes
    bounds = bound(np.broadcast_to(chosen[:, None], (inputs, members)), by_member, alpha, members)
    p_lower, p_upper = (of_members.max(-1) for of_members in bounds)
    radii = ball.radius(p_lower, p_upper if is_eas or isinstance(bound, TwoSided) else None)
    of_eas = PREFIX if isinstance(bound, OneSided) else f"{PREFIX}-{bound}"
    return Certificates(
        labels=np.where(radii > 0, chosen, ABSTAIN), radii=radii, p_lower=p_lower, p_upper=p_upper,
        counts=estimation, selection_counts=selection, alpha=alpha,
        bound=of_eas if is_eas else str(bound), noise=str(ball.noise), norm=ball.norm,
        precision=precision, seed=seed,
    )  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """How inputs of `size` numbers are certified."""

    noise: Noise
    size: int
    certification: Certification
    seed: int = 0
    correct_only: bool = False  # draw nothing to bound an input for which every vote chose a wrong class

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

    def certificates(self, counts: Counts, votes: "VoteSet") -> dict[str, Certificates]:
        """The certificate of each vote that is reported, at one input."""
        return self.certificates_of(counts.selection[None], counts.estimation[None], votes)

    def certificates_of(self, selection: Ints, estimation: Ints, votes: "VoteSet") -> dict[str, Certificates]:
        """The same at M inputs, from their counts (M, V, K) that choose and that bound."""
        c = self.certification
        how: dict[str, Any] = {
            "noise": self.noise, "alpha": c.alpha, "bound": self.stopping.bound, "norm": self.ball.norm,
            "size": self.size, "precision": c.precision, "seed": self.seed,
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
