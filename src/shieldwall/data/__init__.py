"""Data sets: found on this machine or downloaded once, and read as tensors in [0, 1].

splits.py holds the values, datasets.py the known sets by name (torch-free until one is loaded), files.py the
official formats and downloads, folder.py images in class folders.
"""


def __getattr__(name: str) -> object:
    # The documented names of 0.1, for one release: delete this function with the next.
    if name not in ("outline", "Dataset"):
        raise AttributeError(f"module 'shieldwall.data' has no attribute {name!r}")
    import warnings

    from shieldwall.data import datasets, splits

    home, new = (datasets, "dataset_spec") if name == "outline" else (splits, "Dataset")
    path = "sw.dataset_spec" if name == "outline" else "shieldwall.data.splits.Dataset"
    warnings.warn(f"shieldwall.data.{name} is now {path}", DeprecationWarning, stacklevel=2)
    value: object = getattr(home, new)
    return value
