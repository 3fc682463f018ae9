"""Randomized smoothing: draws, exact bounds, certificates."""
