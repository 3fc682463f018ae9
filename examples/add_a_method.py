"""A training method of your own: one class with one method, which DRT can wrap like any other.

    L = sum_i E_eps | softmax f_i(x + eps) - onehot(y) |^2        the Brier score under noise

Noise, copies, several members, resuming and several processes are the loop's business.
"""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

import shieldwall as sw


@dataclass(frozen=True)
class Brier(sw.MemberObjective):
    def member_loss(
        self, member: nn.Module, batch: sw.NoisyBatch, logits: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        target = F.one_hot(batch.labels, logits.shape[-1])  # logits are (copies * B, K)
        score = (logits.softmax(-1) - target).square().sum(-1).mean()
        return score, {"brier": score.detach()}


noise = sw.Gaussian(0.25)
digits = sw.load_data("digits")
rows = range(0, len(digits.test), 4)
schedule = sw.Schedule(epochs=8, batch_size=64, lr=0.1, decay_every=6, decay=0.2)

methods: dict[str, sw.Objective] = {
    "cross-entropy": sw.GaussianAugmentation(noise),
    "Brier": Brier(noise),
    "DRT around Brier": sw.DRT(Brier(noise), rho_gd=0.01, rho_cm=0.1),
}
for name, objective in methods.items():
    members = sw.build_members("digits-cnn", 3, len(digits.classes), digits.shape, seed=0)
    sw.train(members, digits.train, objective, schedule=schedule)
    votes = sw.certify_members(members, digits.test.images(rows), noise=noise, n=2_000, votes=["mme"])
    correct = votes["mme"].with_truth(digits.test.labels[rows]).correct
    print(f"{name:18} {correct.mean():6.1%}, mean radius {(votes['mme'].radii * correct).mean():.3f}")
