"""Randomized smoothing: noise samples, exact bounds, certificates."""
