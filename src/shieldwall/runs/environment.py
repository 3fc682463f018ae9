"""The environment of a verb: versions, commit and device, and the console that it tells of them."""

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

import shieldwall
from shieldwall.results.checks import SEALED
from shieldwall.runs.folder import recorded_environment


def say(console: Console, text: str) -> None:
    """Print a line as it is, on any console of rich."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def describe(device: torch.device) -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"), "shieldwall": shieldwall.__version__,
        "commit": commit(), "python": platform.python_version(), "torch": torch.__version__,
        "numpy": metadata.version("numpy"), "scipy": metadata.version("scipy"),
        "platform": platform.platform(), "device": device_name(device), "threads": torch.get_num_threads(),
        "digests": SEALED,
    }  # fmt: skip


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} ({platform.machine()}, {os.cpu_count()} cores)"


def say_if_changed(console: Console, now: Mapping[str, Any], *homes: Path, stage: str) -> None:
    """Note that what is resumed began, says the first of `homes` that knows, on another device or torch."""
    before = next(filter(None, map(recorded_environment, homes)), {}).get(stage)
    if isinstance(before, dict):
        names = [(facts.get("torch"), str(facts.get("device")).partition(" (")[0]) for facts in (before, now)]
        began, continues = (f"torch {version} on {device}" for version, device in names)
        if began != continues:
            changed = f"it began with {began} and continues with {continues}"
            say(console, f"note: {changed}: results may differ in rounding")


def commit() -> str | None:
    """The commit of the checkout this package runs from, marked if changed; elsewhere $SHIELDWALL_COMMIT."""

    def git(*command: str) -> str:
        quiet: dict[str, Any] = {"stderr": subprocess.DEVNULL, "text": True, "timeout": 10}
        return str(subprocess.check_output(("git", *command), cwd=Path(__file__).parents[1], **quiet)).strip()

    try:
        git("ls-files", "--error-unmatch", "runs/environment.py")
        changed = git("status", "--porcelain", "--untracked-files=no", ".")
        return git("rev-parse", "HEAD") + " (changed)" * bool(changed)
    except (OSError, subprocess.SubprocessError):
        return os.environ.get("SHIELDWALL_COMMIT")
