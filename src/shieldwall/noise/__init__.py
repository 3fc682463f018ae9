"""Noise: what is added to an input, and the radius that a class probability under it certifies."""
