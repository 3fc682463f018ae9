"""Smooth the ensemble, or vote among smoothed members: both from the draws of one pass.

Counts are kept by every certificate, so that ensemble-after-smoothing (EAS) and other alphas need no new
draws.
"""

import torch

import shieldwall as sw

noise, alpha = sw.Gaussian(0.25), 0.001
digits = sw.load_data("digits")
members = sw.build_members("digits-cnn", 3, len(digits.classes), digits.shape, seed=0)
schedule = sw.Schedule(epochs=8, batch_size=64, lr=0.1, decay_every=6, decay=0.2)
sw.train(members, digits.train, sw.GaussianAugmentation(noise), schedule=schedule)

rows = range(0, len(digits.test), 4)
labels = digits.test.labels[rows]
votes = sw.certify_members(members, digits.test.images(rows), noise=noise, n=2_000, alpha=alpha)
alone = [votes[f"member-{k}"] for k in (1, 2, 3)]
votes["eas"] = sw.eas_from_counts(
    torch.stack([one.selection_counts for one in alone]),
    torch.stack([one.counts for one in alone]),
    noise,
    alpha,
)
for name, found in votes.items():
    mean_radius = (found.radii * (found.labels == labels)).mean()
    print(f"{name:9} mean radius {mean_radius:.3f}")

stricter = sw.certificates_from_counts(votes["we"].selection_counts, votes["we"].counts, noise, alpha / len(labels))
print(
    f"we, all {len(labels)} at once: mean radius {(stricter.radii * (stricter.labels == labels)).mean():.3f}"
)
