"""Members' confidences at noisy inputs, for tuning weights and for estimates of the theory."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from shieldwall import seeds
from shieldwall.data.splits import Split
from shieldwall.devices import check_memory
from shieldwall.ensembles.votes import confidences
from shieldwall.errors import UserError, check, checked
from shieldwall.models.classifier import UNIT
from shieldwall.models.members import as_member_list, infer_device, inference
from shieldwall.noise.distributions import Noise, check_noise
from shieldwall.smoothing.certify import check_inputs, checked_indices


@checked
def noisy_confidences(
    members: Sequence[nn.Module], images: Tensor | Split, noise: Noise, *, copies: int = 10, seed: int = 0,
    stream: str = "weights", indices: Sequence[int] | None = None, batch_size: int = 1_000,
    dtype: torch.dtype = torch.float32, device: torch.device | str | None = None,
) -> Tensor:  # fmt: skip
    """Every member's confidences at noisy copies of each image, on the CPU.  -> (N, M, copies, K)

    All members see the same noise: that of the seed, the stream's name and the image's index, and of no
    certificate.

    `images` are (M, C, H, W) in [0, 1], or a split; `indices` (M,) name each one's noise. Softmax in float64
    (`dtype`) resolves confidences that float32 rounds to 0 or 1.
    """
    if not (members := as_member_list(members)):
        raise UserError("confidences need at least one member; none was given")
    check_noise(noise)
    if not isinstance(images, Split):
        check_inputs(images, noise, UNIT)
    if not len(images):
        raise UserError("confidences need at least one image; none was given")
    least = min(copies, batch_size)
    check(least >= 1, "copies and batch_size must be at least 1", f"{copies}, {batch_size}")
    names = checked_indices(indices, len(images), "images").tolist()
    check_memory(f"{copies:,} noisy copies", copies, 2 * len(members) * len(images))  # two classes or more
    where = infer_device(members, images if isinstance(images, Tensor) else images.labels, device)
    parts = []
    for rows in torch.split(torch.arange(len(images)), max(1, batch_size // copies)):
        x = images.images(rows) if isinstance(images, Split) else images[rows.to(images.device)]
        generators = [seeds.generator(where, seed, stream, names[row]) for row in rows.tolist()]
        drawn = [noise.sample((copies, *x.shape[1:]), generator) for generator in generators]
        noisy = (x.to(where)[:, None] + torch.stack(drawn)).flatten(0, 1)
        with inference(members):
            parts += [confidences(members, batch, dtype).cpu() for batch in torch.split(noisy, batch_size)]
    # Joined outside of inference mode: tensors made inside cannot take part in learning.
    joined = torch.cat(parts, dim=1)
    return joined.reshape(len(joined), len(images), copies, -1)
