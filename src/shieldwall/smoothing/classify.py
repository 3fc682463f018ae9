"""From noisy inputs to labels, for one classifier or for many votes over the same members."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from shieldwall.ensembles.ensemble import confidences
from shieldwall.ensembles.votes import Vote
from shieldwall.errors import UserError

Classify = Callable[[Tensor], tuple[Tensor, int]]
"""Noisy inputs (B, ...) -> labels (V, B), one row per vote, and the number of classes K.

A label of K marks a draw that nobody wins; K + 1 one whose scores are not numbers.
"""


def by_argmax(classifier: Callable[[Tensor], Tensor]) -> Classify:
    """One vote: the argmax of the classifier's scores."""

    def classify(noisy: Tensor) -> tuple[Tensor, int]:
        scores = classifier(noisy)
        check_scores(scores, len(noisy))
        num_classes = scores.shape[1]
        labels = scores.argmax(-1).masked_fill(scores.isnan().any(-1), num_classes + 1)
        return labels[None], num_classes

    return classify


def by_votes(members: Sequence[Callable[[Tensor], Tensor]], votes: Sequence[Vote]) -> Classify:
    """Every vote read off the same confidences."""

    def classify(noisy: Tensor) -> tuple[Tensor, int]:
        shared = confidences(members, noisy)
        num_classes = shared.shape[-1]
        labels = torch.stack([vote(shared) for vote in votes])
        return labels.masked_fill(shared.isnan().any(-1).any(0), num_classes + 1), num_classes

    return classify


def check_scores(scores: object, batch: int) -> None:
    if not isinstance(scores, Tensor) or scores.ndim != 2 or len(scores) != batch or scores.shape[1] < 2:
        found = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise UserError(
            f"the classifier must return scores (B, K), K >= 2, for B = {batch} inputs; returned: {found}"
        )
