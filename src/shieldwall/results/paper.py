"""The tables of Yang et al. (2022) as data, and the row of them that a run is to be held against.

`paper.csv` has a line for each row of each table, every number as it is printed there: certified accuracy in
percent by L2 radius, or the ACR. `table` is the table's label in the paper, `protocol` how members vote:

    single     one model; of a DRT ensemble, one of its members
    we, mme    the ensemble, with equal weights in WE
    ae, we     in tab:learn-weights-*: with equal weights, and with those found on a grid

A row without a sigma has the best over sigma at each radius, and that of DRT the best over its weights too.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from shieldwall.vocabulary import SIGMAS, is_member

if TYPE_CHECKING:
    from shieldwall.recipes import Recipe

_FILE = Path(__file__).with_name("paper.csv")
_TUNED_WEIGHTS = ("tab:learn-weights-mnist", "tab:learn-weights-cifar")


@dataclass(frozen=True)
class PaperRow:
    """One row of one table; what the table does not say is empty or None."""

    table: str
    label: str
    dataset: str
    method: str
    base: str
    """What an ensemble's members were trained by, or what DRT wraps."""
    protocol: str
    sigma: float | None
    rho: tuple[float, float] | None
    """The weights of DRT's two terms, (rho_gd, rho_cm)."""
    accuracy: Mapping[float, float] = field(hash=False)
    """Radius -> certified accuracy in percent."""
    acr: float | None
    note: str = ""
    """What makes a number of the row doubtful."""

    @property
    def number(self) -> int:
        """Of the table, as it is counted in the paper."""
        return 1 + list(dict.fromkeys(row.table for row in _all_rows())).index(self.table)


def rows(table: str | None = None, dataset: str | None = None) -> tuple[PaperRow, ...]:
    """The rows of one table or data set, or all, in the paper's order: the main tables come first."""
    return tuple(row for row in _all_rows() if table in (None, row.table) and dataset in (None, row.dataset))


def counterpart(recipe: "Recipe", vote: str) -> PaperRow | None:
    """The paper's row for a vote of this run at its own sigma, with its ACR where the paper has one.

    Of DRT the row with the recipe's weights; where there is none, the row that is best at the largest
    radius, then at the next: its `rho` says which. The ACR of DRT is the only one at this sigma, printed
    without its weights. Model, schedule and number of members are not compared.
    """
    wanted = _description(recipe, vote)
    if wanted is None or wanted.tuned:
        return None
    at_sigma = [row for row in rows(dataset=recipe.data) if row.sigma == recipe.sigma and wanted.fits(row)]
    acr = next((row for row in at_sigma if row.acr is not None), None)
    curves = [row for row in at_sigma if row.accuracy]
    if not curves:
        return acr
    same_weights = [row for row in curves if row.rho == weights_of_drt(recipe)]
    chosen = max(same_weights or curves, key=_from_the_largest_radius)
    if acr is None:
        return chosen
    return replace(chosen, acr=acr.acr, note="; ".join(filter(None, (chosen.note, acr.note))))


def is_of(row: PaperRow, recipe: "Recipe", vote: str) -> bool:
    """Whether the row is of a vote of this run, or of the best of several of which the run can be one."""
    wanted = _description(recipe, vote)
    if wanted is None or row.dataset != recipe.data:
        return False
    if row.table in _TUNED_WEIGHTS and not wanted.tuned:  # what it calls `ae` has equal weights
        wanted = replace(wanted, protocol=wanted.protocol.replace("we", "ae"))
    same_numbers = row.sigma in (None, recipe.sigma) and row.rho in (None, weights_of_drt(recipe))
    same_weights = wanted.tuned <= (row.table in _TUNED_WEIGHTS)
    return wanted.fits(row) and same_numbers and same_weights and (not is_member(vote) or vote == "member-1")


def weights_of_drt(recipe: "Recipe") -> tuple[float, float]:
    """(rho_gd, rho_cm), both 0 where the recipe is not of DRT."""
    rho_gd, rho_cm = (float(recipe.objective.get(name, 0.0)) for name in ("rho_gd", "rho_cm"))
    return rho_gd, rho_cm


def sigmas_of(recipe: "Recipe") -> set[float]:
    """Those that the paper has for the recipe's data set."""
    return {0.5, 1.0} if recipe.data == "imagenet" else set(SIGMAS)


def envelope_counterpart(recipe: "Recipe", vote: str) -> PaperRow | None:
    """The paper's row for a vote of runs like this one at all of its sigmas: at each radius the best."""
    wanted = _description(recipe, vote)
    if wanted is None:
        return None
    over_sigma = (row for row in rows(dataset=recipe.data) if row.sigma is None and wanted.fits(row))
    return next((row for row in over_sigma if (row.table in _TUNED_WEIGHTS) == wanted.tuned), None)


@dataclass(frozen=True)
class _Description:
    """What the paper calls a vote of a run."""

    method: str
    base: str
    protocol: str
    tuned: bool = False
    """Whether the vote's weights were found on a grid."""

    def fits(self, row: PaperRow) -> bool:
        return (self.method, self.base) == (row.method, row.base) and self.protocol in row.protocol.split("/")


def _description(recipe: "Recipe", vote: str) -> _Description | None:
    if recipe.noise != "gaussian":
        return None
    name = str(recipe.objective.get("name"))
    if name == "drt":
        return _drt(recipe, vote)
    if name in ("adp", "gal"):
        return _Description(name, "gaussian", vote)
    if is_member(vote):
        return _Description(name, "", "single")
    if vote == "we-sween":
        return _Description("sween", name, "we")
    return _Description("ensemble", name, vote)


def _drt(recipe: "Recipe", vote: str) -> _Description | None:
    base = str(recipe.objective.get("base", {"name": "gaussian"}).get("name"))
    rho_gd, rho_cm = weights_of_drt(recipe)
    if not (rho_gd and rho_cm):
        return _Description("gd-only" if rho_gd else "cm-only", base, vote) if rho_gd or rho_cm else None
    if is_member(vote):
        return _Description("drt", base, "single")
    is_tuned = vote == "we-grid" or vote.startswith("we-grid-")
    return _Description("drt", base, "we" if is_tuned else vote, tuned=is_tuned)


def _from_the_largest_radius(row: PaperRow) -> list[float]:
    return [share for _, share in sorted(row.accuracy.items(), reverse=True)]


@cache
def _all_rows() -> tuple[PaperRow, ...]:
    with _FILE.open(encoding="utf-8", newline="") as file:
        return tuple(_row(line) for line in csv.DictReader(file))


def _row(line: dict[str, str]) -> PaperRow:
    names = ("table", "label", "dataset", "method", "base", "protocol", "note")
    shares = {float(r): float(cell) for r, cell in line.items() if r[0].isdigit() and cell}
    return PaperRow(
        **{name: line[name] for name in names},
        sigma=_number(line["sigma"]),
        rho=(float(line["rho_gd"]), float(line["rho_cm"])) if line["rho_gd"] else None,
        accuracy=MappingProxyType(shares),
        acr=_number(line["acr"]),
    )


def _number(cell: str) -> float | None:
    return float(cell) if cell else None
