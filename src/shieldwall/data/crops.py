"""Cutting an image of any size to a square of 224 pixels, as is usual for ImageNet."""

import math
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 224
_SHORTER = 256
_AREA = (0.08, 1.0)
_RATIO = (3 / 4, 4 / 3)
_ATTEMPTS = 10

Box = tuple[int, int, int, int]


def centre_crop(image: "Image") -> "Image":
    """The centre of the image once its shorter side is 256 pixels."""
    from PIL.Image import Resampling

    shorter = min(image.size)
    width, height = (_SHORTER * side // shorter for side in image.size)
    left, top = round((width - SIDE) / 2), round((height - SIDE) / 2)
    resized = image.resize((width, height), Resampling.BILINEAR)
    return resized.crop((left, top, left + SIDE, top + SIDE))


def random_crop(image: "Image", key: int) -> "Image":
    """A part of random area and shape, stretched to the square and, half the time, mirrored."""
    from PIL.Image import Resampling, Transpose

    random = Random(key)
    part = image.crop(_random_box(*image.size, random)).resize((SIDE, SIDE), Resampling.BILINEAR)
    return part.transpose(Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else part


def _random_box(width: int, height: int, random: Random) -> Box:
    for _ in range(_ATTEMPTS):
        area = width * height * random.uniform(*_AREA)
        ratio = math.exp(random.uniform(*map(math.log, _RATIO)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        left, top = random.random(), random.random()
        if 0 < w <= width and 0 < h <= height:
            return _box(int(left * (width - w + 1)), int(top * (height - h + 1)), w, h)
    # A very long image: as much of its middle as the allowed shapes can cover.
    w = min(width, round(height * _RATIO[1]))
    h = min(height, round(width / _RATIO[0]))
    return _box((width - w) // 2, (height - h) // 2, w, h)


def _box(left: int, top: int, width: int, height: int) -> Box:
    return left, top, left + width, top + height
