"""The measured runs in results/mnist: ROW-SIGMA.tar.xz, one packed run each, read by row, sigma and vote."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from shieldwall import recipes
from shieldwall.errors import UserError
from shieldwall.recipes import Recipe
from shieldwall.results.archive import SUFFIX
from shieldwall.results.record import Log, RunRecord, read_runs
from shieldwall.vocabulary import SIGMAS

HOLD_OUT = 20
"""Every so many training images are kept from training."""
TRAINING_IMAGES, TEST_IMAGES = 60_000, 10_000
ROWS: dict[str, str | None] = {
    "gaussian": None,
    "drt": "gaussian",
    "smoothadv": None,
    "drt-smoothadv": "smoothadv",
    "drt-gd": "gaussian",
    "drt-cm": "gaussian",
    "adp": None,
    "gal": None,
    "macer": None,
    "stability": None,
    "consistency": None,
    "drt-consistency": "consistency",
}
"""Those of the paper, or beside them, in the order of their worth: the row whose members each starts from."""
SETTINGS = ("every", "n0", "n", "alpha", "bound", "norm", "precision", "members_sha256")
"""Of the certificates, as the page tells them."""


@dataclass(frozen=True)
class Measured:
    """One packed run."""

    row: str
    sigma: float
    recipe: Recipe
    record: RunRecord

    @property
    def name(self) -> str:
        return f"{self.row}-{self.sigma}"

    def log(self, vote: str) -> Log | None:
        """The certificates of one vote, if it was certified."""
        return next((log for log in self.record.logs if log.vote == vote), None)

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.record.settings

    @property
    def environment(self) -> Mapping[str, Mapping[str, Any]]:
        return self.record.environment


@dataclass(frozen=True)
class Results:
    """A folder of packed runs, with what else was measured and noted."""

    folder: Path

    @cached_property
    def runs(self) -> dict[tuple[str, float], Measured]:
        """In the order of ROWS, others after them by name."""
        found = [_read(file) for file in self.folder.glob(f"*{SUFFIX}")]
        found.sort(key=lambda run: ([*ROWS, run.row].index(run.row), run.row, run.sigma))
        return {(run.row, run.sigma): run for run in found}

    def log(self, row: str, sigma: float, vote: str) -> Log | None:
        run = self.runs.get((row, sigma))
        return None if run is None else run.log(vote)

    def recipe(self, row: str, sigma: float) -> Recipe | None:
        """That of the measured run, or the one that is to be measured; None for a row beyond the paper."""
        if row not in ROWS:
            return None
        run = self.runs.get((row, sigma))
        return recipes.get(f"mnist-{row}-{sigma}") if run is None else run.recipe

    @property
    def missing(self) -> dict[str, list[float]]:
        """The sigmas at which each row is still to be measured; a row that is done is not in it."""
        left = {row: [sigma for sigma in SIGMAS if (row, sigma) not in self.runs] for row in ROWS}
        return {row: sigmas for row, sigmas in left.items() if sigmas}

    @property
    def other_rows(self) -> list[str]:
        return sorted({row for row, _ in self.runs if row not in ROWS})

    @property
    def steps(self) -> dict[str, Any] | None:
        """What a training step costs, as step-seconds.json has it."""
        file = self.folder / "step-seconds.json"
        return dict(json.loads(file.read_text())) if file.is_file() else None

    @property
    def notes(self) -> dict[str, str]:
        """Why a row differs: by ROW, or by ROW-SIGMA for one table."""
        file = self.folder / "notes.yaml"
        notes = yaml.safe_load(file.read_text()) if file.is_file() else None
        known = {key for row in ROWS for key in (row, *(f"{row}-{sigma}" for sigma in SIGMAS))}
        if unknown := sorted(set(map(str, notes or {})) - known):
            raise UserError(f"{file}: no table has a row called {', '.join(unknown)}")
        return {str(row): " ".join(str(note).split()) for row, note in (notes or {}).items()}


def _read(file: Path) -> Measured:
    row, _, sigma = file.name.removesuffix(SUFFIX).rpartition("-")
    if not row or sigma not in map(str, SIGMAS):
        raise UserError(
            f"{file} is not called ROW-SIGMA{SUFFIX} with a sigma of {', '.join(map(str, SIGMAS))}"
        )
    (record,) = read_runs([file])
    recipe = record.recipe
    if recipe is None:
        raise UserError(f"{file}: this version does not read the recipe in it")
    if recipe.sigma != float(sigma):
        raise UserError(f"{file} is called by sigma {sigma}, but its recipe's is {recipe.sigma}")
    if row in ROWS and _method(recipe) != _method(recipes.get(f"mnist-{row}-{sigma}")):
        raise UserError(f"{file} is called by the method {row}, but its recipe is {recipe.name}")
    if missing := [key for key in SETTINGS if key not in record.settings]:
        raise UserError(
            f"{file}: its certificates do not say their {', '.join(missing)}; certify the run again"
        )
    return Measured(row, float(sigma), recipe, record)


def _method(recipe: Recipe) -> tuple[object, ...]:
    """What is trained on what: DRT by what it wraps and by which of its terms it has."""
    objective = recipe.objective
    base = objective.get("base", {}).get("name")
    return recipe.data, objective["name"], base, bool(objective.get("rho_gd")), bool(objective.get("rho_cm"))
