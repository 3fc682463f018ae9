"""Files that are written in one step, and weights that load without running code."""

import errno
import hashlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from shieldwall.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor, nn

PART = ".part"
_RUN_PART = re.compile(r"\.(.*\.(safetensors|yaml|jsonl?)|SHA256SUMS)(\.\w+)?\.part")


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


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A file that replaces `path` in one step at the end of the block, unless it raises an error. A kill or a
    full disk leaves the old file as it was. Any number of processes may do this at once."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PART}")
    with disk_errors(path):
        try:
            with part.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    with suppress(OSError):  # the new name too must reach the disk, where the file system can do that
        number = os.open(path.parent, os.O_RDONLY)
        with suppress(OSError):
            os.fsync(number)
        os.close(number)


def remove_parts(folder: Path) -> None:
    """Remove what a kill left of a run's files, which one process at a time writes."""
    for part in folder.glob(f".*{PART}"):
        if _RUN_PART.fullmatch(part.name):
            part.unlink(missing_ok=True)


def write_atomic(path: Path, content: bytes) -> None:
    with atomic_file(path) as file:
        file.write(content)


def write_output(path: Path, content: bytes) -> None:
    """Write a file that a user named, in one step; its folder is made. Only regular files are replaced."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise UserError(f"{path} is not a regular file, so it is not replaced; give another name")
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, content)


def save_tensors(path: Path, tensors: "Mapping[str, Tensor]", metadata: Mapping[str, str] | None = None,
                 *, sealed: bool = False) -> None:  # fmt: skip
    """Write tensors as safetensors, atomically; a sealed file holds the SHA-256 of all its other bytes."""
    from safetensors.torch import save

    # Copies, for members may share weights, which safetensors refuses.
    ready = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    content = save(ready, dict(metadata or {}) | ({"sha256": "0" * 64} if sealed else {}))
    write_atomic(path, _sealed(content) if sealed else content)


def check_seal(path: Path) -> None:
    content = path.read_bytes()
    if not _SEAL.search(content) or _sealed(content) != content:
        raise UserError(f"{path} is damaged: it is not as it was written; delete it to start again")


_SEAL = re.compile(rb'"sha256":"[0-9a-f]{64}"')


def _sealed(content: bytes) -> bytes:
    """The content with the SHA-256 that it has where the digits of this SHA-256 are zeros."""
    blank = _SEAL.sub(b'"sha256":"%b"' % (b"0" * 64), content, count=1)
    return _SEAL.sub(b'"sha256":"%b"' % hashlib.sha256(blank).hexdigest().encode(), blank, count=1)


def load_tensors(path: Path) -> "tuple[dict[str, Tensor], dict[str, str]]":
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
