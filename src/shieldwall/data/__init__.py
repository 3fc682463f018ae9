"""Data sets: found on this machine, or fetched once, and served as tensors in [0, 1]."""

from shieldwall.data.catalogue import Outline, Status, load, outline, status
from shieldwall.data.dataset import Dataset, Split
from shieldwall.data.fetch import fetch
from shieldwall.data.locate import NAMES

__all__ = ["NAMES", "Dataset", "Outline", "Split", "Status", "fetch", "load", "outline", "status"]
