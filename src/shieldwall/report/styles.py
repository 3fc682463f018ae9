"""How each curve of a figure looks."""

import math
from collections.abc import Sequence
from typing import Any

from shieldwall.report.rows import Row
from shieldwall.results.logs import Log

# Okabe and Ito's colours, which the colour-blind tell apart, without the yellow that white swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
_STRONG, _THIN = 2.1, 0.9


def styles(logs: Sequence[Log | Row]) -> list[dict[str, Any]]:
    """The line of each log: thin for a single member, strong for all else.

    Within one run every log has a colour of its own; of several runs, each has a colour for
    all of its logs and the dashes tell these apart. Past the last colour the dashes change.
    """
    ensembles = [log for log in logs if not log.is_member]
    members = [log for log in logs if log.is_member]
    runs = list(dict.fromkeys(log.run for log in logs))
    if len(runs) == 1:
        turns = {id(log): turn for turn, log in enumerate([*ensembles, *members])}
    else:
        stride = math.ceil(len(runs) / len(COLOURS)) * len(COLOURS)
        turns = {
            id(log): first + place * stride
            for first, run in enumerate(runs)
            for kind in (ensembles, members)
            for place, log in enumerate(log for log in kind if log.run == run)
        }
    return [_line(turns[id(log)], _THIN if log.is_member else _STRONG) for log in logs]


def _line(turn: int, width: float) -> dict[str, Any]:
    return {
        "color": COLOURS[turn % len(COLOURS)],
        "linestyle": _DASHES[turn // len(COLOURS) % len(_DASHES)],
        "linewidth": width,
        # Strong lines lie over the thin ones.
        "zorder": 2 + width,
    }
