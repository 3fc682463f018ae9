"""Every random number comes from a generator named by where it is used.

A seed and a path, such as `(seed, "noise", input index)`, are hashed to the seed of a generator of their own.
Nothing is drawn from global state, so an interruption, another batch size or process changes no noise.
"""

import hashlib

import torch


def derive(seed: int, *path: str | int) -> int:
    """A 63-bit seed that is a pure function of `seed` and `path`."""
    text = "/".join(map(str, (seed, *path)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(device: torch.device | str, seed: int, *path: str | int) -> torch.Generator:
    """A fresh generator on `device` for this seed and path."""
    return torch.Generator(device=device).manual_seed(derive(seed, *path))
