"""Ensembles as modules: registered members, outputs whose argmax is the vote."""

import pytest
import torch
from torch import nn

import shieldwall as sw
from shieldwall.ensembles.votes import confidences, vote_set


def members(count: int, classes: int = 4) -> list[nn.Module]:
    torch.manual_seed(count)
    return [nn.Linear(6, classes) for _ in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize(("kind", "vote"), [(sw.WeightedEnsemble, "we"), (sw.MaxMarginEnsemble, "mme")])
def test_argmax_of_the_output_is_the_vote(count: int, kind: type[sw.WeightedEnsemble], vote: str) -> None:
    parts = members(count)
    x = torch.randn(50, 6)
    output = kind(parts)(x)
    assert output.shape == (50, 4)
    assert output.argmax(-1).equal(vote_set([vote], count).counted[0](confidences(parts, x)))
    assert torch.allclose(output.sum(-1), torch.ones(50))


def test_members_and_weights_are_registered() -> None:
    ensemble = sw.WeightedEnsemble(members(3), weights=[1, 2, 3])
    assert len(list(ensemble.parameters())) == 6
    assert ensemble.state_dict()["weights"].tolist() == [1, 2, 3]
    assert all(not module.training for module in ensemble.eval().modules())


def test_weights_change_the_vote() -> None:
    class Constant(nn.Module):
        def __init__(self, logits: list[float]) -> None:
            super().__init__()
            self.register_buffer("logits", torch.tensor(logits))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.logits.expand(len(x), -1)

    parts = [Constant([2.0, 0.0]), Constant([0.0, 1.0])]
    x = torch.zeros(1, 1)
    assert int(sw.WeightedEnsemble(parts)(x).argmax()) == 0
    assert int(sw.WeightedEnsemble(parts, [1, 3])(x).argmax()) == 1


def test_half_precision_members_vote_in_float32() -> None:
    parts = [part.bfloat16() for part in members(2)]
    assert confidences(parts, torch.randn(3, 6, dtype=torch.bfloat16)).dtype == torch.float32


def test_members_must_share_the_classes() -> None:
    ensemble = sw.MaxMarginEnsemble([nn.Linear(6, 4), nn.Linear(6, 5)])
    with pytest.raises(sw.UserError, match="member 2 has 5 classes but member 1 has 4"):
        ensemble(torch.zeros(1, 6))


def test_members_must_return_logits() -> None:
    with pytest.raises(sw.UserError, match=r"member 1 returns shape \(12,\) for 2 inputs"):
        sw.WeightedEnsemble([nn.Flatten(0)])(torch.zeros(2, 6))


def test_an_ensemble_needs_members() -> None:
    with pytest.raises(sw.UserError, match="at least one member"):
        sw.WeightedEnsemble([])
