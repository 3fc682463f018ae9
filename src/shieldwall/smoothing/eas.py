"""Ensemble-after-smoothing, EAS: the member surest of its smoothed answer gives it (def:eas).

    g_i,y(x) = P(F_i(x + noise) = y),    H(x) = argmax_y max_i g_i,y(x)
    A = max_i g_i,y0(x),    B = max of g_i,y(x) over members i and classes y != y0
    H stays y0 within r = sigma/2 (Phi^-1(A) - Phi^-1(B))    (thm:rob-radii-after)

The radius. `noise.radius(a, b)` is proved event by event: within it, what has probability at least a at
the input stays likelier than what has at most b, be they answers of one classifier or of two. So EAS is
certified for every noise here, in its own norm; the formula above is the Gaussian's.

The paper prints r = (max_i r_i + min_i r_i) / 2, r_i = sigma Phi^-1 of member i's top probability, negative
if its top class is not y0. For two classes that is the same r, for more no larger as long as A >= 1/2.
Below that it does not hold: members (0.40, 0.39, 0.21) and (0.33, 0.35, 0.32) would be safe within 0.066
sigma, but the first can lose its class at 0.013 sigma.

The bounds. y0 is chosen by the n0 draws, so it is fixed as far as the n draws are concerned.

    one-sided    L_i bounds g_i,y0 from below at alpha / N;  p_lower = max_i L_i,  p_upper = max_i (1 - L_i)

All L_i hold at once with probability at least 1 - alpha, whatever draws the members share. Then p_lower
<= A, whichever member attains it, and g_i,y <= 1 - g_i,y0 <= 1 - L_i, so B <= p_upper.

    two-sided    L_i at (1 - s) alpha / N;  U_i,y bounds g_i,y from above at s alpha;
                 p_lower = max_i L_i,  p_upper = max_i min(1 - L_i, max over y != y0 of U_i,y)

The U_i,y need no union bound: B is g_j,z for one pair (j, z) that is fixed before the n draws are made, and
p_upper >= min(1 - L_j, U_j,z) >= B if the L_i and this single U_j,z hold, which fails with probability at
most (1 - s) alpha + s alpha.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from shieldwall.binomial import check_alpha, clopper_pearson_upper
from shieldwall.errors import UserError, checked
from shieldwall.noise.distributions import Noise
from shieldwall.results.certificates import Certificates, Floats, Ints
from shieldwall.smoothing.certificates import check_precision, validate_counts
from shieldwall.smoothing.count_bounds import Bound, OneSided, TwoSided, count_of_class, parse_bound
from shieldwall.smoothing.radius import Ball
from shieldwall.vocabulary import ABSTAIN

if TYPE_CHECKING:
    from torch import Tensor

PREFIX = "after-smoothing"
"""What the bound of these certificates begins with in a file, before `-two-sided` or `-sequential`."""


@checked
def eas_from_counts(
    selection_counts: "ArrayLike | Tensor", counts: "ArrayLike | Tensor", noise: Noise | str, alpha: float,
    *, bound: Bound | str = "one-sided", norm: str | None = None, size: int | None = None,
    precision: str = "float32", seed: int | None = None,
) -> Certificates:  # fmt: skip
    """Certificates of EAS from its members' counts, (M, N, K) each.

    The options are those of `certificates_from_counts`; a bound may also be given as these certificates
    record it, such as after-smoothing-two-sided(0.05). p_lower bounds A, and p_upper B.
    """
    check_alpha(alpha)
    selection = validate_counts("selection_counts", selection_counts)
    estimation = validate_counts("counts", counts)
    _check_counts(selection, estimation)
    ball = Ball.of(noise, norm, size)
    check_precision(precision)
    if isinstance(bound, str):
        bound = "one-sided" if bound == PREFIX else bound.removeprefix(f"{PREFIX}-")
    bound = parse_bound(bound)
    # The class with the highest count of all members, the lowest member's on a tie.
    chosen = np.asarray(selection.reshape(len(selection), -1).argmax(-1) % selection.shape[-1])
    p_lower, p_upper = _bounds(estimation, chosen, alpha, bound)
    radii = ball.radius(p_lower, p_upper)
    return Certificates(
        labels=np.where(radii > 0, chosen, ABSTAIN), radii=radii, p_lower=p_lower, p_upper=p_upper,
        counts=estimation, selection_counts=selection, alpha=alpha,
        bound=PREFIX if isinstance(bound, OneSided) else f"{PREFIX}-{bound}",
        noise=str(ball.noise), norm=ball.norm, precision=precision, seed=seed,
    )  # fmt: skip


def _bounds(counts: Ints, chosen: Ints, alpha: float, bound: Bound) -> tuple[Floats, Floats]:
    """p_lower and p_upper, (M,) each, from counts (M, N, K)."""
    num_members, num_classes = counts.shape[1:]
    n = counts.sum(-1)
    share = bound.share if isinstance(bound, TwoSided) else 0.0
    wins = count_of_class(np.broadcast_to(chosen[:, None], n.shape), counts)
    lower = bound.lower(wins, n, (1 - share) * alpha / num_members)
    upper = 1.0 - lower
    if share:
        is_other = np.arange(num_classes) != chosen[:, None]
        best_other = np.where(is_other[:, None], counts, 0).max(-1)
        upper = np.minimum(upper, clopper_pearson_upper(best_other, n, share * alpha))
    return lower.max(-1), upper.max(-1)


def _check_counts(selection: Ints, counts: Ints) -> None:
    if counts.ndim != 3 or not counts.shape[1] or selection.shape != counts.shape:
        raise UserError(
            "ensemble-after-smoothing takes every member's counts (M, N, K) of the choice and of the bounds; "
            f"given: {selection.shape} and {counts.shape}"
        )
    for name, by_member in (("choice", selection), ("bounds", counts)):
        draws = by_member.sum(-1)
        unequal = ((draws != draws[:, :1]) | (draws < (name == "choice"))).any(1)
        if unequal.any():
            raise UserError(
                "members must be counted on the same samples; "
                f"for the {name} they have {draws[unequal][0].tolist()}"
            )
