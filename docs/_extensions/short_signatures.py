"""Types of arrays in signatures by the names that the code gives them, not spelt out."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sphinx.application import Sphinx
from sphinx.util.typing import stringify_annotation

NAMES = {
    "ArrayLike": ArrayLike,
    **{f"NDArray[{kind.__name__}]": NDArray[kind] for kind in (np.float64, np.int64, np.bool_)},
}
SPELT_OUT = {stringify_annotation(kind, "smart"): name for name, kind in NAMES.items()}


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-signature", _shorten)
    return {"parallel_read_safe": True}


def _shorten(
    app: Sphinx,
    what: str,
    name: str,
    obj: object,
    options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    return shortened(signature), shortened(returns)


def shortened(text: str | None) -> str | None:
    for spelt_out, name in SPELT_OUT.items():
        text = text.replace(spelt_out, name) if text else text
    return text
