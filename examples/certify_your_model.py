"""Certify a PyTorch model of your own: the part below the line takes any model that was trained with noise.

A model maps images in [0, 1] to scores, one per class; normalisation, if it needs any, is its first layer.
"""

import torch
from torch import nn

import shieldwall as sw

torch.manual_seed(0)
digits = sw.load_data("digits")
images = digits.train.images(range(1_437))  # (1437, 1, 8, 8) in [0, 1]
labels = digits.train.labels

model = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
for _ in range(500):
    rows = torch.randint(0, 1_437, (256,))
    noisy = images[rows] + 0.25 * torch.randn(256, 1, 8, 8)
    loss = nn.functional.cross_entropy(model(noisy), labels[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# ------------------------------------------------------------------------------------------------------

images, labels = digits.test.images(range(297)), digits.test.labels[:297]
found = sw.certify(model, images, noise=sw.Gaussian(0.25), n=10_000, alpha=0.001)
correct = found.with_truth(labels).correct
for radius in (0.0, 0.25, 0.5):
    print(f"right at every point within {radius:.2f}: {(correct & (found.radii >= radius)).mean():.1%}")
print(f"abstained: {(found.labels == sw.ABSTAIN).mean():.1%}")
