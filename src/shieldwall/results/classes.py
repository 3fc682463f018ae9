"""What means over inputs hide: certified accuracy class by class, and each input's probability p_A.

    A_c(r)  certified accuracy on the inputs of class c
    p_A     how often the true class won under noise, counts[true class] / n, at each input

A few easy classes, or one that a member gives for everything, can carry large radii alone. And since radii
grow without bound as p_A nears 1, ACR rewards making easy inputs easier; the distribution of p_A shows it
(Sun et al. 2024).
"""

from collections.abc import Sequence

import numpy as np

from shieldwall.binomial import clopper_pearson_lower
from shieldwall.results.certificates import Certificates, Floats, Ints


def by_class(certificates: Certificates, radii: Sequence[float]) -> tuple[Ints, Ints, Ints]:
    """The K classes that have inputs, their numbers of inputs, and how many of these A_c(r) counts (K, R)."""
    held = certificates.correct[:, None] & (certificates.radii[:, None] >= np.asarray(radii))
    classes, place = np.unique(np.asarray(certificates.truth), return_inverse=True)
    return classes, np.bincount(place), np.array([held[place == k].sum(axis=0) for k in range(len(classes))])


def carried(certificates: Certificates, radii: Sequence[float]) -> tuple[float, int, int, int] | None:
    """The first radius where most of the m inputs certified are k of one class c, as (radius, c, k, m).

    Most: the lower bound at 95% on k / m (Clopper and Pearson) is above 1/2. c has under 1/3 of all inputs.
    """
    classes, sizes, counts = by_class(certificates, radii)
    for radius, held in zip(radii, counts.T, strict=True):
        c, k, m = int(held.argmax()), int(held.max()), int(held.sum())
        if m and 3 * sizes[c] < sizes.sum() and clopper_pearson_lower(k, m, 0.05) > 0.5:
            return radius, int(classes[c]), k, m
    return None


def probabilities(certificates: Certificates) -> Floats | None:
    """p_A of each input; None where counts are not known, or are of several members (EAS).

    Where sampling ended with the n0 samples, which chose a wrong class, it is estimated from these.
    """
    counts, first, truth = certificates.counts, certificates.selection_counts, certificates.truth
    if counts is None or counts.ndim != 2 or truth is None:
        return None
    if first is not None:
        counts = np.where(certificates.is_bounded[:, None], counts, first)
    return np.asarray(
        (counts * (np.arange(counts.shape[1]) == truth[:, None])).sum(axis=1) / counts.sum(axis=1)
    )
