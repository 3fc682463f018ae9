"""DRT against the textbook: norms written out pair by pair, differentiated by autograd twice."""

from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import ClassVar

import pytest
import torch
from loss_tools import loss_at
from torch import Tensor, nn
from torch.nn import functional as F

import shieldwall as sw
from shieldwall.distributed import ProcessGroup
from shieldwall.models.attack import smoothed_pgd
from shieldwall.models.registry import build_members
from shieldwall.training.drt import (
    DRT,
    Group,
    confidence_margin,
    gradient_diversity,
    mean_cosine,
    true_margin,
)
from shieldwall.training.member_methods import SmoothAdv
from shieldwall.training.objective import NoisyBatch, Objective

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


def textbook(members, x: Tensor, y: Tensor, drt: DRT, generator: torch.Generator) -> Tensor:  # type: ignore[no-untyped-def]
    """The formulas of drt.py's docstring pair by pair, with create_graph and nothing clever."""
    base, own = drt.base, drt.points == "own"
    noisy, labels = x.repeat(base.num_noise, 1, 1, 1), y.repeat(base.num_noise)
    noise = base.noise.sample(noisy.shape, generator)
    noisy = noisy + noise
    total, margins, gradients, correct, second = torch.zeros((), dtype=x.dtype), [], [], [], []
    for member in members:
        under_attack = isinstance(base, SmoothAdv)
        points = attacked(member, x, y, noise, base) if own and under_attack else noisy.clone()
        logits = member(points.requires_grad_())
        elsewhere = under_attack and not own
        base_logits = member(attacked(member, x, y, noise, base)) if elsewhere else logits
        total = total + F.cross_entropy(base_logits, labels)
        p = logits.softmax(-1)
        others = p.masked_fill(F.one_hot(labels, p.shape[1]).bool(), -1.0)
        margin = p[torch.arange(len(p)), labels] - others.max(-1).values
        margins.append(margin)
        correct.append(logits.argmax(-1) == labels)
        second.append(others.argmax(-1))
        gradients.append(torch.autograd.grad(margin.sum(), points, create_graph=True)[0])
    everyone = tuple(range(len(members)))
    norms, pair_margins, member_margins = [], [], []
    for group in combinations(everyone, 2) if drt.design == "pairwise" else [everyone]:
        valid = torch.stack([correct[i] for i in group]).all(0)
        if drt.runner_up == "same":
            valid &= torch.stack([second[i] == second[j] for i, j in combinations(group, 2)]).all(0)
        norms.append(sum(gradients[i] for i in group)[valid].flatten(1).norm(dim=1))
        pair_margins.append(sum(margins[i] for i in group)[valid])
    for margin, is_correct in zip(margins, correct, strict=True):
        member_margins.append(margin[is_correct])
    gd = torch.cat(norms)
    cm = torch.cat(member_margins if drt.cm_over == "members" else pair_margins)
    if drt.norm == "squared":
        gd = gd**2
    if drt.average == "valid":
        return total + drt.rho_gd * gd.mean() - drt.rho_cm * cm.mean()
    return total + (drt.rho_gd * gd.sum() - drt.rho_cm * cm.sum()) / len(noisy)


def attacked(one: nn.Module, x: Tensor, y: Tensor, noise: Tensor, base: SmoothAdv) -> Tensor:
    """The member's adversarial images, each under its noise."""
    images = smoothed_pgd(one, x, y, noise.view(base.num_noise, *x.shape), base.epsilon, base.steps)
    return images.repeat(base.num_noise, 1, 1, 1) + noise


def gradient_of(total: Tensor, members, retain: bool = False) -> Tensor:  # type: ignore[no-untyped-def]
    parameters = [p for one in members for p in one.parameters()]
    return torch.cat([g.flatten() for g in torch.autograd.grad(total, parameters, retain_graph=retain)])


READINGS: list[dict[str, str]] = [
    {"norm": norm, "average": average, "cm_over": cm_over, "design": design}
    for norm in ("squared", "plain")
    for average in ("valid", "batch")
    for cm_over in ("members", "pairs")
    for design in ("pairwise", "overall")
]
every_reading = pytest.mark.parametrize("reading", READINGS, ids=lambda reading: "-".join(reading.values()))
with_and_without_norm = pytest.mark.parametrize("norm", [False, True], ids=["no norm", "batch norm"])


@with_and_without_norm
@every_reading
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-8), (torch.float32, 1e-4)])
@pytest.mark.parametrize("all_valid", [False, True])
def test_loss_and_gradients_are_the_textbook_s(
    norm: bool, reading: dict[str, str], dtype: torch.dtype, tolerance: float, all_valid: bool
) -> None:
    members, x, y = setting(norm, dtype)
    noise = DoubleNoise(0.05) if dtype == torch.float64 else sw.Gaussian(0.05)
    if all_valid:
        y = trained(norm)[2]
    objective = DRT(sw.GaussianAugmentation(noise), rho_gd=3.0, rho_cm=0.7, **reading)
    loss = loss_at(objective, members, x, y, torch.Generator().manual_seed(1))
    expected = textbook(members, x, y, objective, torch.Generator().manual_seed(1))
    torch.testing.assert_close(loss.total, expected, rtol=tolerance, atol=tolerance)
    correct = torch.stack([member(x).argmax(-1) == y for member in members])
    assert bool(correct.all()) == all_valid
    assert int(correct.all(0).sum()) > 10
    ours, theirs = gradient_of(loss.total, members), gradient_of(expected, members)
    assert float((ours - theirs).norm() / theirs.norm()) < tolerance
    without = replace(objective, rho_gd=0.0)
    loss = loss_at(without, members, x, y, torch.Generator().manual_seed(1))
    assert float((gradient_of(loss.total, members) - theirs).norm() / theirs.norm()) > 0.01, (
        "the diversity term must matter here"
    )


@with_and_without_norm
@every_reading
@pytest.mark.parametrize("points", ["own", "noisy"])
def test_around_smoothadv_loss_and_gradients_are_the_textbook_s(
    norm: bool, reading: dict[str, str], points: str
) -> None:
    members, x, y = setting(norm, torch.float64)
    copies = deepcopy(members)  # the attack sees the running statistics, which every call moves
    objective = DRT(around_smoothadv(), 3.0, 0.7, points=points, **reading)
    loss = loss_at(objective, members, x, y, torch.Generator().manual_seed(1))
    expected = textbook(copies, x, y, objective, torch.Generator().manual_seed(1))
    torch.testing.assert_close(loss.total, expected, rtol=1e-8, atol=1e-8)
    ours, theirs = gradient_of(loss.total, members), gradient_of(expected, copies)
    assert float((ours - theirs).norm() / theirs.norm()) < 1e-8
    other = replace(objective, points="noisy" if points == "own" else "own")
    copies = setting(norm, torch.float64)[0]
    loss = loss_at(other, copies, x, y, torch.Generator().manual_seed(1))
    assert float((gradient_of(loss.total, copies) - theirs).norm() / theirs.norm()) > 0.1, (
        "where margins are taken must matter here"
    )


@every_reading
def test_equal_runners_up_are_the_textbook_s(reading: dict[str, str]) -> None:
    members, x, y = setting(True, torch.float64)
    anyone = DRT(sw.GaussianAugmentation(DoubleNoise(0.05)), 3.0, 0.7, **reading)
    objective = replace(anyone, runner_up="same")
    loss = loss_at(objective, members, x, y, torch.Generator().manual_seed(1))
    expected = textbook(members, x, y, objective, torch.Generator().manual_seed(1))
    torch.testing.assert_close(loss.total, expected, rtol=1e-8, atol=1e-8)
    ours, theirs = gradient_of(loss.total, members), gradient_of(expected, members)
    assert float((ours - theirs).norm() / theirs.norm()) < 1e-8
    other = loss_at(anyone, members, x, y, torch.Generator().manual_seed(1)).terms["gd"]
    assert float(other) != pytest.approx(float(loss.terms["gd"]), rel=0.01)


@with_and_without_norm
@every_reading
@pytest.mark.parametrize("around", ["gaussian", "smoothadv"])
def test_by_turns_one_member_has_n_times_the_terms_gradient(
    norm: bool, reading: dict[str, str], around: str
) -> None:
    """So over N updates at the same weights the mean gradient is that of all terms."""
    members, x, y = setting(norm, torch.float64)
    base = around_smoothadv() if around == "smoothadv" else sw.GaussianAugmentation(DoubleNoise(0.05))
    objective = DRT(base, 3.0, 0.7, turns=True, **reading)

    def state() -> list[nn.Module]:
        return deepcopy(members)  # the attack sees the running statistics, which every call moves

    def gradients(objective: Objective) -> list[Tensor]:
        copies = state()
        total = loss_at(objective, copies, x, y, torch.Generator().manual_seed(1)).total
        return [gradient_of(total, [copy], retain=True) for copy in copies]

    copies = state()
    expected = textbook(copies, x, y, objective, torch.Generator().manual_seed(1))
    full = [gradient_of(expected, [copy], retain=True) for copy in copies]
    plain = gradients(base)
    for update in range(4):
        at_turn = objective.at_update(update)
        found = loss_at(at_turn, state(), x, y, torch.Generator().manual_seed(1))
        torch.testing.assert_close(found.total, expected, rtol=1e-8, atol=1e-8)
        for k, own in enumerate(gradients(at_turn)):
            wanted = plain[k] + (3 * (full[k] - plain[k]) if k == update % 3 else 0)
            assert float((own - wanted).norm() / wanted.norm()) < 1e-8


def test_by_turns_only_one_member_is_differentiated_twice() -> None:
    members, x, y = setting(False, torch.float64)
    passes: list[str] = []
    for member in members:
        member[0].register_forward_hook(lambda _, __, out: passes.append(out.grad_fn.name()))
    objective = DRT(sw.GaussianAugmentation(DoubleNoise(0.05)), 3.0, 0.7, turns=True)
    loss_at(objective.at_update(4), members, x, y, torch.Generator())
    assert passes == ["ConvolutionBackward0", "_ConvolutionBackward", "ConvolutionBackward0"]


def test_as_printed_is_eq_loss1_and_eq_loss2() -> None:
    base = around_smoothadv()
    printed = DRT(base, 3.0, 0.7, norm="plain", average="batch", cm_over="pairs", points="noisy")
    assert DRT.as_printed(base, 3.0, 0.7) == printed


@pytest.mark.parametrize("average", ["valid", "batch"])
def test_where_nobody_is_right_both_terms_are_zero(average: str) -> None:
    members, x, _ = setting(False, torch.float64)
    with torch.no_grad():
        wrong = torch.stack([member(x).softmax(-1) for member in members]).sum(0).argmin(-1)
    objective = DRT(sw.GaussianAugmentation(DoubleNoise(1e-6)), 3.0, 0.7, average=average)
    loss = loss_at(objective, members, x, wrong, torch.Generator().manual_seed(1))
    assert float(loss.terms["gd"]) == float(loss.terms["cm"]) == 0.0
    assert bool(gradient_of(loss.total, members).isfinite().all())


def around_smoothadv() -> SmoothAdv:
    return SmoothAdv(DoubleNoise(0.05), epsilon=0.25, steps=2)


@pytest.mark.parametrize("points", ["own", "noisy"])
def test_one_attack_per_member_and_one_fast_forward_pass_for_both_losses(points: str) -> None:
    members, x, y = setting(False, torch.float64)
    passes: list[str] = []
    for member in members:
        member[0].register_forward_hook(lambda _, __, out: passes.append(out.grad_fn.name()))
    objective = DRT(around_smoothadv(), 3.0, 0.7, points=points)
    loss_at(objective, members, x, y, torch.Generator())
    attacks, margins = ["ConvolutionBackward0"] * 2, ["_ConvolutionBackward"] * 3
    elsewhere = [*attacks, "ConvolutionBackward0"] * 3
    assert passes == (attacks * 3 + margins if points == "own" else margins + elsewhere)


class Alone(ProcessGroup):
    """One of several processes, whose sums over all of them are looked up: the test knows the total."""

    totals: ClassVar[list[Tensor]] = []

    def sum(self, values: Tensor) -> Tensor:
        return self.totals.pop(0)


@every_reading
@pytest.mark.parametrize("points", ["own", "noisy"])
def test_the_rows_of_several_processes_add_up_to_the_batch(reading: dict[str, str], points: str) -> None:
    """Up to the attack's float32, whose rounding may depend on the size of a batch."""
    members, x, y = setting(False, torch.float64)
    objective = DRT(around_smoothadv(), 3.0, 0.7, points=points, **reading)
    whole = objective.draw(x, y, torch.Generator().manual_seed(1))
    total_loss = objective(members, whole).total
    parts = [whole.rows_of(Alone(rank, 5)) for rank in range(5)]
    counts = [counts_of(objective, members, part) for part in parts]
    total = torch.zeros(())
    for part in parts:
        Alone.totals = [torch.stack(own).sum(0) for own in zip(*counts, strict=True)]
        assert part.share is not None
        total = total + part.share.count / part.share.total * objective(members, part).total
    assert float(total.detach()) == pytest.approx(float(total_loss.detach()), rel=1e-6)
    ours, theirs = gradient_of(total, members), gradient_of(total_loss, members)
    assert float((ours - theirs).norm() / theirs.norm()) < 1e-5


def counts_of(objective: DRT, members: list[nn.Module], part: NoisyBatch) -> list[Tensor]:
    """How many entries of this part are valid, at each place where the processes add that up."""

    class Counting(ProcessGroup):
        counts: ClassVar[list[Tensor]] = []

        def sum(self, values: Tensor) -> Tensor:
            self.counts.append(values.clone())
            return values

    objective(members, replace(part, world=Counting(part.world.rank, part.world.size)))
    return Counting.counts


def test_both_terms_by_hand() -> None:
    """Two members, two inputs, gradients (3, 0) and (0, 4); the second member is wrong at the second input.

    The pair is valid once: its norm is ||(3, 4)|| = 5, its square 25; half of that is the batch's mean.
    """
    gradients = [torch.tensor([[3.0, 0.0], [3.0, 0.0]]), torch.tensor([[0.0, 4.0], [0.0, 4.0]])]
    for weight, share in ((1.0, 1.0), (0.5, 0.5)):
        groups = [Group((0, 1), torch.tensor([weight, 0.0]))]
        assert float(gradient_diversity(gradients, groups, squared=False)) == 5 * share
        assert float(gradient_diversity(gradients, groups, squared=True)) == 25 * share
        assert float(mean_cosine(gradients, groups)) == 0.0
        same = [gradients[0], 2 * gradients[0]]
        assert float(mean_cosine(same, groups)) == pytest.approx(1.0)
        margins = torch.tensor([[0.5, 0.25], [0.25, 0.125]])
        assert float(confidence_margin(margins, groups)) == -0.75 * share


def test_a_zero_gradient_sum_gives_no_nan() -> None:
    g = torch.ones(2, 3, requires_grad=True)
    value = gradient_diversity([g, -g.detach()], [Group((0, 1), torch.ones(2))], squared=False)
    value.backward()
    assert float(value.detach()) == 0.0
    assert g.grad is not None
    assert g.grad.tolist() == [[0.0] * 3] * 2


def test_a_saturated_softmax_gives_no_nan() -> None:
    members, x, y = setting(False, torch.float32)
    for one in members:
        one[-1].weight.data *= 1e4
    objective = DRT(sw.GaussianAugmentation(NOISE), 5.0, 5.0)
    loss = loss_at(objective, members, x, y, torch.Generator().manual_seed(1))
    assert bool(gradient_of(loss.total, members).isfinite().all())


def test_margin_is_true_class_minus_runner_up() -> None:
    logits = torch.tensor([[0.1, 0.7, 0.2]]).log()
    assert float(true_margin(logits, torch.tensor([1]))) == pytest.approx(0.5)
    assert float(true_margin(logits, torch.tensor([2]))) == pytest.approx(-0.5)


@pytest.mark.parametrize(("rho_gd", "rho_cm", "named"), [(0.0, 1.0, "cm"), (1.0, 0.0, "gd")])
def test_either_term_alone(rho_gd: float, rho_cm: float, named: str) -> None:
    members, x, y = setting(False, torch.float32)
    base = sw.GaussianAugmentation(NOISE)
    plain = loss_at(base, members, x, y, torch.Generator().manual_seed(1))
    found = loss_at(DRT(base, rho_gd, rho_cm), members, x, y, torch.Generator().manual_seed(1))
    assert float((found.total - plain.total).detach()) == pytest.approx(float(found.terms[named]), rel=1e-4)


def test_what_cannot_be_regularised_is_refused() -> None:
    base = sw.GaussianAugmentation(NOISE)
    members, x, y = setting(False, torch.float32, count=1)
    with pytest.raises(sw.UserError, match="at least 2 members; given: 1"):
        loss_at(DRT(base, 1.0, 1.0), members, x, y, torch.Generator())
    for rho in (-1.0, float("nan"), float("inf")):
        with pytest.raises(sw.UserError, match="rho_gd must be"):
            DRT(base, rho, 1.0)
        with pytest.raises(sw.UserError, match="rho_cm must be"):
            DRT(base, 1.0, rho)
    with pytest.raises(sw.UserError, match="design must be one of"):
        DRT(base, 1.0, 1.0, design="triples")
    with pytest.raises(sw.UserError, match="cannot wrap DRT"):
        DRT(DRT(base, 1.0, 1.0), 1.0, 1.0)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["resnet20", "resnet110"])
def test_a_step_of_deep_networks_is_the_textbook_s(model: str) -> None:
    """One update of the CIFAR-10 networks, as the recipes call them, in float64."""
    x = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0)).double()
    first, second = (one.double() for one in build_members(model, 2, 10, (3, 32, 32), 0))
    second.load_state_dict(first.state_dict())
    with torch.no_grad():
        y = deepcopy(first)(x).argmax(-1)
        for p in second.parameters():
            p.mul_(1 + 0.003 * torch.randn(p.shape, generator=torch.Generator().manual_seed(1)).double())
    members, copies = [first, second], deepcopy([first, second])
    objective = DRT(sw.GaussianAugmentation(DoubleNoise(0.01)), 5.0, 5.0)
    loss = loss_at(objective, members, x, y, torch.Generator().manual_seed(1))
    expected = textbook(copies, x, y, objective, torch.Generator().manual_seed(1))
    torch.testing.assert_close(loss.total, expected, rtol=1e-9, atol=1e-9)
    assert float(loss.terms["gd"]) > 0
    ours, theirs = gradient_of(loss.total, members), gradient_of(expected, copies)
    assert float((ours - theirs).norm() / theirs.norm()) < 1e-8
    plain = loss_at(objective.base, copies, x, y, torch.Generator().manual_seed(1)).total
    assert float((gradient_of(plain, copies) - theirs).norm() / theirs.norm()) > 0.01
