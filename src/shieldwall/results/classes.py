"""What means over inputs hide: certified accuracy class by class, and each input's probability p_A.

    A_c(r)  certified accuracy on the inputs of class c
    p_A     how often the true class won under noise, counts[true class] / n, at each input

A few easy classes, or one that a member gives for everything, can carry large radii alone. And since radii
grow without bound as p_A nears 1, ACR rewards making easy inputs easier, which the distribution of p_A shows
(Sun et al. 2024).
"""

from collections.abc import Sequence

import numpy as np

from shieldwall.binomial import clopper_pearson_lower
from shieldwall.results.certificates import Certificates, Floats, Ints


def by_class(certificates: Certificates, radii: Sequence[float]) -> tuple[Ints, Ints, Ints]:
    """The K classes that have inputs, how many each has, and how many of these A_c(r) counts: (K, R)."""
    held = certificates.correct[:, None] & (certificates.radii[:, None] >= np.asarray(radii))
    classes, place = np.unique(np.asarray(certificates.truth), return_inverse=True)
    counts = np.zeros((len(classes), len(radii)), np.int64)
    np.add.at(counts, place, held)
    return classes, np.bincount(place), counts


def carried(certificates: Certificates, radii: Sequence[float]) -> tuple[float, int, int, int] | None:
    """The first of these radii that one class c carries, c, and k of the m inputs that are certified there.

    k are of class c, and k / m is above 1/2 beyond chance: its lower bound at 95% is (Clopper and Pearson).
    Not asked of a class with a third of all inputs or more.
    """
    classes, sizes, counts = by_class(certificates, radii)
    for r, of_class in zip(radii, counts.T, strict=True):
        c, m = int(of_class.argmax()), int(of_class.sum())
        k = int(of_class[c])
        if 3 * sizes[c] < sizes.sum() and m and clopper_pearson_lower(k, m, 0.05) > 0.5:
            return r, int(classes[c]), k, m
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
    won = np.where(truth < counts.shape[1], counts[range(len(truth)), truth % counts.shape[1]], 0)
    return np.asarray(won / counts.sum(axis=1))
