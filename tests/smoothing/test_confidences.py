"""Confidences at noisy inputs: whose noise, whose softmax, in which batches."""

import pytest
import torch
from torch import Tensor, nn

import shieldwall as sw
from shieldwall import seeds
from shieldwall.data.splits import TensorSplit
from shieldwall.ensembles.votes import confidences as member_confidences
from shieldwall.smoothing.certify import noisy_confidences


class Counting(nn.Module):
    """A classifier that counts the inputs it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Dropout(0.5))
        self.seen = 0

    def forward(self, x: Tensor) -> Tensor:
        self.seen += len(x)
        return self.body(x)


def make_members(count: int) -> list[Counting]:
    torch.manual_seed(count)
    return [Counting() for _ in range(count)]


PIXELS = torch.randint(256, (7, 1, 2, 2), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
X = PIXELS / 255
NOISE = sw.Gaussian(0.5)


def test_members_run_once_in_evaluation_mode_at_the_same_noise() -> None:
    members = make_members(3)
    members[0].eval()
    silent = noisy_confidences(members, X, sw.Gaussian(1e-6), copies=4)
    assert silent.shape == (3, 7, 4, 3)
    assert [member.seen for member in members] == [28, 28, 28]
    assert [member.training for member in members] == [False, True, True]
    for member in members:
        member.eval()
    with torch.no_grad():
        expected = member_confidences(members, X)
    assert torch.allclose(silent, expected[:, :, None].expand_as(silent), atol=1e-4)
    same = members[0]
    noisy = noisy_confidences([same, same], X, sw.Gaussian(1.0), copies=4)
    assert noisy[0].equal(noisy[1])
    assert len(noisy[0].flatten(0, 1).unique(dim=0)) == 28, "every copy has other noise"


def test_noise_is_named_by_seed_stream_and_index() -> None:
    members = make_members(2)
    found = noisy_confidences(members, X[:2], NOISE, copies=3, seed=5, stream="proxies", indices=[40, 7])
    for row, index in enumerate((40, 7)):
        draws = NOISE.sample((3, 1, 2, 2), seeds.generator("cpu", 5, "proxies", index))
        with torch.no_grad():
            expected = member_confidences([member.eval() for member in members], X[row] + draws)
        assert torch.allclose(found[:, row], expected, atol=1e-6)
    again = noisy_confidences(members, X[1:2], NOISE, copies=3, seed=5, stream="proxies", indices=[7])
    assert torch.allclose(again, found[:, 1:2], atol=1e-6)
    for change in ({"seed": 6}, {"stream": "weights"}, {"indices": [8]}):
        options = {"seed": 5, "stream": "proxies", "indices": [7], **change}
        assert not torch.allclose(noisy_confidences(members, X[1:2], NOISE, copies=3, **options), again)


@pytest.mark.parametrize("batch_size", [1, 5, 21, 1_000])
def test_batches_do_not_matter(batch_size: int) -> None:
    members = make_members(2)
    found = noisy_confidences(members, X, NOISE, copies=3, batch_size=batch_size)
    assert torch.allclose(found, noisy_confidences(members, X, NOISE, copies=3), atol=1e-6)


def test_double_precision_keeps_what_float32_rounds_away() -> None:
    class Sure(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.tensor([[0.0, 60.0]]).expand(len(x), 2)

    single = noisy_confidences([Sure()], X, NOISE, copies=2)
    double = noisy_confidences([Sure()], X, NOISE, copies=2, dtype=torch.float64)
    assert single.dtype == torch.float32
    assert double.dtype == torch.float64
    least = float(double[..., 0].min())
    assert least == pytest.approx(torch.tensor([0.0, 60.0]).double().softmax(0)[0].item(), rel=1e-12)


def test_a_split_gives_its_images() -> None:
    members = make_members(2)
    split = TensorSplit(PIXELS, torch.zeros(7, dtype=torch.int64))
    found = noisy_confidences(members, split, NOISE, copies=3)
    assert torch.allclose(found, noisy_confidences(members, X, NOISE, copies=3), atol=1e-6)


def test_confidences_can_take_part_in_learning() -> None:
    found = noisy_confidences(make_members(1), X, NOISE, copies=2)
    weight = torch.ones((), requires_grad=True)
    (weight * found).sum().backward()
    assert weight.grad is not None


def test_mistakes() -> None:
    members = make_members(1)
    with pytest.raises(sw.UserError, match="copies and batch_size must be at least 1; given: 0, 1000"):
        noisy_confidences(members, X, NOISE, copies=0)
    with pytest.raises(sw.UserError, match="at least one image"):
        noisy_confidences(members, X[:0], NOISE)
    with pytest.raises(sw.UserError, match="7 images need 7 indices; given: 2"):
        noisy_confidences(members, X, NOISE, indices=[1, 2])
