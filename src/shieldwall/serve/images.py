"""From bytes that a visitor sent to an image (H, W, C) of the model's size, or a refusal.

Handwriting is made to look as the digit data sets have it: cropped, fitted into a box, centred, reduced.

    MNIST     the ink fits a box of 20 x 20; its centre of mass is in the middle of 28 x 28
    digits    the ink fits a box of 28 x 32; the box is in the middle of 32 x 32, of which every 4 x 4 block
              becomes a pixel
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from shieldwall.data.images import ImageRejected, read_picture

MAX_BYTES = 8 * 2**20
BLANK_RANGE = 24  # an image whose greys differ by no more is blank
DARKEST_PAPER = 127  # a border of brighter grey is paper: the ink is dark

Pixels = np.ndarray[Any, np.dtype[np.uint8]]
Ink = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class PreparedImage:
    pixels: Pixels  # (H, W, C) of the model's size
    note: str  # what was done to the image


@dataclass(frozen=True)
class Frame:
    side: int
    box: tuple[int, int]  # width and height that the ink is fitted into, in parts of a pixel
    parts: int  # in how many parts a pixel's side is divided
    by_mass: bool  # whether the ink's centre of mass comes to the middle, or the middle of its box
    pen: float  # how thick a pen is, as a part of the drawing's side


FRAMES = {
    "mnist": Frame(side=28, box=(20, 20), parts=1, by_mass=True, pen=0.08),
    "digits": Frame(side=8, box=(28, 32), parts=4, by_mass=False, pen=0.13),
}


def from_upload(content: bytes, shape: tuple[int, int, int], frame: Frame | None) -> PreparedImage:
    """An image file, made to fit the model, and how. With a frame, it is handwriting: ink is made bright."""
    channels, height, width = shape
    # Four times the model's size to either side, for an image that is yet to be turned.
    picture = read_picture(content, "L" if channels == 1 else "RGB", least=(4 * max(width, height),) * 2)
    size = f"{picture.size[0]} x {picture.size[1]}"
    is_of_model_size = picture.size == (width, height)
    grey = " in grey" if channels == 1 and not picture.is_grey else ""
    ink, inverted = (np.asarray(picture.image), "") if frame is None else _bright_ink(picture.image)
    if is_of_model_size:
        return PreparedImage(_rows(ink), f"{size} pixels{grey}, {inverted or 'as they are'}")
    if frame is not None:
        steps = f"{inverted and 'inverted, '}cut to the ink, resized and centred in {width} x {height}{grey}"
        return PreparedImage(_rows(center_ink(ink, frame)), f"{size} pixels, {steps}")
    fitted = ImageOps.fit(picture.image, (width, height), Image.Resampling.BOX)
    cut = "" if picture.size[0] * height == picture.size[1] * width else "cut to the middle and "
    note = f"{size} pixels, {cut}resized to {width} x {height}{grey}"
    return PreparedImage(_rows(np.asarray(fitted)), note)


def from_drawing(content: bytes, frame: Frame) -> PreparedImage:
    ink = _not_blank(read_picture(content, "L").image)
    note = f"your drawing, resized and centred in {frame.side} x {frame.side}"
    return PreparedImage(_rows(center_ink(ink, frame)), note)


def center_ink(ink: Pixels, frame: Frame) -> Pixels:
    """Bright ink on black, of any size -> (side, side), anti-aliased, the full range of grey used; what is at
    least half as bright as the brightest is ink."""
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


def _offset(profile: Ink, side: int, by_mass: bool) -> int:
    """Where the ink begins if its centre is to be in the middle, without leaving the frame."""
    middles = np.arange(len(profile)) + 0.5
    centre = float((profile * middles).sum() / profile.sum()) if by_mass else len(profile) / 2
    return min(max(0, round(side / 2 - centre)), side - len(profile))


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


def _rows(pixels: Pixels) -> Pixels:
    return pixels[:, :, None] if pixels.ndim == 2 else pixels
