"""The logs that a reader asked for."""

from collections.abc import Collection, Sequence

from shieldwall.errors import unknown_name
from shieldwall.results.record import Log


def of_votes(logs: Sequence[Log], votes: Collection[str]) -> list[Log]:
    """The logs of these votes, or all, in the order they have."""
    known = {log.vote for log in logs}
    for name in sorted(set(votes) - known):
        raise unknown_name("vote", name, known)
    return [log for log in logs if not votes or log.vote in votes]
