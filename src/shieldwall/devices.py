"""The device that is asked for, if it works."""

import torch

from shieldwall.errors import UserError


def usable(name: torch.device | str) -> torch.device:
    """The device called `name`, on which something was computed to see whether it can be used."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ImportError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"device {str(name)!r} cannot be used here: {reason}") from error
    return device
