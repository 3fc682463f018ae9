"""The inputs one by one: picture, true and predicted class, radius and vote counts, as compact data.

Logs of the same inputs share their pictures. So that the file stays small a gallery holds at most 1,000
inputs, evenly spaced, and fewer where there are many logs or large pictures.
"""

import base64
import io
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shieldwall.report.page.curves import Curve
from shieldwall.results.certificates import Certificates
from shieldwall.results.rows import by_number

_MOST_INPUTS = 1000
_MOST_CERTIFICATES = 24_000
_MOST_PIXELS = 1_050_000
_CLASSES_COUNTED = 3
_OTHERS = -1
_LARGEST_SIDE = 48


class Thumbnails(NamedTuple):
    """The test inputs of a data set, as pictures are made of them."""

    labels: Sequence[int]
    classes: Sequence[str]
    shape: tuple[int, int, int]
    """Channels, height and width."""
    pixels: Callable[[int], NDArray[np.uint8]]
    """By the input's number, in that shape."""

    @property
    def side(self) -> int:
        """Of a small picture."""
        return min(_LARGEST_SIDE, max(self.shape[1:]))


class _Inputs(NamedTuple):
    data: str | None
    idx: tuple[int, ...]
    label: tuple[int, ...]


def gallery(
    curves: Sequence[Curve], thumbnails: Callable[[str], Thumbnails | None]
) -> tuple[dict[str, Any], list[str]]:
    """`sets`, the inputs and their pictures, and `logs`, what each log says of those of its set; and remarks,
    what the gallery leaves out."""
    inputs = [_inputs(curve) for curve in curves]
    kinds = list(dict.fromkeys(inputs))
    remarks: dict[str, None] = {}
    sets = [_set(kind, len(kinds), len(curves), thumbnails, remarks) for kind in kinds]
    logs = [
        _log(curve.row.certificates[0], kinds.index(kind), sets)
        for curve, kind in zip(curves, inputs, strict=True)
    ]
    return {"sets": sets, "logs": logs}, list(remarks)


def _inputs(curve: Curve) -> _Inputs:
    certificates = curve.row.certificates[0]
    assert certificates.indices is not None
    assert certificates.truth is not None
    order = by_number(certificates)
    idx, label = certificates.indices[order].tolist(), certificates.truth[order].tolist()
    return _Inputs(
        curve.row.record.recipe.data if curve.row.record.recipe else None, tuple(idx), tuple(label)
    )


def _set(
    kind: _Inputs,
    kinds: int,
    logs: int,
    thumbnails: Callable[[str], Thumbnails | None],
    remarks: dict[str, None],
) -> dict[str, Any]:
    data = thumbnails(kind.data) if kind.data else None
    if kind.data and data is None:
        left_out = f"{kind.data} was not found on the machine that wrote this page"
        remarks[f"The pictures are left out: {left_out}."] = None
    if data and any(
        idx >= len(data.labels) or data.labels[idx] != label
        for idx, label in zip(kind.idx, kind.label, strict=True)
    ):
        remarks[f"The pictures are left out: the labels are not those of {kind.data}'s test images."] = None
        data = None
    most = min(_MOST_INPUTS, _MOST_CERTIFICATES // logs)
    if data:
        most = min(most, _MOST_PIXELS // kinds // data.side**2)
    total = len(kind.idx)
    count = min(total, max(1, most))
    if count < total:
        remarks[f"The gallery holds {count:,} of {total:,} inputs, evenly spaced."] = None
    kept = [k * total // count for k in range(count)]
    inputs: dict[str, Any] = {"idx": [kind.idx[k] for k in kept], "label": [kind.label[k] for k in kept]}
    if data:
        inputs |= {"classes": list(data.classes), "pictures": pictures(data, inputs["idx"])}
    return inputs


def _log(certificates: Certificates, number: int, sets: Sequence[dict[str, Any]]) -> dict[str, Any]:
    assert certificates.indices is not None
    place = {idx: k for k, idx in enumerate(certificates.indices.tolist())}
    rows = [place[idx] for idx in sets[number]["idx"]]
    counts = certificates.counts
    if counts is not None and counts.ndim == 3:
        counts = counts.sum(1)
    return {
        "set": number,
        "predict": certificates.labels[rows].tolist(),
        # Rounded down: a radius is never larger than what was certified.
        "radius": [math.floor(1e4 * radius) / 1e4 for radius in certificates.radii[rows].tolist()],
        "counts": None if counts is None else [_most_counted(of_input) for of_input in counts[rows].tolist()],
    }


def _most_counted(counts: Sequence[int]) -> list[int]:
    """Class, count, class, count, ... of the classes most counted, then the rest as class -1."""
    ranked = sorted(range(len(counts)), key=lambda label: -counts[label])[:_CLASSES_COUNTED]
    shown = [number for label in ranked if counts[label] for number in (label, counts[label])]
    rest = sum(counts) - sum(shown[1::2])
    return [*shown, _OTHERS, rest] if rest else shown


def pictures(data: Thumbnails, idx: Sequence[int]) -> dict[str, Any]:
    """The test images with these indices in one picture; larger ones are made small.

    `address` holds the picture as a data: address; it has `across` images in a row, each `side` pixels wide.
    """
    from PIL import Image

    side, is_grey = data.side, data.shape[0] == 1
    across = math.ceil(math.sqrt(len(idx)))
    sheet = Image.new("L" if is_grey else "RGB", (across * side, math.ceil(len(idx) / across) * side))
    for k, index in enumerate(idx):
        pixels = data.pixels(index)
        picture = Image.fromarray(pixels[0] if is_grey else np.ascontiguousarray(pixels.transpose(1, 2, 0)))
        fitting = picture if picture.size == (side, side) else picture.resize((side, side))
        sheet.paste(fitting, (k % across * side, k // across * side))
    content = io.BytesIO()
    if is_grey:
        sheet.save(content, "PNG", optimize=True)
    else:
        sheet.save(content, "WEBP", quality=80, method=4)
    kind, encoded = "png" if is_grey else "webp", base64.b64encode(content.getvalue()).decode()
    return {"address": f"data:image/{kind};base64,{encoded}", "side": side, "across": across}
