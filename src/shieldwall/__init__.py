"""Certifiably robust ensembles: train them, certify them by randomized smoothing, report the results.

    import shieldwall as sw

    ensemble = sw.MaxMarginEnsemble([first, second, third])
    certificates = sw.certify(ensemble, images, noise=sw.Gaussian(0.5))
    certificates.labels, certificates.radii

Public names load on first use, so that importing the package costs nothing. `__init__.pyi` is their table:
type checkers read it, and so does this module.
"""

import importlib
import re
from pathlib import Path


def _public_names() -> dict[str, tuple[str, str]]:
    """Each public name with its module and its name there."""
    table = Path(__file__).with_suffix(".pyi").read_text("utf-8")
    lines = re.findall(r"^from (shieldwall\.\S+) import (\w+) as _?(\w+)$", table, re.MULTILINE)
    return {public: (module, name) for module, name, public in lines}


_HOMES = _public_names()
__all__ = sorted(_HOMES)


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
    module, name_there = _HOMES[name]
    value: object = getattr(importlib.import_module(module), name_there)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
