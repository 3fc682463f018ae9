"""What cannot be certified is refused in one line that says what to do."""

import pytest
import torch
from torch import Tensor, nn

import shieldwall as sw

OK = torch.full((2, 3), 0.5)


def classifier(x: Tensor) -> Tensor:
    return torch.stack([x[:, 0], -x[:, 0]], dim=1)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (OK * 255, r"must lie in \[0, 1\]"),
        (-OK, r"must lie in \[0, 1\]"),
        (OK * float("nan"), "NaN"),
        (OK / 0, "infinity"),
        ((OK * 255).to(torch.uint8), "divide by 255"),
        (OK.double(), r"call \.float\(\)"),
        (OK[0], "batch"),
        (OK[:0], "batch"),
        (OK[:, :0], "batch"),
        (OK.tolist(), "torch tensor"),
    ],
)
def test_inputs(x: Tensor, message: str) -> None:
    with pytest.raises(sw.UserError, match=message):
        sw.certify(classifier, x, noise=sw.Gaussian(0.5), n=10)


def test_any_finite_value_passes_where_the_caller_says_so() -> None:
    assert len(sw.certify(classifier, OK * 9, noise=sw.Gaussian(0.5), n=10, value_range=None)) == 2


@pytest.mark.parametrize("sigma", [0.0, -1.0, float("nan"), float("inf")])
def test_sigma(sigma: float) -> None:
    with pytest.raises(sw.UserError, match="sigma must be a positive number"):
        sw.Gaussian(sigma)


@pytest.mark.parametrize(
    ("bad", "found"),
    [
        (lambda x: x[:, 0], r"\(12,\)"),
        (lambda x: x[:, :1], r"\(12, 1\)"),
        (lambda x: x[:1], r"\(1, 3\)"),
        (lambda x: x.tolist(), "list"),
    ],
)
def test_scores(bad: object, found: str) -> None:
    with pytest.raises(sw.UserError, match=rf"one score per class.*returned: {found}"):
        sw.certify(bad, OK, noise=sw.Gaussian(0.5), n0=2, n=10)  # type: ignore[arg-type]


def test_nan_scores() -> None:
    def broken(x: Tensor) -> Tensor:
        return torch.where(x > 1.0, float("nan"), x)

    with pytest.raises(sw.UserError, match="NaN scores"):
        sw.certify(broken, OK, noise=sw.Gaussian(0.5), n=100)

    class Broken(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return broken(x)

    with pytest.raises(sw.UserError, match="NaN scores"):
        sw.certify_members([nn.Linear(3, 3), Broken()], OK, noise=sw.Gaussian(0.5), n=100)


def test_indices() -> None:
    with pytest.raises(sw.UserError, match="2 inputs need 2 indices"):
        sw.certify(classifier, OK, noise=sw.Gaussian(0.5), n=10, indices=[1])


def test_draws() -> None:
    with pytest.raises(sw.UserError, match="use n >= 10"):
        sw.certify(classifier, OK, noise=sw.Gaussian(0.5), n=9)
    with pytest.raises(sw.UserError, match="use n >= 10"):
        sw.certify_members([nn.Linear(3, 2)], OK, noise=sw.Gaussian(0.5), n=9)
    with pytest.raises(sw.UserError, match="n, the number of samples"):
        sw.predict(classifier, OK, noise=sw.Gaussian(0.5), n=0)
