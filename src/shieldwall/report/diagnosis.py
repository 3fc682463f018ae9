"""What the theory says of a trained run, input by input and in sum, for a terminal and for a file.

A vote stands at an input against the rival class with its largest ERI: that one decides whether the
conditions hold. `plain` is of the members as they are, `soft` of the soft-smoothed ones, which are
beta-smooth.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from shieldwall.errors import UserError
from shieldwall.report.formats import PlainTable
from shieldwall.theory.proxies import Proxies, Roc, roc
from shieldwall.theory.standing import Standing
from shieldwall.theory.transfer import Transfer

Floats = NDArray[np.float64]
WE, MME = "we", "mme"
TITLES = {WE: "WE", MME: "MME"}
PAPERS_AREA = 0.66


@dataclass(frozen=True)
class AtInput:
    """Everything about one input; votes are `member-1`, ..., `we` and `mme`, pairs `1-2` and so on."""

    idx: int
    truth: int
    plain: Mapping[str, Standing]
    soft: Mapping[str, Standing]
    cosines: Mapping[str, float]
    """Of the members' gradients against WE's rival, by pair."""
    soft_cosines: Mapping[str, float]
    member_slopes: Sequence[float]
    """The soft-smoothed members' own slopes against the rival of their WE."""
    proxies: Proxies
    answers: Mapping[str, int]
    """The label of each vote without noise."""
    predicted: Mapping[str, int]
    """The certified labels, ABSTAIN among them."""
    radii: Mapping[str, float]
    """The certified radii."""

    def radius_around_truth(self, vote: str) -> float:
        return self.radii[vote] if self.predicted[vote] == self.truth else 0.0

    @property
    def larger(self) -> str:
        """Which of WE and MME has the larger certified radius around the truth, or `equal`."""
        we, mme = self.radius_around_truth(WE), self.radius_around_truth(MME)
        return "equal" if we == mme else WE if we > mme else MME

    @property
    def foretold(self) -> str:
        """Which of them the corollary says it is, or `premises fail`."""
        return "premises fail" if np.isnan(self.proxies.x) else MME if self.proxies.x > 0 else WE


@dataclass(frozen=True)
class Diagnosis:
    """A run at M inputs."""

    inputs: Sequence[AtInput]
    r: float
    """The radius of ERI."""
    sigma: float
    attack: float
    """The length of the attacks."""
    transfer: Transfer
    """From the members (rows) to the members, WE and MME (columns)."""
    settings: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.inputs:
            raise UserError("there is no input to diagnose")

    @property
    def votes(self) -> list[str]:
        return list(self.inputs[0].plain)

    def values(self, kind: str, vote: str, name: str) -> Floats:
        """A number of a vote's standing, `plain` or `soft`, at every input."""
        return np.array([getattr(getattr(one, kind)[vote], name) for one in self.inputs])

    def proxy(self, name: str) -> Floats:
        return np.array([getattr(one.proxies, name) for one in self.inputs])

    @cached_property
    def curve(self) -> Roc | None:
        """fig:roc over the inputs whose radii differ; None if all of these favour one vote."""
        told_apart = [one for one in self.inputs if one.larger != "equal" and one.foretold in (WE, MME)]
        mme = [one.larger == MME for one in told_apart]
        return roc([one.proxies.x for one in told_apart], mme) if len(set(mme)) > 1 else None


@dataclass(frozen=True)
class Advice:
    vote: str
    reason: str


def advice(inputs: Sequence[AtInput]) -> Advice:
    """The vote that the corollary favours at most inputs, and why, in one line."""
    known = [one.proxies for one in inputs if one.foretold in (WE, MME)]
    if not known:
        return Advice("either", "the premises of the corollary fail, so it favours neither")
    above = sum(one.x > 0 for one in known)
    vote, count, side = (MME, above, "above") if 2 * above > len(known) else (WE, len(known) - above, "below")
    ratio, threshold = (
        float(np.median([getattr(one, name) for one in known])) for name in ("ratio", "threshold")
    )
    where = "" if len(inputs) == 1 else f" at {count:,} of {len(inputs):,} inputs (medians)"
    reason = f"lambda_1/lambda_2 = {ratio:.2f} is {side} its threshold {threshold:.2f}{where}"
    return Advice(title(vote), reason)


def measured(found: Diagnosis) -> str:
    """What the certificates say of the same question, in one line."""
    we, mme = (float(np.mean([one.radius_around_truth(vote) for one in found.inputs])) for vote in (WE, MME))
    return f"mean certified radius around the truth: WE {we:.4f}, MME {mme:.4f}"


def shown(found: Diagnosis) -> Iterator[Table | str]:
    """The diagnosis for a terminal of 80 columns: tables, each below its title and above its notes."""
    yield f"members as they are: ERI = slope - margin / r at r = {found.r:g}, means over {_inputs(found)}"
    yield _plain(found)
    yield "\nsoft-smoothed members"
    yield _soft(found)
    yield f"sure r: sufficient for beta = 2/sigma^2 = {2 / found.sigma**2:.3g}; sharp: for the least beta"
    yield f"certified: the smoothed vote, by sampling, {found.settings.get('n', 0):,} draws"
    yield "\ncosine of two members' gradients against the strongest rival of WE"
    yield _pairs(found)
    yield f"\nattacks of length {found.attack:g} on a member: how many succeed, and fool which other in %"
    yield _transfer(found)
    yield "\nWE or MME"
    yield _we_or_mme(found)
    yield from _comparison_notes(found)


def title(vote: str) -> str:
    return TITLES.get(vote, vote.replace("-", " "))


def small_table(*headings: str) -> Table:
    """An empty table: numbers to the right, names, which have no heading, to the left."""
    drawn = PlainTable()
    for heading in headings:
        drawn.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    return drawn


def _inputs(found: Diagnosis) -> str:
    return f"{len(found.inputs):,} input{'s' * (len(found.inputs) > 1)}"


def _plain(found: Diagnosis) -> Table:
    drawn = small_table("", "right %", "margin", "slope", "ERI", "ERI < 0 %")
    for vote in found.votes:
        right = np.mean([one.answers[vote] == one.truth for one in found.inputs])
        margin, slope, eri = (found.values("plain", vote, name) for name in ("margin", "slope", "eri"))
        first_order = [_mean(margin), _mean(slope), _mean(eri), _percent(eri < 0)]
        drawn.add_row(title(vote), f"{100 * right:.1f}", *(_known(eri, cell) for cell in first_order))
    return drawn


def _soft(found: Diagnosis) -> Table:
    drawn = small_table("", "margin", "slope", "ERI", "+-", "sure r", "sharp", "certified")
    for vote in found.votes:
        margin, slope, eri, error, sure, sharp = (
            found.values("soft", vote, name)
            for name in ("margin", "slope", "eri", "eri_error", "sure", "sure_sharp")
        )
        mean_error = float(np.sqrt((error**2).sum()) / len(error))
        first_order = [_mean(margin), _mean(slope), _mean(eri), f"{mean_error:.3f}"]
        certified = np.array([one.radius_around_truth(vote) for one in found.inputs])
        drawn.add_row(
            title(vote), *(_known(eri, cell) for cell in first_order),
            _mean(sure), _mean(sharp), _mean(certified),
        )  # fmt: skip
    return drawn


def _pairs(found: Diagnosis) -> Table:
    drawn = small_table("pair", "mean", "> 0.5 %", "soft-smoothed", "> 0.5 %")
    for pair in found.inputs[0].cosines:
        plain = np.array([one.cosines[pair] for one in found.inputs])
        soft = np.array([one.soft_cosines[pair] for one in found.inputs])
        drawn.add_row(pair, *(cell for of in (plain, soft) for cell in (_known_mean(of), _percent(of > 0.5))))
    return drawn


def _transfer(found: Diagnosis) -> Table:
    members = len(found.transfer.tried)
    drawn = small_table("attacked", "succeed", *(f"to {k + 1}" for k in range(members)), "to WE", "to MME")
    for k, rates in enumerate(found.transfer.rates):
        cells = ["-" if np.isnan(rate) else f"{100 * rate:.0f}" for rate in rates]
        cells[k] = ""
        drawn.add_row(f"member {k + 1}", f"{found.transfer.fooled[k, k]} of {len(found.inputs)}", *cells)
    return drawn


def _we_or_mme(found: Diagnosis) -> Table:
    drawn = small_table("", "WE", "MME", "neither")
    foretold = [one.foretold for one in found.inputs]
    larger = [one.larger for one in found.inputs]
    for name, counted, neither in (
        ("the corollary says", foretold, "premises fail"), ("larger certified radius", larger, "equal")
    ):  # fmt: skip
        drawn.add_row(name, *(str(counted.count(vote)) for vote in (WE, MME, neither)))
    return drawn


def _comparison_notes(found: Diagnosis) -> Iterator[str]:
    lambda_1, lambda_2, ratio = (
        float(np.mean(found.proxy(name))) for name in ("lambda_1", "lambda_2", "ratio")
    )
    yield f"means: lambda_1 {lambda_1:.3f}, lambda_2 {lambda_2:.3f}, lambda_1/lambda_2 {ratio:.3f}"
    both = [one for one in found.inputs if one.foretold in (WE, MME) and one.larger in (WE, MME)]
    yield f"of {len(both)} inputs that both decide they agree at {sum(o.foretold == o.larger for o in both)}"
    assumed = int((found.proxy("s_f") < found.proxy("s")).sum())
    yield f"s_f < s, as of independent members, holds at {assumed} of {_inputs(found)}"
    if found.curve is not None:
        area, error = found.curve.area, found.curve.error
        yield f"area under the ROC curve: {area:.2f} +- {error:.2f} (paper: {PAPERS_AREA})"


def as_tsv(found: Diagnosis) -> str:
    """Every input on a line, tab-separated, numbers at full precision; the last columns are the settings."""
    return "".join("\t".join(row) + "\n" for row in _tsv_rows(found))


def _tsv_rows(found: Diagnosis) -> Iterator[list[str]]:
    for k, one in enumerate(found.inputs):
        cells: dict[str, object] = {"idx": one.idx, "truth": one.truth}
        for vote in found.votes:
            cells |= {f"{vote}_answer": one.answers[vote], f"{vote}_predict": one.predicted[vote]}
            cells |= {f"{vote}_radius": one.radii[vote]}
            for kind, standing in (("plain", one.plain[vote]), ("soft", one.soft[vote])):
                cells |= {f"{vote}_{kind}_{name}": value for name, value in vars(standing).items()}
        cells |= {f"cosine_{pair}": value for pair, value in one.cosines.items()}
        cells |= {f"soft_cosine_{pair}": value for pair, value in one.soft_cosines.items()}
        cells |= {**vars(one.proxies), "x": one.proxies.x, "larger": one.larger}
        cells |= {"r": found.r, "attack": found.attack, **found.settings}
        if k == 0:
            yield list(cells)
        yield [str(value) for value in cells.values()]


def _mean(values: Floats) -> str:
    return f"{values.mean():.3f}"


def _known_mean(values: Floats) -> str:
    known = values[~np.isnan(values)]
    return f"{known.mean():.3f}" if len(known) else "-"


def _known(values: Floats, cell: str) -> str:
    return "-" if np.isnan(values).any() else cell


def _percent(holds: NDArray[np.bool_]) -> str:
    return f"{100 * holds.mean():.1f}"
