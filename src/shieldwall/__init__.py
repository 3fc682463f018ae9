"""Certifiably robust ensembles: train them, certify them by randomized smoothing, show the result.

    import shieldwall as sw

    ensemble = sw.MaxMarginEnsemble([first, second, third])
    found = sw.certify(ensemble, images, noise=sw.Gaussian(0.5))
    found.labels, found.radii

Public names load on first use, so that importing the package costs nothing.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shieldwall.data import load as load_data
    from shieldwall.ensembles import MaxMarginEnsemble, Vote, WeightedEnsemble
    from shieldwall.errors import UserError
    from shieldwall.models import Normalize, build_members
    from shieldwall.smoothing import (
        ABSTAIN,
        Certificates,
        Gaussian,
        Predictions,
        certify,
        certify_members,
        from_counts,
        predict,
    )
    from shieldwall.training import GaussianAugmentation, Schedule, train

_HOMES = {
    "ABSTAIN": "smoothing",
    "Certificates": "smoothing",
    "Gaussian": "smoothing",
    "GaussianAugmentation": "training",
    "MaxMarginEnsemble": "ensembles",
    "Normalize": "models",
    "Predictions": "smoothing",
    "Schedule": "training",
    "UserError": "errors",
    "Vote": "ensembles",
    "WeightedEnsemble": "ensembles",
    "build_members": "models",
    "certify": "smoothing",
    "certify_members": "smoothing",
    "from_counts": "smoothing",
    "load_data": "data",
    "predict": "smoothing",
    "train": "training",
}

__all__ = [
    "ABSTAIN",
    "Certificates",
    "Gaussian",
    "GaussianAugmentation",
    "MaxMarginEnsemble",
    "Normalize",
    "Predictions",
    "Schedule",
    "UserError",
    "Vote",
    "WeightedEnsemble",
    "build_members",
    "certify",
    "certify_members",
    "from_counts",
    "load_data",
    "predict",
    "train",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'shieldwall' has no attribute {name!r}")
    home = importlib.import_module(f"shieldwall.{_HOMES[name]}")
    value: object = getattr(home, "load" if name == "load_data" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
