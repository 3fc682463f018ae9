"""A study: a named set of runs, written as rows of recipes and what varies among them.

    summary: Does a fourth member help?
    sigma: [0.5, 1.0]
    members: [3, 4]
    certification.every: {1.0: 10, 0.5: 20}
    votes: [we, mme]
    rows:
      gaussian: {recipe: mnist-short-gaussian}
      drt: {recipe: mnist-short-drt, from: gaussian, rho: [[5, 0.5], [5, 5]], tune: [grid]}

`from` is another row or a run folder. Every key that is not the study's or the row's own is a key of the
recipe, with one value, a list of them, or a mapping from sigma to either; those of the study hold for every
row. `rho` are pairs (rho_gd, rho_cm), or `published`: all that the paper has for this data, base and sigma.
A study `like` another has that one's keys and rows beside its own; `only` names the rows it shows.
"""

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatch
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

from shieldwall import recipes
from shieldwall.errors import UserError, unknown_name
from shieldwall.recipes import Recipe
from shieldwall.recipes.fields import coerce
from shieldwall.results import paper
from shieldwall.results.rows import method_of

PACKAGED = Path(__file__).with_name("paper.yaml")
TINY = "tiny"
TINY_SCALE = 0.01
"""Of the scale `tiny`, which also takes one value of rho per row and sigma."""
_LEAST_N = 100
_CARRIED = ("sigma", "seed", "members", "model", "data", "noise")
"""Keys that a run shares with the one that it starts from."""
_TEXTS = tuple[str, ...]
_STUDY_KEYS: dict[str, Any] = {
    "summary": str, "like": str, "only": _TEXTS, "paper": _TEXTS, "panel": str, "best_over": _TEXTS,
    "notes": _TEXTS, "compile": bool, "seconds": dict[str, float], "rows": dict,
}  # fmt: skip
_ROW_KEYS: dict[str, Any] = {"recipe": str, "from": str, "votes": _TEXTS, "tune": _TEXTS}


@dataclass(frozen=True)
class Run:
    """One run of a study: its recipe, and the run that it starts from."""

    row: str
    recipe: Recipe
    """All of it, without the folder of the run that it starts from."""
    values: Mapping[str, Any]
    """What the study sets in the recipe, by key."""
    start: "Run | None" = None
    tune: tuple[str, ...] = ()
    """The ways to tune weights, as `tune-weights` calls the votes: sween, grid, grid-0.5."""
    votes: tuple[str, ...] = ()
    """Those that are shown; all are certified."""
    compile: bool = False

    @cached_property
    def key(self) -> str:
        """Equal for runs that train the same members, whatever they are called and however certified."""
        return key_of(self.chain)

    @property
    def chain(self) -> list[Recipe]:
        """The recipe, that of the run it starts from, and so on."""
        return [self.recipe, *(self.start.chain if self.start else [])]

    @property
    def folder(self) -> str:
        """What the run folder is called where it is made."""
        return f"{self.recipe.name}-{self.key}"

    def __str__(self) -> str:
        values = {
            key: value for key, value in self.values.items() if key in ("sigma", "rho", "seed", "members")
        }
        return ", ".join([self.row, *(f"{key} {spoken(value)}" for key, value in values.items())])


@dataclass(frozen=True)
class Study:
    name: str
    summary: str
    runs: tuple[Run, ...]
    """Every run once, each after the one that it starts from."""
    shown: tuple[Run, ...]
    """Those of the rows that the study is about."""
    paper: tuple[str, ...] = ()
    """The labels of the paper's tables that the runs are held against."""
    panel: str = ""
    """The key that has a figure for each of its values."""
    best_over: tuple[str, ...] = ()
    seconds: Mapping[str, float] | None = None
    """The paper's seconds per mini-batch by row, where the study is about these."""
    notes: tuple[str, ...] = ()
    scale: float = 1.0

    @property
    def title(self) -> str:
        scale = "" if self.scale == 1 else f" (scale {self.scale:g}: fewer epochs, inputs and draws)"
        return f"{self.name}: {self.summary}{scale}"


def names() -> list[str]:
    """The studies that come with the package."""
    return list(_packaged())


def get(name: str, *, only: str = "*", sigmas: Sequence[float] = (), scale: str | float = 1.0) -> Study:
    """The study called `name`, or the one in the YAML file of that path.

    Args:
        only: a glob: the rows to take; those that they start from come along.
        sigmas: the sigmas to take, by default all.
        scale: 0.1 for a tenth of the epochs, inputs and draws; `tiny` for a hundredth and one rho.
    """
    if name.endswith((".yaml", ".yml")):
        content = _resolved(Path(name).stem, _read(Path(name)))
    elif name in _packaged():
        content = _resolved(name, _packaged()[name])
    else:
        raise unknown_name("study", name, _packaged())
    size = TINY_SCALE if scale == TINY else _scale(scale)
    rows, settings = content.pop("rows", {}), content
    common = {key: settings.pop(key) for key in list(settings) if key in _STUDY_KEYS}
    if not rows:
        raise UserError(f"study {name} has no rows: give `rows`, or `like` and a study that has some")
    builder = _Builder(name, rows, settings, bool(common.get("compile")), size, scale == TINY)
    wanted = [row for row in common.get("only", rows) if fnmatch(row, only)]
    for row in wanted:
        builder.check(row)
    if not wanted:
        raise UserError(f"study {name} has no row {only!r}; its rows: {', '.join(common.get('only', rows))}")
    shown = [run for row in wanted for run in builder.runs(row) if not sigmas or run.recipe.sigma in sigmas]
    if not shown:
        raise UserError(f"study {name} has no run at sigma {', '.join(f'{sigma:g}' for sigma in sigmas)}")
    ordered: dict[str, Run] = {}
    for run in shown:
        for each in reversed(_with_starts(run)):
            ordered.setdefault(each.key, each)
    shown = list({run.key: run for run in shown}.values())
    tables = common.get("paper", (name,) if paper.rows(name) else ())
    return Study(
        name, common.get("summary", ""), tuple(ordered.values()), tuple(shown), tuple(tables),
        common.get("panel", ""), common.get("best_over", ()), common.get("seconds"),
        common.get("notes", ()), size,
    )  # fmt: skip


def key_of(chain: Sequence[Recipe]) -> str:
    """A name for what trains the members: equal for equal recipes, names and certification aside."""
    content = [_canonical(asdict(recipe)) for recipe in chain]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]


def spoken(value: Any) -> str:
    """A value of a recipe as tables and file names show it."""
    if isinstance(value, list | tuple):
        return ", ".join(map(spoken, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _canonical(part: Any, outer: bool = True) -> Any:
    if isinstance(part, Mapping):
        left_out = ("name", "summary", "certification", "init_from") if outer else ()
        return {key: _canonical(value, False) for key, value in part.items() if key not in left_out}
    if isinstance(part, list | tuple):
        return [_canonical(value, False) for value in part]
    return float(part) if isinstance(part, int) and not isinstance(part, bool) else part


def _with_starts(run: Run) -> list[Run]:
    return [run, *(_with_starts(run.start) if run.start else [])]


@dataclass(frozen=True)
class _Builder:
    """From rows as they are written to runs."""

    study: str
    rows: Mapping[str, Mapping[str, Any]]
    settings: Mapping[str, Any]
    compile: bool
    scale: float
    one_rho: bool

    def check(self, row: str) -> None:
        if row not in self.rows:
            raise unknown_name(f"row of study {self.study}", row, self.rows)

    def runs(self, name: str, below: tuple[str, ...] = ()) -> list[Run]:
        """The runs of a row."""
        row = dict(self.rows[name])
        own = {key: _typed(key, row.pop(key), kind) for key, kind in _ROW_KEYS.items() if key in row}
        settings = {**self.settings, **row}
        kept = {key: own.get(key, settings.pop(key, ())) for key in ("votes", "tune")}
        where = f"study {self.study}, row {name}"
        if "recipe" not in own:
            raise UserError(f"{where}: it needs a recipe, such as `recipe: mnist-gaussian`")
        start: str | None = own.get("from")
        if start in below or start == name:
            raise UserError(f"{where}: it starts from itself")
        bases: list[Run | None] = [None]
        if start is not None and start in self.rows:
            bases = [*self.runs(start, (*below, name))]
        runs = []
        try:
            for values in self._points(own["recipe"], settings):
                for base in bases:
                    shared = {key: base.values[key] for key in _CARRIED if key in base.values} if base else {}
                    if any(values.get(key, value) != value for key, value in shared.items()):
                        continue
                    recipe = self._recipe(own["recipe"], {**shared, **values})
                    if start is not None and base is None:
                        recipe = replace(recipe, init_from=start)
                    runs.append(Run(name, recipe, {**shared, **values}, base, **kept, compile=self.compile))
        except UserError as error:
            raise UserError(f"{where}: {error}") from error
        return runs

    def _points(self, recipe: str, settings: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Every combination of what varies."""
        usual = recipes.get(recipe)
        for sigma in _several(settings.get("sigma", usual.sigma)):
            sigma = coerce(sigma, float, "sigma")
            axes = {}
            for key, value in settings.items():
                if isinstance(value, Mapping):
                    value = {coerce(at, float, key): part for at, part in value.items()}.get(sigma, [])
                axes[key] = [sigma] if key == "sigma" else self._axis(key, value, usual, sigma)
            for combination in itertools.product(*axes.values()):
                yield {"sigma": sigma, **dict(zip(axes, combination, strict=True))}

    def _axis(self, key: str, value: Any, recipe: Recipe, sigma: float) -> list[Any]:
        if key == "certification.radii":
            return [value]
        if key != "rho":
            return _several(value)
        if value == "published":
            base = recipe.objective.get("base", {}).get("name")
            printed: Sequence[paper.PaperRow] = paper.rows(dataset=recipe.data)
            printed = [row for row in printed if (row.method, row.base, row.sigma) == ("drt", base, sigma)]
            value = list(dict.fromkeys(row.rho for row in printed if row.rho)) or [
                paper.weights_of_drt(recipe)
            ]
        pairs: list[Any] = [value] if value and not isinstance(value[0], list | tuple) else value
        for pair in pairs:
            if len(pair) != 2:
                raise UserError(
                    f"rho takes pairs (rho_gd, rho_cm), such as [[5, 0.5], [5, 5]]; given: {value!r}"
                )
        pairs = [tuple(coerce(list(pair), tuple[float, ...], "rho")) for pair in pairs]
        return pairs[:1] if self.one_rho else pairs

    def _recipe(self, name: str, values: Mapping[str, Any]) -> Recipe:
        sigma = values["sigma"]
        family = recipes.FAMILIES.get(name)
        recipe = recipes.get(f"{name}-{sigma}" if family and sigma in family.sigmas else name)
        settings = {key: value for key, value in values.items() if key != "rho"}
        if "rho" in values:
            settings |= dict(zip(("objective.rho_gd", "objective.rho_cm"), values["rho"], strict=True))
        recipe = recipes.override(recipe, [f"{key}={json.dumps(value)}" for key, value in settings.items()])
        return recipe if self.scale == 1 else scaled(recipe, self.scale)


def scaled(recipe: Recipe, scale: float) -> Recipe:
    """The same with this share of the epochs, inputs and draws; its name says so."""

    def share(number: int, least: int = 1) -> int:
        return min(number, max(least, round(scale * number)))

    schedule, which = recipe.schedule, recipe.certification
    return replace(
        recipe,
        name=f"{method_of(recipe.name, recipe.sigma)}-scale-{scale:g}-{recipe.sigma}",
        schedule=replace(
            schedule, epochs=share(schedule.epochs), decay_every=share(schedule.decay_every),
            warmup=share(schedule.warmup, 0),
        ),
        certification=replace(
            which, n=share(which.n, _LEAST_N), every=round(which.every / scale),
            limit=None if which.limit is None else share(which.limit),
        ),
    )  # fmt: skip


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _scale(text: str | float) -> float:
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0 < scale <= 1:
        raise UserError(f"--scale takes a number above 0 and at most 1, or `{TINY}`; given: {text!r}")
    return scale


def _resolved(name: str, content: Mapping[str, Any], below: tuple[str, ...] = ()) -> dict[str, Any]:
    """The study's keys, with those of the study that it is like."""
    if name in below:
        raise UserError(f"study {name} is like itself")
    kinds = {**_ROW_KEYS, **_STUDY_KEYS}
    own = {key: _typed(key, value, kinds[key]) if key in kinds else value for key, value in content.items()}
    for row, keys in own.get("rows", {}).items():
        if not isinstance(keys, Mapping):
            raise UserError(f"study {name}, row {row}: it must hold keys such as recipe; given: {keys!r}")
    other = own.pop("like", None)
    if other is None:
        return own
    if other not in _packaged(hidden=True):
        raise unknown_name("study", other, _packaged())
    base = _resolved(other, _packaged(hidden=True)[other], (*below, name))
    rows = {**base.get("rows", {}), **own.get("rows", {})}
    if "rows" in own and "only" not in own:
        base["only"] = tuple(dict.fromkeys([*base.get("only", base.get("rows", {})), *own["rows"]]))
    base.pop("paper", None)
    return {**base, **own, "rows": rows}


def _typed(key: str, value: Any, kind: Any) -> Any:
    try:
        return coerce([value] if kind == _TEXTS and isinstance(value, str) else value, kind, key)
    except UserError as error:
        raise UserError(str(error).replace("recipe key", "study key")) from error


@cache
def _packaged(hidden: bool = False) -> dict[str, Any]:
    """The packaged studies as they are written; hidden ones, which others are like, begin with a dot."""
    content: dict[str, Any] = yaml.safe_load(PACKAGED.read_text(encoding="utf-8"))
    return {name: study for name, study in content.items() if hidden or not name.startswith(".")}


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(
            f"the study file {path} does not exist; `shieldwall study list` lists those by name"
        ) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path} is not a readable study: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise UserError(f"{path} is not a study: it must hold keys such as summary and rows")
    return content
