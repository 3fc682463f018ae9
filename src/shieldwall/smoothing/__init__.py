"""Randomized smoothing: noise, draws, exact bounds, certificates."""

from shieldwall.smoothing.certification import ABSTAIN, Certificates, certify, certify_members, from_counts
from shieldwall.smoothing.noise import Gaussian, Noise
from shieldwall.smoothing.prediction import Predictions, predict

__all__ = [
    "ABSTAIN",
    "Certificates",
    "Gaussian",
    "Noise",
    "Predictions",
    "certify",
    "certify_members",
    "from_counts",
    "predict",
]
