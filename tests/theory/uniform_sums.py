"""The exact law of a sum of uniform numbers."""

from math import comb, factorial


def irwin_hall(members: int, z: float) -> float:
    """P(u_1 + ... + u_N <= z) for independent uniform u_i on [0, 1]."""
    if z > members / 2:
        return 1.0 - irwin_hall(members, members - z)
    terms = ((-1) ** k * comb(members, k) * max(z - k, 0.0) ** members for k in range(members + 1))
    return sum(terms) / factorial(members)
