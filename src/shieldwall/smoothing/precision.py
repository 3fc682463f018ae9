"""The arithmetic a classifier runs in. A member in another precision is another classifier.

Its certificate says in which precision it holds, and certificates of different precisions do not share a
folder. Noise is always drawn in float32 and added to the input in float32; only then is the noisy input
rounded to what the members compute in. Confidences and votes are computed in float32 or better.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from shieldwall.errors import unknown_name

DTYPES = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}
"""`tf32` is float32 with factors rounded to 10 bits, on GPUs that have it; `float32` forbids that."""


def check_precision(name: str) -> None:
    if name not in DTYPES:
        raise unknown_name("precision", name, DTYPES)


def in_precision(member: nn.Module, precision: str) -> nn.Module:
    """The member itself, or a copy of it in a smaller type."""
    dtype = DTYPES[precision]
    if all(one.dtype == dtype for one in member.parameters()):
        return member
    return copy.deepcopy(member).to(dtype)


@contextmanager
def arithmetic(precision: str) -> Iterator[None]:
    """Products of float32 numbers rounded as the precision says, and not as some setting happens to be."""
    if not torch.cuda.is_available():
        yield
        return
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    were = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = were
