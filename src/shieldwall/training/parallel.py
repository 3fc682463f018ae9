"""Training by several processes, each on its share of every batch.

All processes walk the same batches in the same order, and each takes consecutive rows of them. Noise is
drawn for the whole batch, from generators seeded alike, and each process keeps its rows: with B_r of B
rows and L_r the mean loss over them,

    L = sum_r (B_r / B) L_r,        grad L = sum_r (B_r / B) grad L_r

are one process's, up to rounding. The gradients are added up here, after the backward pass, and not by
hooks of torch's DDP, which do not see the gradients of gradients that DRT and GAL need.

What is not a mean over images is not one process's: batch-norm statistics are each process's own (as in
torch's DDP), the first one's being handed to all after each epoch, and DRT's logged cosine, a mean over
valid pairs, becomes a mean of the processes' means.
"""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from shieldwall.distributed import ProcessGroup, Share
from shieldwall.errors import UserError
from shieldwall.noise.distributions import Noise
from shieldwall.training.objective import Objective


def copy_state_from_first(
    world: ProcessGroup, members: Sequence[nn.Module], optimizer: torch.optim.Optimizer
) -> None:
    """Give every process the first one's weights, statistics and momentum (joint)."""
    world.broadcast_tensors(value for member in members for value in member.parameters())
    copy_buffers_from_first(world, members)
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    states = [optimizer.state[one] for one in parameters]
    moving = world.broadcast(
        [k for k, state in enumerate(states) if state.get("momentum_buffer") is not None]
    )
    for k in moving:
        states[k].setdefault("momentum_buffer", torch.zeros_like(parameters[k]))
    world.broadcast_tensors(states[k]["momentum_buffer"] for k in moving)


def copy_buffers_from_first(world: ProcessGroup, members: Sequence[nn.Module]) -> None:
    """Give every process the first one's batch-norm statistics (joint)."""
    world.broadcast_tensors(value for member in members for value in member.buffers())


def on_share(objective: Objective, share: Share) -> Objective:
    """The objective at the rows of a share, under the noise that the whole batch would have given them.

    It holds for noise that is drawn by `Noise.sample`, by the objective or by one that it wraps.
    """
    changed = copy.copy(objective)
    for name, value in vars(objective).items():
        if isinstance(value, Noise):
            object.__setattr__(changed, name, _noise_of_share(value, share))
        elif isinstance(value, Objective):
            object.__setattr__(changed, name, on_share(value, share))
    return changed


def _noise_of_share(noise: Noise, share: Share) -> Noise:
    def sample(shape: Sequence[int], generator: torch.Generator) -> Tensor:
        copies, rest = divmod(shape[0], share.count)
        if rest:
            raise UserError(
                f"several processes can draw noise only for whole copies of their {share.count} images; "
                f"asked for: {tuple(shape)}"
            )
        whole = noise.sample((copies * share.total, *shape[1:]), generator)
        by_copy = whole.reshape(copies, share.total, *shape[1:])
        return by_copy[:, share.rows].reshape(*shape)

    # A changed copy and not a wrapper: an objective may insist on a kind of noise and read its sigma.
    changed = copy.copy(noise)
    object.__setattr__(changed, "sample", sample)
    return changed
