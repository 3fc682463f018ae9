"""Ink as the digit data sets have it: cropped, fitted into a box, put in the middle, reduced.

MNIST     the ink fits a box of 20 x 20; its centre of mass is in the middle of 28 x 28
digits    the ink fits a box of 28 x 32; the box is in the middle of 32 x 32, of which every 4 x 4 block
          becomes a pixel
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

Grey = np.ndarray[Any, np.dtype[np.uint8]]
Ink = np.ndarray[Any, np.dtype[np.float64]]

FAINTEST = 24
"""An image whose greys differ by no more is blank."""
PAPER = 127
"""A border of brighter grey is paper: the ink is dark."""


@dataclass(frozen=True)
class Frame:
    """What drawings are made to look like."""

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


def is_on_paper(grey: Grey) -> bool:
    """Whether the border is light, so that the ink is dark."""
    border = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
    return bool(np.median(border) > PAPER)


def is_blank(grey: Grey) -> bool:
    return bool(np.ptp(grey) <= FAINTEST)


def framed(ink: Grey, frame: Frame) -> Grey:
    """Bright ink on black, of any size -> (side, side), anti-aliased, the full range of grey used.

    Ink is what is at least half as bright as the brightest.
    """
    rows, columns = (np.flatnonzero((2.0 * ink >= ink.max()).any(axis)) for axis in (1, 0))
    cropped = Image.fromarray(ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])
    scale = min(fitted / given for fitted, given in zip(frame.box, cropped.size, strict=True))
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
