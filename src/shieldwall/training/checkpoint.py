"""Everything training needs to resume, in one safetensors file: weights, momentum, the log, the position."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from shieldwall.errors import UserError
from shieldwall.files import check_seal, load_tensors, load_weights, save_tensors


class Position(NamedTuple):
    group: int = 0  # of members that are trained together; those before have finished the epoch
    update: int = 0  # the number of updates that this group has made
    noise: str = ""  # the state of its noise generator, in hexadecimal digits
    sums: Sequence[dict[str, list[float]]] = ()  # what the log's means are made of, of each group so far
    seconds: float = 0.0


def save(
    path: Path, members: Sequence[nn.Module], optimizers: Sequence[Optimizer],
    records: Sequence[dict[str, Any]], fingerprint: str,
    position: Position = Position(),  # noqa: B008  (immutable)
) -> None:  # fmt: skip
    """Replace the checkpoint by one at this position of the epoch after the last of `records`."""
    tensors: dict[str, Tensor] = {}
    for k, member in enumerate(members):
        tensors |= {f"member.{k}.{name}": value for name, value in member.state_dict().items()}
    for k, (parameter, optimizer) in enumerate(_parameters(optimizers)):
        if (buffer := optimizer.state[parameter].get("momentum_buffer")) is not None:
            tensors[f"momentum.{k}"] = buffer
    written = {"records": json.dumps(list(records)), "position": json.dumps(position._asdict())}
    save_tensors(path, tensors, {**written, "fingerprint": fingerprint}, sealed=True)


def load(
    path: Path, members: Sequence[nn.Module], optimizers: Sequence[Optimizer], fingerprint: str
) -> tuple[list[dict[str, Any]], Position]:
    """Put members and optimizers back to where the checkpoint was written, and return its log and where."""
    check_seal(path)
    tensors, metadata = load_tensors(path)
    before, now = metadata.get("fingerprint", "").split(", "), fingerprint.split(", ")
    if before != now:
        other, this = (", ".join(p for p in a if p not in b) for a, b in ((before, now), (now, before)))
        advice = "choose another folder, or delete it to start again"
        raise UserError(f"{path} belongs to another training ({other}; this one: {this}); {advice}")
    for k, member in enumerate(members):
        prefix = f"member.{k}."
        own = {name.removeprefix(prefix): tensors[name] for name in tensors if name.startswith(prefix)}
        load_weights(member, own, path)
    for k, (parameter, optimizer) in enumerate(_parameters(optimizers)):
        if (buffer := tensors.get(f"momentum.{k}")) is not None:
            # Laid out as the parameter is: fused optimizers take no other.
            optimizer.state[parameter]["momentum_buffer"] = torch.empty_like(parameter).copy_(buffer)
    return json.loads(metadata["records"]), Position(**json.loads(metadata.get("position", "{}")))


def _parameters(optimizers: Sequence[Optimizer]) -> Iterator[tuple[Tensor, Optimizer]]:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            yield from ((parameter, optimizer) for parameter in group["params"])
