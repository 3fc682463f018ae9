"""From noisy inputs to labels: members in a precision, compiled or not, and votes over their confidences.

Noise is always drawn and added in float32; only then is the noisy input rounded to the members' precision.
Confidences and votes are computed in float32 or better.
"""

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from shieldwall.ensembles.votes import Vote, confidences, weighted
from shieldwall.errors import UserError, check_name
from shieldwall.models.classifier import is_scores, member_scores, scores_of
from shieldwall.models.members import check_model, evaluating, is_channels_last, modules_of, to_device
from shieldwall.smoothing.prepared import prepared

Classifier = Callable[[Tensor], Tensor]

DTYPES = {  # `tf32` is float32 with factors rounded to 10 bits, on GPUs that have it; `float32` forbids that
    "float32": torch.float32, "tf32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16
}  # fmt: skip
PROBE_ROWS = 32  # of the batch that shows how much memory a row takes
MEMORY_SHARE = 0.5  # the part of the free memory that a batch may take


class Labeler:
    """Labels of noisy inputs: by every vote over the members' confidences, or by one classifier's scores.

        noisy (B, *shape)  ->  labels (V, B), and the number of classes K

    A label of K marks scores that are not numbers.
    """

    def __init__(
        self, classifiers: Sequence[Classifier], votes: Sequence[Vote] | None, device: torch.device,
        precision: str = "float32", compile: bool = False, prepare: bool = False,
    ) -> None:  # fmt: skip
        # The classifiers as they are, in the precision.
        self.plain = [_in_precision(classifier, precision) for classifier in classifiers]
        self.precision, self.dtype, self.device, self._votes = precision, DTYPES[precision], device, votes
        self.is_compiled = compile
        modules = list(self.plain)
        for k, (given, plain) in enumerate(zip(classifiers, self.plain, strict=True)):
            if prepare and isinstance(given, nn.Module):
                modules[k] = prepared(given, self.dtype, device) or plain
            elif compile and not prepare and isinstance(plain, nn.Module) and device.type == "cpu":
                modules[k] = to_device(copy.deepcopy(plain), device)  # as before there was `prepared`
        self.use(modules)
        # Whether WE of equal weights is all that is counted: then not all passes are needed.
        is_we = votes is not None and [vote.scores for vote in votes] == [weighted]
        self.skips_members = is_we and len(classifiers) > 2 and device.type == "cpu"

    def use(self, modules: Sequence[Classifier]) -> None:
        """Call these classifiers; the modules that they use are kept in evaluation mode."""
        self.modules = self.compiled = modules
        self._parts = modules_of([*self.plain, *modules])
        if self.is_compiled:
            self.compiled = [torch.compile(module, dynamic=False) for module in modules]

    def memory_format(self, shape: Sequence[int], classifiers: Sequence[Any] = ()) -> torch.memory_format:
        """The fastest memory layout for a batch of inputs, of the modules if not of these."""
        is_last = len(shape) == 3 and is_channels_last(classifiers or self.modules)
        return torch.channels_last if is_last else torch.contiguous_format

    def __call__(self, noisy: Tensor) -> tuple[Tensor, int]:
        with self._evaluation():
            if self._votes is None:
                scores = _checked_scores(scores_of(self.compiled[0](noisy)), len(noisy))[None]
            else:
                scores = confidences(self.compiled, noisy)
            return self.of_votes(scores), scores.shape[-1]

    def confidences(self, noisy: Tensor, members: slice) -> Tensor:
        """Those of some of the members, (N', B, K)."""
        with self._evaluation():
            return confidences(self.compiled[members], noisy)

    def of_votes(self, scores: Tensor) -> Tensor:
        """Every vote's labels (V, B) from all members' confidences, or those of the classifier's scores."""
        labels = scores.argmax(-1) if self._votes is None else torch.stack([v(scores) for v in self._votes])
        return labels.masked_fill(scores.isnan().any(-1).any(0), scores.shape[-1]).to(self.device)

    def scores(self, classifiers: Sequence[Classifier], noisy: Tensor) -> list[Tensor]:
        """Classifiers' scores (B, K) at float32 inputs, in double precision; none if they cannot be had."""
        layout = self.memory_format(noisy.shape[1:], classifiers)
        try:
            with self._evaluation():
                batch = noisy.to(self.dtype).contiguous(memory_format=layout)
                tables = [table for classifier in classifiers for table in member_scores(classifier, batch)]
                are_sound = all(is_scores(table, len(noisy)) for table in tables)
                return [table.double() for table in tables] if are_sound else []
        except (RuntimeError, ValueError, IndexError, TypeError, AttributeError, MemoryError):
            return []

    @contextmanager
    def _evaluation(self) -> Iterator[None]:
        with evaluating(self._parts), torch.inference_mode(), _arithmetic(self.precision):
            yield


def own_precision(classifiers: Sequence[Classifier]) -> str:
    """The precision that modules have their weights in; float32 for all other callables."""
    modules = [classifier for classifier in classifiers if isinstance(classifier, nn.Module)]
    dtypes = {weight.dtype for module in modules for weight in module.parameters()}
    if torch.float64 in dtypes:
        warnings.warn("the model's weights are float64; it is certified in float32", stacklevel=4)
    return next((name for name in ("float16", "bfloat16") if DTYPES[name] in dtypes), "float32")


def _in_precision(classifier: Classifier, precision: str) -> Classifier:
    """The classifier itself, or a copy of a module in a smaller type."""
    check_model(classifier)
    check_name("precision", precision, DTYPES)
    if not isinstance(classifier, nn.Module):
        if precision == "float32":
            return classifier
        raise UserError(f"only a torch module can be run in {precision}; given: {type(classifier).__name__}")
    dtypes = {parameter.dtype for parameter in classifier.parameters()}
    for name in ("float16", "bfloat16"):
        if DTYPES[name] in dtypes and name != precision:
            raise UserError(f"the model's weights are {name}; pass precision={name!r}")
    is_as_asked = dtypes <= {DTYPES[precision]}
    return classifier if is_as_asked else copy.deepcopy(classifier).to(DTYPES[precision])


def _checked_scores(scores: Any, batch: int) -> Tensor:
    if is_scores(scores, batch):
        return scores  # type: ignore[no-any-return]
    shape = tuple(scores.shape) if isinstance(scores, Tensor) else ()
    is_several = len(shape) == 2 and shape[0] > batch
    hint = "; an ensemble in one module goes to sw.certify_members" if is_several else ""
    rule = f"the model must return one score per class, a tensor of shape ({batch}, K) with K >= 2"
    raise UserError(f"{rule}; returned: {shape or type(scores).__name__}{hint}")


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
    """A batch size near the fastest. On a CPU a power of two, or `draws`: 256 for 28x28, 64 for 3x32x32."""
    pixels = math.prod(shape)
    if device.type == "cpu":
        fitting = 1 << (2**18 // pixels).bit_length() >> 1
        return min(draws, max(64, min(2_048, fitting)))
    return max(16, min(10_000, 2**25 // pixels))


def largest_fitting_batch(labeler: Labeler, size: int, shape: Sequence[int]) -> int:
    """The largest batch size up to `size` that fits the GPU's free memory, measured on a small batch."""
    row = torch.zeros((1, *shape), dtype=labeler.dtype, device=labeler.device)
    labeler(row)  # memory that libraries reserve once is not counted
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    labeler(torch.cat([row] * PROBE_ROWS))
    per_row = (torch.cuda.max_memory_allocated() - before) / PROBE_ROWS
    reserved = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    free = torch.cuda.mem_get_info()[0] + reserved
    return max(1, min(size, int(MEMORY_SHARE * free / max(1.0, per_row))))
