"""What measured numbers rest on and no CPU runs: `make test-gpu`, on a machine with an NVIDIA GPU.

Elsewhere these tests are skipped, unless SHIELDWALL_GPU=required: `make test-gpu` sets it.
"""

import os
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def exact_products() -> Iterator[None]:
    """A GPU, on which products of float32 numbers are rounded as on a CPU, by the same kernels each time."""
    if not torch.cuda.is_available():
        message = "no CUDA device was found"
        if os.environ.get("SHIELDWALL_GPU") == "required":
            pytest.fail(message)
        pytest.skip(message)
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.allow_tf32, matmul.allow_tf32, cudnn.deterministic
    cudnn.allow_tf32, matmul.allow_tf32, cudnn.deterministic = False, False, True
    yield
    cudnn.allow_tf32, matmul.allow_tf32, cudnn.deterministic = before
