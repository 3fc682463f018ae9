"""How each curve of a figure looks."""

import math
from collections.abc import Sequence
from typing import Any

from shieldwall.report.rows import Row
from shieldwall.results.record import Log

# Okabe and Ito's colours, which the colour-blind tell apart, without the yellow that white swallows.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
_STRONG, _THIN = 2.1, 0.9
_ROAD = {"linewidth": 3.6, "alpha": 0.5}
"""A line below dashes of its colour."""


def styles(logs: Sequence[Log | Row]) -> list[dict[str, Any]]:
    """The line of each log: thin for a single member, strong for all else.

    Within one run every log has a colour of its own; of several runs, each has a colour for all of its logs.
    The dashes tell ensembles apart, and lie over what is solid: the votes of one run often have nearly one
    curve. Where both have one colour, the solid line is a pale and broad one, a road with the dashes on it.
    Past the last colour the dashes change.
    """
    ensembles = [log for log in logs if not log.is_member]
    members = [log for log in logs if log.is_member]
    runs = list(dict.fromkeys(log.run for log in logs))
    found: dict[int, dict[str, Any]] = {}
    if len(runs) == 1:
        for turn, log in enumerate(ensembles):
            found[id(log)] = _line(turn, turn, _STRONG)
        for turn, log in enumerate(members, len(ensembles)):
            found[id(log)] = _line(turn, turn // len(COLOURS), _THIN)
        return [found[id(log)] for log in logs]

    rounds = math.ceil(len(runs) / len(COLOURS))
    for first, run in enumerate(runs):
        for kind, width in ((ensembles, _STRONG), (members, _THIN)):
            of_run = [log for log in kind if log.run == run]
            for place, log in enumerate(of_run):
                line = _line(first, first // len(COLOURS) + place * rounds, width)
                is_road = width == _STRONG and place == 0 and len(of_run) > 1
                found[id(log)] = {**line, **_ROAD} if is_road else line
    return [found[id(log)] for log in logs]


def _line(colour: int, dashes: int, width: float) -> dict[str, Any]:
    return {
        "color": COLOURS[colour % len(COLOURS)],
        "linestyle": _DASHES[dashes % len(_DASHES)],
        "linewidth": width,
        # Strong lines lie over the thin ones; dashes, which come later, over what is solid.
        "zorder": 2 + width,
    }
