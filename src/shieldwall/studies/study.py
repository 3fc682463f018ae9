"""A study: a named set of runs, written as rows of recipes and what varies among them (docs/studies.md).

sigma: [0.5, 1.0]
rows:
  gaussian: {recipe: mnist-short-gaussian, members: [3, 4]}
  drt: {recipe: mnist-short-drt, from: gaussian, rho: [[5, 0.5], [5, 5]], tune: [grid]}
"""

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatch
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from shieldwall import recipes
from shieldwall.errors import UserError, check, unknown_name
from shieldwall.recipes import Recipe, from_mapping
from shieldwall.recipes.recipe import build, coerce, read_mapping, spoken
from shieldwall.results import paper
from shieldwall.runs.pretrained import resolve_sources
from shieldwall.texts import read_yaml

PACKAGED = Path(__file__).with_name("paper.yaml")
TINY, TINY_SCALE = "tiny", 0.01  # a scale by name, which also takes one value of rho per row and sigma
_LEAST_N = 100
_CARRIED = ("sigma", "seed", "members", "model", "data", "noise")  # shared with the run to start from


@dataclass(frozen=True)
class Run:
    row: str
    recipe: Recipe
    values: Mapping[str, Any]  # what the study sets in the recipe, by key
    start: "Run | None"
    tune: tuple[str, ...]  # the ways to tune weights, as the votes are called: sween, grid, grid-0.5
    votes: tuple[str, ...]  # those that are shown; all are certified
    compile: bool

    @cached_property
    def key(self) -> str:
        return key_of([*(run.recipe for run in self.chain), *origins(self.chain[-1].recipe.init_from)])

    @property
    def chain(self) -> "list[Run]":
        return [self, *(self.start.chain if self.start else [])]

    @property
    def folder(self) -> str:  # what the run folder is called where it is made
        return f"{self.recipe.name}-{self.key}"

    def __str__(self) -> str:
        values = (f"{key} {spoken(self.values[key])}" for key in (*_CARRIED, "rho") if key in self.values)
        return ", ".join([self.row, *values])


@dataclass(frozen=True)
class Study:
    name: str
    settings: Mapping[str, Any]  # the keys of its recipes
    scale: float
    pick: str  # a glob: the rows that are wanted
    sigmas: Sequence[float]  # those that are wanted; none for all
    one_rho: bool
    summary: str = ""
    notes: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    paper: tuple[str, ...] = ()  # the labels of the paper's tables that the runs are held against
    panel: str = ""  # the key that has a figure for each of its values
    best_over: tuple[str, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)  # the paper's per mini-batch, by row
    compile: bool = False
    votes: tuple[str, ...] = ()
    tune: tuple[str, ...] = ()
    rows: dict[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        scale = "" if self.scale == 1 else f" (scale {self.scale:g}: fewer epochs, inputs and draws)"
        return f"{self.name}: {self.summary}{scale}"

    @property
    def command(self) -> str:
        scale = TINY if self.one_rho else f"{self.scale:g}"
        return self.name if self.scale == 1 else f"{self.name} --scale {scale}"

    @cached_property
    def shown(self) -> list[Run]:
        known = self.only or tuple(self.rows)
        if not (rows := [row for row in known if fnmatch(row, self.pick)]):
            raise UserError(f"study {self.name} has no row {self.pick!r}; its rows: {', '.join(known)}")
        all_runs = [run for row in rows for run in self.runs_of(row)]
        runs = {run.key: run for run in all_runs if not self.sigmas or run.recipe.sigma in self.sigmas}
        if not runs:
            raise UserError(f"study {self.name} has no run at sigma {spoken(self.sigmas)}")
        return list(runs.values())

    @cached_property
    def runs(self) -> list[Run]:
        """Every run once, each after the one that it starts from."""
        return list({run.key: run for shown in self.shown for run in reversed(shown.chain)}.values())

    def runs_of(self, name: str, below: tuple[str, ...] = ()) -> list[Run]:
        where = f"study {self.name}, row {name}"
        if name not in self.rows:
            raise unknown_name(f"row of study {self.name}", name, self.rows)
        row = self.rows[name]
        has_recipe = isinstance(row, Mapping) and isinstance(row.get("recipe"), str)
        check(has_recipe, f"{where}: it needs a recipe, such as `recipe: mnist-gaussian`", repr(row))
        if name in below:
            raise UserError(f"{where}: it starts from itself")
        start = ",".join(map(str, _several(row["from"]))) if row.get("from") else None
        bases = self.runs_of(start, (*below, name)) if start in self.rows else [None]
        own = {key: row[key] for key in row if key not in ("recipe", "from", "votes", "tune")}
        settings = {**self.settings, **own}
        votes = coerce(row.get("votes", self.votes), tuple[str, ...], "votes")
        tune = coerce(row.get("tune", self.tune), tuple[str, ...], "tune")
        runs = []
        try:
            origins(None if start in self.rows else start)  # refuses what is no run
            for values, base in itertools.product(self._points(row["recipe"], settings), bases):
                shared = {key: base.values[key] for key in _CARRIED if key in base.values} if base else {}
                if all(values.get(key, value) == value for key, value in shared.items()):
                    values = shared | values
                    recipe = replace(self._recipe(row["recipe"], values), init_from=None if base else start)
                    runs.append(Run(name, recipe, values, base, tune, votes, self.compile))
        except UserError as error:
            raise UserError(f"{where}: {error}") from error
        return runs

    def _points(self, recipe: str, settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        usual = recipes.get(recipe)
        for sigma in coerce(_several(settings.get("sigma", usual.sigma)), tuple[float, ...], "sigma"):
            axes: dict[str, list[Any]] = {"sigma": [float(sigma)]}
            for key, value in settings.items():
                if isinstance(value, Mapping):
                    value = {coerce(at, float, key): part for at, part in value.items()}.get(sigma, [])
                if key == "rho":
                    axes[key] = self._pairs(value, usual, sigma)
                elif key != "sigma":
                    axes[key] = [value] if key == "certification.radii" else _several(value)
            for combination in itertools.product(*axes.values()):
                yield dict(zip(axes, combination, strict=True))

    def _pairs(self, rho: Any, recipe: Recipe, sigma: float) -> list[Any]:
        if rho == "published":
            base = recipe.objective.get("base", {}).get("name")
            printed = [row for row in paper.rows(dataset=recipe.data) if row.sigma == sigma and row.rho]
            rho = list(dict.fromkeys(row.rho for row in printed if (row.method, row.base) == ("drt", base)))
        pairs = [rho] if rho and not isinstance(rho[0], list | tuple) else rho
        are_pairs = all(len(pair) == 2 for pair in pairs)
        check(are_pairs, "rho takes pairs (rho_gd, rho_cm), such as [[5, 0.5], [5, 5]]", repr(rho))
        return [coerce(list(pair), tuple[float, ...], "rho") for pair in pairs][: 1 if self.one_rho else None]

    def _recipe(self, name: str, values: Mapping[str, Any]) -> Recipe:
        settings = {key: value for key, value in values.items() if key != "rho"}
        settings |= dict(zip(("objective.rho_gd", "objective.rho_cm"), values.get("rho", ()), strict=False))
        make = _make if name.endswith((".yaml", ".yml")) else _known_recipe
        recipe = make(name, values["sigma"], tuple(f"{k}={json.dumps(v)}" for k, v in settings.items()))
        return recipe if self.scale == 1 else scaled(recipe, self.scale)


def _make(name: str, sigma: float, assignments: tuple[str, ...]) -> Recipe:
    at_sigma = name in recipes.FAMILIES and sigma in recipes.FAMILIES[name]
    return recipes.override(recipes.get(f"{name}-{sigma}" if at_sigma else name), assignments)


_known_recipe = cache(_make)  # most studies share rows; a file may change, so it is read each time


def names() -> list[str]:
    return [name for name in _packaged() if not name.startswith(".")]


def get(name: str, *, only: str = "*", sigmas: Sequence[float] = (), scale: str | float = 1.0) -> Study:
    """The study called `name`, or the one in the YAML file of that path: of its rows those that match
    the glob `only`, with what they start from. `scale` is 0.1 for a tenth of the epochs, inputs and draws, or
    `tiny` for a hundredth and one rho."""
    try:
        size = TINY_SCALE if scale == TINY else float(scale)
    except ValueError:
        size = 0.0
    check(0 < size <= 1, f"--scale takes a number above 0 and at most 1, or `{TINY}`", repr(scale))
    content: dict[str, Any] = {"paper": [name] if paper.rows(name) else []} | _written(name)
    own = {each.name: content.pop(each.name) for each in fields(Study)[6:] if each.name in content}
    chosen: dict[str, Any] = {"name": name, "scale": size, "pick": only, "sigmas": sigmas}
    try:
        study: Study = build(Study, own, **chosen, one_rho=scale == TINY, settings=content)
    except UserError as error:
        raise UserError(f"study {name}: {str(error).replace('recipe key', 'study key')}") from error
    if not study.rows:
        raise UserError(f"study {name} has no rows: give `rows`, or `like` and a study that has some")
    _ = study.shown  # refuses what is wrong with a row
    return study


def key_of(chain: Iterable[Recipe]) -> str:
    """A name for what trains the members: equal for equal recipes, names and certification aside."""
    left_out = ("name", "summary", "certification", "init_from")
    content = [{key: value for key, value in vars(each).items() if key not in left_out} for each in chain]
    with_floats = json.loads(json.dumps(content, default=vars), parse_int=float)
    return hashlib.sha256(json.dumps(with_floats, sort_keys=True).encode()).hexdigest()[:8]


def origins(start: str | None) -> list[Recipe]:
    """The recipes of the runs or pretrained names that a row starts from, and of those before, each once."""
    documents: list[list[Any]] = []
    for source in resolve_sources(start) if start else ():
        folder = source.parent.parent if source.is_file() else source
        files = [folder / name for name in ("recipe.yaml", "start.yaml") if (folder / name).is_file()]
        if not files:
            raise UserError(f"cannot start from {source}: it is neither a row nor a run folder")
        of_source = [document for file in files for document in read_yaml(file)]
        documents += [of_source] if of_source not in documents else []
    return list(map(from_mapping, itertools.chain(*documents)))


def scaled(recipe: Recipe, scale: float) -> Recipe:
    """The same with this share of the epochs, inputs and draws; its name says so."""

    def share(number: int, least: int = 1) -> int:
        return min(number, max(least, round(scale * number)))

    schedule, which = recipe.schedule, recipe.certification
    epochs, decay_every = share(schedule.epochs), share(schedule.decay_every)
    schedule = replace(schedule, epochs=epochs, decay_every=decay_every, warmup=share(schedule.warmup, 0))
    every, limit = round(which.every / scale), which.limit and share(which.limit)
    which = replace(which, n=share(which.n, _LEAST_N), every=every, limit=limit)
    name = f"{recipe.name.removesuffix(f'-{recipe.sigma}')}-scale-{scale:g}-{recipe.sigma}"
    return replace(recipe, name=name, schedule=schedule, certification=which)


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _written(name: str, below: tuple[str, ...] = ()) -> dict[str, Any]:
    if name in below:
        raise UserError(f"study {name} is like itself")
    if name.endswith((".yaml", ".yml")) and not below:
        own = read_mapping(Path(name), "study", "summary and rows")
    elif name in _packaged():
        own = dict(_packaged()[name])
    else:
        raise unknown_name("study", name, names())
    if "like" not in own:
        return own
    base = _written(own.pop("like"), (*below, name))
    rows = own.get("rows", {})
    shown = {} if "only" in own or not rows else {"only": [*base.get("only", base["rows"]), *rows]}
    base.pop("paper", None)
    return {**base, **shown, **own, "rows": {**base["rows"], **rows}}


@cache
def _packaged() -> dict[str, Any]:
    """The packaged studies as they are written; names that begin with a dot are for others to be like."""
    return read_mapping(PACKAGED, "study", "rows")
