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

from shieldwall.vocabulary import is_member

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
    base: str  #: what an ensemble's members were trained by, or what DRT wraps
    protocol: str
    sigma: float | None
    rho: tuple[float, float] | None  #: the weights of DRT's two terms, (rho_gd, rho_cm)
    accuracy: Mapping[float, float] = field(hash=False)  #: radius -> certified accuracy in percent
    acr: float | None
    note: str = ""  #: what makes a number of the row doubtful

    @property
    def number(self) -> int:  # of the table, as it is counted in the paper
        return 1 + [*dict.fromkeys(row.table for row in _all_rows())].index(self.table)


def rows(table: str | None = None, dataset: str | None = None) -> tuple[PaperRow, ...]:
    """The rows of one table or data set, or all, in the paper's order: the main tables come first."""
    return tuple(row for row in _all_rows() if table in (None, row.table) and dataset in (None, row.dataset))


def counterpart(recipe: "Recipe", vote: str, sigma: float | None) -> PaperRow | None:
    """The first of the paper's rows for a vote of this run at a sigma, None for the best over sigma, with the
    ACR of another row where its own table prints none."""
    vote = "member-1" if is_member(vote) else vote  # the first stands for the paper's single model
    fitting = [row for row in rows(dataset=recipe.data) if row.sigma == sigma and is_of(row, recipe, vote)]
    if not fitting:
        return None
    acr = next((row for row in fitting if row.acr is not None), fitting[0])
    notes = dict.fromkeys(row.note for row in (fitting[0], acr) if row.note)
    return replace(fitting[0], acr=acr.acr, note="; ".join(notes))


def is_of(row: PaperRow, recipe: "Recipe", vote: str) -> bool:
    """Whether the row is of a vote of this run, or of the best of several of which the run can be one."""
    if recipe.noise != "gaussian" or row.dataset != recipe.data or (is_member(vote) and vote != "member-1"):
        return False
    method, base, protocol = _called(recipe, vote)
    if row.table in _TUNED_WEIGHTS:  # what it calls `ae` has equal weights
        is_tuned = vote == "we-grid" or vote.startswith("we-grid-")
        protocol = "we" if is_tuned else protocol.replace("we", "ae")
    same_numbers = row.sigma in (None, recipe.sigma) and row.rho in (None, weights_of_drt(recipe))
    return (method, base) == (row.method, row.base) and protocol in row.protocol.split("/") and same_numbers


def weights_of_drt(recipe: "Recipe") -> tuple[float, float]:
    """(rho_gd, rho_cm), both 0 where the recipe is not of DRT."""
    rho_gd, rho_cm = (float(recipe.objective.get(name, 0.0)) for name in ("rho_gd", "rho_cm"))
    return rho_gd, rho_cm


def _called(recipe: "Recipe", vote: str) -> tuple[str, str, str]:
    """The method, base and protocol that the paper would write for a vote of a run."""
    name, is_single = str(recipe.objective.get("name")), is_member(vote)
    if name == "drt":
        base = str(recipe.objective.get("base", {"name": "gaussian"}).get("name"))
        rho_gd, rho_cm = weights_of_drt(recipe)
        if rho_gd and rho_cm:
            return "drt", base, "single" if is_single else vote
        return "gd-only" if rho_gd else "cm-only" if rho_cm else "", base, vote
    if name in ("adp", "gal"):
        return name, "gaussian", vote
    if is_single:
        return name, "", "single"
    return ("sween", name, "we") if vote == "we-sween" else ("ensemble", name, vote)


@cache
def _all_rows() -> tuple[PaperRow, ...]:
    with _FILE.open(encoding="utf-8", newline="") as file:
        return tuple(map(_row, csv.DictReader(file)))


def _row(line: dict[str, str]) -> PaperRow:
    names = ("table", "label", "dataset", "method", "base", "protocol", "note")
    numbers = {name: float(cell) for name, cell in line.items() if name not in names and cell}
    by_radius = {float(name): share for name, share in numbers.items() if name[0].isdigit()}
    rho = (numbers["rho_gd"], numbers["rho_cm"]) if "rho_gd" in numbers else None
    return PaperRow(
        **{name: line[name] for name in names}, sigma=numbers.get("sigma"), rho=rho,
        accuracy=MappingProxyType(by_radius), acr=numbers.get("acr"),
    )  # fmt: skip
