"""Ensembles of members: the votes, and modules that carry them."""

from shieldwall.ensembles.ensemble import Ensemble, MaxMarginEnsemble, WeightedEnsemble, confidences
from shieldwall.ensembles.votes import Vote, max_margin, named, single, standard, weighted

__all__ = [
    "Ensemble",
    "MaxMarginEnsemble",
    "Vote",
    "WeightedEnsemble",
    "confidences",
    "max_margin",
    "named",
    "single",
    "standard",
    "weighted",
]
