"""Is a classifier a function of the image alone? It is tried on noisy images before samples are counted.

    batches   (a, b, a, b) twice    (c, d, a, b)    (a)    (b)

The same noisy image must have the same scores whenever it is classified and whatever is beside it. c and d
have four times the noise, so that statistics of the batch differ. Scores count as changed if those of a and
of b both are: one image alone may lie where rounding decides a vote.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from shieldwall import seeds
from shieldwall.errors import UserError
from shieldwall.noise.distributions import Noise
from shieldwall.smoothing.inference import Classifier, Labeler

# How much scores may change as a part of the largest, in the same batch again (some GPU kernels do) and in
# another one: kernels sum in another order, and a function may compute in bfloat16 inside. On a CPU, LeNet
# and ResNets in evaluation mode change by 1e-6 at most, with batch norm in training mode by 0.2 at least.
REPEATED, REARRANGED = 1e-3, 4 * torch.finfo(torch.bfloat16).eps
_ROWS = 4
_SAME, _BESIDE = [0, 1, 0, 1], [2, 3, 0, 1]


def noisy_images(noise: Noise, image: Tensor, seed: int, device: torch.device) -> Tensor:
    """a, b, c and d from an image (*shape).  -> (4, *shape)"""
    draws = noise.sample((_ROWS, *image.shape), seeds.generator(device, seed, "probe"))
    draws[2:] *= 4
    return noise.perturb(image.to(device), draws)


def check_is_function(labeler: Labeler, noisy: Tensor, batch_size: int) -> None:
    """Refuse classifiers that are random or depend on the batch, at the noisy images.

    Those that take no batch of 4 are tried with `batch_size`; what fails there too is left to the sampler.
    """

    def scores(order: list[int], rows: int) -> list[Tensor]:
        return labeler.scores(labeler.plain, noisy[(order + order[:2] * rows)[:rows]])

    with torch.random.fork_rng([labeler.device] if labeler.device.type == "cuda" else []):
        rows = _ROWS
        if not (same := scores(_SAME, rows)):
            rows = max(_ROWS, batch_size)
            same = scores(_SAME, rows)
        batches = [same, scores(_SAME, rows), scores(_BESIDE, rows)]
        alone = [scores([k], 1) for k in (0, 1)]
    if not all(batches):
        return
    for k, (first, again, beside) in enumerate(zip(*batches, strict=True)):
        largest, others = _largest(first), [first[2:4], beside[2:4]]
        if all(alone):
            others.append(torch.cat([scores_alone[k] for scores_alone in alone]))
        who = "the classifier" if len(labeler.modules) == 1 else f"member {k + 1}"
        needed = "certificates need a function of the image: call .eval() on the model if"
        if (change := _change(first[:2], [again[:2]])) > REPEATED * largest:
            how = f"gets other scores each time (they change by {change / largest:.2g} of the largest score)"
            advice = f"{needed} dropout is on, and remove random crops and flips"
            raise UserError(f"{who} is random: the same batch of noisy images {how}; {advice}")
        if (change := _change(first[:2], others)) > REARRANGED * largest:
            how = f"get other scores (they change by {change / largest:.2g} of the largest score)"
            what = "depends on the other images of the batch: beside others, the same noisy images"
            raise UserError(f"{who} {what} {how}; {needed} batch norm is in training mode")


def difference(labeler: Labeler, others: Sequence[Classifier], noisy: Tensor) -> float | None:
    """How far other forms' scores are from the classifiers', as a part of the largest; None for no scores."""
    plain, other = (labeler.scores(form, noisy) for form in (labeler.plain, others))
    if not plain or not other:
        return None
    pairs, tiny = zip(plain, other, strict=True), torch.finfo(torch.float64).tiny
    return max(_change(left[:2], [right[:2]]) / max(tiny, _largest(left)) for left, right in pairs)


def tolerance(dtype: torch.dtype) -> float:
    """What rounding explains between two forms of a function in this precision."""
    return REPEATED if dtype == torch.float32 else REARRANGED


def _largest(scores: Tensor) -> float:
    return scores.where(scores.isfinite(), 0.0).abs().max().item()


def _change(scores: Tensor, others: list[Tensor]) -> float:
    """The largest change of the image whose scores change less.  (2, K), each (2, K) -> a number"""
    differences = torch.stack([torch.where(other == scores, 0.0, other - scores) for other in others])
    return differences.abs().nan_to_num(0.0).amax((0, 2)).amin().item()
