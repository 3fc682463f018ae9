"""Many small pictures in one image, which a browser shows one part at a time."""

import base64
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

_LARGEST_SIDE = 48


@dataclass(frozen=True)
class Thumbnails:
    """The test inputs of a data set, as pictures are made of them."""

    labels: Sequence[int]
    classes: Sequence[str]
    shape: tuple[int, int, int]
    """Channels, height and width."""
    pixels: Callable[[int], NDArray[np.uint8]]
    """By the input's number, in that shape."""


@dataclass(frozen=True)
class Pictures:
    """The image as a data: address; `across` pictures in a row, each `side` pixels wide."""

    address: str
    side: int
    across: int


def pictures(data: Thumbnails, idx: Sequence[int]) -> Pictures:
    """The test images with these indices, row by row; larger ones are made small."""
    from PIL import Image

    side = thumbnail_side(data.shape)
    across = math.ceil(math.sqrt(len(idx)))
    is_grey = data.shape[0] == 1
    sheet = Image.new("L" if is_grey else "RGB", (across * side, math.ceil(len(idx) / across) * side))
    for k, index in enumerate(idx):
        pixels = data.pixels(index)
        picture = Image.fromarray(pixels[0] if is_grey else np.ascontiguousarray(pixels.transpose(1, 2, 0)))
        fitting = picture if picture.size == (side, side) else picture.resize((side, side))
        sheet.paste(fitting, (k % across * side, k // across * side))
    return Pictures(_png(sheet) if is_grey else _webp(sheet), side, across)


def thumbnail_side(shape: tuple[int, int, int]) -> int:
    return min(_LARGEST_SIDE, max(shape[1:]))


def _png(sheet: "Image") -> str:
    content = io.BytesIO()
    sheet.save(content, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"


def _webp(sheet: "Image") -> str:
    content = io.BytesIO()
    sheet.save(content, "WEBP", quality=80, method=4)
    return f"data:image/webp;base64,{base64.b64encode(content.getvalue()).decode()}"
