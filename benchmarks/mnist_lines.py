"""Which rows each table of the MNIST page has: what a row is called, of which file, under which vote."""

from typing import NamedTuple


class Line(NamedTuple):
    label: str
    row: str
    vote: str


def both_votes(label: str, row: str) -> tuple[Line, Line]:
    """MME, then WE; the label says where the vote's name goes."""
    return Line(label.format("MME"), row, "mme"), Line(label.format("WE"), row, "we")


def mme_then_we(*pairs: tuple[Line, Line]) -> list[Line]:
    """As the paper orders ensembles: all of one vote, then all of the other."""
    return [pair[vote] for vote in (0, 1) for pair in pairs]


GAUSSIAN = Line("Gaussian, single", "gaussian", "member-1")
SMOOTHADV = Line("SmoothAdv, single", "smoothadv", "member-1")
MACER = Line("MACER, single", "macer", "member-1")
OF_GAUSSIAN = both_votes("{} (Gaussian)", "gaussian")
OF_SMOOTHADV = both_votes("{} (SmoothAdv)", "smoothadv")
OF_CONSISTENCY = both_votes("{} (Consistency)", "consistency")
DRT = both_votes("DRT + {} (Gaussian)", "drt")
DRT_SMOOTHADV = both_votes("DRT + {} (SmoothAdv)", "drt-smoothadv")
DRT_CONSISTENCY = both_votes("DRT + {} (Consistency)", "drt-consistency")

MAIN = [GAUSSIAN, SMOOTHADV, *mme_then_we(OF_GAUSSIAN, DRT, OF_SMOOTHADV, DRT_SMOOTHADV)]
"""tab:bigtablemnist0.25, 0.50 and 1.00, and most of tab:mnisttable."""

ACR = [GAUSSIAN, SMOOTHADV, MACER, *OF_GAUSSIAN, *DRT, *OF_SMOOTHADV, *DRT_SMOOTHADV]

TERMS = mme_then_we(
    OF_GAUSSIAN,
    both_votes("GDL + {} (Gaussian)", "drt-gd"),
    both_votes("CML + {} (Gaussian)", "drt-cm"),
    DRT,
)
MEMBERS = [
    *(GAUSSIAN, Line("DRT (Gaussian), single", "drt", "member-1"), *DRT),
    *(SMOOTHADV, Line("DRT (SmoothAdv), single", "drt-smoothadv", "member-1"), *DRT_SMOOTHADV),
]
WEIGHTS = [
    Line("DRT, equal weights (Gaussian)", "drt", "we"),
    Line("DRT, weights by grid (Gaussian)", "drt", "we-grid"),
    Line("DRT, equal weights (SmoothAdv)", "drt-smoothadv", "we"),
    Line("DRT, weights by grid (SmoothAdv)", "drt-smoothadv", "we-grid"),
]
DIVERSITY = [Line("ADP", "adp", "we"), Line("GAL", "gal", "we"), Line("DRT", "drt", "we")]

OTHERS = [
    *(MACER, *both_votes("{} (MACER)", "macer")),
    *(Line("Stability, single", "stability", "member-1"), *both_votes("{} (Stability)", "stability")),
    *(Line("SWEEN (Gaussian)", "gaussian", "we-sween"), Line("SWEEN (SmoothAdv)", "smoothadv", "we-sween")),
    *(Line("Consistency, single", "consistency", "member-1"), *OF_CONSISTENCY, *DRT_CONSISTENCY),
]
AFTER_SMOOTHING = [
    Line("EAS (Gaussian)", "gaussian", "eas"),
    Line("DRT + EAS (Gaussian)", "drt", "eas"),
    Line("EAS (SmoothAdv)", "smoothadv", "eas"),
    Line("DRT + EAS (SmoothAdv)", "drt-smoothadv", "eas"),
]
SUMMARY = [
    *(GAUSSIAN, OF_GAUSSIAN[1], DRT[1], SMOOTHADV, OF_SMOOTHADV[1], DRT_SMOOTHADV[1]),
    *(OF_CONSISTENCY[1], DRT_CONSISTENCY[1]),
]

VOTES = {
    "member-1": "single", "we": "WE", "mme": "MME", "eas": "EAS",
    "we-sween": "WE, SWEEN", "we-grid": "WE, grid",
}  # fmt: skip


def beyond_the_paper(row: str) -> list[Line]:
    """Everything certified of a row that is in none of the tables."""
    return [Line(f"{row}: {spoken}", row, vote) for vote, spoken in VOTES.items()]
