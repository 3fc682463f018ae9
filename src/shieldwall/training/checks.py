"""What `train` is handed, refused where it is of another kind."""

from collections.abc import Sequence

from torch import nn

from shieldwall.arguments import described
from shieldwall.data.splits import Dataset, Split
from shieldwall.errors import UserError
from shieldwall.training.objective import Objective
from shieldwall.training.schedule import Schedule


def check_modules(members: Sequence[object]) -> None:
    """Members have weights of their own: the same module twice would be one, trained by two losses."""
    for k, member in enumerate(members, start=1):
        if not isinstance(member, nn.Module):
            raise UserError(f"training takes torch modules; member {k} is: {described(member)}")
        first = next(j for j, other in enumerate(members, start=1) if other is member)
        if first < k:
            raise UserError(
                f"members {first} and {k} are the same module; make one for each, or copy.deepcopy it"
            )


def check_kinds(data: object, objective: object, schedule: object) -> None:
    if not isinstance(data, Split):
        hint = "its .train" if isinstance(data, Dataset) else "sw.Split.from_tensors(images, labels)"
        raise UserError(f"data must be a split to train on; given: {described(data)}; pass {hint}")
    if not isinstance(objective, Objective):
        raise UserError(
            "objective must be a training method, such as sw.GaussianAugmentation(sw.Gaussian(0.25)); "
            f"given: {described(objective)}"
        )
    if not isinstance(schedule, Schedule):
        raise UserError(f"schedule must be such as sw.Schedule(epochs=10); given: {described(schedule)}")
