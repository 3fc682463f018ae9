"""Certification and prediction: CERTIFY and PREDICT of Cohen et al. (2019), for any classifier or many votes.

n0 noise samples select the class, n fresh samples bound its probability from below, and the bound gives a
radius. With probability at least 1 - alpha over the samples, the smoothed classifier returns the label at
every point closer to the input than the radius; or the certificate abstains.
"""

import math
import operator
import secrets
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor, nn

from shieldwall import binomial
from shieldwall.console import progress_bar
from shieldwall.devices import check_memory
from shieldwall.ensembles.votes import Vote, VoteSet, vote_set
from shieldwall.errors import UserError, check_int, checked
from shieldwall.models.classifier import UNIT, as_classifier, checked_range, count_members
from shieldwall.models.members import as_member_list, infer_device
from shieldwall.noise.distributions import TRAINED_NOISE, Noise, as_noise, check_noise
from shieldwall.recipes.recipe import Certification
from shieldwall.results.certificates import Certificates, Ints
from shieldwall.smoothing.inference import own_precision
from shieldwall.smoothing.plan import Plan
from shieldwall.smoothing.sampler import Sampler
from shieldwall.smoothing.stopping import FixedSampleSize
from shieldwall.smoothing.trial import cost_note
from shieldwall.vocabulary import ABSTAIN

_SINGLE = "classifier"
"""The name of the only vote, for one classifier."""


@checked
def certify(
    classifier: Any,
    x: Tensor | NDArray[Any],
    *,
    noise: Noise | float,
    n0: int = 100,
    n: int = 100_000,
    alpha: float = 0.001,
    bound: str = "one-sided",
    radii: Sequence[float] | None = None,
    norm: str | None = None,
    precision: str | None = None,
    compile: bool | None = None,
    seed: int = 0,
    indices: Sequence[int] | None = None,
    batch_size: int | None = None,
    device: torch.device | str | None = None,
    value_range: tuple[float, float] | None = UNIT,
    progress: bool = True,
) -> Certificates:
    """Certify any classifier from images (B, ...) to scores (B, K) at the inputs x (M, ...).

    The classifier is a module or a function of tensors or of NumPy arrays, or a scikit-learn classifier; its
    output may have `.logits`, or be a dictionary or tuple with one table (B, K). A Hugging Face model is
    given as `sw.Classifier(model, processor=processor)`. Modules that the classifier uses are in evaluation
    mode meanwhile. A classifier that is no function of the image, such as one with random crops, is refused.

    Args:
        noise: the noise that the classifier was trained with, such as `sw.Gaussian(0.5)`, in units of x; a
            number is the sigma of Gaussian noise. Other noise than that of a module from `sw.load` gives a
            warning.
        n0: the number of noise samples that select the class.
        n: the number of noise samples that bound its probability; the maximum if `radii` are given.
        alpha: the failure probability of each certificate.
        bound: one-sided or two-sided (docs/certification.md).
        radii: stop sampling an input once each of these radii is certified or ruled out.
        norm: the norm of the radii, l1, l2 or linf; by default the norm of the noise.
        precision: float32, tf32, float16 or bfloat16; by default that of the classifier's weights. Each
            precision is a different classifier.
        compile: use torch.compile: faster for many samples. Unless it is False, a module is copied into its
            fastest form: batch norm merged into convolutions, and on a CPU channels last.
        seed: the noise seed. Keep it secret if someone else chooses the inputs.
        indices: the index of each input in your data set, by default 0 to M - 1. The noise depends on the
            seed and this index, so an input gets the same certificate in any batch.
        batch_size: samples per forward pass. Affects speed only, up to rounding.
        device: where to run; by default where the classifier's parameters are.
        value_range: the range of x, such as (0, 255); `None` allows any finite values. Sigma and the radii
            are stated in it; `certificates.in_unit_range()` states them for pixels in [0, 1]. Normalisation
            belongs inside the classifier, so that noise is added to pixels.
        progress: show a bar, in a terminal or a notebook, and what long work will cost.
    """
    images, noise = checked_inputs(x, noise, value_range)
    classifier = as_classifier(classifier, images[:1], device)
    precision = own_precision([classifier]) if precision is None else precision
    certification = _certification(n0, n, alpha, bound, radii, norm, precision)
    _warn_of_other_noise([classifier], noise)
    by_vote = _certify(
        [classifier], None, images, noise, certification, seed,
        indices=indices, value_range=value_range, device=device, batch_size=batch_size, compile=compile,
        progress=progress,
    )  # fmt: skip
    return by_vote[_SINGLE]


@checked
def certify_members(
    members: Iterable[Any],
    x: Tensor | NDArray[Any],
    *,
    noise: Noise | float,
    votes: Iterable[Vote | str] | None = None,
    n0: int = 100,
    n: int = 100_000,
    alpha: float = 0.001,
    bound: str = "one-sided",
    radii: Sequence[float] | None = None,
    norm: str | None = None,
    precision: str | None = None,
    compile: bool | None = None,
    seed: int = 0,
    indices: Sequence[int] | None = None,
    batch_size: int | None = None,
    device: torch.device | str | None = None,
    value_range: tuple[float, float] | None = UNIT,
    progress: bool = True,
) -> dict[str, Certificates]:
    """Certify every vote over the members in one pass: each member runs once per noisy batch.

    `votes` are `Vote`s or their names. The default is `member-1` to `member-N`, `we`, `mme`, and, for two or
    more members, `eas` (ensemble after smoothing). The other arguments are those of `certify`. The noise is
    the same too: `certify(WeightedEnsemble(...))` gives exactly the counts of `we`.
    """
    members = as_member_list(members)
    if not members:
        raise UserError("certification needs at least one member; none was given")
    images, noise = checked_inputs(x, noise, value_range)
    members = [as_classifier(member, images[:1], device) for member in members]
    precision = own_precision(members) if precision is None else precision
    certification = _certification(n0, n, alpha, bound, radii, norm, precision)
    _warn_of_other_noise(members, noise)
    return _certify(
        members, vote_set(votes, count_members(members)), images, noise, certification, seed,
        indices=indices, value_range=value_range, device=device, batch_size=batch_size, compile=compile,
        progress=progress,
    )  # fmt: skip


def _certification(
    n0: int, n: int, alpha: float, bound: str, radii: Sequence[float] | None, norm: str | None, precision: str
) -> Certification:
    if radii is not None:
        try:
            radii = tuple(float(radius) for radius in radii)
        except (TypeError, ValueError):
            raise UserError(f"radii must be numbers, such as [0.25, 0.5]; given: {radii!r}") from None
        if not radii:
            raise UserError("radii needs at least one radius, or None for all n samples; given: none")
    return Certification(
        n0=n0, n=n, alpha=alpha, bound=bound, radii=tuple(radii or ()), norm=norm, precision=precision
    )


def _certify(
    classifiers: Sequence[Callable[[Tensor], Tensor]],
    votes: VoteSet | None,
    x: Tensor,
    noise: Noise,
    certification: Certification,
    seed: int,
    *,
    indices: Sequence[int] | None,
    value_range: tuple[float, float] | None,
    compile: bool | None,
    progress: bool,
    **options: Any,
) -> dict[str, Certificates]:
    """The certificates of each vote, or of the single classifier."""
    check_int("seed", seed)
    _check_batch(options["batch_size"], x)
    plan = Plan(noise, math.prod(x.shape[1:]), certification, seed)
    device = infer_device(classifiers, x, options.pop("device"))
    sampler = Sampler.of_plan(
        classifiers,
        votes,
        plan,
        shape=x.shape[1:],
        device=device,
        example=x[0],
        compile=bool(compile),
        prepare=compile is not False,
        **options,
    )
    named = votes or VoteSet((Vote(_SINGLE, lambda scores: scores[0]),), (_SINGLE,))
    where, selection, estimation = _counts(sampler, x, indices, progress)
    by_vote = plan.certificates_of(selection, estimation, named)
    more: dict[str, Any] = {"indices": where, "value_range": value_range}
    return {name: replace(certificates, **more) for name, certificates in by_vote.items()}


@dataclass(frozen=True)
class Predictions:
    """Answers of the smoothed classifier at M inputs."""

    labels: NDArray[np.int64]
    """(M,); ABSTAIN where the test cannot decide between the two leading classes."""
    p_values: NDArray[np.float64]
    """(M,): of the test of the hypothesis that the two leading classes are equally likely."""
    counts: NDArray[np.int64]
    """(M, K): how often each class won."""


@checked
def predict(
    classifier: Any,
    x: Tensor | NDArray[Any],
    *,
    noise: Noise | float,
    n: int = 1_000,
    alpha: float = 0.001,
    seed: int | None = None,
    indices: Sequence[int] | None = None,
    batch_size: int | None = None,
    precision: str | None = None,
    device: torch.device | str | None = None,
    value_range: tuple[float, float] | None = UNIT,
) -> Predictions:
    """The smoothed classifier's label at x (M, ...), or ABSTAIN.

    The label differs from that of the exact smoothed classifier with probability at most alpha. It is
    returned only if a two-sided binomial test of the top two counts rejects a tie at level alpha. The default
    seed is a fresh secret one; give a seed to get the same answer again. The other arguments are those of
    `certify`.
    """
    binomial.check_alpha(alpha)
    check_int("n", n)
    if not 1 <= n <= binomial.MOST_DRAWS:
        raise UserError(f"n, the number of samples, must be 1 to {binomial.MOST_DRAWS:,}; given: {n}")
    images, noise = checked_inputs(x, noise, value_range)
    classifier = as_classifier(classifier, images[:1], device)
    _warn_of_other_noise([classifier], noise)
    seed = secrets.randbits(63) if seed is None else seed
    check_int("seed", seed)
    _check_batch(batch_size, images)
    sampler = Sampler(
        [classifier], None, noise, 0, FixedSampleSize(n), seed=seed, shape=images.shape[1:],
        device=infer_device([classifier], images, device), batch_size=batch_size,
        precision=own_precision([classifier]) if precision is None else precision, prepare=True,
        example=images[0],
    )  # fmt: skip
    estimation = _counts(sampler, images, indices, progress=False)[2][:, 0]
    top = np.sort(estimation, axis=-1)[:, ::-1]
    p_values = binomial.two_sided_sign_test(top[:, 0], top[:, 1])
    return Predictions(np.where(p_values <= alpha, estimation.argmax(-1), ABSTAIN), p_values, estimation)


def _warn_of_other_noise(classifiers: Sequence[object], noise: Noise) -> None:
    """Warn where a part of a classifier says that it was trained with other noise."""
    parts = [part for given in classifiers if isinstance(given, nn.Module) for part in given.modules()]
    trained = {_in_words(getattr(part, TRAINED_NOISE)) for part in parts if hasattr(part, TRAINED_NOISE)}
    if other := sorted(trained - {_in_words(noise)}):
        words = f"the classifier was trained with {other[0]}; given: {_in_words(noise)}"
        warnings.warn(words, UserWarning, stacklevel=3)


def _in_words(noise: Noise) -> str:
    """The kind and sigma; the exact form of a noise is of its kind."""
    kind, sigma = str(noise).partition("(")[0].removeprefix("exact-"), getattr(noise, "sigma", None)
    return f"{noise}" if sigma is None else f"{kind} noise of sigma {sigma:.6g}"


def checked_inputs(
    x: Tensor | NDArray[Any], noise: Noise | float, value_range: tuple[float, float] | None
) -> tuple[Tensor, Noise]:
    """The inputs as a checked float32 tensor, and the noise: whole numbers are pixels of the given range."""
    try:
        images: Any = torch.from_numpy(np.ascontiguousarray(x)) if isinstance(x, np.ndarray) else x
    except TypeError:
        raise UserError(f"inputs must be numbers; given: an array of {np.asarray(x).dtype}") from None
    is_float64 = isinstance(x, np.ndarray) and images.dtype == torch.float64
    if is_float64 or (getattr(images, "dtype", None) == torch.uint8 and value_range != UNIT):
        images = images.float()
    made = as_noise(noise)
    check_inputs(images, made, value_range)
    return images, made


def check_inputs(x: Tensor, noise: Noise, value_range: tuple[float, float] | None) -> None:
    """Check that x is a batch of finite float inputs in the value range, and that the noise is noise."""
    check_noise(noise)
    if not isinstance(x, Tensor):
        raise UserError(f"inputs must be a torch tensor (M, ...); given: {type(x).__name__}")
    if x.layout != torch.strided:
        raise UserError(f"inputs must be a dense tensor; given: {x.layout}")
    if x.ndim < 2 or not len(x) or not x[0].numel():
        raise UserError(
            f"inputs must be a batch (M, ...) of at least one image; given shape: {tuple(x.shape)}"
            + ("; for a single image pass x[None]" if x.ndim == 1 else "")
        )
    if x.dtype != torch.float32:
        hint = (
            "divide by 255 first, or pass value_range=(0, 255)"
            if x.dtype == torch.uint8
            else "call .float() first"
        )
        raise UserError(f"inputs must be float32; given: {x.dtype}; {hint}")
    if not bool(torch.isfinite(x).all()):
        raise UserError("inputs contain NaN or infinity")
    low, high = (-math.inf, math.inf) if value_range is None else checked_range(value_range)
    if x.min() < low or x.max() > high:
        raise UserError(
            f"inputs must lie in [{low:g}, {high:g}]; given: "
            f"[{x.min():g}, {x.max():g}]; keep pixels in that range and normalise inside the model "
            "(shieldwall.models.Normalize), or pass value_range=None"
        )
    noise.validate(x)


def checked_indices(indices: Sequence[int] | None, count: int, what: str = "inputs") -> Ints:
    """The index of each input, by default 0 to M - 1."""
    try:
        given = range(count) if indices is None else indices
        where = np.array([operator.index(index) for index in given], dtype=np.int64)
    except (TypeError, OverflowError):
        raise UserError(f"indices must be whole numbers, one for each input; given: {indices!r}") from None
    if len(where) != count:
        raise UserError(f"{count} {what} need {count} indices; given: {len(where)}")
    return where


def _check_batch(size: int | None, x: Tensor) -> None:
    if size is not None:
        check_int("batch_size", size)
        check_memory(f"a batch of {size:,} inputs", size, *x.shape[1:])


def _counts(
    sampler: Sampler, x: Tensor, indices: Sequence[int] | None, progress: bool
) -> tuple[Ints, Ints, Ints]:
    """The indices (M,), by default 0 to M - 1, and the counts that choose and that bound, (M, V, K) each.

    The arrays are read-only, so that certificates of many votes can share them.
    """
    where = checked_indices(indices, len(x))
    inputs = ((int(where[k]), x[k]) for k in range(len(x)))
    selection = estimation = np.empty(0, np.int64)
    console = Console(stderr=True, quiet=not progress)
    if not (console.is_terminal or console.is_jupyter):
        console.quiet = True
    if not console.quiet and (note := cost_note(sampler, len(x), "radii=[0.5, 1]")):
        console.print(note, highlight=False)
    with progress_bar(console, f"certifying {len(x)} inputs", len(x)) as show:
        for k, counts in enumerate(sampler.counts(inputs)):
            if not k:
                selection, estimation = np.empty((2, len(x), *counts.selection.shape), np.int64)
            selection[k], estimation[k] = counts.selection, counts.estimation
            show(k + 1, "")
    selection.setflags(write=False)
    estimation.setflags(write=False)
    return where, selection, estimation
