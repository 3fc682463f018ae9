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

_TABLE = Path(__file__).with_suffix(".pyi").read_text("utf-8")
_LINES = re.findall(r"^from (shieldwall\.\S+) import (\w+) as _?(\w+)$", _TABLE, re.MULTILINE)
_HOMES = {public: (module, name) for module, name, public in _LINES}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib import metadata

        try:
            return metadata.version("shieldwall")
        except metadata.PackageNotFoundError:  # a checkout that is merely on the path
            return "0+unknown"
    if name not in _HOMES:
        raise AttributeError(f"module 'shieldwall' has no attribute {name!r}")
    module, name_there = _HOMES[name]
    value: object = getattr(importlib.import_module(module), name_there)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
