"""What a plan makes of counts, and what it refuses before anything is drawn."""

import math

import numpy as np
import pytest
import torch

import shieldwall as sw
from shieldwall.ensembles.votes import vote_set
from shieldwall.recipes import Certification
from shieldwall.smoothing.certificates import Counts, Plan

NOISE = sw.Gaussian(0.5)
COUNTS = Counts(
    7,
    np.array([[0, 100, 0, 0], [0, 90, 10, 0]]),
    np.array([[300, 8_000, 900, 800], [100, 9_000, 500, 400]]),
)


def test_two_sided_radii_use_both_bounds() -> None:
    plan = Plan(NOISE, 4, Certification(n=10_000, bound="two-sided"))
    certificates = plan.certificates(COUNTS, vote_set(["member-1", "member-2"], 2))["member-1"]
    p_lower, p_upper = certificates.p_lower.item(), certificates.p_upper.item()
    assert p_upper < 1 - p_lower
    assert certificates.radii.item() == float(NOISE.radius(p_lower, p_upper)) > float(NOISE.radius(p_lower))


def test_every_vote_that_is_reported_has_its_own_row_and_eas_has_its_members() -> None:
    plan = Plan(NOISE, 4, Certification(n=10_000), seed=3)
    votes = vote_set(["eas", "member-2"], 2)  # member-1 is counted after member-2
    by_vote = plan.certificates(COUNTS, votes)
    assert list(by_vote) == ["eas", "member-2"]
    how = {"noise": NOISE, "alpha": 0.001}
    alone = sw.certificates_from_counts(COUNTS.selection[:1], COUNTS.estimation[:1], **how)
    swapped = [1, 0]
    eas = sw.eas_from_counts(COUNTS.selection[None, swapped], COUNTS.estimation[None, swapped], **how)
    for certificates, expected in ((by_vote["member-2"], alone), (by_vote["eas"], eas)):
        assert certificates.radii == expected.radii > 0
        assert np.array_equal(certificates.counts, expected.counts)
        assert np.array_equal(certificates.selection_counts, expected.selection_counts)
        assert (certificates.p_lower, certificates.p_upper) == (expected.p_lower, expected.p_upper)
        assert (certificates.seed, certificates.noise) == (3, "gaussian(0.5)")


@pytest.mark.parametrize(("bound", "fewest"), [("one-sided", 10), ("two-sided", 11)])
def test_draws_that_cannot_certify_are_refused(bound: str, fewest: int) -> None:
    Plan(NOISE, 4, Certification(n=fewest, bound=bound))
    with pytest.raises(sw.UserError, match=f"use n >= {fewest}"):
        Certification(n=fewest - 1, bound=bound)


def test_settings_are_plain_and_complete() -> None:
    certification = Certification(n0=10, n=500, alpha=0.01, radii=(0.5, 0.25, 0.5), norm="linf")
    assert Plan(NOISE, 4, certification, seed=9).settings() == {
        "noise": "gaussian(0.5)", "size": 4, "norm": "linf", "n0": 10, "n": 500, "alpha": 0.01,
        "bound": "one-sided", "radii": [0.25, 0.5], "seed": 9, "precision": "float32",
    }  # fmt: skip


def test_radii_that_cannot_be_decided_are_refused_before_anything_is_drawn() -> None:
    with pytest.raises(sw.UserError, match="given: -1"):
        Plan(NOISE, 4, Certification(radii=(-1.0,)))
    with pytest.raises(sw.UserError, match="finite"):
        Plan(NOISE, 4, Certification(radii=(math.inf,)))


def test_weights_in_half_precision_keep_it_and_are_not_widened() -> None:
    model, x = torch.nn.Linear(4, 2).bfloat16(), torch.rand(1, 4)
    assert sw.certify(model, x, noise=NOISE, n=10).precision == "bfloat16"
    with pytest.raises(sw.UserError, match="the model's weights are bfloat16; pass precision='bfloat16'"):
        sw.certify(model, x, noise=NOISE, n=10, precision="float32")
