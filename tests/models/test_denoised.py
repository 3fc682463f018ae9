"""Denoised smoothing: one step of diffusion against its formula and diffusers, denoisers trained with us."""

import copy
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import shieldwall as sw

ALPHAS = (1 - torch.linspace(1e-4, 0.02, 1_000, dtype=torch.float64)).cumprod(0)
X = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(1))
NOISE = torch.randn(6, 1, 8, 8, generator=torch.Generator().manual_seed(2))


class Knows(nn.Module):
    """Predicts the noise in x_t exactly, for it knows x_0: what UNet2DModel takes and returns."""

    def __init__(self, x: Tensor, sigma: float) -> None:
        super().__init__()
        self.x_0, self.abar = 2 * x - 1, 1 / (1 + 4 * sigma**2)
        self.seen: list[tuple[Tensor, Tensor]] = []

    def forward(self, x_t: Tensor, t: Tensor) -> Any:
        self.seen.append((x_t, t))
        return SimpleNamespace(sample=(x_t - self.abar**0.5 * self.x_0) / (1 - self.abar) ** 0.5)


@pytest.mark.parametrize("sigma", [0.12, 0.25, 1.0])
def test_who_predicts_the_noise_gets_the_image_back(sigma: float) -> None:
    network = Knows(X, sigma)
    denoiser = sw.OneStepDiffusion(network, sigma, ALPHAS)
    assert torch.allclose(denoiser(X + sigma * NOISE), X, atol=1e-5)
    ((x_t, t),) = network.seen
    assert t.tolist() == [denoiser.t] * 6
    assert not t.is_floating_point()
    abar = ALPHAS[denoiser.t]
    assert float(((1 - abar) / abar).sqrt()) == pytest.approx(2 * sigma, rel=0.02)
    # The variance of x_t given x_0 is 1 - abar, as the network was trained.
    noise = x_t - (2 * X - 1) * network.abar**0.5
    assert torch.allclose(noise, (1 - network.abar) ** 0.5 * NOISE, atol=1e-5)


def test_the_step_is_the_nearest_of_all() -> None:
    levels = ((1 - ALPHAS) / ALPHAS).sqrt() / 2
    for t in (0, 144, 999):
        assert sw.OneStepDiffusion(lambda x, t: x, float(levels[t]), ALPHAS).t == t


def test_variances_and_tuples_are_left_out() -> None:
    def network(x: Tensor, t: Tensor) -> tuple[Tensor, str]:
        return torch.cat([0.5 * x, 9 * x], 1), "more"

    v = X + 0.25 * NOISE
    by_hand = (v - 0.25 * 0.5 * (2 * v - 1) / 1.25**0.5).clamp(0, 1)
    assert torch.allclose(sw.OneStepDiffusion(network, 0.25, ALPHAS)(v), by_hand, atol=1e-6)


def test_diffusers_predicts_the_same_image() -> None:
    """diffusers 0.42.1: a random UNet2DModel and `DDPMScheduler.step(...).pred_original_sample`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        diffusers = pytest.importorskip("diffusers")
    torch.manual_seed(0)
    unet = diffusers.UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(8,),
        norm_num_groups=4, down_block_types=("DownBlock2D",), up_block_types=("UpBlock2D",),
    ).eval()  # fmt: skip
    scheduler = diffusers.DDPMScheduler()
    abar = scheduler.alphas_cumprod
    sigma = float(((1 - abar[150]) / abar[150]).sqrt() / 2)
    denoiser = sw.OneStepDiffusion(unet, sigma, abar)
    v = X + sigma * NOISE
    with torch.no_grad():
        x_t = abar[150].sqrt() * (2 * v - 1)
        theirs = scheduler.step(unet(x_t, 150).sample, 150, x_t).pred_original_sample
        assert denoiser.t == 150
        assert torch.allclose(denoiser(v), (theirs + 1) / 2, atol=1e-5)


@pytest.mark.parametrize("noise", [sw.Laplace(0.1), 100.0, sw.Gaussian(90.0)])
def test_other_noise_than_the_model_knows_is_refused(noise: Any) -> None:
    with pytest.raises(sw.UserError, match=r"takes away noise up to gaussian\(78\.[0-9]\)"):
        sw.OneStepDiffusion(lambda x, t: x, noise, ALPHAS)


def test_certificates_with_other_noise_give_a_warning() -> None:
    classifier = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    denoised = sw.Denoised(sw.OneStepDiffusion(nn.Identity(), 0.25, ALPHAS), classifier)
    denoised.denoiser.network.forward = lambda x, t: 0 * x
    with pytest.warns(UserWarning, match=r"trained with gaussian noise of sigma 0.25; given: .*0.5"):
        sw.certify(denoised, X[:1], noise=0.5, n=100)
    same = sw.certify(denoised, X[:2], noise=0.25, n=100)
    assert same == sw.certify(lambda x: classifier(x.clamp(0, 1)), X[:2], noise=0.25, n=100)


def test_a_denoiser_that_does_nothing_leaves_the_certificates() -> None:
    torch.manual_seed(0)
    classifier = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    denoised = sw.Denoised(nn.Identity(), copy.deepcopy(classifier))
    assert sw.certify(denoised, X, noise=0.25, n=100) == sw.certify(classifier, X, noise=0.25, n=100)


def test_the_classifier_is_held_fixed_in_evaluation_mode() -> None:
    classifier = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(72, 3))
    denoised = sw.Denoised(sw.Denoiser(width=4, depth=3), classifier)
    denoised.train()
    assert denoised.denoiser.training
    assert not any(part.training for part in classifier.modules())
    assert not any(weight.requires_grad for weight in classifier.parameters())
    assert all(weight.requires_grad for weight in denoised.denoiser.parameters())


def test_denoisers_around_one_classifier_train_resume_and_vote(tmp_path: Path) -> None:
    """Two of them share the classifier, also in a checkpoint; training takes noise away and changes no F."""
    digits = sw.load_data("digits")
    classifier = sw.load("digits-gaussian-0.25").members[0]
    before = copy.deepcopy(classifier.state_dict())
    noisy = digits.test.images(range(100)) + 0.25 * torch.randn(
        100, 1, 8, 8, generator=torch.Generator().manual_seed(3)
    )

    def trained(epochs: int, checkpoint: str) -> tuple[list[sw.Denoised], list[dict[str, Any]]]:
        torch.manual_seed(0)
        members = [sw.Denoised(sw.Denoiser(width=8, depth=3), classifier) for _ in range(2)]
        schedule = sw.Schedule(epochs=3, batch_size=64, lr=0.2, clip=1.0)
        method = sw.Denoising(sw.Gaussian(0.25), num_noise=1, stability=0.1)
        where = tmp_path / f"{checkpoint}.safetensors"

        def stop(records: list[dict[str, Any]]) -> None:
            if len(records) == epochs:
                raise KeyboardInterrupt

        try:
            records = sw.train(
                members, digits.train, method, schedule=schedule, checkpoint=where, on_epoch=stop
            )
        except KeyboardInterrupt:
            return members, []
        return members, records

    members, records = trained(9, "whole")
    trained(1, "parted")
    resumed, resumed_records = trained(9, "parted")
    assert [record["loss"] for record in records] == [record["loss"] for record in resumed_records]
    assert all(map(torch.equal, members[1].state_dict().values(), resumed[1].state_dict().values()))
    assert records[-1]["mse"] < 0.75 * 0.25**2
    for member in members:
        with torch.no_grad():
            error = (member.denoiser(noisy) - digits.test.images(range(100))).square().mean()
        assert float(error) < 0.75 * 0.25**2
    assert all(torch.equal(value, before[name]) for name, value in classifier.state_dict().items())
    votes = sw.certify_members(members, digits.test.images(range(5)), noise=0.25, n=100)
    assert list(votes) == ["member-1", "member-2", "we", "mme", "eas"]
    ensemble = sw.WeightedEnsemble(members)
    assert sw.certify(ensemble, digits.test.images(range(5)), noise=0.25, n=100) == votes["we"]


def test_other_members_cannot_be_trained_to_denoise() -> None:
    digits = sw.load_data("digits")
    members = sw.build_members("digits-cnn", 1, 10, digits.shape, seed=0)
    with pytest.raises(
        sw.UserError, match=r"members must be sw.Denoised\(denoiser, classifier\); given: Seq"
    ):
        sw.train(members, digits.train, sw.Denoising(sw.Gaussian(0.25)))
