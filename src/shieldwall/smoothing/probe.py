"""Is a classifier a function of the image alone? It is tried on noisy images before samples are counted.

    batches   (a, b, a, b) twice    (c, d, a, b)    (a)    (b)

A certificate is about a function: the same noisy image has the same scores whenever it is classified and
whatever is beside it. c and d have four times the noise, so that statistics of the batch differ. Scores count
as changed if those of a and of b both are: one image alone may lie where rounding decides a vote.
"""

import torch
from torch import Tensor

from shieldwall import seeds
from shieldwall.errors import UserError
from shieldwall.noise.distributions import Noise
from shieldwall.smoothing.inference import Labeler

REPEATED = 1e-3
"""How much scores may change in the same batch again, as a part of the largest one.

Kernels sum in the same order then; what remains is room for those of a GPU that do not.
"""
REARRANGED = 4 * torch.finfo(torch.bfloat16).eps
"""The same in another batch: kernels sum in another order, and a function may compute in bfloat16 inside.

Measured on a CPU in float32 and bfloat16: LeNet, ResNet-20 and ResNet-110 in evaluation mode change by 1e-6
at most, the latter two with batch norm in training mode by 0.2 at least.
"""
_ROWS = 4
_SAME, _BESIDE = [0, 1, 0, 1], [2, 3, 0, 1]


def check_is_function(labeler: Labeler, noise: Noise, image: Tensor, seed: int, batch_size: int) -> None:
    """Refuse classifiers that are random or depend on the batch, at an image (*shape) under noise.

    Those that take no batch of 4 are tried with batches of `batch_size`, if that is more. What fails there
    too is left to the sampler, which says why.
    """
    draws = noise.sample((_ROWS, *image.shape), seeds.generator(labeler.device, seed, "probe"))
    draws[2:] *= 4
    noisy = noise.perturb(image.to(labeler.device), draws)

    def scores(order: list[int], rows: int) -> list[Tensor]:
        return _scores(labeler, noisy[(order + order[:2] * rows)[:rows]])

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
        largest = first[first.isfinite()].abs().max().item() if first.isfinite().any() else 0.0
        others = [first[2:4], beside[2:4]]
        if all(alone):
            others.append(torch.cat([scores_alone[k] for scores_alone in alone]))
        who = "the classifier" if len(labeler.modules) == 1 else f"member {k + 1}"
        if (change := _change(first[:2], [again[:2]])) > REPEATED * largest:
            raise UserError(
                f"{who} is random: the same batch of noisy images gets other scores each time (they change "
                f"by {change / largest:.2g} of the largest score); certificates need a function of the "
                "image: call .eval() on the model if dropout is on, and remove random crops and flips"
            )
        if (change := _change(first[:2], others)) > REARRANGED * largest:
            raise UserError(
                f"{who} depends on the other images of the batch: beside others, the same noisy images get "
                f"other scores (they change by {change / largest:.2g} of the largest score); certificates "
                "need a function of the image: call .eval() on the model if batch norm is in training mode"
            )


def _scores(labeler: Labeler, noisy: Tensor) -> list[Tensor]:
    """Every classifier's scores (B, K) in double precision; none if they cannot be had."""
    layout = labeler.memory_format(noisy.shape[1:])
    try:
        scores = labeler.plain_scores(noisy.to(labeler.dtype).contiguous(memory_format=layout))
        is_sound = all(one.ndim == 2 and len(one) == len(noisy) and one.shape[1] > 1 for one in scores)
        return [one.double() for one in scores] if is_sound else []
    except (RuntimeError, ValueError, IndexError, TypeError, AttributeError, MemoryError):
        return []


def _change(scores: Tensor, others: list[Tensor]) -> float:
    """The largest change of the image whose scores change less.  (2, K), each (2, K) -> a number"""
    differences = torch.stack([torch.where(other == scores, 0.0, other - scores) for other in others])
    return differences.abs().nan_to_num(0.0).amax((0, 2)).amin().item()
