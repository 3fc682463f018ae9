"""Certification: CERTIFY of Cohen et al. (2019) for any classifier, or for many votes in one pass.

n0 draws choose the class, fresh draws bound its probability from below, and the noise turns the bound
into a radius. With probability at least 1 - alpha over the draws, the smoothed classifier returns the
label everywhere within the radius of the input; or it abstains.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor, nn

from shieldwall.ensembles.votes import Vote, resolve
from shieldwall.errors import UserError
from shieldwall.models.members import as_member_list, infer_device
from shieldwall.noise.distributions import Noise
from shieldwall.smoothing.build import engine_for
from shieldwall.smoothing.certificates import Certificates
from shieldwall.smoothing.inputs import check_inputs, numbered
from shieldwall.smoothing.plan import Plan


def certify(
    classifier: Callable[[Tensor], Tensor],
    x: Tensor,
    *,
    noise: Noise,
    n0: int = 100,
    n: int = 100_000,
    alpha: float = 0.001,
    bound: str = "one-sided",
    radii: Sequence[float] | None = None,
    tolerance: float | None = None,
    norm: str | None = None,
    precision: str = "float32",
    compile: bool = False,
    seed: int = 0,
    indices: Sequence[int] | None = None,
    batch_size: int | None = None,
    device: torch.device | str | None = None,
    value_range: tuple[float, float] | None = (0.0, 1.0),
) -> Certificates:
    """Certify any classifier from images (B, ...) to scores (B, K) at the inputs x (M, ...).

    Args:
        noise: what the classifier was trained with, such as `sw.Gaussian(0.5)`, in units of pixels.
        n0: draws that choose the class.
        n: draws that bound its probability; the most of them if `radii` or `tolerance` is given.
        alpha: the probability, per input, that a certificate is wrong.
        bound: one-sided, two-sided or randomized (docs/certification.md).
        radii: decide these radii, and stop an input as soon as each is certified or given up.
        tolerance: stop an input as soon as its radius cannot change by more.
        norm: of the radii, l1, l2 or linf; by default the one the noise is made for.
        precision: float32, tf32, float16 or bfloat16: another one makes another classifier.
        compile: hand the classifier, on a CPU a copy with the channels last, to torch.compile; pays for
            many draws.
        seed: with an input's index, names its draws.
        indices: the inputs' own numbers, 0 to M - 1 unless given: an input keeps its certificate
            whichever other inputs are certified beside it.
        batch_size: noisy copies per call of the classifier; changes the speed, not the draws.
        device: where to run; by default where the classifier's parameters are.
        value_range: what x must lie in. Normalisation belongs inside the classifier, so that noise
            is added to pixels; `None` allows any finite values.
    """
    options = Options(
        n0=n0, n=n, alpha=alpha, bound=bound, radii=radii, tolerance=tolerance, norm=norm,
        precision=precision, compile=compile, seed=seed, indices=indices, batch_size=batch_size,
        device=device, value_range=value_range,
    )  # fmt: skip
    (found,) = _certified([classifier], None, x, noise, options)
    return found


class Options(TypedDict, total=False):
    """The keywords of `certify`, beside the noise."""

    n0: int
    n: int
    alpha: float
    bound: str
    radii: Sequence[float] | None
    tolerance: float | None
    norm: str | None
    precision: str
    compile: bool
    seed: int
    indices: Sequence[int] | None
    batch_size: int | None
    device: torch.device | str | None
    value_range: tuple[float, float] | None


def certify_members(
    members: Iterable[nn.Module],
    x: Tensor,
    *,
    noise: Noise,
    votes: Iterable[Vote | str] | None = None,
    **options: Unpack[Options],
) -> dict[str, Certificates]:
    """Certify every vote over the members in one pass: each member runs once per noisy batch.

    `votes` are `Vote`s or their names; by default each `member-1` to `member-N`, `we` and `mme`.
    The other arguments are those of `certify`, and so are the draws: `certify(WeightedEnsemble(...))`
    gives the very counts of `we`.
    """
    members = as_member_list(members)
    if not members:
        raise UserError("certification needs at least one member; none was given")
    chosen = resolve(votes, len(members))
    for vote in chosen:
        if vote.may_elect_nobody:
            raise UserError(f"the vote {vote.name} may elect nobody, so it is no classifier to certify")
    found = _certified(members, chosen, x, noise, options)
    return {vote.name: certificates for vote, certificates in zip(chosen, found, strict=True)}


def _certified(
    classifiers: Sequence[Callable[[Tensor], Tensor]],
    votes: Sequence[Vote] | None,
    x: Tensor,
    noise: Noise,
    options: Options,
) -> list[Certificates]:
    """The certificates of each vote, or of the one classifier."""
    check_inputs(x, noise, options.get("value_range", (0.0, 1.0)))
    inputs = numbered(x, options.get("indices"))
    given: dict[str, Any] = {name: value for name, value in options.items() if name in _OF_THE_PLAN}
    plan = Plan(noise, math.prod(x.shape[1:]), **given)
    engine = engine_for(
        classifiers, votes, noise, plan.n0, plan.stopping,
        shape=x.shape[1:], device=infer_device(classifiers, x, options.get("device")),
        seed=plan.seed, batch_size=options.get("batch_size"), precision=plan.precision,
        compile=options.get("compile", False),
    )  # fmt: skip
    by_input = [
        plan.certificates(found.index, found.selection, found.counts) for found in engine.counts(inputs)
    ]
    return [
        Certificates.joined([certificates[vote : vote + 1] for certificates in by_input])
        for vote in range(len(by_input[0]))
    ]


_OF_THE_PLAN = {field.name for field in fields(Plan)}
