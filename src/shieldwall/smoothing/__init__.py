"""Randomized smoothing: noise, draws, exact bounds, certificates."""

from shieldwall.noise.distributions import Gaussian, Laplace, Noise, Uniform
from shieldwall.noise.exact import ExactGaussian
from shieldwall.smoothing.after import after_smoothing
from shieldwall.smoothing.certificates import Certificates, from_counts
from shieldwall.smoothing.certification import certify, certify_members
from shieldwall.smoothing.prediction import Predictions, predict

__all__ = [
    "Certificates",
    "ExactGaussian",
    "Gaussian",
    "Laplace",
    "Noise",
    "Predictions",
    "Uniform",
    "after_smoothing",
    "certify",
    "certify_members",
    "from_counts",
    "predict",
]
