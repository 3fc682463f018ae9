"""From members and a plan to an engine, on a device and in a precision."""

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from shieldwall.devices import is_out_of_memory
from shieldwall.ensembles.votes import Vote
from shieldwall.errors import UserError, check_int
from shieldwall.models.members import check_model, inference, model_errors, to_device
from shieldwall.noise.distributions import Noise
from shieldwall.smoothing.batch_size import default_batch_size, that_fits
from shieldwall.smoothing.classify import Classify, by_argmax, by_votes
from shieldwall.smoothing.engine import Engine
from shieldwall.smoothing.precision import DTYPES, arithmetic, check_precision, in_precision
from shieldwall.smoothing.stopping import Stopping

Classifier = Callable[[Tensor], Tensor]


def engine_for(
    classifiers: Sequence[Classifier],
    votes: Sequence[Vote] | None,
    noise: Noise,
    n0: int,
    stopping: Stopping,
    *,
    shape: Sequence[int],
    device: torch.device,
    seed: int,
    batch_size: int | None = None,
    precision: str = "float32",
    compile: bool = False,
) -> Engine:
    """An engine for inputs of this shape: over members and votes, or without votes over one classifier."""
    if batch_size is not None:
        check_int("batch_size", batch_size)
        if batch_size < 1:
            raise UserError(f"batch_size must be at least 1; given: {batch_size}")
    owners = [_prepared(one, precision) for one in classifiers]
    if compile and device.type == "cpu":
        owners = [_channels_last(one) for one in owners]
    classify = _classify(owners, votes)
    if batch_size is None:
        batch_size = default_batch_size(device, shape, n0 + stopping.looks()[-1])
        if device.type == "cuda":
            probe = _probe(classify, owners, shape, device, precision)
            with model_errors(shape):
                batch_size = that_fits(batch_size, probe)
    if compile:
        classify = _classify([torch.compile(one, dynamic=False) for one in owners], votes)
    engine = Engine(classify, owners, noise, n0, stopping, seed, device, tuple(shape), batch_size, precision)
    if compile:
        _compile_now(engine)
    return engine


def _compile_now(engine: Engine) -> None:
    """Compile before there is anything to lose, or say why that cannot be done."""
    try:
        engine.try_out()
    except RuntimeError as error:
        if not is_out_of_memory(error):  # the engine knows what to do then
            reason = str(error).partition("\n")[0]
            raise UserError(f"torch.compile does not work here: {reason}; leave out compile") from error


def _prepared(classifier: Classifier, precision: str) -> Classifier:
    check_model(classifier)
    check_precision(precision)
    if isinstance(classifier, nn.Module):
        own = {str(one.dtype).removeprefix("torch.") for one in classifier.parameters()}
        if rounded := own & {"float16", "bfloat16"} - {precision}:
            name = rounded.pop()
            raise UserError(f"the classifier's weights are {name}: say so, with precision={name!r}")
        return in_precision(classifier, precision)
    if precision != "float32":
        raise UserError(f"only a torch module can be run in {precision}; given: {type(classifier).__name__}")
    return classifier


def _channels_last(classifier: Classifier) -> Classifier:
    """A copy of a module as compiled code is fastest on a CPU; another callable as it is.

    A LeNet in bfloat16 then classifies 2.7 times as many images in a second as laid out by torch's default.
    Inductor's `freezing` adds nothing to this layout (within 3 % on LeNet and ResNet-20).
    """
    if not isinstance(classifier, nn.Module):
        return classifier
    return to_device(copy.deepcopy(classifier), torch.device("cpu"))


def _classify(owners: Sequence[Classifier], votes: Sequence[Vote] | None) -> Classify:
    return by_argmax(owners[0]) if votes is None else by_votes(owners, votes)


def _probe(
    classify: Classify, owners: Sequence[object], shape: Sequence[int], device: torch.device, precision: str
) -> Callable[[int], object]:
    def probe(rows: int) -> object:
        with inference(owners), arithmetic(precision):
            return classify(torch.zeros((rows, *shape), dtype=DTYPES[precision], device=device))

    return probe
