"""Names that users, files and code share: labels, norms, noise, bounds, precisions and votes."""

import math
import re

ABSTAIN = -1  #: the label of an input where the smoothed classifier abstains

NORMS = ("l1", "l2", "linf")

NOISES = {"gaussian": 1.0, "uniform": 1 / math.sqrt(3), "laplace": math.sqrt(2)}
"""The standard deviation of each kind of noise whose own scale is 1."""

BOUNDS = ("one-sided", "two-sided")  #: how counts become bounds, with a fixed number of samples

PRECISIONS = ("float32", "tf32", "float16", "bfloat16")  #: of the classifier that is certified

SIGMAS = (0.25, 0.5, 1.0)  #: of the paper's tables, which take the best of them on every data set

WE, MME, EAS = "we", "mme", "eas"  #: weighted, max-margin, ensemble after smoothing
VOTE_TITLES = {WE: "WE", MME: "MME", EAS: "EAS"}  #: in a table's order
_MEMBER = re.compile(r"member-(\d+)")


def member_vote(number: int) -> str:
    """The vote of a member alone, counted from 1."""
    return f"member-{number}"


def member_number(vote: str) -> int | None:
    """Which member votes alone, counted from 1; None for the vote of an ensemble."""
    member = _MEMBER.fullmatch(vote)
    return int(member[1]) if member else None


def is_member(vote: str) -> bool:
    return member_number(vote) is not None


def is_standard_vote(vote: str) -> bool:
    """Whether a vote has a standard name, one that every ensemble has: a member, WE, MME or EAS."""
    return vote in VOTE_TITLES or is_member(vote)


def vote_title(vote: str) -> str:
    """The vote as a table shows it; a vote by another name keeps it."""
    number = member_number(vote)
    return VOTE_TITLES.get(vote, vote) if number is None else f"member {number}"


def vote_order(vote: str) -> tuple[int, int, str]:
    """What sorts votes as a table does: members by number, WE, MME, EAS, then others by name."""
    number = member_number(vote)
    return (1, [*VOTE_TITLES, vote].index(vote), vote) if number is None else (0, number, vote)
