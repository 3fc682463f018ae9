"""The curves of a page and how they look.

Each curve is a row, with the method, protocol and sigma by which a reader picks it.
A method is a recipe without its sigma: mnist-gaussian-0.25 and mnist-gaussian-1.0 are one at two sigmas.

Colours show sigma; with one sigma the method, and with one method the protocol. With several methods DRT is
solid, the others are dashed, and symbols show the protocol; otherwise dashes show the protocol. Members have
a thin line with their number. Envelopes are thick, in the colour of text.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle

from shieldwall.recipes import Recipe
from shieldwall.results.record import Log
from shieldwall.results.rows import Row, envelope_row, is_drt, method_of, sigma_groups
from shieldwall.vocabulary import VOTE_TITLES, WE, vote_title

# Signs that source code would confuse with Latin letters.
SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
RHO = "\N{GREEK SMALL LETTER RHO}"
MINUS = "\N{MINUS SIGN}"
NOTHING = "\N{EN DASH}"  #: where there is no number to show
UNSTATED = "not stated"
NUM_COLOURS = 12  #: in page.css
SOLID: tuple[float, ...] = (1, 0)
DOTTED: tuple[float, ...] = (1.2, 2.4)
DASHES: tuple[tuple[float, ...], ...] = (
    SOLID, (7, 3), (9, 3, 2, 3), (4, 3), (9, 3, 2, 3, 2, 3), (4, 7), (12, 3, 4, 3), (2, 2),
)  # fmt: skip
_NEARLY_SOLID: tuple[tuple[float, ...], ...] = (SOLID, (24, 3), (24, 3, 6, 3), (40, 3))
"""Of several DRT methods."""
_THIN, _STRONG, _ENVELOPE = 1.2, 1.6, 3.2
SHAPES = (  # symbols as paths between -1 and 1
    "M.9,0A.9,.9,0,1,1,-.9,0A.9,.9,0,1,1,.9,0Z",
    "M-1,.8L0,-1L1,.8Z",
    "M-.8,-.8H.8V.8H-.8Z",
    "M0,-1.1L1.1,0L0,1.1L-1.1,0Z",
    "M-1,-.8L0,1L1,-.8Z",
    "M-.3,-1H.3V-.3H1V.3H.3V1H-.3V.3H-1V-.3H-.3Z",
)


@dataclass(frozen=True, eq=False)
class Curve:
    """A row of one log, or of one method and protocol at several sigmas."""

    row: Row
    method: str
    protocol: str
    sigma: str  #: of an envelope all of them

    @property
    def title(self) -> str:
        if not self.row.is_envelope:
            return self.row.title
        return f"{self.method} {self.protocol}, best of {SIGMA} {self.sigma}"


def log_curves(rows: Sequence[Row]) -> list[Curve]:
    """A curve for each row of one log, in the same order."""
    methods = _methods({row.run: row.record.recipe for row in rows})
    return [Curve(row, methods[row.run], _protocol(row.logs[0]), _sigma(row.logs[0])) for row in rows]


def envelope_curves(curves: Sequence[Curve]) -> list[Curve]:
    """A curve for each method and protocol with more than one sigma, one log at each.

    Runs with another seed count as another method here.
    """
    envelopes: list[Curve] = []
    for method in choices(curves, "method"):
        of_row = {curve.row: curve for curve in curves if curve.method == method}
        for group in sigma_groups([*of_row]):
            sigmas = ", ".join(choices([of_row[row] for row in group], "sigma"))
            envelopes.append(Curve(envelope_row(group), method, of_row[group[0]].protocol, sigmas))
    return envelopes


def choices(curves: Sequence[Curve], name: str) -> list[str]:
    """The methods, protocols or sigmas of the curves: ensembles before members, small sigmas before large."""
    values = list(dict.fromkeys(str(getattr(curve, name)) for curve in curves))
    if name == "method":
        return values
    if name == "sigma":
        return sorted(values, key=lambda text: (text == UNSTATED, 0.0 if text == UNSTATED else float(text)))
    members = {curve.protocol for curve in curves if curve.row.is_member}
    return sorted(values, key=lambda text: (text in members, [*VOTE_TITLES.values(), text].index(text)))


def starts_hidden(curves: Sequence[Curve]) -> set[str]:
    """The protocols whose toggles start unchecked: all but WE, where each run that has them has WE too."""
    with_we = {curve.row.run for curve in curves if curve.protocol == VOTE_TITLES[WE]}
    needed = {curve.protocol for curve in curves if curve.row.run not in with_we}
    return {curve.protocol for curve in curves} - needed - {VOTE_TITLES[WE]}


def _methods(recipes: dict[str, Recipe | None]) -> dict[str, str]:
    """The method of each run: its recipe's name without the sigma, with the seed where seeds differ. Runs
    that are still equal at a sigma keep the run's own name."""
    keys = {
        run: (run, None, None) if recipe is None else
        (method_of(recipe.name, recipe.sigma), recipe.sigma, recipe.seed)
        for run, recipe in recipes.items()
    }  # fmt: skip
    same_sigma, twins = Counter(key[:2] for key in keys.values()), Counter(keys.values())
    ambiguous = {key[0] for key in keys.values() if same_sigma[key[:2]] > 1 and twins[key] == 1}
    seeded = {key: f"{key[0]}, seed {key[2]}" if key[0] in ambiguous else key[0] for key in twins}
    return {run: run if twins[key] > 1 else seeded[key] for run, key in keys.items()}


def _protocol(log: Log) -> str:
    if log.record.is_run:
        return vote_title(log.vote)
    return UNSTATED if log.vote == log.record.base else log.vote


def _sigma(log: Log) -> str:
    recipe, sigma = log.record.recipe, log.certificates.sigma
    sigma = recipe.sigma if sigma is None and recipe is not None else sigma
    return UNSTATED if sigma is None else f"{sigma:.4g}"


@dataclass(frozen=True)
class CurveStyle:
    color_index: int | None  #: the place of its colour in the palette; None for that of text
    dash: tuple[float, ...] = SOLID  #: empty for a symbol without a line
    width: float = _STRONG
    shape: str | None = None
    number: str = ""

    @property
    def colour(self) -> str:
        place = self.color_index
        return "currentColor" if place is None else f"var(--curve-{place % NUM_COLOURS})"


class CurveStyles:
    """The looks of a page's curves and of the samples beside its toggles."""

    def __init__(self, curves: Sequence[Curve]) -> None:
        self.methods, self.protocols = choices(curves, "method"), choices(curves, "protocol")
        self.sigmas = choices(curves, "sigma")
        self.members = {curve.protocol for curve in curves if curve.row.is_member}
        self.by_method, self.by_sigma = len(self.methods) > 1, len(self.sigmas) > 1
        self.ensembles = [protocol for protocol in self.protocols if protocol not in self.members]
        drt = {curve.method for curve in curves if is_drt(curve.row)}
        self.has_baseline = 0 < len(drt) < len(self.methods)
        others = cycle(DASHES[1:] if self.has_baseline else DASHES)
        solid = cycle(_NEARLY_SOLID)
        self.dashes = {method: next(solid if method in drt else others) for method in self.methods}

    @property
    def key(self) -> str:
        """What colours, dashes, symbols and numbers stand for, as a sentence."""
        parts = []
        if self.by_sigma or self.by_method:
            parts.append(f"colours show {SIGMA if self.by_sigma else 'the method'}")
        if self.has_baseline:
            parts.append("DRT is solid, other methods are dashed")
        elif self.by_method:
            parts.append("dashes show the method")
        if len(self.ensembles) > 1:
            what = "symbols" if self.by_method else "dashes" if self.by_sigma else "colours and dashes"
            parts.append(f"{what} show the protocol")
        if self.members:
            parts.append(f"members are {'thin' if self.by_method else 'dotted'}, with their number")
        text = "; ".join(parts)
        return f"{text[0].upper()}{text[1:]}." if parts else ""

    def curve(self, curve: Curve) -> CurveStyle:
        look = self._protocol(curve.protocol)
        if self.by_method:
            look = replace(look, dash=self.dashes[curve.method])
        if curve.row.is_envelope:
            return replace(look, color_index=None, width=_ENVELOPE)
        return replace(look, color_index=self._colour(curve))

    def training(self, curve: Curve) -> CurveStyle:
        """Of a run: its colour, and the dashes of its method."""
        if self.by_method:
            return CurveStyle(self._colour(curve), self.dashes[curve.method])
        return CurveStyle(self.sigmas.index(curve.sigma))

    def sample(self, name: str, value: str) -> CurveStyle | None:
        """What a toggle for this method, protocol or sigma shows of its curves."""
        if name == "method":
            colour = None if self.by_sigma else self.methods.index(value)
            return CurveStyle(colour, self.dashes[value]) if self.by_method else None
        if name == "sigma":
            return CurveStyle(self.sigmas.index(value)) if self.by_sigma else None
        look = self._protocol(value)
        return replace(look, dash=()) if look.shape else look

    def _colour(self, curve: Curve) -> int:
        if self.by_sigma:
            return self.sigmas.index(curve.sigma)
        if self.by_method:
            return self.methods.index(curve.method)
        return self.protocols.index(curve.protocol)

    def _protocol(self, protocol: str) -> CurveStyle:
        place = self.protocols.index(protocol)
        color_index = None if self.by_method or self.by_sigma else place
        if protocol in self.members:
            dash = SOLID if self.by_method else DOTTED
            return CurveStyle(color_index, dash, _THIN, number=protocol.split()[-1])
        if not self.by_method:
            return CurveStyle(color_index, DASHES[place % len(DASHES)])
        return CurveStyle(color_index, shape=SHAPES[place % len(SHAPES)] if len(self.ensembles) > 1 else None)
