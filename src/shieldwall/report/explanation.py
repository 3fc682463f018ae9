"""One input explained: is the ensemble robust there, why, and would WE or MME serve better?"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.table import Table

from shieldwall.report.diagnosis import WE, AtInput, advice, small_table, title
from shieldwall.results.certificates import ABSTAIN

MEANINGS = {
    "robust": "is sure to be robust within",
    "not robust": "is not robust within",
    "open": "may or may not be robust within",
}


@dataclass(frozen=True)
class Explanation:
    """What is known about one test input."""

    at: AtInput
    classes: Sequence[str]
    r: float
    sigma: float
    n: int


def explanation(found: Explanation) -> Iterator[Table | str]:
    """The answer for a terminal: tables between lines of text."""
    at = found.at
    yield f"test input {at.idx}, class {found.classes[at.truth]}, sigma {found.sigma:g}, r = {found.r:g}"
    yield "\nsoft-smoothed members against the rival that decides: ERI = slope - margin / r"
    yield _indicators(found)
    yield "\nwithin which radius they hold"
    yield _radii(found)
    yield "sure r: sufficient for beta = 2/sigma^2; sharp: for the least beta that serves"
    yield f"at most: necessary; certified: the smoothed vote, by sampling, {found.n:,} draws"
    yield f"\nrobust? {_verdict(found)}."
    yield f"why? {_reason(found)}."
    yield f"WE or MME? {_recommendation(found)}."


def _indicators(found: Explanation) -> Table:
    drawn = small_table("", "rival", "margin", "slope", "ERI", "+-")
    for vote, standing in found.at.soft.items():
        if not math.isnan(standing.eri):
            numbers = standing.margin, standing.slope, standing.eri, standing.eri_error
            drawn.add_row(title(vote), found.classes[standing.rival], *map(_number, numbers))
    return drawn


def _radii(found: Explanation) -> Table:
    drawn = small_table("", "sure r", "sharp", "+-", "at most", f"at {found.r:g}", "certified")
    for vote, standing in found.at.soft.items():
        numbers = standing.sure, standing.sure_sharp, standing.sure_error, standing.possible
        drawn.add_row(title(vote), *map(_number, numbers), standing.verdict(found.r), _certified(found, vote))
    return drawn


def _certified(found: Explanation, vote: str) -> str:
    label = found.at.predicted[vote]
    if label == ABSTAIN:
        return "abstains"
    return f"{found.at.radii[vote]:.3f}" if label == found.at.truth else f"as {found.classes[label]}"


def _verdict(found: Explanation) -> str:
    we = found.at.soft[WE]
    if we.margin < 0:
        return f"no: WE of the soft-smoothed members prefers {found.classes[we.rival]}"
    return f"WE of the soft-smoothed members {MEANINGS[we.verdict(found.r)]} {found.r:g}"


def _reason(found: Explanation) -> str:
    """The two parts of ERI, and what the members' differences take off the slope."""
    we = found.at.soft[WE]
    alone = float(np.mean(found.at.member_slopes))
    rival = found.classes[we.rival]
    said = f"against {rival} the margin is {we.margin:.3f} and falls by {we.slope:.3f} per unit at first"
    if alone > 0:
        off = max(0.0, 1 - we.slope / alone)
        said += f"; the members' own slopes average {alone:.3f}, so their differences take off {off:.0%}"
    return said


def _recommendation(found: Explanation) -> str:
    said = advice([found.at])
    measured = {"equal": "are equal"}.get(found.at.larger, f"say {title(found.at.larger)}")
    return f"{said.vote} by the corollary: {said.reason}; the certified radii {measured}"


def _number(value: float) -> str:
    return "-" if math.isnan(value) else "any" if math.isinf(value) else f"{value:.3f}"
