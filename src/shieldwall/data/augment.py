"""Random changes to a whole training batch at once, on the batch's device."""

import torch
from torch import Generator, Tensor
from torch.nn import functional as F


def crop_and_flip(x: Tensor, generator: Generator, padding: int = 4) -> Tensor:
    """Each image (B, C, H, W) cut out at random from its zero-padded self and, half the time, mirrored."""
    count, channels, height, width = x.shape

    # Drawn on the generator's device, not on x's, so that every device sees the same draws.
    def draw(below: int) -> Tensor:
        drawn = torch.randint(below, (count, 1), generator=generator, device=generator.device)
        return drawn.to(x.device)

    top, left, mirrored = draw(2 * padding + 1), draw(2 * padding + 1), draw(2)
    rows = top + torch.arange(height, device=x.device)
    across = torch.arange(width, device=x.device)
    columns = left + torch.where(mirrored == 1, across.flip(0), across)

    padded = F.pad(x, (padding, padding, padding, padding))
    places = rows[:, :, None] * padded.shape[3] + columns[:, None, :]
    # One gather over flat pixels: indexing each axis is several times slower on a CPU.
    return padded.flatten(2).gather(2, places.view(count, 1, -1).expand(-1, channels, -1)).view_as(x)
