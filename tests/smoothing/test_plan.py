"""What a plan makes of counts, and what it refuses before anything is drawn."""

import re

import pytest
import torch

import shieldwall as sw
from shieldwall.smoothing.plan import Plan

NOISE = sw.Gaussian(0.5)
SELECTION = torch.tensor([[0, 100, 0, 0]])
COUNTS = torch.tensor([[300, 8_000, 900, 800]])


def test_randomized_numbers_belong_to_the_seed_and_the_input() -> None:
    def recorded(seed: int, index: int) -> str:
        plan = Plan(NOISE, 4, bound="randomized", seed=seed)
        return plan.certificates(index, SELECTION, COUNTS).bound

    assert recorded(0, 5) == recorded(0, 5)
    assert len({recorded(0, 5), recorded(0, 6), recorded(1, 5)}) == 3


def test_a_randomized_certificate_follows_from_what_it_records() -> None:
    x = torch.rand(3, 4, generator=torch.Generator().manual_seed(0))
    found = sw.certify(lambda x: x[:, :2], x, noise=NOISE, n=500, bound="randomized")
    assert re.fullmatch(r"randomized\(0\.\d+,0\.\d+,0\.\d+\)", found.bound)
    again = sw.from_counts(found.selection_counts, found.counts, NOISE, 0.001, bound=found.bound)
    assert again.p_lower.equal(found.p_lower)
    assert bool(
        (found.p_lower >= sw.from_counts(found.selection_counts, found.counts, NOISE, 0.001).p_lower).all()
    )


def test_two_sided_radii_use_both_bounds() -> None:
    found = Plan(NOISE, 4, n=10_000, bound="two-sided").certificates(0, SELECTION, COUNTS)
    p_lower, p_upper = float(found.p_lower), float(found.p_upper)
    assert p_upper < 1 - p_lower
    assert float(found.radii) == float(NOISE.radius(p_lower, p_upper)) > float(NOISE.radius(p_lower))


@pytest.mark.parametrize(("bound", "fewest"), [("one-sided", 10), ("randomized", 10), ("two-sided", 11)])
def test_draws_that_cannot_certify_are_refused(bound: str, fewest: int) -> None:
    Plan(NOISE, 4, n=fewest, bound=bound)
    with pytest.raises(sw.UserError, match=f"the smallest n that can is {fewest}"):
        Plan(NOISE, 4, n=fewest - 1, bound=bound)


def test_weights_in_half_precision_are_not_widened_in_silence() -> None:
    model, x = torch.nn.Linear(4, 2).bfloat16(), torch.rand(1, 4)
    with pytest.raises(sw.UserError, match="weights are bfloat16: say so, with precision='bfloat16'"):
        sw.certify(model, x, noise=NOISE, n=10)
    assert sw.certify(model, x, noise=NOISE, n=10, precision="bfloat16").precision == "bfloat16"
