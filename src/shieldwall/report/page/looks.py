"""How each curve of the page looks.

Of several methods each has a colour, and the dashes tell protocols apart; of one method, each protocol has a
colour and the dashes tell sigmas apart. Members are thin, envelopes thick.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from shieldwall.report.page.entries import Entry, choices
from shieldwall.report.page.envelope import Curve, Envelope
from shieldwall.report.styles import COLOURS

ALL_COLOURS = (*COLOURS, "#A6761D", "#7570B3", "#999933", "#AA4499", "#E7298A")
DASHES: tuple[tuple[float, ...], ...] = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3), (14, 4), (1, 4))
_THIN, _STRONG, _ENVELOPE = 1.0, 1.7, 2.6


@dataclass(frozen=True)
class Look:
    colour: str
    dash: tuple[float, ...] = DASHES[0]
    width: float = _STRONG


@dataclass(frozen=True)
class Looks:
    """The looks of a page's curves and of the samples beside its toggles."""

    methods: tuple[str, ...]
    protocols: tuple[str, ...]
    sigmas: tuple[str, ...]

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> "Looks":
        return cls(*(tuple(choices(entries, name)) for name in ("method", "protocol", "sigma")))

    @property
    def by_method(self) -> bool:
        return len(self.methods) > 1

    def curve(self, entry: Curve) -> Look:
        protocol = self.protocols.index(entry.protocol)
        width = _ENVELOPE if isinstance(entry, Envelope) else _THIN if entry.is_member else _STRONG
        if self.by_method:
            return Look(_colour(self.methods.index(entry.method)), _dash(protocol), width)
        turn = 0 if isinstance(entry, Envelope) else self.sigmas.index(entry.sigma)
        return Look(_colour(protocol), _dash(turn), width)

    def training(self, entry: Entry) -> Look:
        """Of a run: as of several methods, or by sigma where there is one."""
        sigma = self.sigmas.index(entry.sigma)
        if self.by_method:
            return Look(_colour(self.methods.index(entry.method)), _dash(sigma))
        return Look(_colour(sigma))

    def sample(self, name: str, value: str) -> Look | None:
        """What a toggle for this method, protocol or sigma shows of its curves."""
        if name == "method":
            return Look(_colour(self.methods.index(value))) if self.by_method else None
        if name == "protocol":
            turn = self.protocols.index(value)
            return Look("currentColor", _dash(turn)) if self.by_method else Look(_colour(turn))
        many = len(self.sigmas) > 1 and not self.by_method
        return Look("currentColor", _dash(self.sigmas.index(value))) if many else None


def _colour(turn: int) -> str:
    return ALL_COLOURS[turn % len(ALL_COLOURS)]


def _dash(turn: int) -> tuple[float, ...]:
    return DASHES[turn % len(DASHES)]
