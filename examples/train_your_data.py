"""Train an ensemble of your own networks on your own images, and certify every vote over it.

The data are three kinds of strokes drawn here, the network is any function from a number of classes to a
module. Images are (M, C, H, W), uint8 or floats in [0, 1]; labels are (M,), counted from 0.
"""

import torch
from torch import Tensor, nn

import shieldwall as sw

SIZE = 10


def strokes(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Horizontal strokes (class 0), vertical ones (1) and both at once (2), in random places."""
    source = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 3, (count,), generator=source)
    places = torch.randint(1, SIZE - 1, (count, 2), generator=source)
    pixels = torch.zeros(count, 1, SIZE, SIZE, dtype=torch.uint8)
    for image, label, (row, column) in zip(pixels, labels.tolist(), places.tolist(), strict=True):
        if label != 1:
            image[0, row, :] = 200
        if label != 0:
            image[0, :, column] = 200
    return pixels, labels


def network(num_classes: int) -> nn.Module:
    return nn.Sequential(
        sw.Normalize([0.15], [0.3]),
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * (SIZE // 2) ** 2, num_classes),
    )


noise = sw.Gaussian(0.5)
members = []
for seed in range(3):
    torch.manual_seed(seed)
    members.append(network(3))

records = sw.train(
    members,
    sw.Split.from_tensors(*strokes(3_000, seed=0)),
    sw.GaussianAugmentation(noise),
    schedule=sw.Schedule(epochs=8, batch_size=64, lr=0.05, decay_every=6),
)
print(f"loss: {records[0]['loss']:.2f} after the first epoch, {records[-1]['loss']:.2f} after the last")

pixels, labels = strokes(100, seed=1)
votes = sw.certify_members(members, pixels / 255, noise=noise, n=2_000)
for name, found in votes.items():
    correct = found.with_truth(labels).correct
    print(f"{name:8}  right {correct.mean():.0%}, mean radius {(found.radii * correct).mean():.3f}")
