"""Smooth the ensemble, or vote among smoothed members: both from the draws of one pass.

Counts are kept by every certificate, so that ensemble-after-smoothing (EAS) and other alphas need no new
draws.
"""

import shieldwall as sw

noise, alpha = sw.Gaussian(0.25), 0.001
digits = sw.load_data("digits")
members = sw.build_members("digits-cnn", 3, len(digits.classes), digits.shape, seed=0)
schedule = sw.Schedule(epochs=8, batch_size=64, lr=0.1, decay_every=6, decay=0.2)
sw.train(members, digits.train, sw.GaussianAugmentation(noise), schedule=schedule)

rows = range(0, len(digits.test), 4)
labels = digits.test.labels[rows].numpy()
votes = sw.certify_members(members, digits.test.images(rows), noise=noise, n=2_000, alpha=alpha)
for name, certificates in votes.items():
    mean_radius = (certificates.radii * (certificates.labels == labels)).mean()
    print(f"{name:9} mean radius {mean_radius:.3f}")

we = votes["we"]
stricter = sw.certificates_from_counts(we.selection_counts, we.counts, noise, alpha / len(labels))
print(
    f"we, all {len(labels)} at once: mean radius {(stricter.radii * (stricter.labels == labels)).mean():.3f}"
)
