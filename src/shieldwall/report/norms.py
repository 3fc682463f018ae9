"""The norm that the radii of several logs share."""

from collections.abc import Sequence

from shieldwall.errors import UserError
from shieldwall.results.logs import Log

_SPOKEN = {"l1": "L1", "l2": "L2", "linf": "L-infinity"}


def shared_norm(logs: Sequence[Log]) -> str:
    """The norm as it is spoken; radii of different norms say different things, so they are refused."""
    first = logs[0]
    for log in logs:
        if log.norm != first.norm:
            raise UserError(
                f"radii of different norms do not compare: {first.title} has {_SPOKEN[first.norm]} radii, "
                f"{log.title} has {_SPOKEN[log.norm]} radii; show one norm at a time"
            )
    return _SPOKEN[first.norm]
