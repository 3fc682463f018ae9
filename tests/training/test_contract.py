"""What every training method owes to the loop, whatever its formula."""

import traceback
from typing import Any

import pytest
import torch
from loss_tools import loss_at
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import shieldwall as sw
from shieldwall.training.objective import Loss, Objective
from shieldwall.training.registry import OBJECTIVES, build_objective

TABLE: list[dict[str, Any]] = [
    {"name": "gaussian"},
    {"name": "smoothadv", "steps": 3},
    {"name": "macer", "num_noise": 4},
    {"name": "stability"},
    {"name": "stability", "divergence": "renyi"},
    {"name": "stability", "divergence": "renyi", "order": 0.5},
    {"name": "stability", "divergence": "cross_entropy"},
    {"name": "consistency"},
    {"name": "adp"},
    {"name": "gal"},
    {"name": "denoiser"},
    {"name": "drt", "rho_gd": 2.0, "rho_cm": 1.0, "base": {"name": "denoiser"}},
    {"name": "drt", "rho_gd": 2.0, "rho_cm": 1.0},
    {"name": "drt", "rho_gd": 2.0, "rho_cm": 1.0, "norm": "plain", "design": "overall"},
    {"name": "drt", "rho_gd": 2.0, "rho_cm": 1.0, "base": {"name": "smoothadv", "steps": 2}},
    {
        "name": "drt",
        "rho_gd": 2.0,
        "rho_cm": 1.0,
        "base": {"name": "smoothadv", "steps": 2},
        "points": "noisy",
    },
    {"name": "drt", "rho_gd": 2.0, "rho_cm": 1.0, "norm": "plain", "average": "batch", "cm_over": "pairs"},
    {"name": "drt", "rho_gd": 2.0, "rho_cm": 1.0, "base": {"name": "consistency"}},
]
NOISE = sw.Gaussian(0.5)
METHODS = [name for name in OBJECTIVES if name != "drt"]
each = pytest.mark.parametrize("row", TABLE, ids=lambda row: "-".join(map(str, row.values())))


def make_members(count: int, classes: int, row: dict[str, Any] | None = None) -> list[nn.Module]:
    """Classifiers, or for the method `denoiser` denoisers before them."""
    torch.manual_seed(count)
    # No bias before the batch norm, which would take it out again and leave it without a gradient.
    members: list[nn.Module] = [
        nn.Sequential(
            nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, classes)
        )
        for _ in range(count)
    ]
    if "denoiser" not in str(row):
        return members
    return [sw.Denoised(nn.Conv2d(1, 1, 3, padding=1), member) for member in members]


def batch(classes: int) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(7)
    return torch.rand(6, 1, 4, 4, generator=source), torch.arange(6) % classes


def call(objective: Objective, members: list[nn.Module], classes: int, seed: int = 0) -> Loss:
    return loss_at(objective, members, *batch(classes), torch.Generator().manual_seed(seed))


def check(loss: Loss, members: list[nn.Module], *, reaches_all: bool = True) -> None:
    assert loss.total.shape == ()
    assert loss.total.dtype == torch.float32
    assert bool(loss.total.isfinite())
    assert loss.accuracies.shape == (len(members),)
    assert bool(((loss.accuracies >= 0) & (loss.accuracies <= 1)).all())
    assert loss.terms
    for name, term in loss.terms.items():
        assert term.shape == (), name
        assert not term.requires_grad, name
        assert bool(term.isfinite()), name
    loss.total.backward()
    for member in members:
        for name, parameter in member.named_parameters():
            if not parameter.requires_grad:
                continue
            assert parameter.grad is not None, name
            assert bool(parameter.grad.isfinite().all()), name
            assert not reaches_all or bool(parameter.grad.any()), name


def test_the_table_is_complete() -> None:
    names = {row["name"] for row in TABLE}
    assert names == set(OBJECTIVES)


@each
@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_loss_is_finite_seeded_and_trains_every_parameter(
    row: dict[str, Any], count: int, classes: int
) -> None:
    objective = build_objective(row, NOISE)
    members = make_members(count, classes, row)
    if row["name"] == "drt" and count == 1:
        with pytest.raises(sw.UserError, match="at least 2 members; given: 1"):
            call(objective, members, classes)
        return
    loss = call(objective, members, classes)
    check(loss, members)
    held_fixed = [
        part for member in members if isinstance(member, sw.Denoised) for part in member.classifier.modules()
    ]
    assert all(part.training != (part in held_fixed) for member in members for part in member.modules())
    assert call(objective, make_members(count, classes, row), classes).total.equal(loss.total)
    assert not call(objective, make_members(count, classes, row), classes, seed=1).total.equal(loss.total)
    for epoch in (0, 1, 1_000):
        assert bool(
            call(objective.at_epoch(epoch), make_members(count, classes, row), classes).total.isfinite()
        )


@each
@pytest.mark.parametrize("scale", [0.0, 1e3, 1e6])
@pytest.mark.parametrize("classes", [2, 10])
def test_saturated_and_dead_members_stay_finite(row: dict[str, Any], scale: float, classes: int) -> None:
    """Softmax of exactly 0 and 1, gradients of exactly 0, members in perfect agreement."""
    members = make_members(2, classes, row)
    members.append(members[1])
    with torch.no_grad():
        for member in members[:2]:
            last = getattr(member, "classifier", member)[4]
            last.weight.mul_(scale)
            last.bias.mul_(scale)
    check(call(build_objective(row, NOISE), members, classes), members, reaches_all=False)


@each
def test_loss_survives_bfloat16(row: dict[str, Any]) -> None:
    objective = build_objective(row, NOISE)
    exact = call(objective, make_members(3, 10, row), 10).total
    members = make_members(3, 10, row)
    with torch.autocast("cpu", torch.bfloat16):
        loss = call(objective, members, 10)
    check(loss, members)
    assert float(loss.total.detach()) == pytest.approx(float(exact.detach()), rel=0.05)


@each
def test_loss_never_waits_for_the_device(row: dict[str, Any]) -> None:
    """Fake tensors have no values: reading one, or a shape that depends on one, raises."""
    objective = build_objective(row, NOISE)
    with FakeTensorMode():
        members = make_members(3, 10, row)
        x, y = torch.rand(6, 1, 4, 4), torch.zeros(6, dtype=torch.int64)
        loss = loss_at(objective, members, x, y, torch.Generator())
        loss.total.backward()


@each
def test_loss_makes_no_tensor_of_python_numbers(row: dict[str, Any]) -> None:
    """On a GPU that is a copy from the host, which a step recorded as a CUDA graph cannot make."""
    made: list[str] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.ops.aten.lift_fresh.default:
                made.append("".join(traceback.format_stack(limit=6)))
            return func(*args, **(kwargs or {}))

    objective, members = build_objective(row, NOISE), make_members(3, 10, row)
    x, y = batch(10)
    drawn = objective.draw(x, y, torch.Generator().manual_seed(0))
    with Watch():
        objective(members, drawn).total.backward()
    assert made == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"name": "smoothadv", "epsilon": 0}, "epsilon must be a positive number; given: 0"),
        ({"name": "smoothadv", "epsilon": float("nan")}, "epsilon"),
        ({"name": "smoothadv", "steps": 0}, "steps .* at least 1; given: 0"),
        ({"name": "smoothadv", "warmup": -1}, "warmup .* not negative; given: -1"),
        ({"name": "macer", "lam": -1}, "lam .* not negative; given: -1"),
        ({"name": "macer", "gamma": 0}, "gamma must be a positive number; given: 0"),
        ({"name": "macer", "beta": float("inf")}, "beta must be a positive number; given: inf"),
        ({"name": "macer", "defer": -2}, "defer .* not negative; given: -2"),
        ({"name": "stability", "lam": -1}, "lam"),
        ({"name": "stability", "divergence": "reni"}, "did you mean 'renyi'"),
        ({"name": "stability", "order": 1}, "other than 1, where it is divergence: kl; given: 1"),
        ({"name": "consistency", "num_noise": 1}, "at least 2, for copies to agree; given: 1"),
        ({"name": "consistency", "eta": -1}, "eta"),
        ({"name": "adp", "beta": float("nan")}, "beta"),
        ({"name": "gal", "weight": -1}, "weight"),
        ({"name": "denoiser", "mse": -1}, "must not be negative, and not both be 0; given: -1.0 and 1.0"),
        ({"name": "denoiser", "stability": float("nan")}, "must not be negative"),
        ({"name": "denoiser", "mse": 0, "stability": 0}, "not both be 0; given: 0.0 and 0.0"),
        *(({"name": name, "num_noise": 0}, "num_noise .*; given: 0") for name in METHODS),
        *(({"name": name, "num_noise": "two"}, "num_noise must be a whole number") for name in METHODS),
        *(({"name": name, "num_noise": 1.5}, "num_noise must be a whole number") for name in METHODS),
        ({"name": "drt", "rho_gd": 1}, "misses .*rho_cm"),
        ({"name": "drt", "rho_gd": -1, "rho_cm": 1}, "rho_gd must be .*; given: -1"),
        ({"name": "drt", "rho_gd": 1, "rho_cm": 1, "base": {"name": "gal"}}, "DRT cannot wrap GAL"),
        ({"name": "drt", "rho_gd": 1, "rho_cm": 1, "base": "gaussian"}, r"objective\.base must hold"),
        (
            {"name": "drt", "rho_gd": 1, "rho_cm": 1, "base": {"name": "gaussian", "num_nose": 1}},
            r"base\.num_noise",
        ),
        (
            {"name": "drt", "rho_gd": 1, "rho_cm": 1, "norm": "l1"},
            "norm must be one of squared, plain; given: 'l1'",
        ),
        (
            {"name": "drt", "rho_gd": 1, "rho_cm": 1, "base": {"name": "smoothadv"}, "points": "clean"},
            "points must be one of own, noisy; given: 'clean'",
        ),
    ],
    ids=str,
)
def test_impossible_options_are_refused(row: dict[str, Any], message: str) -> None:
    with pytest.raises(sw.UserError, match=message):
        build_objective(row, NOISE)
