"""The error for a data file that is there but cannot be used."""

from pathlib import Path

from shieldwall.errors import UserError


def damaged(path: Path, name: str, what: str) -> UserError:
    """`path`, a file of the set `name`, is wrong in the way `what` says."""
    return UserError(f"{path} {what}; delete it and run `shieldwall data fetch {name}`")
