"""What is certified is a function: modules inside callables are found, and the rest is refused."""

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import shieldwall as sw
from shieldwall.models.members import MOST_VISITED, evaluating, infer_device, modules_of

IMAGES = torch.rand(3, 2, 6, 6, generator=torch.Generator().manual_seed(2))
SETTINGS: dict[str, Any] = {"noise": sw.Gaussian(0.3), "n0": 20, "n": 400}
RANDOM = (
    r"^{} is random: the same batch of noisy images gets other scores each time \(they change by "
    r"[0-9.e-]+ of the largest score\); certificates need a function of the image: call \.eval\(\) on the "
    r"model if dropout is on, and remove random crops and flips$"
)
BY_BATCH = (
    r"^{} depends on the other images of the batch: beside others, the same noisy images get other scores "
    r"\(they change by [0-9.e-]+ of the largest score\); certificates need a function of the image: call "
    r"\.eval\(\) on the model if batch norm is in training mode$"
)


def network(seed: int = 0, dropout: float = 0.5) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = nn.Sequential(
            nn.Conv2d(2, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(dropout),
            nn.Linear(8 * 16, 3),
        )  # fmt: skip
        model[1].running_mean.normal_()
        model[1].running_var.uniform_(0.5, 2.0)
    return model.train()


class Holder:
    """No module, but it has one."""

    def __init__(self, model: nn.Module) -> None:
        self.parts = {"model": model}

    def __call__(self, x: Tensor) -> Tensor:
        return self.parts["model"](x)

    def scores(self, x: Tensor) -> Tensor:
        return self(x)


class Slots:
    __slots__ = ("model",)

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __call__(self, x: Tensor) -> Tensor:
        return self.model(x)


class Unregistered(nn.Module):
    """A module that keeps another in a list, where torch does not see it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.models = [model]

    def forward(self, x: Tensor) -> Tensor:
        return self.models[0](x)


GLOBAL: list[nn.Module] = []


def by_global(x: Tensor) -> Tensor:
    return next(model(x) for model in GLOBAL)


def of(model: nn.Module, x: Tensor) -> Tensor:
    return model(x)


def nested(model: nn.Module) -> Callable[[Tensor], Tensor]:
    def inner(x: Tensor) -> Tensor:
        return model(x)

    @functools.wraps(inner)
    def outer(x: Tensor) -> Tensor:
        return inner(x)

    return outer


def globally(model: nn.Module) -> Callable[[Tensor], Tensor]:
    GLOBAL[:] = [model]
    return by_global


WAYS: dict[str, Callable[[nn.Module], Callable[[Tensor], Tensor]]] = {
    "closure": lambda model: lambda x: model(x),
    "closure in a closure": nested,
    "list in a closure": lambda model: (lambda members: lambda x: members[0](x))([model]),
    "global": globally,
    "global in a lambda": lambda model: (globally(model), lambda x: by_global(x))[1],
    "default": lambda model: lambda x, inside=model: inside(x),
    "keyword default": lambda model: lambda x, *, inside=model: inside(x),
    "partial": lambda model: functools.partial(of, model),
    "partial by keyword": lambda model: functools.partial(lambda x, model: model(x), model=model),
    "bound method": lambda model: Holder(model).scores,
    "bound method of a module": lambda model: model.forward,
    "callable object": Holder,
    "callable object with slots": Slots,
    "module that hides another": Unregistered,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_callable_is_certified_as_the_module_inside_it(way: str) -> None:
    model = network()
    expected = sw.certify(network().eval(), IMAGES, **SETTINGS)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    made = sw.certify(WAYS[way](model), IMAGES, **SETTINGS)
    assert np.array_equal(made.counts, expected.counts)
    assert np.array_equal(made.radii, expected.radii)
    assert all(value.equal(state[name]) for name, value in model.state_dict().items())
    assert all(part.training for part in model.modules())


@pytest.mark.parametrize("way", WAYS)
def test_members_and_predictions_too(way: str) -> None:
    members = [network(seed=1), network(seed=2)]
    expected = sw.certify_members([network(seed=1).eval(), network(seed=2).eval()], IMAGES, **SETTINGS)
    made = sw.certify_members([WAYS[way](members[0]), lambda x: members[1](x)], IMAGES, **SETTINGS)
    assert all(np.array_equal(made[vote].counts, expected[vote].counts) for vote in expected)
    answers = sw.predict(WAYS[way](members[0]), IMAGES, noise=sw.Gaussian(0.3), n=100, seed=0)
    alike = sw.predict(network(seed=1), IMAGES, noise=sw.Gaussian(0.3), n=100, seed=0)
    assert np.array_equal(answers.counts, alike.counts)


@pytest.mark.parametrize("way", WAYS)
def test_the_device_is_that_of_the_module_inside(way: str) -> None:
    assert infer_device([WAYS[way](network().to("meta"))], IMAGES) == torch.device("meta")


def test_modes_come_back_after_an_error() -> None:
    model = network()
    model[1].eval()

    def broken(x: Tensor) -> Tensor:
        assert not model.training
        model(x)
        raise RuntimeError("too late")

    with pytest.raises(sw.UserError, match="too late"):
        sw.certify(broken, IMAGES, **SETTINGS)
    assert [part.training for part in model.modules()] == [True, True, False, True, True, True, True]


def test_modules_are_found_once_and_the_search_ends() -> None:
    model = network()
    circle: list[object] = [model, {"again": model}]
    circle.append(circle)
    assert modules_of([circle, model, torch.relu, 3, "text"]) == list(model.modules())
    crowd = [object() for _ in range(2 * MOST_VISITED)]
    far, near = network(), network()
    assert modules_of([near, lambda x: crowd, far]) == [*near.modules(), *far.modules()]
    with evaluating(modules_of([circle])):
        assert not model[1].training


class Hidden:
    """What no search finds: a module in an attribute of a class."""

    model: ClassVar[nn.Module]

    def __init__(self, model: nn.Module) -> None:
        type(self).model = model

    def __call__(self, x: Tensor) -> Tensor:
        return self.model(x)


def test_a_module_that_is_not_found_is_refused_in_training_mode() -> None:
    with pytest.raises(sw.UserError, match=RANDOM.format("the classifier")):
        sw.certify(Hidden(network()), IMAGES, **SETTINGS)
    with pytest.raises(sw.UserError, match=BY_BATCH.format("the classifier")):
        sw.certify(Hidden(network(dropout=0.0)), IMAGES, **SETTINGS)
    with pytest.raises(sw.UserError, match=BY_BATCH.format("the classifier")):
        sw.predict(Hidden(network(dropout=0.0)), IMAGES, noise=sw.Gaussian(0.3), n=100, seed=0)
    with pytest.raises(sw.UserError, match=RANDOM.format("member 2")):
        sw.certify_members([network(), Hidden(network())], IMAGES, **SETTINGS)
    expected = sw.certify(network(), IMAGES, **SETTINGS)
    assert np.array_equal(sw.certify(Hidden(network().eval()), IMAGES, **SETTINGS).counts, expected.counts)


@pytest.mark.parametrize(
    "wobble",
    [
        lambda x: x + 0.01 * torch.rand_like(x),
        lambda x: x * (torch.rand(()) < 0.99).float() * torch.rand(()),
        lambda x: x + 0.1 * np.random.default_rng().normal(),
    ],
)
def test_a_random_function_is_refused(wobble: Callable[[Tensor], Tensor]) -> None:
    model = network().eval()
    with pytest.raises(sw.UserError, match=RANDOM.format("the classifier")):
        sw.certify(lambda x: wobble(model(x)), IMAGES, **SETTINGS)


@pytest.mark.parametrize(
    "mixing",
    [
        lambda x: x - x.mean(0),
        lambda x: x / x.abs().max(),
        lambda x: x / len(x),
        lambda x: x + torch.arange(len(x))[:, None],
        lambda x: x.cumsum(0),
        lambda x: x.sort(0).values,
    ],
)
def test_a_function_of_the_batch_is_refused(mixing: Callable[[Tensor], Tensor]) -> None:
    model = network().eval()
    with pytest.raises(sw.UserError, match=BY_BATCH.format("the classifier")):
        sw.certify(lambda x: mixing(model(x)), IMAGES, **SETTINGS)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("seed", range(2))
def test_models_in_every_precision_pass(precision: str, seed: int) -> None:
    for name, shape in (("lenet", (1, 28, 28)), ("resnet20", (3, 32, 32))):
        members = sw.build_members(name, 2, 10, shape, seed=seed)
        x = torch.rand(1, *shape, generator=torch.Generator().manual_seed(seed))
        sw.certify_members(members, x, noise=sw.Gaussian(0.5), n0=1, n=10, precision=precision, seed=seed)
        for ensemble in (sw.WeightedEnsemble(members), sw.MaxMarginEnsemble(members)):
            sw.predict(ensemble, x, noise=sw.Gaussian(0.5), n=4, precision=precision, seed=seed)


def rounded(x: Tensor) -> Tensor:
    return ROUNDED[0](x.bfloat16()).float()


ROUNDED = [network().bfloat16()]


@pytest.mark.parametrize(
    "function",
    [
        rounded,
        lambda x: torch.zeros(len(x), 2),
        lambda x: torch.tensor([[0.0, float("-inf")]]).expand(len(x), 2) + x.mean((1, 2, 3))[:, None],
        lambda x: (x.mean((1, 2, 3)) > 0.5).long()[:, None] * torch.tensor([[2, -2]]),
    ],
)
def test_odd_functions_pass(function: Callable[[Tensor], Tensor]) -> None:
    assert len(sw.certify(function, IMAGES, **SETTINGS)) == 3


@pytest.mark.parametrize("rows", [1, 3, 16])
def test_a_function_of_one_batch_size(rows: int) -> None:
    """As an exported graph is. It is tried with that size, and what depends on the batch is still refused."""
    model = network().eval()

    def exported(x: Tensor) -> Tensor:
        if len(x) != rows:
            raise RuntimeError(f"expected {rows} rows")
        return model(x)

    made = sw.certify(exported, IMAGES, batch_size=rows, **SETTINGS)
    assert np.array_equal(made.counts, sw.certify(model, IMAGES, **SETTINGS).counts)
    if rows > 4:
        with pytest.raises(sw.UserError, match=BY_BATCH.format("the classifier")):
            sw.certify(lambda x: exported(x) - exported(x).mean(0), IMAGES, batch_size=rows, **SETTINGS)


def test_the_caller_s_random_state_is_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with pytest.raises(sw.UserError, match="is random"):
        sw.certify(lambda x: torch.rand(len(x), 3), IMAGES, **SETTINGS)
    assert torch.rand(3).equal(expected)


def test_a_run_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    monkeypatch.setattr("shieldwall.smoothing.sampler.check_is_function", lambda *_: tried.append(1))
    sw.certify(network(), IMAGES, batch_size=7, **SETTINGS)
    assert tried == [1]
