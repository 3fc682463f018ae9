"""The prepared form is the same function up to rounding, and is not used where it is not."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import shieldwall as sw
from shieldwall.models.members import is_channels_last
from shieldwall.smoothing.inference import DTYPES
from shieldwall.smoothing.prepared import merge_norms, prepared
from shieldwall.smoothing.probe import tolerance
from shieldwall.smoothing.sampler import Sampler
from shieldwall.smoothing.stopping import FixedSampleSize

CPU = torch.device("cpu")
IMAGES = torch.rand(3, 3, 8, 8, generator=torch.Generator().manual_seed(3))
SETTINGS: dict[str, Any] = {"noise": sw.Gaussian(0.3), "n0": 20, "n": 400}


class Convolution(nn.Module):
    """A convolution, a batch norm with statistics and weights, and a condition that tracing stumbles over."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.body = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU())
            self.head = nn.Linear(8 * 36, 4)
            norm = self.body[1]
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.2, 3.0)
            nn.init.uniform_(norm.weight, 0.5, 2.0)
            nn.init.normal_(norm.bias)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[1] != 3:
            raise ValueError("three channels")
        return self.head(self.body(x).flatten(1))


class Viewing(Convolution):
    """Refuses the layout that is faster on a CPU, as `view` does."""

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).view(len(x), -1))


class Deceptive(Convolution):
    """Does something else when its code is followed."""

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).flatten(1)) * (1.0 if isinstance(x, Tensor) else 2.0)


def num_norms(module: nn.Module) -> int:
    return sum(isinstance(part, nn.BatchNorm2d) for part in module.modules())


def sampler(model: nn.Module, **options: Any) -> Sampler:
    return Sampler(
        [model], None, sw.Gaussian(0.3), 10, FixedSampleSize(50), seed=0, shape=(3, 8, 8), device=CPU,
        example=IMAGES[0], **options,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["resnet20", "resnet110"])
def test_norms_are_merged_and_scores_stay(name: str) -> None:
    (member,) = sw.build_members(name, 1, 10, (3, 32, 32), seed=2)
    x = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    member.train()(x)  # statistics and weights of their own
    member.eval()
    before = {key: value.clone() for key, value in member.state_dict().items()}
    made = prepared(member, torch.float32, CPU)
    assert made is not None
    assert num_norms(member) > 0 == num_norms(made)
    with torch.inference_mode():
        torch.testing.assert_close(made(x), member(x), rtol=1e-4, atol=1e-4)
    assert all(value.equal(before[key]) for key, value in member.state_dict().items())


def test_by_hand() -> None:
    """y = (2 x + 1 - 3) * 4 / sqrt(15.75 + .25) + 5 = 2 x + 3."""
    model = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1, eps=0.25)).eval()
    with torch.no_grad():
        for tensor, value in (
            (model[0].weight, 2.0), (model[0].bias, 1.0), (model[1].running_mean, 3.0),
            (model[1].running_var, 15.75), (model[1].weight, 4.0), (model[1].bias, 5.0),
        ):  # fmt: skip
            tensor.fill_(value)
    made = prepared(model, torch.float32, CPU)
    assert made is not None
    (convolution,) = (part for part in made.modules() if isinstance(part, nn.Conv2d))
    assert (convolution.weight.item(), convolution.bias.item()) == (2.0, 3.0)


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 4, 8), nn.Flatten()),
        nn.Sequential(nn.Conv2d(3, 4, 8), nn.ReLU(), nn.BatchNorm2d(4), nn.Flatten()),
        nn.Sequential(nn.Conv2d(3, 4, 8), nn.BatchNorm2d(4, track_running_stats=False), nn.Flatten()),
    ],
)
def test_other_norms_stay(model: nn.Sequential) -> None:
    assert num_norms(merge_norms(model.eval())) == 1


def test_a_convolution_used_twice_stays() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution, self.norm = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(self.convolution(x)) + self.convolution(self.convolution(x))

    model = Twice().eval()
    expected = model(IMAGES)
    assert merge_norms(model)(IMAGES).equal(expected)


def test_hooks_are_kept() -> None:
    model = Convolution().eval()
    model.body.register_forward_hook(lambda _, __, out: out + 1)
    made = prepared(model, torch.float32, CPU)
    assert made is not None
    torch.testing.assert_close(made(IMAGES), model(IMAGES))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_sampler_uses_it_where_it_is_told_to(precision: str) -> None:
    model = Convolution()
    made, plain = (sampler(model, prepare=prepare, precision=precision) for prepare in (True, False))
    (module,) = made.labeler.modules
    assert isinstance(module, nn.Module)
    assert made.is_prepared
    assert num_norms(module) == 0
    assert is_channels_last([module])
    assert next(module.parameters()).dtype == DTYPES[precision]
    assert (plain.is_prepared, list(plain.labeler.modules)) == (False, list(plain.labeler.plain))
    assert not is_channels_last([model])
    counts = [
        np.concatenate([counts.estimation for counts in one.counts(enumerate(IMAGES))])
        for one in (made, plain)
    ]
    assert np.abs(counts[0] - counts[1]).sum() <= 4


def test_ensembles_and_their_members_are_prepared_alike() -> None:
    members = [Convolution(1), Convolution(2)]
    together = sw.certify_members(members, IMAGES, **SETTINGS)
    alone = sw.certify(sw.WeightedEnsemble(members), IMAGES, **SETTINGS)
    assert np.array_equal(together["we"].counts, alone.counts)
    assert num_norms(members[0]) == 1


def test_a_module_that_fails_in_this_form_is_taken_as_it_is() -> None:
    made = sampler(Viewing(), prepare=True)
    assert not made.is_prepared
    assert num_norms(made.labeler.modules[0]) == 1  # type: ignore[arg-type]
    plain = sw.certify(Viewing(), IMAGES, compile=False, **SETTINGS)
    assert np.array_equal(sw.certify(Viewing(), IMAGES, **SETTINGS).counts, plain.counts)


def test_a_trace_that_is_another_function_is_not_used() -> None:
    model = Deceptive()
    assert prepared(model, torch.float32, CPU) is not None
    made = sampler(model, prepare=True)
    assert not made.is_prepared


def test_a_compiled_classifier_that_does_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda module, **_: lambda x: module(x) * 1.5)
    with pytest.raises(
        sw.UserError, match=r"torch\.compile changes the classifier: scores differ by [0-9.]+ "
    ):
        sampler(Convolution(), compile=True)


def test_rounding_is_tolerated() -> None:
    assert tolerance(torch.float32) < tolerance(torch.bfloat16) < 0.05
