"""The inputs one by one: picture, true and predicted class, radius and vote counts, as compact data.

Logs of the same inputs share their pictures. So that the file stays small a gallery holds at most 1,000
inputs, evenly spaced, and fewer where there are many logs or large pictures.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shieldwall.report.page.entries import Entry
from shieldwall.report.page.extras import Extras
from shieldwall.report.page.sprite import find, pictures, shown_side
from shieldwall.results.logs import Log

_MOST_INPUTS = 1000
_MOST_CERTIFICATES = 24_000
_MOST_PIXELS = 1_050_000
_CLASSES_COUNTED = 3
_OTHERS = -1


@dataclass(frozen=True)
class Gallery:
    """`sets`: the inputs and their pictures; `logs`: what each log says of those of its set."""

    sets: list[dict[str, Any]]
    logs: list[dict[str, Any]]
    remarks: list[str]
    """What the gallery leaves out."""


@dataclass(frozen=True)
class _Inputs:
    data: str | None
    idx: tuple[int, ...]
    label: tuple[int, ...]


def gallery(entries: Sequence[Entry], extras: Sequence[Extras], data_dir: Path | None) -> Gallery:
    kinds = list(dict.fromkeys(_inputs(entry) for entry in entries))
    remarks: dict[str, None] = {}
    sets = [_set(kind, len(kinds), len(entries), data_dir, remarks) for kind in kinds]
    logs = [
        _log(entry.log, extra, kinds.index(_inputs(entry)), sets)
        for entry, extra in zip(entries, extras, strict=True)
    ]
    return Gallery(sets, logs, list(remarks))


def _inputs(entry: Entry) -> _Inputs:
    order = np.argsort(entry.log.idx, kind="stable")
    data = entry.recipe.data if entry.recipe else None
    return _Inputs(data, tuple(entry.log.idx[order].tolist()), tuple(entry.log.label[order].tolist()))


def _set(
    kind: _Inputs, kinds: int, logs: int, data_dir: Path | None, remarks: dict[str, None]
) -> dict[str, Any]:
    data = find(kind.data, data_dir) if kind.data else None
    if kind.data and data is None:
        remarks[
            f"The pictures are left out: {kind.data} was not found on the machine that wrote this page."
        ] = None
    if data is not None and not _belongs(kind, data.test.labels.tolist()):
        remarks[f"The pictures are left out: the labels are not those of {kind.data}'s test images."] = None
        data = None
    area = shown_side(data.shape) ** 2 if data else 1
    most = min(_MOST_INPUTS, _MOST_CERTIFICATES // logs, _MOST_PIXELS // kinds // area)
    kept = _spread(len(kind.idx), max(1, most))
    if len(kept) < len(kind.idx):
        remarks[f"The gallery holds {len(kept):,} of {len(kind.idx):,} inputs, evenly spaced."] = None
    idx, label = [kind.idx[k] for k in kept], [kind.label[k] for k in kept]
    found: dict[str, Any] = {"idx": idx, "label": label}
    if data is not None:
        found["classes"] = list(data.classes)
        found["pictures"] = vars(pictures(data, idx))
    return found


def _belongs(kind: _Inputs, labels: Sequence[int]) -> bool:
    return all(
        idx < len(labels) and labels[idx] == label for idx, label in zip(kind.idx, kind.label, strict=True)
    )


def _spread(count: int, most: int) -> list[int]:
    kept = min(count, most)
    return [k * count // kept for k in range(kept)]


def _log(log: Log, extra: Extras, number: int, sets: Sequence[dict[str, Any]]) -> dict[str, Any]:
    place = {idx: k for k, idx in enumerate(log.idx.tolist())}
    rows = [place[idx] for idx in sets[number]["idx"]]
    counts = [_most_counted(extra.counts.get(int(log.idx[k]), [])) for k in rows]
    return {
        "set": number,
        "predict": log.predict[rows].tolist(),
        # Rounded down: a radius is never larger than what was certified.
        "radius": [math.floor(1e4 * radius) / 1e4 for radius in log.radius[rows].tolist()],
        "counts": counts if any(counts) else None,
    }


def _most_counted(counts: Sequence[int]) -> list[int]:
    """Class, count, class, count, ... of the classes most counted, then the rest as class -1."""
    ranked = sorted(range(len(counts)), key=lambda label: -counts[label])[:_CLASSES_COUNTED]
    shown = [number for label in ranked if counts[label] for number in (label, counts[label])]
    rest = sum(counts) - sum(shown[1::2])
    return [*shown, _OTHERS, rest] if rest else shown
