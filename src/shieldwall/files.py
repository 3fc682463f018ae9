"""Files that are written in one step, and weights that load without running code."""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from shieldwall.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor, nn


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn errors of the disk into a UserError of one line."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        reason = "the disk is full" if full else error.strerror or str(error)
        advice = "; earlier files are intact: free some space and run the same command again"
        raise UserError(f"cannot write {path}: {reason}{advice if full else ''}") from error


def write_atomic(path: Path, content: bytes) -> None:
    """Replace `path` by `content` in one step: a kill or a full disk leaves the old file as it was."""
    part = path.with_name(f".{path.name}.part")
    with disk_errors(path):
        try:
            with part.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def write_output(path: Path, content: bytes) -> None:
    """Write a file that a user named, in one step; its folder is made."""
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, content)


def save_tensors(
    path: Path, tensors: "Mapping[str, Tensor]", metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors as safetensors, atomically."""
    from safetensors.torch import save

    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomic(path, save(ready, dict(metadata or {})))


def load_tensors(path: Path) -> "tuple[dict[str, Tensor], dict[str, str]]":
    """Tensors and metadata of a safetensors file; a damaged one is named."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist") from error
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{path} is truncated or corrupt, not a whole safetensors file ({error})") from error


def load_weights(member: "nn.Module", state: "dict[str, Tensor]", path: Path) -> None:
    """Load a member's weights; the error says in one line why they do not fit."""
    try:
        member.load_state_dict(state)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        raise UserError(f"the weights in {path} do not fit the model: {reason}") from error
