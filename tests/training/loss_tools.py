"""An objective at a batch that is drawn as the training loop draws it."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from shieldwall.training.objective import Loss, Objective


def loss_at(
    objective: Objective, members: Sequence[nn.Module], x: Tensor, y: Tensor, generator: torch.Generator
) -> Loss:
    return objective(members, objective.draw(x, y, generator))
