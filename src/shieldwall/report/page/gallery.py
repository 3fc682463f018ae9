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
_LARGEST_SIDE = 48


class Thumbnails(NamedTuple):
    """The test inputs of a data set, as pictures are made of them."""

    labels: Sequence[int]
    classes: Sequence[str]
    shape: tuple[int, int, int]  #: channels, height and width
    pixels: Callable[[int], NDArray[np.uint8]]  #: by the input's number, in that shape

    @property
    def side(self) -> int:
        return min(_LARGEST_SIDE, max(self.shape[1:]))


Finder = Callable[[str], Thumbnails | None]  #: of a data set by its name; None where it is not there


class _Inputs(NamedTuple):
    data: str | None
    idx: tuple[int, ...]
    label: tuple[int, ...]


def gallery(curves: Sequence[Curve], thumbnails: Finder) -> tuple[dict[str, Any], list[str]]:
    """`sets`, the inputs and their pictures, and `logs`, what each log says of those of its set; and remarks,
    what the gallery leaves out."""
    inputs = [_inputs(curve) for curve in curves]
    kinds = list(dict.fromkeys(inputs))
    remarks: dict[str, None] = {}
    sets = []
    for kind in kinds:
        data, reason = _pictured(kind, thumbnails)
        if reason:
            remarks[f"The pictures are left out: {reason}."] = None
        most, total = min(_MOST_INPUTS, _MOST_CERTIFICATES // len(curves)), len(kind.idx)
        if data:
            most = min(most, _MOST_PIXELS // len(kinds) // data.side**2)
        count = min(total, max(1, most))
        if count < total:
            remarks[f"The gallery holds {count:,} of {total:,} inputs, evenly spaced."] = None
        kept = [k * total // count for k in range(count)]
        shown: dict[str, Any] = {"idx": [kind.idx[k] for k in kept], "label": [kind.label[k] for k in kept]}
        if data:
            shown |= {"classes": list(data.classes), "pictures": pictures(data, shown["idx"])}
        sets.append(shown)
    places = [kinds.index(kind) for kind in inputs]
    pairs = zip(curves, places, strict=True)
    logs = [_log(curve.row.certificates[0], place, sets[place]["idx"]) for curve, place in pairs]
    return {"sets": sets, "logs": logs}, list(remarks)


def _inputs(curve: Curve) -> _Inputs:
    certificates, recipe = curve.row.certificates[0], curve.row.record.recipe
    arrays = (np.asarray(array) for array in (certificates.indices, certificates.truth))
    idx, label = (tuple(array[by_number(certificates)].tolist()) for array in arrays)
    return _Inputs(recipe.data if recipe else None, idx, label)


def _pictured(kind: _Inputs, thumbnails: Finder) -> tuple[Thumbnails | None, str | None]:
    """The pictures of these inputs, or why there are none."""
    if kind.data is None:
        return None, None
    data = thumbnails(kind.data)
    if data is None:
        return None, f"{kind.data} was not found on the machine that wrote this page"
    pairs = zip(kind.idx, kind.label, strict=True)
    if any(idx >= len(data.labels) or data.labels[idx] != label for idx, label in pairs):
        return None, f"the labels are not those of {kind.data}'s test images"
    return data, None


def _log(certificates: Certificates, number: int, kept: Sequence[int]) -> dict[str, Any]:
    place = {idx: k for k, idx in enumerate(np.asarray(certificates.indices).tolist())}
    shown = certificates[[place[idx] for idx in kept]]
    counts = shown.counts if shown.counts is None or shown.counts.ndim == 2 else shown.counts.sum(1)
    return {
        "set": number,
        "predict": shown.labels.tolist(),
        # Rounded down: a radius is never larger than what was certified.
        "radius": [math.floor(1e4 * radius) / 1e4 for radius in shown.radii.tolist()],
        "counts": None if counts is None else [_most_counted(of_input) for of_input in counts.tolist()],
    }


def _most_counted(counts: Sequence[int]) -> list[int]:
    """Class, count, class, count, ... of the classes most counted, then the rest as class -1."""
    ranked = sorted(range(len(counts)), key=lambda label: -counts[label])[:_CLASSES_COUNTED]
    shown = [number for label in ranked if counts[label] for number in (label, counts[label])]
    rest = sum(counts) - sum(shown[1::2])
    return [*shown, -1, rest] if rest else shown


def pictures(data: Thumbnails, idx: Sequence[int]) -> dict[str, Any]:
    """The test images with these indices, made small, in one picture: `address` is its data: address, with
    `across` images in a row, each `side` pixels wide."""
    from PIL import Image

    side, is_grey = data.side, data.shape[0] == 1
    across = math.ceil(math.sqrt(len(idx)))
    sheet = Image.new("L" if is_grey else "RGB", (across * side, math.ceil(len(idx) / across) * side))
    for k, index in enumerate(idx):
        pixels = data.pixels(index)
        picture = Image.fromarray(pixels[0] if is_grey else np.ascontiguousarray(pixels.transpose(1, 2, 0)))
        fitting = picture if picture.size == (side, side) else picture.resize((side, side))
        sheet.paste(fitting, (k % across * side, k // across * side))
    content, kind = io.BytesIO(), "png" if is_grey else "webp"
    sheet.save(content, kind, **({"optimize": True} if is_grey else {"quality": 80, "method": 4}))
    encoded = base64.b64encode(content.getvalue()).decode()
    return {"address": f"data:image/{kind};base64,{encoded}", "side": side, "across": across}
