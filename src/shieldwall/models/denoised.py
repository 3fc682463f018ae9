"""Denoised smoothing: a denoiser D before a classifier F that was trained without noise, scores(v) = F(D(v)).

D is a network trained to denoise v = x + sigma eps (Salman et al. 2020; `sw.Denoising`), or one step
of a diffusion model (Carlini et al. 2023). Such a model takes pixels in [-1, 1], where the noise is twice as
large, and predicts eps_theta, the noise in x_t = sqrt(abar_t) x_0 + sqrt(1 - abar_t) eps:

    t     with  sqrt((1 - abar_t) / abar_t) = 2 sigma,  so that  abar_t = 1 / (1 + 4 sigma^2)
    x_t = sqrt(abar_t) (2 v - 1)
    x_0 = (x_t - sqrt(1 - abar_t) eps_theta(x_t, t)) / sqrt(abar_t) = 2 v - 1 - 2 sigma eps_theta(x_t, t)
    D(v) = (x_0 + 1) / 2 = v - sigma eps_theta(x_t, t),  clipped to [0, 1]

scores(v) depends on the noisy image alone, so that its certificates assume nothing of D.
"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from shieldwall.errors import UserError
from shieldwall.models.classifier import Classifier, scores_of
from shieldwall.models.members import check_model
from shieldwall.noise.distributions import TRAINED_NOISE, Gaussian, as_noise


class Denoised(nn.Module):
    """A classifier behind a denoiser, from noisy images (B, C, H, W) to scores (B, K).

    `denoiser` goes from noisy images to images; `classifier` is what `sw.Classifier` takes. Its weights are
    held fixed: training changes the denoiser alone. Several denoisers can share it.
    """

    def __init__(self, denoiser: Callable[[Tensor], Tensor], classifier: Any) -> None:
        super().__init__()
        check_model(denoiser)
        self.denoiser = denoiser
        self.classifier = classifier if isinstance(classifier, nn.Module) else Classifier(classifier)
        self.classifier.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> "Denoised":
        super().train(mode)
        self.classifier.eval()
        return self

    def forward(self, noisy: Tensor) -> Tensor:
        scores: Tensor = scores_of(self.classifier(self.denoiser(noisy)))
        return scores


class Denoiser(nn.Module):
    """A small DnCNN (Zhang et al. 2017): what 3x3 convolutions take for noise is taken away."""

    def __init__(self, channels: int = 1, width: int = 32, depth: int = 5) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for channels_in, channels_out in pairwise([channels, *[width] * (depth - 1), channels]):
            layers += [nn.Conv2d(channels_in, channels_out, 3, padding=1), nn.ReLU()]
        self.noise = nn.Sequential(*layers[:-1])

    def forward(self, noisy: Tensor) -> Tensor:
        taken: Tensor = self.noise(noisy)
        return noisy - taken


class OneStepDiffusion(nn.Module):
    """A diffusion model as a denoiser of Gaussian noise, that of the certificates, for pixels in [0, 1].

    `network(x_t, t)` with t (B,) predicts the noise: a tensor, an object with `.sample`, such as diffusers'
    UNet2DModel returns, or a tuple that begins with it. Further channels are left out. `alphas_cumprod` is
    abar_t of each step (T,), as diffusers' schedulers have it.
    """

    def __init__(self, network: Callable[..., Any], noise: Gaussian | float, alphas_cumprod: Tensor) -> None:
        super().__init__()
        check_model(network)
        given, levels = as_noise(noise), (1 / alphas_cumprod - 1).sqrt() / 2
        if not isinstance(given, Gaussian) or not given.sigma <= levels.max():
            known = f"gaussian({float(levels.max()):.3g}) for pixels in [0, 1]"
            raise UserError(f"the diffusion model takes away noise up to {known}; given: {given}")
        self.network, self.sigma = network, given.sigma
        self.t = int((levels - given.sigma).abs().argmin())  # the step whose noise is nearest to sigma
        setattr(self, TRAINED_NOISE, given)

    def forward(self, noisy: Tensor) -> Tensor:
        x_t = (2 * noisy - 1) / math.sqrt(1 + 4 * self.sigma**2)
        output = self.network(x_t, torch.full((len(noisy),), self.t, device=noisy.device))
        output = getattr(output, "sample", output)
        predicted: Tensor = output[0] if isinstance(output, tuple) else output
        return (noisy - self.sigma * predicted[:, : noisy.shape[1]]).clamp(0, 1)
