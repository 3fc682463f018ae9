"""Certificates against a classifier whose radius is known, and against themselves."""

import tracemalloc

import numpy as np
import pytest
import torch
from linear import Linear
from scipy.stats import binom
from torch import Tensor, nn

import shieldwall as sw

SIGMA = 0.3


def inputs(count: int, dimension: int = 12, seed: int = 1) -> Tensor:
    return torch.rand(count, dimension, generator=torch.Generator().manual_seed(seed))


def test_radii_exceed_the_exact_one_no_more_often_than_alpha() -> None:
    """1,500 independent certificates at alpha = 5%.

    Violations are Binomial(1500, p) with p <= 5%, and p >= 3.5% here as Clopper-Pearson at n = 500 is
    nearly exact: both checks raise a false alarm with probability below 1e-6.
    """
    model, alpha, trials = Linear(12), 0.05, 1_500
    x = inputs(1)
    found = sw.certify(
        model, x.repeat(trials, 1), noise=sw.Gaussian(SIGMA), n0=50, n=500, alpha=alpha, batch_size=1_000
    )
    wrong = found.labels != model.label(x).numpy()
    violations = int(((found.radii > model.radius(x).numpy()) | (wrong & (found.labels != sw.ABSTAIN))).sum())
    assert violations <= binom.isf(1e-6, trials, alpha)
    assert violations >= binom.ppf(1e-6, trials, 0.035)


def test_radii_approach_the_exact_one_from_below() -> None:
    model, x = Linear(12), inputs(60)
    x = x[(model.radius(x) / SIGMA - 1.0).abs() < 0.7]  # p between 0.62 and 0.96: far from both ends
    assert len(x) > 8
    label, radius = model.label(x).numpy(), model.radius(x).numpy()
    gaps = []
    for n in (100, 1_000, 10_000, 100_000):
        found = sw.certify(model, x, noise=sw.Gaussian(SIGMA), n=n, seed=3)
        certified = found.labels != sw.ABSTAIN
        assert np.array_equal(found.labels[certified], label[certified])
        gap = (radius - found.radii) / radius
        assert bool((gap > 0).all())
        gaps.append(float(gap.mean()))
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 0.03


def equal(a: sw.Certificates, b: sw.Certificates) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("labels", "radii", "p_lower", "counts", "selection_counts")
    )


def small_members() -> list[nn.Module]:
    return sw.build_members("digits-cnn", 3, 10, (1, 8, 8), seed=5)


IMAGES = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(9))
SETTINGS = {"noise": sw.Gaussian(0.5), "n0": 37, "n": 1_500}


@pytest.mark.parametrize("batch_size", [16, 100, 1_537, 10_000])
def test_batch_size_changes_nothing(batch_size: int) -> None:
    members = small_members()
    reference = sw.certify_members(members, IMAGES, **SETTINGS)
    other = sw.certify_members(members, IMAGES, batch_size=batch_size, **SETTINGS)
    assert reference.keys() == other.keys() == {"member-1", "member-2", "member-3", "we", "mme", "eas"}
    assert all(equal(reference[vote], other[vote]) for vote in reference)


def test_an_input_keeps_its_certificate_whatever_is_beside_it() -> None:
    model = small_members()[0]
    together = sw.certify(model, IMAGES, **SETTINGS)
    alone = sw.certify(model, IMAGES[2:3], indices=[2], **SETTINGS)
    assert np.array_equal(together.counts[2:3], alone.counts)
    assert np.array_equal(together.radii[2:3], alone.radii)


def test_inputs_and_seeds_have_draws_of_their_own() -> None:
    model = small_members()[0]
    same = IMAGES[:1].repeat(2, 1, 1, 1)
    found = sw.certify(model, same, **SETTINGS)
    assert not np.array_equal(found.counts[0], found.counts[1])
    assert not np.array_equal(found.counts, sw.certify(model, same, seed=1, **SETTINGS).counts)


def test_more_draws_continue_the_same_sequence() -> None:
    model = small_members()[0]
    few, many = (sw.certify(model, IMAGES, noise=sw.Gaussian(0.5), n=n).counts for n in (600, 900))
    assert bool((many >= few).all())
    assert ((many - few).sum(-1) == 300).all()


def test_one_pass_equals_certifying_each_classifier_on_its_own() -> None:
    members = small_members()
    together = sw.certify_members(members, IMAGES, **SETTINGS)
    assert equal(together["we"], sw.certify(sw.WeightedEnsemble(members), IMAGES, **SETTINGS))
    assert equal(together["mme"], sw.certify(sw.MaxMarginEnsemble(members), IMAGES, **SETTINGS))
    for k, member in enumerate(members):
        assert equal(together[f"member-{k + 1}"], sw.certify(member, IMAGES, **SETTINGS))


def test_ensemble_after_smoothing_is_a_vote_like_any_other() -> None:
    members = small_members()
    both = sw.certify_members(members, IMAGES, votes=["we", "eas"], **SETTINGS)
    assert list(both) == ["we", "eas"]
    every = sw.certify_members(members, IMAGES, **SETTINGS)
    assert all(equal(both[vote], every[vote]) for vote in both)
    by_member = [every[f"member-{k}"] for k in (1, 2, 3)]
    selection = np.stack([member.selection_counts for member in by_member], axis=1)
    counts = np.stack([member.counts for member in by_member], axis=1)
    assert equal(both["eas"], sw.eas_from_counts(selection, counts, SETTINGS["noise"], 0.001))


def test_certificates_say_what_they_were_made_with() -> None:
    made = sw.certify(small_members()[0], IMAGES[:2], seed=4, indices=[8, 3], norm="linf", **SETTINGS)
    assert (made.seed, made.noise, made.sigma, made.norm) == (4, "gaussian(0.5)", 0.5, "linf")
    assert made.indices.tolist() == [8, 3]


def test_each_member_runs_once_per_noisy_batch() -> None:
    members = small_members()
    seen = [0, 0, 0]
    for k, member in enumerate(members):
        member.register_forward_hook(
            lambda _, args, __, k=k: seen.__setitem__(k, seen[k] + len(args[0]))  # type: ignore[misc]
        )
    sw.certify_members(members, IMAGES, **SETTINGS)
    probe = 3 * 4 + 2  # rows, before the samples (test_probe.py)
    assert seen == [probe + len(IMAGES) * (37 + 1_500)] * 3


def test_counts_are_complete_and_alpha_can_be_revisited() -> None:
    found = sw.certify(small_members()[0], IMAGES, **SETTINGS)
    assert (found.n0, found.n.tolist()) == (37, [1_500] * 4)
    assert (found.counts.sum(-1) == 1_500).all()
    assert (found.selection_counts.sum(-1) == 37).all()
    again = sw.certify(small_members()[0], IMAGES, alpha=0.05, **SETTINGS)
    assert equal(again, sw.certificates_from_counts(found.selection_counts, found.counts, found.noise, 0.05))


def test_the_class_is_chosen_by_other_draws_than_bound_it() -> None:
    """By hand: class 1 leads among the n0 draws, class 0 among the n; the certificate is about class 1."""
    found = sw.certificates_from_counts([[3, 7]], [[80, 20]], sw.Gaussian(1.0), 0.001)
    assert found.labels.tolist() == [sw.ABSTAIN]
    assert found.radii.tolist() == [0.0]
    assert found.p_lower.item() < 0.2


def test_a_coin_is_abstained_on() -> None:
    def coin(x: Tensor) -> Tensor:
        return torch.stack([x[:, 0] - 0.5, 0.5 - x[:, 0]], dim=1)

    found = sw.certify(coin, torch.full((1, 3), 0.5), noise=sw.Gaussian(1.0), n=2_000)
    assert found.labels.tolist() == [sw.ABSTAIN]
    assert found.radii.tolist() == [0.0]


def test_noise_is_added_in_the_input_s_own_units() -> None:
    seen: list[Tensor] = []

    def spy(x: Tensor) -> Tensor:
        seen.append(x.clone())
        return torch.zeros(len(x), 2)

    sw.certify(spy, torch.full((1, 50), 0.25), noise=sw.Gaussian(0.4), n=2_000)
    samples = [batch for batch in seen if len(batch) > 4]  # the others try the classifier
    noise = torch.cat(samples)[:2_100].double().numpy() - 0.25  # the last batch is filled up with old rows
    assert abs(noise.mean()) < 5 * 0.4 / np.sqrt(noise.size)
    assert abs(noise.std() - 0.4) < 5 * 0.4 / np.sqrt(2 * noise.size)
    assert len(np.unique(noise.round(6), axis=0)) == len(noise)


def test_modules_are_evaluated_in_eval_mode_and_put_back() -> None:
    class Moody(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Dropout()
            self.modes: set[bool] = set()

        def forward(self, x: Tensor) -> Tensor:
            self.modes |= {self.training, self.inner.training}
            assert not torch.is_grad_enabled()
            return torch.zeros(len(x), 2)

    model = Moody()
    model.inner.eval()
    sw.certify(model, torch.zeros(1, 3), noise=sw.Gaussian(1.0), n=10)
    assert model.modes == {False}
    assert (model.training, model.inner.training) == (True, False)


@pytest.mark.parametrize(("classes", "most"), [(2, 2_500), (200, 2.2 * 5 * 2 * 200 * 8)])
def test_memory_holds_what_the_certificates_hold(classes: int, most: float) -> None:
    """Counts of five votes at each of two stages, 8 bytes each, and what is made of them: bytes per input."""

    class Line(nn.Module):
        def __init__(self, slope: float) -> None:
            super().__init__()
            self.slopes = slope * torch.arange(float(classes))

        def forward(self, x: Tensor) -> Tensor:
            return x[:, :1] * self.slopes

    x = torch.rand(600, 4, generator=torch.Generator().manual_seed(1))
    members = [Line(1.0), Line(2.0), Line(-1.0)]
    few: dict[str, object] = {"noise": sw.Gaussian(0.5), "n0": 5, "n": 20}
    sw.certify_members(members, x[:2], **few)
    tracemalloc.start()
    try:
        made = sw.certify_members(members, x, **few)
        assert tracemalloc.get_traced_memory()[1] < most * len(x)
    finally:
        tracemalloc.stop()
    assert made["eas"].counts is not None
    assert made["eas"].counts.shape == (600, 3, classes)
