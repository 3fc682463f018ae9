"""Many small pictures in one image, which a browser shows one part at a time."""

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shieldwall.errors import UserError

if TYPE_CHECKING:
    from PIL.Image import Image

    from shieldwall.data.splits import Dataset

_LARGEST_SIDE = 48


@dataclass(frozen=True)
class Pictures:
    """The image as a data: address; `across` pictures in a row, each `side` pixels wide."""

    address: str
    side: int
    across: int


def pictures(data: "Dataset", idx: Sequence[int]) -> Pictures:
    """The test images with these indices, row by row; larger ones are made small."""
    from PIL import Image

    side = shown_side(data.shape)
    across = math.ceil(math.sqrt(len(idx)))
    is_grey = data.shape[0] == 1
    sheet = Image.new("L" if is_grey else "RGB", (across * side, math.ceil(len(idx) / across) * side))
    for k, index in enumerate(idx):
        pixels = np.rint(255 * data.test.images([index])[0].numpy()).astype(np.uint8)
        picture = Image.fromarray(pixels[0] if is_grey else np.ascontiguousarray(pixels.transpose(1, 2, 0)))
        fitting = picture if picture.size == (side, side) else picture.resize((side, side))
        sheet.paste(fitting, (k % across * side, k // across * side))
    return Pictures(_png(sheet) if is_grey else _webp(sheet), side, across)


def shown_side(shape: tuple[int, int, int]) -> int:
    return min(_LARGEST_SIDE, max(shape[1:]))


def find(name: str, data_dir: Path | None) -> "Dataset | None":
    """A data set, or None where it is not on this machine."""
    from shieldwall.data.datasets import load

    try:
        return load(name, data_dir)
    except UserError:
        return None


def _png(sheet: "Image") -> str:
    content = io.BytesIO()
    sheet.save(content, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"


def _webp(sheet: "Image") -> str:
    content = io.BytesIO()
    sheet.save(content, "WEBP", quality=80, method=4)
    return f"data:image/webp;base64,{base64.b64encode(content.getvalue()).decode()}"
