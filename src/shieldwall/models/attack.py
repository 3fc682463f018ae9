"""The attack of SmoothAdv (Salman et al. 2019): L2 PGD against the smoothed soft classifier.

    J(x') = -log( 1/m sum_j softmax(f(x' + eps_j))_y )

    x'_0     = x
    x'_{t+1} = project( x'_t + (2 epsilon / steps) grad J / ||grad J||_2 )

`project` clips to [0, 1] and then shrinks x' - x to length epsilon. Shrinking moves towards x, which lies in
the box, so that both hold afterwards. Steps and lengths are per image: x, x' (B, C, H, W); eps
(m, B, C, H, W); y (B,). An image without a gradient stays where it is.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from shieldwall.models.members import evaluating, modules_of

Member = Callable[[Tensor], Tensor]
TINY = 1e-20  # below this a gradient or a perturbation has no direction worth following


def smoothed_pgd(
    member: Member, x: Tensor, y: Tensor, noise_by_copy: Tensor, epsilon: float | Tensor, steps: int
) -> Tensor:
    """Images (B, C, H, W) within epsilon of x that `member` finds hard under this very noise.

    It is in evaluation mode meanwhile, for batch-norm statistics, and its parameters get no gradient.
    """
    step_size = 2 * epsilon / steps
    x = adversarial = x.detach()
    with evaluating(modules_of([member])), torch.enable_grad():
        for _ in range(steps):
            variable = adversarial.detach().requires_grad_()
            loss = smoothed_loss(member, variable, y, noise_by_copy)
            # The sum, not the mean: each image's gradient is its own, whatever the batch.
            (gradient,) = torch.autograd.grad(loss.sum(), variable)
            adversarial = project(adversarial + step_size * (gradient / _lengths(gradient)), x, epsilon)
    return adversarial


def smoothed_loss(member: Member, x: Tensor, y: Tensor, noise_by_copy: Tensor) -> Tensor:
    """J for each image.  -> (B,)"""
    copies, size = noise_by_copy.shape[:2]
    logits: Tensor = member((x + noise_by_copy).flatten(0, 1))
    log_p = logits.float().log_softmax(-1).reshape(copies, size, -1)
    log_p_y = log_p.gather(-1, y.expand(copies, size)[..., None])[..., 0]
    return math.log(copies) - log_p_y.logsumexp(0)


def project(adversarial: Tensor, x: Tensor, epsilon: float | Tensor) -> Tensor:
    """Into the box [0, 1], then into the ball of radius epsilon around x."""
    moved = adversarial.clamp(0, 1) - x
    return x + moved * (epsilon / _lengths(moved)).clamp_max(1)


def _lengths(images: Tensor) -> Tensor:
    """The L2 norm of each image, never zero.  (B, C, H, W) -> (B, 1, 1, 1)"""
    lengths: Tensor = torch.linalg.vector_norm(images.flatten(1), dim=1).clamp_min(TINY)
    return lengths.view(-1, *(1 for _ in images.shape[1:]))
