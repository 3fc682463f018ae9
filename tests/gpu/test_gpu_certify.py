"""Certification on a GPU: float16 and compiled against exact radii, and batches that fit into its memory."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import shieldwall as sw

GPU = torch.device("cuda")
N = 20_000
NOISE = sw.Gaussian(0.5)


class Brightness(nn.Module):
    """Class 1 where the mean pixel is above 1/2: at distance sqrt(D) |mean - 1/2| in D pixels."""

    def __init__(self, pixels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(pixels, 2)
        with torch.no_grad():
            self.linear.weight.copy_(torch.stack([-torch.ones(pixels), torch.ones(pixels)]) / pixels)
            self.linear.bias.copy_(torch.tensor([0.5, -0.5]))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x.flatten(1))


class Wide(nn.Module):
    """A model whose every input takes 2 MiB on the way: 8 x 8 pixels, each as 8,192 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.batches.append(len(x))
        copies = x.flatten(1)[..., None] * torch.ones(8_192, device=x.device)
        bright = copies.mean((1, 2))
        return torch.stack([1 - bright, bright], dim=1)


def grey(level: float, count: int = 1) -> Tensor:
    return torch.full((count, 1, 8, 8), level)


@pytest.mark.filterwarnings("ignore")  # torch.compile's own
@pytest.mark.parametrize("compile", [False, True])
@pytest.mark.parametrize("precision", ["float32", "tf32", "float16", "bfloat16"])
def test_radii_approach_the_exact_one_from_below(precision: str, compile: bool):
    """False alarms: 0.001 for each of eight, before the seed was fixed."""
    certificates = sw.certify(
        Brightness(64).to(GPU), grey(0.6), noise=NOISE, n=N, precision=precision, compile=compile
    )
    assert certificates.labels.tolist() == [1]
    assert 0.85 * 0.8 < certificates.radii.item() < 0.8
    assert certificates.precision == precision


@pytest.mark.filterwarnings("ignore")
def test_precisions_and_compilation_change_few_votes():
    """The draws are the same, so only those near the members' boundaries can change."""
    members = [member.to(GPU) for member in sw.build_members("digits-cnn", 3, 10, (1, 8, 8), seed=5)]
    x = torch.rand(4, 1, 8, 8, generator=torch.Generator().manual_seed(1))

    def counts(**options: object) -> np.ndarray:
        by_vote = sw.certify_members(members, x, noise=NOISE, n=N, **options)
        return np.concatenate([certificates.counts.reshape(-1, 10) for certificates in by_vote.values()])

    plain = counts()
    assert (plain.sum(-1) == N).all()
    for options in ({"compile": True}, {"batch_size": 100}, {"batch_size": 7_777}):
        assert int(np.abs(counts(**options) - plain).sum(-1).max()) <= 0.002 * N, options
    for precision in ("tf32", "float16", "bfloat16"):
        changed = np.abs(counts(precision=precision, compile=True) - plain).sum(-1)
        assert precision == "tf32" or int(changed.sum()) > 0, precision
        assert int(changed.max()) <= 0.1 * N, precision


def test_members_certified_together_are_as_they_are_alone():
    members = [member.to(GPU) for member in sw.build_members("digits-cnn", 2, 10, (1, 8, 8), seed=5)]
    x = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    together = sw.certify_members(members, x, noise=NOISE, n=N)
    alone = sw.certify(members[1], x, noise=NOISE, n=N)
    assert int(np.abs(together["member-2"].counts - alone.counts).sum(-1).max()) <= 0.002 * N


def test_inputs_that_stop_early_stop_on_what_their_own_draws_say():
    """Other inputs in the batch, and reading counts one batch late, change no decision."""
    levels = torch.linspace(0.5, 0.7, 9)
    x = torch.cat([grey(float(level)) for level in levels])
    options = {"noise": NOISE, "n": N, "radii": [0.25, 0.75], "seed": 3}
    together = sw.certify(Brightness(64).to(GPU), x, batch_size=500, **options)
    for k in range(len(x)):
        alone = sw.certify(Brightness(64).to(GPU), x[k : k + 1], indices=[k], **options)
        assert int(np.abs(together.counts[k] - alone.counts[0]).sum()) <= 4
    assert int(together.n.min()) < N


def test_a_batch_fits_into_the_memory_that_is_free(monkeypatch: pytest.MonkeyPatch):
    free = 512 * 2**20
    torch.cuda.empty_cache()
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *_: (free, 2 * free))
    model = Wide()
    before = torch.cuda.memory_allocated()
    certificates = sw.certify(model, grey(0.6), noise=NOISE, n=N, device=GPU)
    assert certificates.counts.sum() == N
    assert 32 < max(model.batches) < free / (2 * 2**20)  # more than the probe, less than would fill it
    torch.cuda.reset_peak_memory_stats()
    sw.certify(model, grey(0.6), noise=NOISE, n=N, device=GPU, batch_size=max(model.batches))
    assert torch.cuda.max_memory_allocated() - before < free


def test_where_memory_runs_out_batches_are_halved_and_draws_stay_the_same():
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    plenty = sw.certify(Brightness(64).to(GPU), grey(0.6), noise=NOISE, n=N)
    model = Wide()
    torch.cuda.empty_cache()
    allowed = torch.cuda.memory_reserved() + 1_024 * 2**20
    torch.cuda.set_per_process_memory_fraction(allowed / total)
    try:
        halved = sw.certify(model, grey(0.6), noise=NOISE, n=N, device=GPU, batch_size=4_096)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()
    assert max(model.batches) == 4_096
    assert min(model.batches) <= 512
    assert int(np.abs(halved.counts - plenty.counts).sum()) <= 4
