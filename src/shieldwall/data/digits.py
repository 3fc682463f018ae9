"""scikit-learn's 1,797 handwritten digits of 8 x 8 pixels, which come with it."""

import numpy as np
import torch
from torch import Tensor

_FULL_INK = 16


def read() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Pixels uint8 (M, 1, 8, 8) and labels int64 (M,) for training, and every fifth image for testing."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    scaled = np.rint(bunch.images * 255 / _FULL_INK).astype(np.uint8)
    pixels = torch.from_numpy(scaled).unsqueeze(1)
    labels = torch.from_numpy(bunch.target.astype(np.int64))
    test = torch.arange(len(labels)) % 5 == 0
    return (pixels[~test], labels[~test]), (pixels[test], labels[test])
