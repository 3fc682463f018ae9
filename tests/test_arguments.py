"""What the annotations of a function say of its arguments is checked, in one line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import shieldwall as sw
from shieldwall.errors import UserError, checked


@checked
def of(n: int, rate: float = 0.5, name: str | None = None, radii: Sequence[float] | None = None) -> object:
    """A function."""
    return n, rate, name, radii


@checked
@dataclass(frozen=True)
class Kept:
    steps: "int"
    rate: float = 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: of(True), r"^n must be a whole number; given: True$"),
        (lambda: of(n=2.0), r"^n must be a whole number; given: 2\.0; write 2$"),
        (lambda: of(1, "x"), r"^rate must be a number; given: 'x'$"),
        (lambda: of(1, name=5), r"^name must be a text; given: 5$"),
        (lambda: of(1, radii=[0.5, "x"]), r"^radii must be a number; given: 'x'$"),
        (lambda: of(1, radii=5), r"^radii must be numbers, such as \[0\.25, 0\.5\]; given: 5$"),
        (lambda: Kept("5"), r"^steps must be a whole number; given: '5'$"),
        (lambda: Kept(5, rate=None), r"^rate must be a number; given: None$"),
        (lambda: sw.SmoothAdv(sw.Gaussian(0.5), steps="x"), r"^steps must be a whole number; given: 'x'$"),
        (lambda: sw.Schedule(clip="x"), r"^schedule\.clip must be a number; given: 'x'$"),
    ],
)
def test_an_argument_of_another_kind_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        call()


def test_what_is_of_the_kind_passes() -> None:
    assert of(np.int64(3), 1, None, (1, 0.5)) == (3, 1, None, (1, 0.5))
    assert of(1, radii=np.array([0.5]))[3] == [0.5]  # type: ignore[index]
    assert Kept(2) == Kept(2, 1.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'm'"):
        of(1, m=2)  # type: ignore[call-arg]


def test_the_function_stays_itself() -> None:
    assert of.__doc__ == "A function."
    assert of.__name__ == "of"
    assert Kept(3).steps == 3
    assert repr(Kept(3)) == "Kept(steps=3, rate=1.0)"


def test_an_empty_precision_is_not_the_default() -> None:
    model, image = sw.load("digits-gaussian-0.25"), torch.zeros(1, 1, 8, 8)
    with pytest.raises(UserError, match="precision"):
        sw.certify(model, image, noise=0.25, n=20, precision="")
    with pytest.raises(UserError, match="precision"):
        sw.predict(model, image, noise=0.25, n=20, precision="")


def test_minutes_between_checkpoints_are_a_number_from_0() -> None:
    members = sw.build_members("digits-cnn", 1, 10, (1, 8, 8), seed=0)
    data = sw.load_data("digits").train.subset(range(8))
    with pytest.raises(UserError, match="checkpoint_minutes must be at least 0; given: nan"):
        sw.train(members, data, sw.GaussianAugmentation(sw.Gaussian(0.25)), checkpoint_minutes=float("nan"))
