"""The environment of a run: versions, commit, device."""

import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from shieldwall.results.checks import SEALED
from shieldwall.texts import json_value, read_file


def describe(device: torch.device) -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "shieldwall": _version("shieldwall"),
        "commit": commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": _version("numpy"),
        "scipy": _version("scipy"),
        "platform": platform.platform(),
        "device": device_name(device),
        "threads": torch.get_num_threads(),
        "digests": SEALED,
    }


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} ({platform.machine()}, {os.cpu_count()} cores)"


def say_if_changed(
    console: Console, what: str, file: Path, stage: str | None, now: Mapping[str, Any]
) -> None:
    """Print a note where what is resumed began on another device or with another torch than `now`.

    `file` has the environment that it began in, under `stage` if there is one.
    """
    try:
        before = json_value(read_file(file), str(file))
        before = before if stage is None else before[stage]
        began, continued = (_that_rounds(facts) for facts in (before, now))
    except (ValueError, TypeError, KeyError, AttributeError):
        return  # nothing is recorded, or nothing that can be read
    if began != continued:
        text = (
            f"note: {what} began with {began} and continues with {continued}: results may differ in rounding"
        )
        console.print(text, highlight=False, markup=False, soft_wrap=True)


def _that_rounds(facts: Mapping[str, Any]) -> str:
    """What rounding depends on: torch's version, and the kind of device."""
    return f"torch {facts['torch']} on {str(facts['device']).partition(' (')[0]}"


def commit() -> str | None:
    """The commit of the checkout this package runs from, marked if changed; elsewhere $SHIELDWALL_COMMIT."""
    here = Path(__file__).parent

    def git(*command: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(here), *command], capture_output=True, text=True, timeout=10
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if git("ls-files", "--error-unmatch", Path(__file__).name) is None:
        return os.environ.get("SHIELDWALL_COMMIT")
    changed = git("status", "--porcelain", "--untracked-files=no", ".")
    return f"{git('rev-parse', 'HEAD')}{' (changed)' if changed else ''}"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
