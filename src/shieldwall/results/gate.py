"""A check for pipelines: is certified accuracy at a radius high enough, and not worse than before?

With k of m inputs certified correctly at the radius, and confidence c, certified accuracy on all inputs of
the kind is at least the 1 - c quantile of Beta(k, m - k + 1) with probability c (Clopper and Pearson, 1934).
Of two runs on the same inputs, the first is worse if more inputs are right in the other only than chance
allows: b of b + d, by McNemar's exact one-sided test at the level 1 - c. Passing proves no more.
"""

from dataclasses import dataclass

from shieldwall.binomial import clopper_pearson_lower, two_sided_sign_test
from shieldwall.errors import UserError
from shieldwall.results.certificates import Certificates
from shieldwall.results.intervals import paired_test


@dataclass(frozen=True)
class Verdict:
    passed: bool
    run: str
    vote: str
    radius: float
    inputs: int
    certified_accuracy: float
    lower_bound: float  #: of certified accuracy on all inputs of the kind, with this confidence
    at_least: float
    confidence: float
    other: str | None = None
    p_value: float | None = None  #: small where the run is worse than the other

    def __str__(self) -> str:
        accuracy, lower = f"{self.certified_accuracy:.1%}", f"{self.lower_bound:.1%}"
        text = f"{'pass' if self.passed else 'fail'}: {self.run} {self.vote}, {self.inputs:,} inputs: "
        text += f"certified accuracy at {self.radius:g} is {accuracy}, at least {lower} "
        text += f"with confidence {self.confidence:g} (wanted: {self.at_least:.1%})"
        if self.p_value is None:
            return text
        worse = "worse" if self.p_value <= 1 - self.confidence else "not shown to be worse"
        return f"{text}; {worse} than {self.other} (p = {self.p_value:.2g})"


def gate(
    votes: dict[str, Certificates], radius: float, at_least: float, *, run: str = "", vote: str,
    confidence: float = 0.95, not_worse_than: dict[str, Certificates] | None = None, other: str = "",
) -> Verdict:  # fmt: skip
    """Whether a vote of a run, as `sw.read` gives it, is good enough, and not worse on the same inputs."""
    for name, value in (("confidence", confidence), ("at_least", at_least)):
        if not 0 <= value <= 1 or value == 1 == confidence:
            raise UserError(f"{name} must lie between 0 and 1, such as 0.95; given: {value}")
    for named in (votes, votes if not_worse_than is None else not_worse_than):
        if vote not in named:
            raise UserError(f"there are no certificates of {vote!r}; choose from {', '.join(named)}")
    certificates = votes[vote]
    accuracy = float(certificates.certified_accuracy(None, radius))
    successes = round(accuracy * len(certificates))
    lower = float(clopper_pearson_lower(successes, len(certificates), 1 - confidence))
    p_value = None
    if not_worse_than is not None:
        (test,) = paired_test(certificates, not_worse_than[vote], [radius])
        # Half the two-sided p-value is P(Binomial(b + d, 1/2) >= the larger of b and d).
        tail = float(two_sided_sign_test(test.only_second, test.only_first)) / 2
        p_value = tail if test.only_second > test.only_first else 1.0
    is_worse = p_value is not None and p_value <= 1 - confidence
    return Verdict(
        lower >= at_least and not is_worse, run, vote, float(radius), len(certificates), accuracy, lower,
        at_least, confidence, other or None, p_value,
    )  # fmt: skip
