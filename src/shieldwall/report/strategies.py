"""Ensemble-before-smoothing against ensemble-after-smoothing, input by input and in sum.

A radius counts here where its label is the true one, and is 0 where it is not or there is none: the
corollary compares radii around the truth. A pair's verdict agrees with its certified radii where it is
EBS and EBS has the larger, or EAS and EAS has no smaller one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from shieldwall.errors import UserError
from shieldwall.report.plain_table import PlainTable
from shieldwall.results.certificates import ABSTAIN

if TYPE_CHECKING:
    from shieldwall.smoothing.strategies import PairEstimates

Floats = NDArray[np.float64]
ROWS_SHOWN = 20
VERDICTS = ("EBS", "EAS", "open", "premises fail")
_ESTIMATES = ("p", "p_ab", "p_min", "delta", "threshold")
_LEFT_OUT_FIRST = (("p_ab", "p_min", "delta"), ("pair",), ("larger",))
"""Columns of a table that is too wide: what only explains the threshold, then what follows from others."""
_SAID = {"n": "n = {:,}", "alpha": "alpha = {:g}", "noise": "{}"}
"""The settings that a reader of radii asks for."""
_GAP = 2


@dataclass(frozen=True)
class Certified:
    """Labels, ABSTAIN among them, and radii at M inputs."""

    labels: NDArray[np.int64]
    radii: Floats

    def radii_around(self, truth: NDArray[np.int64]) -> Floats:
        return np.where(self.labels == truth, self.radii, 0.0)


@dataclass(frozen=True)
class Pair:
    """Two members alone: the corollary's estimates, and what either strategy certifies."""

    estimates: "PairEstimates"
    ebs: Certified
    """mme-a-b."""
    eas: Certified
    """Ensemble-after-smoothing of the two."""


@dataclass(frozen=True)
class Comparison:
    """Both strategies at the same M inputs: of all members, and of pairs called `1-2` and so on."""

    idx: NDArray[np.int64]
    truth: NDArray[np.int64]
    we: Certified
    mme: Certified
    eas: Certified
    pairs: Mapping[str, Pair] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    """What the certificates were made with, by name: n0, n, alpha, ..."""

    def __post_init__(self) -> None:
        certified = [self.we, self.mme, self.eas, *(c for p in self.pairs.values() for c in (p.ebs, p.eas))]
        lengths = {len(self.idx), len(self.truth), *(len(p.estimates) for p in self.pairs.values())}
        lengths |= {len(one) for c in certified for one in (c.labels, c.radii)}
        if len(lengths) > 1 or 0 in lengths:
            raise UserError(f"strategies are compared at the same inputs; given: {sorted(lengths)} of them")

    @property
    def strategies(self) -> dict[str, Certified]:
        return {"EBS-WE": self.we, "EBS-MME": self.mme, "EAS": self.eas}


@dataclass(frozen=True)
class StrategySummary:
    """One strategy over all inputs; rates are fractions in [0, 1]."""

    mean_radius: float
    """Of all certificates, right or wrong, abstentions counting 0."""
    average_certified_radius: float
    abstention_rate: float
    above_eas: float
    """The share of inputs at which its radius around the truth is larger than that of EAS."""
    below_eas: float


@dataclass(frozen=True)
class PairSummary:
    """One pair over all inputs."""

    verdicts: dict[str, int]
    agreeing: int
    """Inputs whose verdict, EBS or EAS, agrees with the certified radii."""
    decided: int
    """Inputs with such a verdict."""


@dataclass(frozen=True)
class Summary:
    inputs: int
    strategies: dict[str, StrategySummary]
    pairs: dict[str, PairSummary]


def summary(comparison: Comparison) -> Summary:
    """Means, shares and counts over all inputs."""
    return Summary(
        len(comparison.idx),
        {name: _strategy_summary(comparison, found) for name, found in comparison.strategies.items()},
        {name: _pair_summary(pair, comparison.truth) for name, pair in comparison.pairs.items()},
    )


def table(comparison: Comparison, *, all_rows: bool = False, width: int | None = None) -> Table:
    """A line for every input, for a terminal: the first 20 inputs, or all.

    It shows the corollary's quantities if there is one pair, and verdicts alone if there are several. What
    can be missed most easily is left out as long as it is wider than `width`. To print one that may be
    wider than the terminal all the same, give `crop=False` to rich's `print`.
    """
    inputs = len(comparison.idx)
    rows = range(inputs if all_rows else min(inputs, ROWS_SHOWN))
    larger = _larger(comparison)
    columns = {
        "idx": [str(comparison.idx[k]) for k in rows],
        "truth": [str(comparison.truth[k]) for k in rows],
        **{
            name: [_radius(found, comparison.truth, k) for k in rows]
            for name, found in comparison.strategies.items()
        },
        "larger": [larger[k] for k in rows],
        **_pair_columns(comparison.pairs, rows),
    }
    for least in _LEFT_OUT_FIRST:
        if width is not None and _width(columns) > width:
            columns = {heading: cells for heading, cells in columns.items() if heading not in least}
    several = len(comparison.pairs) > 1
    title = "certified radius around the truth" + (", and verdict on each pair" if several else "")
    drawn = _table(title, list(columns))
    for row in zip(*columns.values(), strict=True):
        drawn.add_row(*row)
    said = [] if len(rows) == inputs else [f"the first {len(rows)} of {inputs:,} inputs"]
    if several:
        said.append("- abstains; of a pair: the corollary's premises fail")
    drawn.caption = Text("\n".join(said))
    return drawn


def summary_tables(comparison: Comparison) -> list[Table]:
    """The summary for a terminal: the strategies, then the verdicts if there are pairs."""
    found = summary(comparison)
    strategies = _table("both strategies", ["", "mean radius", "ACR", "abst. %", "> EAS %", "< EAS %"])
    for name, line in found.strategies.items():
        against = ["", ""] if name == "EAS" else [_percent(line.above_eas), _percent(line.below_eas)]
        strategies.add_row(
            name, f"{line.mean_radius:.3f}", f"{line.average_certified_radius:.3f}",
            _percent(line.abstention_rate), *against,
        )  # fmt: skip
    strategies.caption = Text(", ".join([f"{found.inputs:,} inputs", *_said(comparison.settings)]))
    if not found.pairs:
        return [strategies]
    verdicts = _table("inputs by the corollary's verdict on a pair", ["pair", *VERDICTS, "radii agree"])
    for name, one in found.pairs.items():
        counts = [str(one.verdicts[verdict]) for verdict in VERDICTS]
        verdicts.add_row(name, *counts, f"{one.agreeing} of {one.decided}")
    return [strategies, verdicts]


def as_tsv(comparison: Comparison) -> str:
    """Every input on a line, tab-separated, numbers at full precision.

    A pair's columns end in its name; the last columns are the settings.
    """
    return "".join("\t".join(row) + "\n" for row in _tsv_rows(comparison))


def _tsv_rows(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    columns: dict[str, NDArray[np.generic]] = {"idx": comparison.idx, "truth": comparison.truth}
    for name, one in comparison.strategies.items():
        columns |= {f"{name}_predict": one.labels, f"{name}_radius": one.radii}
    columns["larger"] = np.array(_larger(comparison))
    for name, pair in comparison.pairs.items():
        found = pair.estimates
        of_pair = {
            "EBS_predict": pair.ebs.labels, "EBS_radius": pair.ebs.radii, "EBS_estimate": found.r_ebs,
            "EAS_predict": pair.eas.labels, "EAS_radius": pair.eas.radii, "EAS_estimate": found.r_eas,
            **{quantity: getattr(found, quantity) for quantity in _ESTIMATES},
            "p_low": found.p_interval[:, 0], "p_high": found.p_interval[:, 1], "verdict": found.verdict,
        }  # fmt: skip
        columns |= {f"{column}_{name}": values for column, values in of_pair.items()}
    columns |= {name: np.full(len(comparison.idx), str(value)) for name, value in comparison.settings.items()}
    yield tuple(columns)
    # tolist() makes Python numbers, whose str is the shortest text that reads back as the same number.
    yield from zip(*(map(str, values.tolist()) for values in columns.values()), strict=True)


def _strategy_summary(comparison: Comparison, found: Certified) -> StrategySummary:
    radii, eas = (one.radii_around(comparison.truth) for one in (found, comparison.eas))
    return StrategySummary(
        mean_radius=float(found.radii.mean()),
        average_certified_radius=float(radii.mean()),
        abstention_rate=float((found.labels == ABSTAIN).mean()),
        above_eas=float((radii > eas).mean()),
        below_eas=float((radii < eas).mean()),
    )


def _pair_summary(pair: Pair, truth: NDArray[np.int64]) -> PairSummary:
    verdict = pair.estimates.verdict
    ebs, eas = pair.ebs.radii_around(truth), pair.eas.radii_around(truth)
    agreeing = ((verdict == "EBS") & (ebs > eas)) | ((verdict == "EAS") & (eas >= ebs))
    verdicts = {one: int((verdict == one).sum()) for one in VERDICTS}
    return PairSummary(verdicts, int(agreeing.sum()), verdicts["EBS"] + verdicts["EAS"])


def _larger(comparison: Comparison) -> list[str]:
    """The strategies with the largest radius around the truth, or a dash where none has one."""
    names = [name.removeprefix("EBS-") for name in comparison.strategies]
    radii = np.stack([one.radii_around(comparison.truth) for one in comparison.strategies.values()], axis=-1)
    leads = (radii == radii.max(-1, keepdims=True)) & (radii > 0)
    return ["=".join(np.compress(row, names)) or "-" for row in leads]


def _radius(found: Certified, truth: NDArray[np.int64], k: int) -> str:
    if found.labels[k] == ABSTAIN:
        return "-"
    return f"{found.radii[k]:.3f}" if found.labels[k] == truth[k] else "wrong"


def _pair_columns(pairs: Mapping[str, Pair], rows: range) -> dict[str, list[str]]:
    if len(pairs) != 1:
        verdicts = {name: pair.estimates.verdict.tolist() for name, pair in pairs.items()}
        return {
            name: ["-" if found[k] == "premises fail" else found[k] for k in rows]
            for name, found in verdicts.items()
        }
    [(name, pair)] = pairs.items()
    estimates = {one: getattr(pair.estimates, one) for one in _ESTIMATES}
    return {
        "pair": [name for _ in rows],
        **{one: [_or_dash(found[k]) for k in rows] for one, found in estimates.items()},
        "verdict": [str(pair.estimates.verdict[k]) for k in rows],
    }


def _width(columns: Mapping[str, list[str]]) -> int:
    return sum(max(map(len, (heading, *cells))) + _GAP for heading, cells in columns.items()) - _GAP


def _said(settings: Mapping[str, object]) -> list[str]:
    return [form.format(settings[name]) for name, form in _SAID.items() if name in settings]


def _or_dash(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f}"


class _WholeTable(PlainTable):
    """A table that overflows a narrow terminal: rich by itself would cut numbers."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.update_width(10_000)
        needed = Measurement.get(console, wide, self).maximum
        return super().__rich_console__(console, options.update_width(max(options.max_width, needed)))


def _table(title: str, headings: list[str]) -> Table:
    drawn = _WholeTable(title=Text(title))
    for heading in headings:
        drawn.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    return drawn
