"""Packages that only some commands need, by the extra that installs them."""

from importlib.util import find_spec

from shieldwall.errors import UserError

EXTRAS = {
    "report": ("matplotlib", "jinja2"),
    "serve": ("anyio", "starlette", "uvicorn", "websockets", "jinja2"),
    "cluster": ("ray",),
    "tensorboard": ("tensorboard",),
}
"""The modules each extra brings."""


def is_installed(extra: str) -> bool:
    return not _missing(extra)


def require(extra: str, purpose: str) -> None:
    """Raise an error that says what to install if `purpose` needs a missing package."""
    if missing := _missing(extra):
        raise UserError(f"{purpose} needs {', '.join(missing)}; run: pip install 'shieldwall[{extra}]'")


def _missing(extra: str) -> list[str]:
    return [module for module in EXTRAS[extra] if find_spec(module) is None]
