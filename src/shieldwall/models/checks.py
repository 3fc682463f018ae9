"""What may be a model, and what a list of members."""

from collections.abc import Iterable
from typing import TypeVar

from torch import nn

from shieldwall.errors import UserError, describe

Member = TypeVar("Member")


def check_model(model: object) -> None:
    """Refuse what cannot be called with images, and a class in place of a model of it."""
    if isinstance(model, type):
        raise UserError(f"a model is needed, not the class {model.__name__}: make one, {model.__name__}(...)")
    if not callable(model):
        raise UserError(
            "a model must be a module or a function from images (B, ...) to scores (B, K); "
            f"given: {describe(model)}"
        )


def listed(members: Iterable[Member]) -> list[Member]:
    """The members as a list. One model alone is refused: its layers would be taken for members."""
    alone = isinstance(members, nn.Module) and not isinstance(members, nn.ModuleList)
    if alone or not isinstance(members, Iterable):
        raise UserError(
            f"members must be a list of models; given: {describe(members)}; "
            "write [model] for one model, ensemble.members for those of an ensemble"
        )
    found = list(members)
    for member in found:
        check_model(member)
    return found
