"""What a user can get wrong, said in one line."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(ValueError):
    """A mistake in what was asked for: what was given, what was expected, what to do.

    The command line prints the message alone and exits with 2; a library caller sees an
    ordinary `ValueError`.
    """


def unknown(kind: str, given: str, known: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the nearest one that does."""
    known = sorted(known)
    near = get_close_matches(given, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
    return UserError(f"no {kind} called {given!r}; {hint}")
