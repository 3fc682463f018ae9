"""ADP against numpy's determinant, with and without a volume to measure."""

import math

import numpy as np
import pytest
import torch
from loss_tools import loss_at
from numpy.typing import NDArray
from scipy.special import softmax
from scipy.stats import entropy
from torch import nn

import shieldwall as sw
from shieldwall.training.diversity import ADP, RIDGE, log_det_gram, non_maximal

X = torch.rand(4, 1, 2, 2, generator=torch.Generator().manual_seed(1))


def make_members(count: int, classes: int) -> list[nn.Module]:
    torch.manual_seed(count)
    return [nn.Sequential(nn.Flatten(), nn.Linear(4, classes)) for _ in range(count)]


def literal_log_volume(predictions: list[NDArray[np.float64]], label: int) -> float:
    """The true class deleted, columns at unit length, numpy's determinant."""
    columns = [np.delete(p, label) for p in predictions]
    m = np.stack([column / np.linalg.norm(column) for column in columns], axis=1)
    return float(np.log(np.linalg.det(m.T @ m + RIDGE * np.eye(m.shape[1]))))


@pytest.mark.parametrize("classes", [2, 4, 10])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_loss_is_the_formula(count: int, classes: int) -> None:
    """Including more members than wrong classes, where only the ridge keeps the volume above zero."""
    members, y = make_members(count, classes), torch.arange(4) % classes
    loss = loss_at(ADP(sw.Gaussian(0.7), num_noise=2), members, X, y, torch.Generator().manual_seed(4))
    noise = 0.7 * torch.randn(2, 4, 1, 2, 2, generator=torch.Generator().manual_seed(4))
    cross_entropies, entropies, volumes = [], [], []
    for copy in noise:
        for image, label in enumerate(y.tolist()):
            logits = [one(X[image : image + 1] + copy[image]).detach().double().numpy()[0] for one in members]
            predictions = [softmax(row) for row in logits]
            cross_entropies.append(sum(-math.log(p[label]) for p in predictions))
            entropies.append(entropy(np.mean(predictions, axis=0)))
            volumes.append(literal_log_volume(predictions, label))
    assert float(loss.terms["cross_entropy"]) == pytest.approx(np.mean(cross_entropies) / count, rel=1e-5)
    assert float(loss.terms["entropy"]) == pytest.approx(np.mean(entropies), rel=1e-5)
    assert float(loss.terms["log_volume"]) == pytest.approx(np.mean(volumes), rel=1e-3, abs=1e-6)
    expected = np.mean(cross_entropies) - 2 * np.mean(entropies) - 0.5 * np.mean(volumes)
    assert float(loss.total.detach()) == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_volumes_by_hand() -> None:
    apart = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])
    assert float(log_det_gram(apart)) == pytest.approx(2 * math.log(1 + RIDGE), abs=1e-6)
    slanted = torch.tensor([[[1.0, 0.0]], [[0.6, 0.8]]])
    assert float(log_det_gram(slanted)) == pytest.approx(math.log(0.64), abs=1e-5)
    same = torch.tensor([[[0.6, 0.8]], [[0.6, 0.8]]])
    assert float(log_det_gram(same)) == pytest.approx(math.log((1 + RIDGE) ** 2 - 1), rel=1e-3)
    assert float(log_det_gram(same[:1])) == pytest.approx(math.log(1 + RIDGE), abs=1e-6)


def test_the_true_class_is_left_out_even_if_nothing_else_has_a_chance() -> None:
    logits = torch.tensor([[[500.0, 1.0, 2.0]], [[1.0, 500.0, 2.0]]])
    found = non_maximal(logits, torch.tensor([[0], [0]]))
    wrong = np.array([math.exp(1), math.exp(2)]) / math.hypot(math.exp(1), math.exp(2))
    assert found[0, 0].tolist() == pytest.approx([0, *wrong], rel=1e-6)
    assert found[1, 0].tolist() == pytest.approx([0, 1, 0])


@pytest.mark.parametrize("distance", [0.0, 1e-4, 1e-2, 1.0])
@pytest.mark.parametrize(("count", "entries"), [(3, 9), (5, 9), (5, 2)])
def test_volume_in_float32_has_the_gradient_of_the_determinant_in_float64(
    distance: float, count: int, entries: int
) -> None:
    """Members that nearly agree are where float32 and the plain determinant part ways."""
    source = torch.Generator().manual_seed(0)
    common = torch.rand(1, 8, entries, generator=source)
    vectors = (common + distance * torch.rand(count, 8, entries, generator=source)).requires_grad_()
    value = log_det_gram(torch.nn.functional.normalize(vectors, dim=-1)).sum()
    (gradient,) = torch.autograd.grad(value, vectors)
    exact = vectors.detach().double().requires_grad_()
    m = torch.nn.functional.normalize(exact, dim=-1).transpose(0, 1)
    gram = m @ m.transpose(1, 2) + RIDGE * torch.eye(count, dtype=torch.float64)
    determinant = torch.logdet(gram).sum()
    (expected,) = torch.autograd.grad(determinant, exact)
    assert value.item() == pytest.approx(determinant.item(), rel=1e-3)
    steepest = 1 / math.sqrt(RIDGE)
    assert float((gradient - expected).norm()) <= 1e-3 * (float(expected.norm()) + steepest)


def test_more_entropy_and_more_volume_lower_the_loss() -> None:
    members, y = make_members(3, 5), torch.arange(4)
    plain, entropic, voluminous = (
        loss_at(
            ADP(sw.Gaussian(0.7), alpha=alpha, beta=beta), members, X, y, torch.Generator().manual_seed(4)
        )
        for alpha, beta in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0))
    )
    assert torch.allclose(plain.total - entropic.total, plain.terms["entropy"], rtol=1e-4)
    assert torch.allclose(plain.total - voluminous.total, plain.terms["log_volume"], rtol=1e-4)


def test_the_literature_s_defaults() -> None:
    objective = ADP(sw.Gaussian(0.5))
    assert (objective.alpha, objective.beta) == (2, 0.5)
