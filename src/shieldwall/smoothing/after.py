"""Ensemble-after-smoothing, EAS: the member surest of its smoothed answer gives it (def:eas).

    g_i,y(x) = P(F_i(x + noise) = y),    H(x) = argmax_y max_i g_i,y(x)
    A = max_i g_i,y0(x),    B = max of g_i,y(x) over members i and classes y != y0
    H stays y0 within r = sigma/2 (Phi^-1(A) - Phi^-1(B))    (thm:rob-radii-after)

The radius. `noise.radius(a, b)` is proved event by event: within it, what has probability at least a at
the input stays likelier than what has at most b, be they answers of one classifier or of two. Take the
event behind A for the one, and every g_i,y with y != y0 for the other: at no point nearer than
noise.radius(A, B) does a member put another class above the best one's y0. So EAS is certified for every
noise here, in its own norm; the formula above is the Gaussian's.

The paper prints r = (max_i r_i + min_i r_i) / 2, r_i = sigma Phi^-1 of member i's top probability, negative
if its top class is not y0. For two classes that is the same r. For more it puts 1 - g_i,y0 in the place of
the runner-up of a member that agrees, so it is no larger as long as A >= 1/2. Below 1/2 it does not hold:
members (0.40, 0.39, 0.21) and (0.33, 0.35, 0.32) would be safe within 0.066 sigma, but the first can lose
its class at 0.013 sigma. A member that gives another class more than 1/2 makes B > 1/2, and r less than
half of what the best member has alone.

The bounds. y0 is chosen by the n0 draws, so it is fixed as far as the n draws are concerned.

    one-sided    L_i bounds g_i,y0 from below at alpha / N;  p_lower = max_i L_i,  p_upper = max_i (1 - L_i)

All L_i hold at once with probability at least 1 - alpha, whatever draws the members share. Then p_lower
<= A, whichever member attains it, and g_i,y <= 1 - g_i,y0 <= 1 - L_i, so B <= p_upper. A member that
hardly ever returns y0 has a 1 - L_i near 1, and then nothing is certified.

    two-sided    L_i at alpha / 2N;  U_i,y bounds g_i,y from above at alpha / 2;
                 p_lower = max_i L_i,  p_upper = max_i min(1 - L_i, max over y != y0 of U_i,y)

The U_i,y need no union bound: B is g_j,z for one pair (j, z) that is fixed before the n draws are made, and
p_upper >= min(1 - L_j, U_j,z) >= B if the L_i and this single U_j,z hold, which fails with probability at
most alpha / 2 + alpha / 2. This certifies more where a member's answers other than y0 are spread over
several classes.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shieldwall import binomial
from shieldwall.errors import UserError
from shieldwall.noise.distributions import Noise
from shieldwall.smoothing.ball import Ball
from shieldwall.smoothing.certificates import Certificates, certified
from shieldwall.smoothing.confidence import Sequential
from shieldwall.smoothing.counts import whole_counts

Floats = NDArray[np.float64]


def after_smoothing(
    selection: Tensor,
    counts: Tensor,
    noise: Noise,
    alpha: float,
    *,
    two_sided: bool = False,
    sequential: Sequential | None = None,
    norm: str | None = None,
    size: int | None = None,
    precision: str = "float32",
) -> Certificates:
    """Certificates of EAS from the counts of the votes member-1 to member-N, (N, M, K) each.

    The counts must come from a number of draws that was fixed beforehand, unless `sequential` is the bound
    of the rule that stopped them. The other options are those of `from_counts`. In the certificates, counts
    are (M, N, K); p_lower bounds A, and p_upper B.
    """
    binomial.check_alpha(alpha)
    selection, counts = whole_counts("selection", selection), whole_counts("counts", counts)
    _check_counts(selection, counts)
    if two_sided and sequential:
        raise UserError("the two-sided bounds of ensemble-after-smoothing need a fixed number of draws")
    ball = Ball.of(noise, norm, size)
    by_input, selected_by_input = counts.transpose(0, 1), selection.transpose(0, 1)
    chosen = _surest_class(selected_by_input)
    p_bounds = _bounds(by_input.numpy(), chosen.numpy(), alpha, two_sided, sequential)
    radii = torch.from_numpy(ball.radius(*p_bounds))
    kind = "-two-sided" if two_sided else f"-{sequential}" if sequential else ""
    bound = f"after-smoothing{kind}"
    return certified(chosen, p_bounds, radii, selected_by_input, by_input, ball, alpha, bound, precision)


def _surest_class(selection: Tensor) -> Tensor:
    """The class with the highest count of all members, the lowest member's on a tie.  (M, N, K) -> (M,)"""
    return selection.flatten(1).argmax(-1) % selection.shape[-1]


def _bounds(
    counts: NDArray[np.int64],
    chosen: NDArray[np.int64],
    alpha: float,
    two_sided: bool,
    sequential: Sequential | None,
) -> tuple[Floats, Floats]:
    """p_lower and p_upper, (M,) each, from counts (M, N, K)."""
    num_members, num_classes = counts.shape[1:]
    n = counts.sum(-1)
    wins = np.take_along_axis(counts, chosen[:, None, None], axis=-1)[..., 0]
    alpha_lower = alpha / (2 * num_members if two_sided else num_members)
    lower_bound = sequential.lower if sequential else binomial.clopper_pearson_lower
    lower = lower_bound(wins, n, alpha_lower)
    upper = 1.0 - lower
    if two_sided:
        is_other = np.arange(num_classes) != chosen[:, None]
        best_other = np.where(is_other[:, None], counts, 0).max(-1)
        upper = np.minimum(upper, binomial.clopper_pearson_upper(best_other, n, alpha / 2))
    return lower.max(-1), upper.max(-1)


def _check_counts(selection: Tensor, counts: Tensor) -> None:
    if counts.ndim != 3 or not len(counts) or selection.shape != counts.shape:
        raise UserError(
            "ensemble-after-smoothing takes every member's counts (N, M, K) of the choice and of the bounds; "
            f"given: {tuple(selection.shape)} and {tuple(counts.shape)}"
        )
    for name, given in (("choice", selection), ("bounds", counts)):
        draws = given.sum(-1)
        unequal = ((draws != draws[0]) | (draws < 1)).any(0)
        if bool(unequal.any()):
            found = draws[:, unequal][:, 0].tolist()
            raise UserError(f"members must be counted on the same draws; for the {name} they have {found}")
