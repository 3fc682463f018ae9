"""From noisy inputs to labels: members in a precision, compiled or not, and votes over their confidences.

Each precision is a different classifier. A certificate file names its precision, and certificates of
different precisions need different folders. Noise is always drawn in float32 and added to the input in
float32; only then is the noisy input rounded to the members' precision. Confidences and votes are computed in
float32 or better.
"""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from shieldwall.ensembles.ensemble import confidences
from shieldwall.ensembles.votes import Vote
from shieldwall.errors import UserError, unknown_name
from shieldwall.models.members import check_model, evaluating, is_channels_last, modules_of, to_device

Classifier = Callable[[Tensor], Tensor]

DTYPES = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}
"""`tf32` is float32 with factors rounded to 10 bits, on GPUs that have it; `float32` forbids that."""
PROBE_ROWS = 32
"""Rows of the batch that shows how much memory a row takes."""
MEMORY_SHARE = 0.5
"""The part of the free memory that a batch may take."""


class Labeler:
    """Labels of noisy inputs: by every vote over the members' confidences, or by one classifier's scores.

        noisy (B, *shape)  ->  labels (V, B), and the number of classes K

    A label of K marks scores that are not numbers.
    """

    def __init__(
        self,
        classifiers: Sequence[Classifier],
        votes: Sequence[Vote] | None,
        device: torch.device,
        precision: str = "float32",
        compile: bool = False,
    ) -> None:
        modules = [_in_precision(classifier, precision) for classifier in classifiers]
        if compile and device.type == "cpu":
            modules = [_channels_last(module) for module in modules]
        self.modules = modules
        """The classifiers that are called; the modules that they use are kept in evaluation mode."""
        self._parts = modules_of(modules)
        self.precision = precision
        self.device = device
        self.dtype = DTYPES[precision]
        self._votes = votes
        self._run = [torch.compile(module, dynamic=False) for module in modules] if compile else modules

    def memory_format(self, shape: Sequence[int]) -> torch.memory_format:
        """The fastest memory layout for a batch of inputs."""
        channels_last = len(shape) == 3 and is_channels_last(self.modules)
        return torch.channels_last if channels_last else torch.contiguous_format

    def __call__(self, noisy: Tensor) -> tuple[Tensor, int]:
        with self._evaluation():
            if self._votes is None:
                scores = self._run[0](noisy)
                _check_scores(scores, len(noisy))
                is_nan = scores.isnan().any(-1)
                labels = scores.argmax(-1)[None]
            else:
                scores = confidences(self._run, noisy)
                is_nan = scores.isnan().any(-1).any(0)
                labels = torch.stack([vote(scores) for vote in self._votes])
            num_classes = scores.shape[-1]
            return labels.masked_fill(is_nan, num_classes).to(self.device), num_classes

    def plain_scores(self, noisy: Tensor) -> list[Tensor]:
        """Each classifier's scores (B, K), not compiled and not checked."""
        with self._evaluation():
            return [module(noisy) for module in self.modules]

    @contextmanager
    def _evaluation(self) -> Iterator[None]:
        with evaluating(self._parts), torch.inference_mode(), _arithmetic(self.precision):
            yield


def _in_precision(classifier: Classifier, precision: str) -> Classifier:
    """The classifier itself, or a copy of a module in a smaller type."""
    check_model(classifier)
    if precision not in DTYPES:
        raise unknown_name("precision", precision, DTYPES)
    if not isinstance(classifier, nn.Module):
        if precision != "float32":
            raise UserError(
                f"only a torch module can be run in {precision}; given: {type(classifier).__name__}"
            )
        return classifier
    dtypes = {parameter.dtype for parameter in classifier.parameters()}
    names = {str(dtype).removeprefix("torch.") for dtype in dtypes}
    if rounded := names & {"float16", "bfloat16"} - {precision}:
        name = rounded.pop()
        raise UserError(f"the model's weights are {name}; pass precision={name!r}")
    if dtypes <= {DTYPES[precision]}:
        return classifier
    return copy.deepcopy(classifier).to(DTYPES[precision])


def _channels_last(classifier: Classifier) -> Classifier:
    """A copy of a module in the layout that is fastest for compiled code on a CPU; other callables unchanged.

    A LeNet in bfloat16 then classifies 2.5 times as many images per second as in torch's default layout.
    Inductor's `freezing` adds nothing to this (within 3 % on LeNet and ResNet-20).
    """
    if not isinstance(classifier, nn.Module):
        return classifier
    return to_device(copy.deepcopy(classifier), torch.device("cpu"))


def _check_scores(scores: object, batch: int) -> None:
    if not isinstance(scores, Tensor) or scores.ndim != 2 or len(scores) != batch or scores.shape[1] < 2:
        returned = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        hint = ""
        if isinstance(scores, np.ndarray):
            hint = "; convert it with torch.from_numpy"
        elif hasattr(scores, "logits"):
            hint = "; pass lambda x: model(x).logits"
        raise UserError(
            f"the model must return one score per class, a tensor of shape ({batch}, K) with K >= 2; "
            f"returned: {returned}{hint}"
        )


@contextmanager
def _arithmetic(precision: str) -> Iterator[None]:
    """Round products of float32 numbers as the precision says, whatever torch's settings are."""
    if not torch.cuda.is_available():
        yield
        return
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


def default_batch_size(device: torch.device, shape: Sequence[int], draws: int) -> int:
    """A batch size near the fastest: small for the caches of a CPU, large for an accelerator.

    On a CPU batches larger than `draws`, the samples per input, gain nothing. Powers of two suit matrix
    products in half precision there: 256 for 28x28, 64 for 3x32x32.
    """
    pixels = math.prod(shape)
    if device.type == "cpu":
        fitting = 1 << (2**18 // pixels).bit_length() >> 1
        return min(draws, max(64, min(2_048, fitting)))
    return max(16, min(10_000, 2**25 // pixels))


def largest_fitting_batch(size: int, classify_rows: Callable[[int], object]) -> int:
    """The largest batch size up to `size` that fits the GPU's free memory, measured on a small batch."""
    classify_rows(1)  # memory that libraries reserve once is not counted
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    classify_rows(PROBE_ROWS)
    per_row = (torch.cuda.max_memory_allocated() - before) / PROBE_ROWS
    reserved = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    free = torch.cuda.mem_get_info()[0] + reserved
    return max(1, min(size, int(MEMORY_SHARE * free / max(1.0, per_row))))
