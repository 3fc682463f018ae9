"""The norm that the radii of several logs share."""

from collections.abc import Sequence

from shieldwall.errors import UserError
from shieldwall.results.record import Log

_SPOKEN = {"l1": "L1", "l2": "L2", "linf": "L-infinity"}


def shared_norm(logs: Sequence[Log]) -> str:
    """The norm as it is spoken; radii of different norms say different things, so they are refused."""
    first, norm = logs[0], logs[0].certificates.norm
    for log in logs:
        if log.certificates.norm != norm:
            raise UserError(
                f"radii of different norms do not compare: {first.title} has {_SPOKEN[norm]} radii, "
                f"{log.title} has {_SPOKEN[log.certificates.norm]} radii; show one norm at a time"
            )
    return _SPOKEN[norm]
