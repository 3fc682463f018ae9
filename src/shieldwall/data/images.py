"""Image files that anyone may have made -> upright pixels of 8 bits, or a refusal.

    header (few enough pixels, one frame) -> decoded -> turned as its EXIF says -> on white -> grey or colour

What costs nothing to check is checked first: nothing is decoded before its size is known. 16 bits become 8,
v -> 255 v / 65535, rounded. `predict` and `serve` both read images here, so that they see the same.
"""

import io
import warnings
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageOps

from shieldwall.errors import UserError

MAX_PIXELS = 24_000_000
MAX_BYTES = 2**25  # of a file
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")
TOO_LARGE = 413
_LONGEST = 50  # how many times as long as the other a side may be: the shorter one may be enlarged
_ORIENTATION = 0x0112
_LYING = range(5, 9)  # EXIF orientations that swap width and height


class ImageRejected(UserError):  # noqa: N818 - it says what became of the image
    """Why an image is not taken, and the HTTP status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[type["ImageRejected"], tuple[int, str]]:
        return type(self), (self.status, str(self))


@dataclass(frozen=True)
class Picture:
    """An image that is read."""

    image: Image.Image  # upright, in L or RGB; a large JPEG is decoded smaller
    size: tuple[int, int]  # width and height of the file's image, upright
    is_grey: bool  # whether the file's image has no colours


def read_picture(content: bytes, mode: str, least: tuple[int, int] = (0, 0)) -> Picture:
    """The image in `mode`, L or RGB; a JPEG may be decoded smaller, but not below `least`."""
    image = _open(content)
    try:
        # A photo of several pictures (MPO) is not animated: the first is the photo, the rest belong to it.
        if getattr(image, "is_animated", False) and image.format != "MPO":
            raise ImageRejected(415, "the image is animated; give one with a single frame")
        size = image.size[::-1] if image.getexif().get(_ORIENTATION) in _LYING else image.size
        is_grey = image.mode[0] in "1LI"
        image.draft(None, least)
        return Picture(_in_mode(ImageOps.exif_transpose(image), mode), size, is_grey)
    except ImageRejected:
        raise
    except Exception as error:  # Pillow's readers raise nearly anything on a broken file
        raise ImageRejected(415, "the image is damaged: it cannot be decoded") from error


def centre_crop(image: Image.Image, side: int, shorter: int) -> Image.Image:
    """The square in the centre of the image, once its shorter side has `shorter` pixels."""
    least = min(image.size)
    if max(image.size) > _LONGEST * least:
        raise ValueError(f"one side is more than {_LONGEST} times as long as the other")
    width, height = (shorter * length // least for length in image.size)
    left, top = round((width - side) / 2), round((height - side) / 2)
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    return resized.crop((left, top, left + side, top + side))


def _in_mode(image: Image.Image, mode: str) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits, which Pillow would cut off at 255
        deep = np.asarray(image).astype(np.int64).clip(0, 65535)
        return Image.fromarray(((deep * 255 + 32767) // 65535).astype(np.uint8)).convert(mode)
    if image.has_transparency_data:
        paper = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(paper, image.convert("RGBA"))
    return image.convert(mode)


def _open(content: bytes) -> Image.Image:
    """The image with its header read and nothing decoded."""
    too_many_pixels = ImageRejected(
        TOO_LARGE, f"the image has more than {MAX_PIXELS // 10**6} million pixels; choose a smaller one"
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(content), formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise too_many_pixels from error
    except Exception as error:
        message = "this is not an image that can be read; give a PNG, JPEG, WebP, BMP or GIF file"
        raise ImageRejected(415, message) from error
    if image.width * image.height > MAX_PIXELS:
        raise too_many_pixels
    return image
