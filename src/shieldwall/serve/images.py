"""From bytes that a visitor sent to an image of the model's size, or a refusal.

    bytes (few enough) -> header (few enough pixels, one frame) -> decoded -> (H, W, C) uint8

What costs nothing to check is checked first: nothing is decoded before its size is known.
"""

import base64
import io
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageOps
from torch import Tensor

from shieldwall.errors import UserError
from shieldwall.serve.handwriting import Frame, framed, is_blank, is_on_paper

MOST_BYTES = 8 * 2**20
MOST_PIXELS = 24_000_000
TOO_LARGE = 413
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")
_SPOKEN = "PNG, JPEG, WebP, BMP or GIF"

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


class RefusedError(UserError):
    """Why an image is not taken, and the HTTP status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Prepared:
    pixels: Pixels
    """(H, W, C) of the model's size."""
    note: str
    """What was done to the image."""


def too_large() -> RefusedError:
    return RefusedError(TOO_LARGE, f"the file is larger than {MOST_BYTES // 2**20} MB; choose a smaller one")


def from_upload(content: bytes, shape: tuple[int, int, int], frame: Frame | None) -> Prepared:
    """An image file; one of another size than the model's is made to fit, and the note says how.

    With a frame, it is handwriting: dark ink on paper is inverted, and another size than the model's is cut
    out and centred as the data set's digits are.
    """
    channels, height, width = shape
    image = _opened(content)
    given = f"{image.width} x {image.height}"
    is_of_our_size = image.size == (width, height)
    plain = _decoded(image, "L" if channels == 1 else "RGB", least=(4 * width, 4 * height))
    grey = " in grey" if channels == 1 and image.mode not in ("1", "L") else ""
    if frame is not None:
        ink, inverted = _ink(plain)
        if is_of_our_size:
            return Prepared(ink[:, :, None], f"{given} pixels{grey}, {inverted or 'as they are'}")
        done = f"{inverted and 'inverted, '}cut to the ink, resized and centred in {width} x {height}{grey}"
        return Prepared(framed(ink, frame)[:, :, None], f"{given} pixels, {done}")
    if is_of_our_size:
        return Prepared(_rows(plain), f"{given} pixels{grey}, as they are")
    fitted = ImageOps.fit(plain, (width, height), Image.Resampling.BOX)
    cut = "" if image.width * height == image.height * width else "cut to the middle and "
    return Prepared(_rows(fitted), f"{given} pixels, {cut}resized to {width} x {height}{grey}")


def from_drawing(content: bytes, frame: Frame) -> Prepared:
    """A drawing, bright on black, as a PNG."""
    ink = _drawn(_decoded(_opened(content), "L", least=(0, 0)))
    return Prepared(
        framed(ink, frame)[:, :, None], f"your drawing, resized and centred in {frame.side} x {frame.side}"
    )


def png(image: Tensor) -> str:
    """(C, H, W), clipped to [0, 1], as an address that an <img> takes."""
    rows = (image.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()
    buffer = io.BytesIO()
    Image.fromarray(rows[:, :, 0] if rows.shape[2] == 1 else rows).save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _opened(content: bytes) -> Image.Image:
    """The image with its header read and nothing decoded."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(content), formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_many_pixels() from error
    except Exception as error:  # Pillow's readers raise nearly anything on a broken file
        raise RefusedError(415, f"this is not an image that can be read; give a {_SPOKEN} file") from error
    if image.width * image.height > MOST_PIXELS:
        raise _too_many_pixels()
    return image


def _too_many_pixels() -> RefusedError:
    return RefusedError(
        TOO_LARGE, f"the image has more than {MOST_PIXELS // 10**6} million pixels; choose a smaller one"
    )


def _decoded(image: Image.Image, mode: str, least: tuple[int, int]) -> Image.Image:
    """The pixels, upright, in `mode`; a JPEG may be decoded smaller, but not below `least`."""
    try:
        if getattr(image, "is_animated", False):
            raise RefusedError(415, "the image is animated; give one with a single frame")
        image.draft(None, least)
        upright = ImageOps.exif_transpose(image)
        if upright.mode.startswith("I"):  # 16 bits, which Pillow would cut off at 255
            return Image.fromarray((np.asarray(upright).clip(0, 65535) // 257).astype(np.uint8)).convert(mode)
        if upright.has_transparency_data:
            paper = Image.new("RGBA", upright.size, "white")
            upright = Image.alpha_composite(paper, upright.convert("RGBA"))
        return upright.convert(mode)
    except RefusedError:
        raise
    except Exception as error:
        raise RefusedError(415, "the image is damaged: it cannot be decoded") from error


def _ink(image: Image.Image) -> tuple[Pixels, str]:
    """Bright ink on black, and whether it was inverted for that, in words."""
    grey = _drawn(image)
    return (255 - grey, "inverted") if is_on_paper(grey) else (grey, "")


def _drawn(image: Image.Image) -> Pixels:
    grey = np.asarray(image, dtype=np.uint8)
    if is_blank(grey):
        raise RefusedError(422, "there is nothing drawn: the image is blank")
    return grey


def _rows(image: Image.Image) -> Pixels:
    pixels = np.asarray(image, dtype=np.uint8)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels
