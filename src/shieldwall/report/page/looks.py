"""How each curve of the page looks.

Of several methods each has a colour; of one, each protocol has. Dashes tell protocols apart, and symbols on
the curve tell sigmas apart. Members share a thin dotted line that carries their number. Envelopes are thick,
without symbols.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shieldwall.report.page import palette
from shieldwall.report.page.entries import Entry, choices
from shieldwall.report.page.envelope import Curve, Envelope
from shieldwall.report.page.signs import SIGMA

SOLID: tuple[float, ...] = (1, 0)
DOTTED: tuple[float, ...] = (1.2, 2.4)
DASHES: tuple[tuple[float, ...], ...] = (
    SOLID, (7, 3), (9, 3, 2, 3), (16, 4), (4, 3), (9, 3, 2, 3, 2, 3), (16, 3, 4, 3), (4, 7),
)  # fmt: skip
_THIN, _STRONG, _ENVELOPE = 1.2, 1.6, 3.2


class Shape(NamedTuple):
    """A symbol as a path between -1 and 1, and as matplotlib's letter."""

    path: str
    letter: str


SHAPES = (
    Shape("M.9,0A.9,.9,0,1,1,-.9,0A.9,.9,0,1,1,.9,0Z", "o"),
    Shape("M-1,.8L0,-1L1,.8Z", "^"),
    Shape("M-.8,-.8H.8V.8H-.8Z", "s"),
    Shape("M0,-1.1L1.1,0L0,1.1L-1.1,0Z", "D"),
    Shape("M-1,-.8L0,1L1,-.8Z", "v"),
    Shape("M-.3,-1H.3V-.3H1V.3H.3V1H-.3V.3H-1V-.3H-.3Z", "P"),
)


@dataclass(frozen=True)
class Look:
    turn: int | None
    """The place of its colour in the palette; None for that of text."""
    dash: tuple[float, ...] = SOLID
    """Empty for a symbol without a line."""
    width: float = _STRONG
    shape: Shape | None = None
    number: str = ""

    @property
    def colour(self) -> str:
        return "currentColor" if self.turn is None else palette.on_page(self.turn)

    @property
    def on_white(self) -> str:
        return "#000000" if self.turn is None else palette.on_white(self.turn)


@dataclass(frozen=True)
class Looks:
    """The looks of a page's curves and of the samples beside its toggles."""

    methods: tuple[str, ...]
    protocols: tuple[str, ...]
    sigmas: tuple[str, ...]
    members: frozenset[str]

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> "Looks":
        methods, protocols, sigmas = (
            tuple(choices(entries, name)) for name in ("method", "protocol", "sigma")
        )
        members = frozenset(entry.protocol for entry in entries if entry.is_member)
        return cls(methods, protocols, sigmas, members)

    @property
    def by_method(self) -> bool:
        return len(self.methods) > 1

    @property
    def key(self) -> str:
        """What colours, dashes, symbols and numbers stand for, as a sentence."""
        said = []
        if self.by_method:
            said.append("colours tell methods apart")
        if len(set(self.protocols) - self.members) > 1:
            said.append(
                "dashes tell protocols apart" if self.by_method else "colours and dashes tell protocols apart"
            )
        if len(self.sigmas) > 1:
            said.append(f"symbols tell {SIGMA} apart")
        if self.members:
            said.append("members are dotted and carry their number")
        return f"{'; '.join(said).capitalize()}." if said else ""

    def curve(self, entry: Curve) -> Look:
        shown = self._protocol(entry.protocol)
        turn = self.methods.index(entry.method) if self.by_method else shown.turn
        if isinstance(entry, Envelope):
            return Look(turn, shown.dash, _ENVELOPE, None, shown.number)
        return Look(turn, shown.dash, shown.width, self._shape(entry.sigma), shown.number)

    def training(self, entry: Entry) -> Look:
        """Of a run: its method's colour and dashes for its sigma, or a colour for its sigma."""
        sigma = self.sigmas.index(entry.sigma)
        return Look(self.methods.index(entry.method), _dash(sigma)) if self.by_method else Look(sigma)

    def sample(self, name: str, value: str) -> Look | None:
        """What a toggle for this method, protocol or sigma shows of its curves."""
        if name == "method":
            return Look(self.methods.index(value)) if self.by_method else None
        if name == "protocol":
            return self._protocol(value)
        shape = self._shape(value)
        return shape and Look(None, dash=(), shape=shape)

    def _protocol(self, protocol: str) -> Look:
        place = self.protocols.index(protocol)
        turn = None if self.by_method else place
        if protocol in self.members:
            return Look(turn, DOTTED, _THIN, number=protocol.split()[-1])
        return Look(turn, _dash(place))

    def _shape(self, sigma: str) -> Shape | None:
        return SHAPES[self.sigmas.index(sigma) % len(SHAPES)] if len(self.sigmas) > 1 else None


def _dash(turn: int) -> tuple[float, ...]:
    return DASHES[turn % len(DASHES)]
