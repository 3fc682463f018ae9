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
    __version__: str
    from shieldwall.data.datasets import (
        dataset_spec,
    )
    from shieldwall.data.datasets import (
        load as load_data,
    )
    from shieldwall.data.splits import (
        Split,
    )
    from shieldwall.ensembles import (
        MaxMarginEnsemble,
        Vote,
        WeightedEnsemble,
    )
    from shieldwall.ensembles.weights import (
        cache_confidences,
        grid_search_weights,
        sween_weights,
    )
    from shieldwall.errors import (
        UserError,
    )
    from shieldwall.loading import (
        load,
    )
    from shieldwall.models import (
        Normalize,
        build_members,
    )
    from shieldwall.smoothing import (
        ABSTAIN,
        Certificates,
        ExactGaussian,
        Gaussian,
        Laplace,
        Predictions,
        Uniform,
        after_smoothing,
        certify,
        certify_members,
        from_counts,
        predict,
    )
    from shieldwall.training import (
        ADP,
        DRT,
        GAL,
        MACER,
        Consistency,
        GaussianAugmentation,
        Objective,
        Schedule,
        SmoothAdv,
        Stability,
        train,
    )

_HOMES = {
    "ABSTAIN": "smoothing",
    "ADP": "training",
    "Certificates": "smoothing",
    "Consistency": "training",
    "DRT": "training",
    "ExactGaussian": "smoothing",
    "GAL": "training",
    "Gaussian": "smoothing",
    "GaussianAugmentation": "training",
    "Laplace": "smoothing",
    "MACER": "training",
    "MaxMarginEnsemble": "ensembles",
    "Normalize": "models",
    "Objective": "training",
    "Predictions": "smoothing",
    "Schedule": "training",
    "SmoothAdv": "training",
    "Split": "data.splits",
    "Stability": "training",
    "Uniform": "smoothing",
    "UserError": "errors",
    "Vote": "ensembles",
    "WeightedEnsemble": "ensembles",
    "after_smoothing": "smoothing",
    "build_members": "models",
    "cache_confidences": "ensembles.weights",
    "certify": "smoothing",
    "certify_members": "smoothing",
    "dataset_spec": "data.datasets",
    "from_counts": "smoothing",
    "grid_search_weights": "ensembles.weights",
    "load": "loading",
    "load_data": "data.datasets",
    "predict": "smoothing",
    "sween_weights": "ensembles.weights",
    "train": "training",
}

__all__ = [
    "ABSTAIN",
    "ADP",
    "DRT",
    "GAL",
    "MACER",
    "Certificates",
    "Consistency",
    "ExactGaussian",
    "Gaussian",
    "GaussianAugmentation",
    "Laplace",
    "MaxMarginEnsemble",
    "Normalize",
    "Objective",
    "Predictions",
    "Schedule",
    "SmoothAdv",
    "Split",
    "Stability",
    "Uniform",
    "UserError",
    "Vote",
    "WeightedEnsemble",
    "after_smoothing",
    "build_members",
    "cache_confidences",
    "certify",
    "certify_members",
    "dataset_spec",
    "from_counts",
    "grid_search_weights",
    "load",
    "load_data",
    "predict",
    "sween_weights",
    "train",
]


def _version() -> str:
    """That of the installed package; a checkout that is merely on the path has none."""
    from importlib import metadata

    try:
        return metadata.version("shieldwall")
    except metadata.PackageNotFoundError:
        return "0+unknown"


def __getattr__(name: str) -> object:
    if name == "__version__":
        return _version()
    if name not in _HOMES:
        raise AttributeError(f"module 'shieldwall' has no attribute {name!r}")
    home = importlib.import_module(f"shieldwall.{_HOMES[name]}")
    value: object = getattr(home, "load" if name == "load_data" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
