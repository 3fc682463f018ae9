"""MACER against a float64 transcription with scipy, and a hinge worked out by hand."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from loss_tools import loss_at
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, softmax
from torch import Tensor, nn

import shieldwall as sw
from shieldwall.noise.distributions import Noise
from shieldwall.training.member_methods import MACER

SIGMA = 0.5


class Preset(nn.Module):
    """These logits (k * B, K), whatever the input."""

    def __init__(self, logits: ArrayLike) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.as_tensor(np.asarray(logits), dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        return self.logits


def run(objective: MACER, logits: ArrayLike, y: Sequence[int]) -> tuple[sw.Loss, Tensor]:
    """The loss and its gradient at preset logits (k * B, K)."""
    member = Preset(logits)
    loss = loss_at(objective, [member], torch.zeros(len(y), 1, 2, 2), torch.tensor(y), torch.Generator())
    loss.total.backward()
    assert member.logits.grad is not None
    return loss, member.logits.grad


def literal(objective: MACER, logits: NDArray[np.float64], y: Sequence[int]) -> float:
    """The formula, image by image."""
    by_copy = logits.reshape(objective.num_noise, len(y), -1)
    total = 0.0
    for image, label in enumerate(y):
        p = np.mean([softmax(copy) for copy in by_copy[:, image]], axis=0)
        q = np.mean([softmax(objective.beta * copy) for copy in by_copy[:, image]], axis=0)
        total -= np.log(p[label])
        gap = ndtri(q[label]) - ndtri(max(q[c] for c in range(len(q)) if c != label))
        if 0 < gap < objective.gamma:
            total += objective.lam * SIGMA / 2 * (objective.gamma - gap)
    return total / len(y)


def test_hinge_by_hand() -> None:
    """q = (.8, .15, .05): gap = .84162 + 1.03643, R = .25 (8 - 1.87805)."""
    objective = MACER(sw.Gaussian(SIGMA), num_noise=1, lam=1.0, beta=1.0)
    loss, _ = run(objective, np.log([[0.8, 0.15, 0.05]]), [0])
    assert float(loss.terms["robustness"]) == pytest.approx(1.530488, abs=1e-5)
    assert float(loss.terms["classification"]) == pytest.approx(0.223144, abs=1e-5)
    assert float(loss.total.detach()) == pytest.approx(1.530488 + 0.223144, abs=1e-5)
    assert float(loss.terms["smoothed_accuracy"]) == 1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("classes", [2, 5])
def test_loss_and_gradient_are_the_formula(seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    objective = MACER(sw.Gaussian(SIGMA), num_noise=4, beta=3.0, gamma=2.0, lam=5.0)
    y = rng.integers(classes, size=6).tolist()
    logits = rng.normal(size=(24, classes))
    loss, gradient = run(objective, logits, y)
    assert float(loss.total.detach()) == pytest.approx(literal(objective, logits, y), rel=1e-5)
    for cell in np.ndindex(*logits.shape):
        shift = np.zeros_like(logits)
        shift[cell] = 1e-6
        slope = (literal(objective, logits + shift, y) - literal(objective, logits - shift, y)) / 2e-6
        assert float(gradient[cell]) == pytest.approx(slope, rel=1e-3, abs=1e-5)


def test_only_right_images_within_gamma_are_widened() -> None:
    """Wrong, tied, right and narrow, right and wide enough, right beyond what float32 can tell."""
    p = [[0.2, 0.7, 0.1], [0.4, 0.4, 0.2], [0.6, 0.3, 0.1], [0.999, 0.0005, 0.0005], [1.0, 1e-30, 1e-36]]
    logits, y = np.log(p), [0] * 5
    robust = MACER(sw.Gaussian(SIGMA), num_noise=1, beta=1.0, gamma=4.0, lam=1.0)
    plain = MACER(sw.Gaussian(SIGMA), num_noise=1, beta=1.0, gamma=4.0, lam=0.0)
    (loss, with_hinge), (_, without) = run(robust, logits, y), run(plain, logits, y)
    added = with_hinge - without
    assert [bool(row.any()) for row in added] == [False, False, True, False, False]
    narrow = float(ndtri(0.6) - ndtri(0.3))
    assert float(loss.terms["robustness"]) == pytest.approx(SIGMA / 2 * (4 - narrow) / 5, rel=1e-5)


def test_the_robustness_term_can_wait() -> None:
    objective = MACER(sw.Gaussian(SIGMA), num_noise=1, defer=30)
    logits = np.log([[0.6, 0.3, 0.1]])
    early, late = run(objective.at_epoch(29), logits, [0])[0], run(objective.at_epoch(30), logits, [0])[0]
    assert early.total.equal(early.terms["classification"])
    assert torch.allclose(late.total, late.terms["classification"] + 16 * late.terms["robustness"])


def test_the_literature_s_defaults() -> None:
    objective = MACER(sw.Gaussian(SIGMA))
    found = objective.num_noise, objective.beta, objective.gamma, objective.lam, objective.defer
    assert found == (16, 16, 8, 16, 0)


class Uniform(Noise):
    def sample(self, shape: Sequence[int], generator: torch.Generator) -> Tensor:
        return torch.rand(shape, generator=generator)

    def radius(self, p: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(p, dtype=np.float64)

    def __str__(self) -> str:
        return "uniform"


def test_the_noise_must_be_gaussian() -> None:
    with pytest.raises(sw.UserError, match="Gaussian noise; given: uniform"):
        MACER(Uniform())
