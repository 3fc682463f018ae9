"""From bytes that a visitor sent to an image of the model's size, or a refusal.

    bytes (few enough) -> header (few enough pixels, one frame) -> decoded -> (H, W, C) uint8

What costs nothing to check is checked first: nothing is decoded before its size is known.

Handwriting is made to look as the digit data sets have it: cropped, fitted into a box, centred, reduced.

    MNIST     the ink fits a box of 20 x 20; its centre of mass is in the middle of 28 x 28
    digits    the ink fits a box of 28 x 32; the box is in the middle of 32 x 32, of which every 4 x 4 block
              becomes a pixel
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

MAX_BYTES = 8 * 2**20
MAX_PIXELS = 24_000_000
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")
TOO_LARGE = 413
BLANK_RANGE = 24
"""An image whose greys differ by no more is blank."""
DARKEST_PAPER = 127
"""A border of brighter grey is paper: the ink is dark."""

Pixels = np.ndarray[Any, np.dtype[np.uint8]]
Ink = np.ndarray[Any, np.dtype[np.float64]]


class ImageRejected(UserError):  # noqa: N818 - it says what became of the image
    """Why an image is not taken, and the HTTP status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class PreparedImage:
    pixels: Pixels
    """(H, W, C) of the model's size."""
    note: str
    """What was done to the image."""


@dataclass(frozen=True)
class Frame:
    """What handwriting is made to look like."""

    side: int
    box: tuple[int, int]
    """Width and height that the ink is fitted into, in parts of a pixel."""
    parts: int
    """In how many parts a pixel's side is divided."""
    by_mass: bool
    """Whether the ink's centre of mass comes to the middle, or the middle of its box."""
    pen: float
    """How thick a pen is, as a part of the drawing's side."""


FRAMES = {
    "mnist": Frame(side=28, box=(20, 20), parts=1, by_mass=True, pen=0.08),
    "digits": Frame(side=8, box=(28, 32), parts=4, by_mass=False, pen=0.13),
}


def file_too_large() -> ImageRejected:
    return ImageRejected(TOO_LARGE, f"the file is larger than {MAX_BYTES // 2**20} MB; choose a smaller one")


def from_upload(content: bytes, shape: tuple[int, int, int], frame: Frame | None) -> PreparedImage:
    """An image file; one of another size than the model's is made to fit, and the note says how.

    With a frame, it is handwriting: dark ink on paper is inverted, and another size than the model's is cut
    out and centred as the data set's digits are.
    """
    channels, height, width = shape
    image = _open(content)
    size = f"{image.width} x {image.height}"
    is_of_model_size = image.size == (width, height)
    decoded = _decode(image, "L" if channels == 1 else "RGB", least=(4 * width, 4 * height))
    grey = " in grey" if channels == 1 and image.mode not in ("1", "L") else ""
    if frame is not None:
        ink, inverted = _bright_ink(decoded)
        if is_of_model_size:
            return PreparedImage(ink[:, :, None], f"{size} pixels{grey}, {inverted or 'as they are'}")
        steps = f"{inverted and 'inverted, '}cut to the ink, resized and centred in {width} x {height}{grey}"
        return PreparedImage(center_ink(ink, frame)[:, :, None], f"{size} pixels, {steps}")
    if is_of_model_size:
        return PreparedImage(_rows(decoded), f"{size} pixels{grey}, as they are")
    fitted = ImageOps.fit(decoded, (width, height), Image.Resampling.BOX)
    cut = "" if image.width * height == image.height * width else "cut to the middle and "
    return PreparedImage(_rows(fitted), f"{size} pixels, {cut}resized to {width} x {height}{grey}")


def from_drawing(content: bytes, frame: Frame) -> PreparedImage:
    """A drawing, bright on black, as a PNG."""
    ink = _not_blank(_decode(_open(content), "L", least=(0, 0)))
    note = f"your drawing, resized and centred in {frame.side} x {frame.side}"
    return PreparedImage(center_ink(ink, frame)[:, :, None], note)


def center_ink(ink: Pixels, frame: Frame) -> Pixels:
    """Bright ink on black, of any size -> (side, side), anti-aliased, the full range of grey used.

    Ink is what is at least half as bright as the brightest.
    """
    rows, columns = (np.flatnonzero((2.0 * ink >= ink.max()).any(axis)) for axis in (1, 0))
    cropped = Image.fromarray(ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])
    scale = min(room / extent for room, extent in zip(frame.box, cropped.size, strict=True))
    size = max(1, round(cropped.width * scale)), max(1, round(cropped.height * scale))
    fitted = np.asarray(cropped.resize(size, Image.Resampling.BOX), dtype=np.float64)
    fine = np.zeros((frame.side * frame.parts,) * 2)
    top, left = (_offset(fitted.sum(1 - axis), len(fine), frame.by_mass) for axis in (0, 1))
    fine[top : top + size[1], left : left + size[0]] = fitted
    reduced = fine.reshape(frame.side, frame.parts, frame.side, frame.parts).mean((1, 3))
    return np.asarray(np.rint(reduced * (255.0 / reduced.max())), dtype=np.uint8)


def png_address(image: Tensor) -> str:
    """(C, H, W), clipped to [0, 1], as an address that an <img> takes."""
    rows = (image.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()
    buffer = io.BytesIO()
    Image.fromarray(rows[:, :, 0] if rows.shape[2] == 1 else rows).save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _offset(profile: Ink, side: int, by_mass: bool) -> int:
    """Where the ink begins if its centre is to be in the middle, without leaving the frame."""
    middles = np.arange(len(profile)) + 0.5
    centre = float((profile * middles).sum() / profile.sum()) if by_mass else len(profile) / 2
    return min(max(0, round(side / 2 - centre)), side - len(profile))


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
    except Exception as error:  # Pillow's readers raise nearly anything on a broken file
        message = "this is not an image that can be read; give a PNG, JPEG, WebP, BMP or GIF file"
        raise ImageRejected(415, message) from error
    if image.width * image.height > MAX_PIXELS:
        raise too_many_pixels
    return image


def _decode(image: Image.Image, mode: str, least: tuple[int, int]) -> Image.Image:
    """The pixels, upright, in `mode`; a JPEG may be decoded smaller, but not below `least`."""
    try:
        if getattr(image, "is_animated", False):
            raise ImageRejected(415, "the image is animated; give one with a single frame")
        image.draft(None, least)
        upright = ImageOps.exif_transpose(image)
        if upright.mode.startswith("I"):  # 16 bits, which Pillow would cut off at 255
            return Image.fromarray((np.asarray(upright).clip(0, 65535) // 257).astype(np.uint8)).convert(mode)
        if upright.has_transparency_data:
            paper = Image.new("RGBA", upright.size, "white")
            upright = Image.alpha_composite(paper, upright.convert("RGBA"))
        return upright.convert(mode)
    except ImageRejected:
        raise
    except Exception as error:
        raise ImageRejected(415, "the image is damaged: it cannot be decoded") from error


def _bright_ink(image: Image.Image) -> tuple[Pixels, str]:
    """Bright ink on black, and whether it was inverted for that, in words."""
    grey = _not_blank(image)
    border = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
    return (255 - grey, "inverted") if np.median(border) > DARKEST_PAPER else (grey, "")


def _not_blank(image: Image.Image) -> Pixels:
    grey = np.asarray(image, dtype=np.uint8)
    if np.ptp(grey) <= BLANK_RANGE:
        raise ImageRejected(422, "there is nothing drawn: the image is blank")
    return grey


def _rows(image: Image.Image) -> Pixels:
    pixels = np.asarray(image, dtype=np.uint8)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels
