"""Whether certified accuracies compare: of the same inputs, from as many draws, at the same confidence."""

from collections.abc import Sequence, Set

from shieldwall.report.recipes_of_logs import inputs_of
from shieldwall.results.record import Log


def what_differs(logs: Sequence[Log]) -> list[str]:
    """What keeps the logs from being compared; what a log does not say is taken to be as in the others."""
    found: dict[str, Set[object]] = {
        "the inputs": {inputs_of(log) for log in logs},
        "n": {log.certificates.max_n or log.certificates.fixed_n for log in logs} - {None},
        "alpha": {log.certificates.alpha for log in logs} - {None},
    }
    return [name for name, values in found.items() if len(values) > 1]
