"""CERTIFY and PREDICT of Cohen et al. (2019), for any classifier or many votes.

n0 noise samples select the class, n fresh samples bound its probability from below, and the bound gives a
radius. With probability at least 1 - alpha over the samples, the smoothed classifier returns the label at
every point closer to the input than the radius; or the certificate abstains.
"""

import math
import operator
import secrets
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor, nn

from shieldwall import binomial, seeds
from shieldwall.console import progress_bar
from shieldwall.data.splits import Split
from shieldwall.devices import check_memory
from shieldwall.ensembles.votes import Vote, VoteSet, confidences, vote_set
from shieldwall.errors import UserError, check, check_int, checked
from shieldwall.models.classifier import UNIT, as_classifier, checked_range, count_members
from shieldwall.models.members import as_member_list, infer_device, inference
from shieldwall.noise.distributions import TRAINED_NOISE, Noise, as_noise, check_noise
from shieldwall.recipes.recipe import Certification
from shieldwall.results.certificates import Certificates, Ints
from shieldwall.smoothing.certificates import Plan
from shieldwall.smoothing.inference import own_precision
from shieldwall.smoothing.sampler import Sampler
from shieldwall.smoothing.stopping import FixedSampleSize
from shieldwall.smoothing.trial import cost_note
from shieldwall.vocabulary import ABSTAIN

_SINGLE = "classifier"  # the name of the only vote, for one classifier
_Asked = tuple[Tensor, Noise, list[Any], str]  # the images, the noise, the classifiers and their precision


@checked
def certify(
    classifier: Any, x: Tensor | NDArray[Any], *, noise: Noise | float,
    n0: int = 100, n: int = 100_000, alpha: float = 0.001, bound: str = "one-sided",
    radii: Sequence[float] | None = None, norm: str | None = None, precision: str | None = None,
    compile: bool | None = None, seed: int = 0, indices: Sequence[int] | None = None,
    batch_size: int | None = None, device: torch.device | str | None = None,
    value_range: tuple[float, float] | None = UNIT, progress: bool = True,
) -> Certificates:  # fmt: skip
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
        precision: float32, tf32, float16 or bfloat16, each a different classifier; by default that of the
            classifier's weights.
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
    asked = _checked([classifier], x, noise, value_range, device, precision)
    return _certify(
        asked, None, value_range, device, compile, seed, indices, batch_size, progress,
        n0=n0, n=n, alpha=alpha, bound=bound, radii=radii, norm=norm,
    )[_SINGLE]  # fmt: skip


@checked
def certify_members(
    members: Iterable[Any], x: Tensor | NDArray[Any], *, noise: Noise | float,
    votes: Iterable[Vote | str] | None = None,
    n0: int = 100, n: int = 100_000, alpha: float = 0.001, bound: str = "one-sided",
    radii: Sequence[float] | None = None, norm: str | None = None, precision: str | None = None,
    compile: bool | None = None, seed: int = 0, indices: Sequence[int] | None = None,
    batch_size: int | None = None, device: torch.device | str | None = None,
    value_range: tuple[float, float] | None = UNIT, progress: bool = True,
) -> dict[str, Certificates]:  # fmt: skip
    """Certify every vote over the members in one pass: each member runs once per noisy batch.

    `votes` are `Vote`s or their names, by default `member-1` to `member-N`, `we`, `mme`, and, for two or more
    members, `eas` (ensemble after smoothing). The other arguments are those of `certify`. The noise is the
    same too: `certify(WeightedEnsemble(...))` gives exactly the counts of `we`.
    """
    members = as_member_list(members)
    if not members:
        raise UserError("certification needs at least one member; none was given")
    asked = _checked(members, x, noise, value_range, device, precision)
    return _certify(
        asked, vote_set(votes, count_members(asked[2])), value_range, device, compile, seed, indices,
        batch_size, progress, n0=n0, n=n, alpha=alpha, bound=bound, radii=radii, norm=norm,
    )  # fmt: skip


def _certify(
    asked: _Asked, votes: VoteSet | None, value_range: tuple[float, float] | None,
    device: torch.device | str | None, compile: bool | None, seed: int, indices: Sequence[int] | None,
    batch_size: int | None, progress: bool, *, radii: Sequence[float] | None, **settings: Any,
) -> dict[str, Certificates]:  # fmt: skip
    """Those of each vote, or of the single classifier; `settings` are those of `Certification`."""
    images, noise, classifiers, precision = asked
    if radii is not None:
        try:
            radii = tuple(float(radius) for radius in radii)
        except (TypeError, ValueError):
            raise UserError(f"radii must be numbers, such as [0.25, 0.5]; given: {radii!r}") from None
        check(radii, "radii needs at least one radius, or None for all n samples", "none")
    certification = Certification(radii=radii or (), precision=precision, **settings)
    check_int("seed", seed)
    plan = Plan(noise, images[0].numel(), certification, seed)
    sampler = Sampler(
        classifiers, None if votes is None else votes.counted, noise, certification.n0, plan.stopping,
        seed=seed, precision=precision, shape=images.shape[1:],
        device=infer_device(classifiers, images, device), batch_size=batch_size, compile=bool(compile),
        prepare=compile is not False, example=images[0],
    )  # fmt: skip
    named = votes or VoteSet((Vote(_SINGLE, lambda scores: scores[0]),), (_SINGLE,))
    where, selection, estimation = _counts(sampler, images, indices, progress)
    by_vote = plan.certificates_of(selection, estimation, named)
    more: dict[str, Any] = {"indices": where, "value_range": value_range}
    return {name: replace(certificates, **more) for name, certificates in by_vote.items()}


@dataclass(frozen=True)
class Predictions:
    """Answers of the smoothed classifier at M inputs."""

    labels: NDArray[np.int64]  #: (M,); ABSTAIN where the test cannot decide between the two leading classes
    p_values: NDArray[np.float64]  #: (M,): of the hypothesis that the two leading classes are equally likely
    counts: NDArray[np.int64]  #: (M, K): how often each class won


@checked
def predict(
    classifier: Any, x: Tensor | NDArray[Any], *, noise: Noise | float, n: int = 1_000,
    alpha: float = 0.001, seed: int | None = None, indices: Sequence[int] | None = None,
    batch_size: int | None = None, precision: str | None = None,
    device: torch.device | str | None = None, value_range: tuple[float, float] | None = UNIT,
) -> Predictions:  # fmt: skip
    """The smoothed classifier's label at x (M, ...), or ABSTAIN.

    The label differs from that of the exact smoothed classifier with probability at most alpha: a two-sided
    binomial test of the top two counts rejects a tie at this level. The default seed is a fresh secret one.
    The other arguments are those of `certify`.
    """
    binomial.check_alpha(alpha)
    check_int("n", n)
    most = binomial.MOST_DRAWS
    check(1 <= n <= most, f"n, the number of samples, must be 1 to {most:,}", n)
    images, noise, classifiers, precision = _checked([classifier], x, noise, value_range, device, precision)
    seed = secrets.randbits(63) if seed is None else seed
    check_int("seed", seed)
    sampler = Sampler(
        classifiers, None, noise, 0, FixedSampleSize(n), seed=seed, shape=images.shape[1:],
        device=infer_device(classifiers, images, device), batch_size=batch_size, precision=precision,
        prepare=True, example=images[0],
    )  # fmt: skip
    estimation = _counts(sampler, images, indices, progress=False)[2][:, 0]
    top = np.sort(estimation, axis=-1)[:, ::-1]
    p_values = binomial.two_sided_sign_test(top[:, 0], top[:, 1])
    return Predictions(np.where(p_values <= alpha, estimation.argmax(-1), ABSTAIN), p_values, estimation)


def _checked(
    models: Sequence[Any], x: Tensor | NDArray[Any], noise: Noise | float,
    value_range: tuple[float, float] | None, device: torch.device | str | None, precision: str | None,
) -> _Asked:  # fmt: skip
    made = as_noise(noise)
    images: Any = torch.from_numpy(np.ascontiguousarray(x)) if isinstance(x, np.ndarray) else x
    is_pixels = getattr(images, "dtype", None) == torch.uint8 and value_range != UNIT
    if is_pixels or (images is not x and images.dtype == torch.float64):
        images = images.float()
    check_inputs(images, made, value_range)
    classifiers = [as_classifier(model, images[:1], device) for model in models]
    parts = [part for given in classifiers if isinstance(given, nn.Module) for part in given.modules()]
    trained = {_in_words(getattr(part, TRAINED_NOISE)) for part in parts if hasattr(part, TRAINED_NOISE)}
    if other := sorted(trained - {_in_words(made)}):
        words = f"the classifier was trained with {other[0]}; given: {_in_words(made)}"
        warnings.warn(words, UserWarning, stacklevel=4)
    return images, made, classifiers, own_precision(classifiers) if precision is None else precision


def _in_words(noise: Noise) -> str:
    """The kind and sigma; the exact form of a noise is of its kind."""
    kind, sigma = str(noise).partition("(")[0].removeprefix("exact-"), getattr(noise, "sigma", None)
    return str(noise) if sigma is None else f"{kind} noise of sigma {sigma:.6g}"


def check_inputs(x: Tensor, noise: Noise, value_range: tuple[float, float] | None) -> None:
    check(isinstance(x, Tensor), "inputs must be a torch tensor (M, ...)", type(x).__name__)
    check(x.layout == torch.strided, "inputs must be a dense tensor", x.layout)
    if x.ndim < 2 or not len(x) or not x[0].numel():
        hint = "; for a single image pass x[None]" if x.ndim == 1 else ""
        rule = "inputs must be a batch (M, ...) of at least one image"
        raise UserError(f"{rule}; given shape: {tuple(x.shape)}{hint}")
    if x.dtype != torch.float32:
        advice = "divide by 255 first, or pass value_range=(0, 255)"
        hint = advice if x.dtype == torch.uint8 else "call .float() first"
        raise UserError(f"inputs must be float32; given: {x.dtype}; {hint}")
    if not bool(torch.isfinite(x).all()):
        raise UserError("inputs contain NaN or infinity")
    low, high = (-math.inf, math.inf) if value_range is None else checked_range(value_range)
    if x.min() < low or x.max() > high:
        rule = (
            f"inputs must lie in [{low:g}, {high:g}]; given: [{x.min():g}, {x.max():g}]; keep pixels in that"
        )
        raise UserError(
            f"{rule} range and normalise inside the model (sw.Normalize), or pass value_range=None"
        )
    noise.validate(x)


def _checked_indices(indices: Sequence[int] | None, count: int, what: str = "inputs") -> Ints:
    try:
        given = range(count) if indices is None else indices
        where = np.array([operator.index(index) for index in given], dtype=np.int64)
    except (TypeError, OverflowError):
        raise UserError(f"indices must be whole numbers, one for each input; given: {indices!r}") from None
    if len(where) != count:
        raise UserError(f"{count} {what} need {count} indices; given: {len(where)}")
    return where


def _counts(
    sampler: Sampler, x: Tensor, indices: Sequence[int] | None, progress: bool
) -> tuple[Ints, Ints, Ints]:
    """The indices (M,), and the counts (M, V, K) that choose and that bound, read-only: votes share them."""
    where = _checked_indices(indices, len(x))
    inputs = ((int(where[k]), x[k]) for k in range(len(x)))
    console, tables = Console(stderr=True), np.empty(0, np.int64)
    console.quiet = not (progress and (console.is_terminal or console.is_jupyter))
    if not console.quiet and (note := cost_note(sampler, len(x), "radii=[0.5, 1]")):
        console.print(note, highlight=False)
    with progress_bar(console, f"certifying {len(x)} inputs", len(x)) as show:
        for k, counts in enumerate(sampler.counts(inputs)):
            if not k:
                tables = np.empty((2, len(x), *counts.selection.shape), np.int64)
            tables[:, k] = counts.selection, counts.estimation
            show(k + 1, "")
    tables.setflags(write=False)
    return where, tables[0], tables[1]


@checked
def noisy_confidences(
    members: Sequence[nn.Module], images: Tensor | Split, noise: Noise, *, copies: int = 10, seed: int = 0,
    stream: str = "weights", indices: Sequence[int] | None = None, batch_size: int = 1_000,
    dtype: torch.dtype = torch.float32, device: torch.device | str | None = None,
) -> Tensor:  # fmt: skip
    """Every member's confidences at noisy copies of each image, on the CPU.  -> (N, M, copies, K)

    All members see the same noise: that of the seed, the stream's name and the image's index, and of no
    certificate.

    `images` are (M, C, H, W) in [0, 1], or a split; `indices` (M,) name each one's noise. Softmax in float64
    (`dtype`) resolves confidences that float32 rounds to 0 or 1.
    """
    if not (members := as_member_list(members)):
        raise UserError("confidences need at least one member; none was given")
    check_noise(noise)
    if not isinstance(images, Split):
        check_inputs(images, noise, UNIT)
    if not len(images):
        raise UserError("confidences need at least one image; none was given")
    least = min(copies, batch_size)
    check(least >= 1, "copies and batch_size must be at least 1", f"{copies}, {batch_size}")
    names = _checked_indices(indices, len(images), "images").tolist()
    check_memory(f"{copies:,} noisy copies", copies, 2 * len(members) * len(images))  # two classes or more
    where = infer_device(members, images if isinstance(images, Tensor) else images.labels, device)
    parts = []
    for rows in torch.split(torch.arange(len(images)), max(1, batch_size // copies)):
        x = images.images(rows) if isinstance(images, Split) else images[rows.to(images.device)]
        generators = [seeds.generator(where, seed, stream, names[row]) for row in rows.tolist()]
        drawn = [noise.sample((copies, *x.shape[1:]), generator) for generator in generators]
        noisy = (x.to(where)[:, None] + torch.stack(drawn)).flatten(0, 1)
        with inference(members):
            parts += [confidences(members, batch, dtype).cpu() for batch in torch.split(noisy, batch_size)]
    # Joined outside of inference mode: tensors made inside cannot take part in learning.
    joined = torch.cat(parts, dim=1)
    return joined.reshape(len(joined), len(images), copies, -1)
