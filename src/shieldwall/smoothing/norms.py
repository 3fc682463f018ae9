"""A certificate for one norm read as a certificate for another.

    r_q = r_p / d^max(0, 1/p - 1/q)

In d dimensions ||v||_p <= d^max(0, 1/p - 1/q) ||v||_q, by Hoelder's inequality where p < q and because
norms fall with their order where p >= q; a vector of equal entries, or one along an axis, attains it. So
the q-ball of radius r_q lies in the p-ball of radius r_p, and no larger one does:

    from   to l1    to l2           to linf
    l1     r        r / sqrt(d)     r / d
    l2     r        r               r / sqrt(d)
    linf   r        r               r
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from shieldwall.errors import UserError, unknown_name
from shieldwall.vocabulary import NORMS

_INVERSE_ORDER = {"l1": 1.0, "l2": 0.5, "linf": 0.0}
_Radius = TypeVar("_Radius", float, NDArray[np.float64], Tensor)


def in_norm(radius: _Radius, native: str, wanted: str, size: int) -> _Radius:
    """The radius of the largest `wanted`-ball inside the `native` ball of this radius in `size` dimensions.

    `radius` is a number, an array or a tensor of them.
    """
    for norm in (native, wanted):
        if norm not in NORMS:
            raise unknown_name("norm", norm, NORMS)
    if size < 1:
        raise UserError(f"an input has at least one dimension; given: {size}")
    widest: float = size ** max(0.0, _INVERSE_ORDER[native] - _INVERSE_ORDER[wanted])
    return radius / widest
