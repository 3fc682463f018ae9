"""Denoised smoothing: a denoiser D before a classifier F that was trained without noise.

    scores(v) = F(D(v)),    v = x + eps,  eps from N(0, sigma^2 I),  x in [0, 1]

D is a network trained to denoise (Salman et al. 2020; training/denoising.py), or one step of a diffusion
model (Carlini et al. 2023). Such a model takes pixels in [-1, 1], where the noise is twice as large, and
predicts the noise eps_theta in x_t = sqrt(abar_t) x_0 + sqrt(1 - abar_t) eps:

    t   with  sqrt((1 - abar_t) / abar_t) = 2 sigma,  so that  abar_t = 1 / (1 + 4 sigma^2)
    x_t  = sqrt(abar_t) (2 v - 1)
    D(v) = (x_0 + 1) / 2 = v - sigma eps_theta(x_t, t),  clipped to [0, 1]
    with x_0 = (x_t - sqrt(1 - abar_t) eps_theta) / sqrt(abar_t) = 2 v - 1 - 2 sigma eps_theta

F(D(v)) is a function of the noisy image alone, so its certificates need no assumption on D.
"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from shieldwall.errors import UserError, describe
from shieldwall.models.classifier import Classifier, scores_of
from shieldwall.models.members import check_model
from shieldwall.noise.distributions import TRAINED_NOISE, Gaussian, as_noise

_LINEAR = 1 - torch.linspace(1e-4, 0.02, 1_000, dtype=torch.float64)
"""alpha_t of the 1,000 steps of Ho et al. (2020), diffusers' default."""


class Denoised(nn.Module):
    """A classifier behind a denoiser, as a module from noisy images (B, C, H, W) to scores (B, K).

    Args:
        denoiser: from noisy images, with pixels around [0, 1], to images of the same shape.
        classifier: what `sw.Classifier` takes. Its weights are held fixed here: training changes those of the
            denoiser only. Several denoisers can share it.
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
        images = self.denoiser(noisy)
        if images.shape != noisy.shape:
            raise UserError(
                f"a denoiser must return images of the shape that it takes, {tuple(noisy.shape)}; "
                f"returned: {tuple(images.shape)}"
            )
        scores: Tensor = scores_of(self.classifier(images))
        return scores


class Denoiser(nn.Module):
    """A small DnCNN (Zhang et al. 2017): 3x3 convolutions see the noise in an image, and it is taken away."""

    def __init__(self, channels: int = 1, width: int = 32, depth: int = 5) -> None:
        super().__init__()
        if min(channels, width) < 1 or depth < 2:
            raise UserError(
                "a denoiser needs 1 channel, width 1 and depth 2, or more; given: "
                f"channels={channels}, width={width}, depth={depth}"
            )
        layers: list[nn.Module] = []
        for channels_in, channels_out in pairwise([channels, *[width] * (depth - 1), channels]):
            layers += [nn.Conv2d(channels_in, channels_out, 3, padding=1), nn.ReLU()]
        self.noise = nn.Sequential(*layers[:-1])

    def forward(self, noisy: Tensor) -> Tensor:
        seen: Tensor = self.noise(noisy)
        return noisy - seen


class OneStepDiffusion(nn.Module):
    """A diffusion model as a denoiser of Gaussian noise, in one step.

    Args:
        network: predicts the noise, `network(x_t, t)` with x_t (B, C, H, W) and t (B,): a tensor, an object
            with `.sample` such as diffusers' UNet2DModel returns, or a tuple that begins with it. Channels
            beyond the image's, which hold variances, are left out.
        noise: that of the certificates, such as 0.25 or `sw.Gaussian(0.25)`, for pixels in [0, 1].
        alphas_cumprod: abar_t of each step, (T,), as diffusers' schedulers have it; by default that of Ho et
            al. (2020).
    """

    def __init__(
        self, network: Callable[..., Any], noise: Gaussian | float, alphas_cumprod: Tensor | None = None
    ) -> None:
        super().__init__()
        check_model(network)
        given = as_noise(noise)
        if not isinstance(given, Gaussian):
            raise UserError(f"a diffusion model takes Gaussian noise away; given: {given}")
        abar = _LINEAR.cumprod(0) if alphas_cumprod is None else torch.as_tensor(alphas_cumprod).double()
        if abar.ndim != 1 or not len(abar) or not bool(((abar > 0) & (abar < 1)).all()):
            raise UserError(
                f"alphas_cumprod must hold a number between 0 and 1 for each step; given: {describe(abar)}"
            )
        levels = ((1 - abar) / abar).sqrt() / 2
        if given.sigma > levels.max():
            raise UserError(
                f"the diffusion model knows noise up to sigma {float(levels.max()):.3g} for pixels in [0, 1]; "
                f"given: {given.sigma:g}"
            )
        self.network = network
        self.sigma = given.sigma
        self.t = int((levels - given.sigma).abs().argmin())
        """The step whose noise is nearest to sigma."""
        setattr(self, TRAINED_NOISE, given)

    def forward(self, noisy: Tensor) -> Tensor:
        x_t = (2 * noisy - 1) / math.sqrt(1 + 4 * self.sigma**2)
        output = self.network(x_t, torch.full((len(noisy),), self.t, device=noisy.device))
        output = getattr(output, "sample", output)
        predicted: Tensor = output[0] if isinstance(output, tuple) else output
        return (noisy - self.sigma * predicted[:, : noisy.shape[1]]).clamp(0, 1)
