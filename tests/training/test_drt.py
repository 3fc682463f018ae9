"""DRT against the textbook: norms written out pair by pair, differentiated by autograd twice."""

from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import combinations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import shieldwall as sw
from shieldwall.distributed import ProcessGroup
from shieldwall.models.attack import smoothed_pgd
from shieldwall.training.drt import DRT, gradient_diversity, mean_cosine, true_margin, valid_groups
from shieldwall.training.parallel import on_share
from shieldwall.training.smoothadv import SmoothAdv

NOISE = sw.Gaussian(0.3)


def member(norm: bool, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    middle: list[nn.Module] = [nn.BatchNorm2d(6)] if norm else []
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1), *middle, nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(32, 4),
    )  # fmt: skip


@cache
def trained(norm: bool) -> tuple[list[nn.Module], Tensor, Tensor]:
    """Three members that have half learned which quadrant is brightest."""
    members = [member(norm, seed).double() for seed in range(3)]
    x = torch.rand(24, 1, 8, 8, generator=torch.Generator().manual_seed(7)).double()
    y = F.avg_pool2d(x, 4).flatten(1).argmax(-1)
    optimizer = torch.optim.Adam([p for one in members for p in one.parameters()], lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        sum(F.cross_entropy(one(x), y) for one in members).backward()  # type: ignore[union-attr]
        optimizer.step()
    return members, x, y


def setting(norm: bool, dtype: torch.dtype, count: int = 3) -> tuple[list[nn.Module], Tensor, Tensor]:
    """Trained members, and labels a few of which are wrong: some pairs are valid and some are not."""
    members, x, y = deepcopy(trained(norm))
    y[:4] = (y[:4] + 1) % 4
    return [one.to(dtype) for one in members[:count]], x.to(dtype), y


class DoubleNoise(sw.Gaussian):
    """The same draws in float64, so that rounding does not hide a wrong formula."""

    def sample(self, shape, generator: torch.Generator) -> Tensor:  # type: ignore[no-untyped-def]
        return super().sample(shape, generator).double()


def textbook(members, x: Tensor, y: Tensor, objective: DRT, generator: torch.Generator) -> Tensor:  # type: ignore[no-untyped-def]
    """The formulas as printed, over unordered pairs, with create_graph and nothing clever."""
    base, adversarial = objective.base, objective.points == "adversarial"
    noisy, labels = x.repeat(base.num_noise, 1, 1, 1), y.repeat(base.num_noise)
    noise = base.noise.sample(noisy.shape, generator)
    noisy = noisy + noise
    total, margins, gradients, correct = torch.zeros((), dtype=x.dtype), [], [], []
    for one in members:
        points = attacked(one, x, y, noise, base) if adversarial else noisy.clone()
        logits = one(points.requires_grad_())
        elsewhere = isinstance(base, SmoothAdv) and not adversarial
        base_logits = one(attacked(one, x, y, noise, base)) if elsewhere else logits
        total = total + F.cross_entropy(base_logits, labels)
        p = logits.softmax(-1)
        others = p.masked_fill(F.one_hot(labels, p.shape[1]).bool(), -1.0)
        margin = p[torch.arange(len(p)), labels] - others.max(-1).values
        margins.append(margin)
        correct.append(logits.argmax(-1) == labels)
        gradients.append(torch.autograd.grad(margin.sum(), points, create_graph=True)[0])
    everyone = tuple(range(len(members)))
    for group in combinations(everyone, 2) if objective.design == "pairwise" else [everyone]:
        valid = torch.stack([correct[i] for i in group]).all(0)
        norm = sum(gradients[i] for i in group)[valid].flatten(1).norm(dim=1)
        total = total + objective.rho_gd * (norm**2 if objective.squared else norm).sum() / len(noisy)
        total = total - objective.rho_cm * sum(margins[i] for i in group)[valid].sum() / len(noisy)
    return total


def attacked(one: nn.Module, x: Tensor, y: Tensor, noise: Tensor, base: SmoothAdv) -> Tensor:
    """The member's adversarial images, each under its noise."""
    images = smoothed_pgd(one, x, y, noise.view(base.num_noise, *x.shape), base.epsilon, base.steps)
    return images.repeat(base.num_noise, 1, 1, 1) + noise


def gradient_of(total: Tensor, members) -> Tensor:  # type: ignore[no-untyped-def]
    parameters = [p for one in members for p in one.parameters()]
    return torch.cat([g.flatten() for g in torch.autograd.grad(total, parameters)])


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "batch norm"])
@pytest.mark.parametrize("squared", [False, True], ids=["norm", "squared"])
@pytest.mark.parametrize("design", ["pairwise", "overall"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-8), (torch.float32, 1e-4)])
@pytest.mark.parametrize("all_valid", [False, True])
def test_loss_and_gradients_are_the_textbook_s(
    norm: bool, squared: bool, design: str, dtype: torch.dtype, tolerance: float, all_valid: bool
) -> None:
    members, x, y = setting(norm, dtype)
    noise = DoubleNoise(0.05) if dtype == torch.float64 else sw.Gaussian(0.05)
    if all_valid:
        y = trained(norm)[2]
    objective = DRT(sw.GaussianAugmentation(noise), rho_gd=3.0, rho_cm=0.7, squared=squared, design=design)
    loss = objective(members, x, y, torch.Generator().manual_seed(1))
    expected = textbook(members, x, y, objective, torch.Generator().manual_seed(1))
    torch.testing.assert_close(loss.total, expected, rtol=tolerance, atol=tolerance)
    correct = torch.stack([one(x).argmax(-1) == y for one in members])
    assert bool(correct.all()) == all_valid
    assert int(correct.all(0).sum()) > 10
    found, wanted = gradient_of(loss.total, members), gradient_of(expected, members)
    assert float((found - wanted).norm() / wanted.norm()) < tolerance
    without = DRT(sw.GaussianAugmentation(noise), 0.0, 0.7, squared, design)
    plain = gradient_of(without(members, x, y, torch.Generator().manual_seed(1)).total, members)
    assert float((plain - wanted).norm() / wanted.norm()) > 0.01, "the diversity term must matter here"


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "batch norm"])
@pytest.mark.parametrize("squared", [False, True], ids=["norm", "squared"])
@pytest.mark.parametrize("design", ["pairwise", "overall"])
@pytest.mark.parametrize("points", ["noisy", "adversarial"])
def test_around_smoothadv_loss_and_gradients_are_the_textbook_s(
    norm: bool, squared: bool, design: str, points: str
) -> None:
    members, x, y = setting(norm, torch.float64)
    copies = deepcopy(members)  # the attack sees the running statistics, which every call moves
    objective = DRT(around_smoothadv(), 3.0, 0.7, squared, design, points)
    loss = objective(members, x, y, torch.Generator().manual_seed(1))
    expected = textbook(copies, x, y, objective, torch.Generator().manual_seed(1))
    torch.testing.assert_close(loss.total, expected, rtol=1e-8, atol=1e-8)
    found, wanted = gradient_of(loss.total, members), gradient_of(expected, copies)
    assert float((found - wanted).norm() / wanted.norm()) < 1e-8
    other = replace(objective, points="noisy" if points == "adversarial" else "adversarial")
    copies = setting(norm, torch.float64)[0]
    wrong = gradient_of(other(copies, x, y, torch.Generator().manual_seed(1)).total, copies)
    assert float((wrong - wanted).norm() / wanted.norm()) > 0.1, "where margins are taken must matter here"


def around_smoothadv() -> SmoothAdv:
    return SmoothAdv(DoubleNoise(0.05), epsilon=0.25, steps=2)


@pytest.mark.parametrize("points", ["noisy", "adversarial"])
def test_one_attack_per_member_and_one_fast_forward_pass_for_both_losses(points: str) -> None:
    members, x, y = setting(False, torch.float64)
    passes: list[str] = []
    for one in members:
        one[0].register_forward_hook(lambda _, __, out: passes.append(out.grad_fn.name()))
    DRT(around_smoothadv(), 3.0, 0.7, points=points)(members, x, y, torch.Generator())
    attacks, margins = ["ConvolutionBackward0"] * 2 * 3, ["_ConvolutionBackward"] * 3
    base = ["ConvolutionBackward0"] * 3
    assert passes == (attacks + margins if points == "adversarial" else margins + attacks + base)


@pytest.mark.parametrize("points", ["noisy", "adversarial"])
def test_the_shares_of_several_processes_add_up_to_the_batch(points: str) -> None:
    """Up to the attack's float32, whose rounding may depend on the size of a batch."""
    members, x, y = setting(False, torch.float64)
    objective = DRT(around_smoothadv(), 3.0, 0.7, points=points)
    whole = objective(members, x, y, torch.Generator().manual_seed(1)).total
    total = torch.zeros(())
    for share in (ProcessGroup(rank, 5).share(len(x)) for rank in range(5)):
        part = on_share(objective, share)
        loss = part(members, x[share.rows], y[share.rows], torch.Generator().manual_seed(1))
        total = total + share.count / share.total * loss.total
    assert float(total.detach()) == pytest.approx(float(whole.detach()), rel=1e-6)
    found, wanted = gradient_of(total, members), gradient_of(whole, members)
    assert float((found - wanted).norm() / wanted.norm()) < 1e-5


def test_both_terms_by_hand() -> None:
    """Two members, one input, gradients (3, 0) and (0, 4), margins .5 and .25.

    GD = ||(3, 4)|| = 5 and CM = -.75 where both are correct; 0 where one is not.
    """
    gradients = [torch.tensor([[3.0, 0.0], [3.0, 0.0]]), torch.tensor([[0.0, 4.0], [0.0, 4.0]])]
    correct = [torch.tensor([True, True]), torch.tensor([True, False])]
    groups = valid_groups(correct, "pairwise")
    assert float(gradient_diversity(gradients, groups)) == 5 / 2
    assert float(gradient_diversity(gradients, groups, squared=True)) == 25 / 2
    assert float(mean_cosine(gradients, groups)) == 0.0
    same = [gradients[0], 2 * gradients[0]]
    assert float(mean_cosine(same, groups)) == pytest.approx(1.0)


def test_a_zero_gradient_sum_gives_no_nan() -> None:
    g = torch.ones(2, 3, requires_grad=True)
    groups = valid_groups([torch.ones(2).bool()] * 2, "pairwise")
    value = gradient_diversity([g, -g.detach()], groups)
    value.backward()
    assert float(value.detach()) == 0.0
    assert g.grad is not None
    assert g.grad.tolist() == [[0.0] * 3] * 2


def test_a_saturated_softmax_gives_no_nan() -> None:
    members, x, y = setting(False, torch.float32)
    for one in members:
        one[-1].weight.data *= 1e4
    loss = DRT(sw.GaussianAugmentation(NOISE), 5.0, 5.0)(members, x, y, torch.Generator().manual_seed(1))
    assert bool(gradient_of(loss.total, members).isfinite().all())


def test_margin_is_true_class_minus_runner_up() -> None:
    logits = torch.tensor([[0.1, 0.7, 0.2]]).log()
    assert float(true_margin(logits, torch.tensor([1]))) == pytest.approx(0.5)
    assert float(true_margin(logits, torch.tensor([2]))) == pytest.approx(-0.5)


@pytest.mark.parametrize(("rho_gd", "rho_cm", "named"), [(0.0, 1.0, "cm"), (1.0, 0.0, "gd")])
def test_either_term_alone(rho_gd: float, rho_cm: float, named: str) -> None:
    members, x, y = setting(False, torch.float32)
    base = sw.GaussianAugmentation(NOISE)
    plain = base(members, x, y, torch.Generator().manual_seed(1))
    found = DRT(base, rho_gd, rho_cm)(members, x, y, torch.Generator().manual_seed(1))
    assert float((found.total - plain.total).detach()) == pytest.approx(float(found.terms[named]), rel=1e-4)


def test_what_cannot_be_regularised_is_refused() -> None:
    base = sw.GaussianAugmentation(NOISE)
    members, x, y = setting(False, torch.float32, count=1)
    with pytest.raises(sw.UserError, match="at least two; given: 1"):
        DRT(base, 1.0, 1.0)(members, x, y, torch.Generator())
    for rho in (-1.0, float("nan"), float("inf")):
        with pytest.raises(sw.UserError, match="rho_gd must be"):
            DRT(base, rho, 1.0)
        with pytest.raises(sw.UserError, match="rho_cm must be"):
            DRT(base, 1.0, rho)
    with pytest.raises(sw.UserError, match="design must be one of"):
        DRT(base, 1.0, 1.0, design="triples")
    with pytest.raises(sw.UserError, match="cannot wrap DRT"):
        DRT(DRT(base, 1.0, 1.0), 1.0, 1.0)  # type: ignore[arg-type]
