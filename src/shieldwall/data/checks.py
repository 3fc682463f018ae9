"""What a split may be made of: images as uint8 or as floats in [0, 1], and a class number for each."""

import math

import torch
from torch import Tensor

from shieldwall.errors import UserError


def check_split(
    source: str, pixels: Tensor, labels: Tensor, shape: tuple[int, int, int], classes: int
) -> None:
    """Refuse pixels that are not uint8 of `shape`, or labels that are not one of 0..`classes`-1 each."""
    if pixels.dtype != torch.uint8 or tuple(pixels.shape[1:]) != shape:
        given = f"{_name(pixels.dtype)} {tuple(pixels.shape[1:])}"
        raise UserError(f"{source}: images are {given}, expected uint8 {shape}")
    if labels.dtype != torch.int64 or labels.shape != pixels.shape[:1] or len(labels) == 0:
        given = f"{_name(labels.dtype)} {tuple(labels.shape)}"
        raise UserError(
            f"{source}: labels are {given}, expected int64, one for each of {len(pixels):,} images"
        )
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise UserError(f"{source}: labels go from {low} to {high}, expected 0 to {classes - 1}")


def checked_images(images: Tensor) -> Tensor:
    """The images (M, C, H, W) as a split holds them: uint8, or float32 in [0, 1]."""
    if not isinstance(images, Tensor):
        raise UserError(f"images must be a torch tensor (M, C, H, W); given: {type(images).__name__}")
    if images.ndim != 4 or not images.numel():
        hint = "; for grey images pass images[:, None]" if images.ndim == 3 else ""
        raise UserError(
            f"images must be a batch (M, C, H, W) of at least one; given shape: {tuple(images.shape)}{hint}"
        )
    if images.dtype == torch.uint8:
        return images
    if not images.is_floating_point():
        raise UserError(
            f"images must be uint8, or floats in [0, 1]; given: {_name(images.dtype)}; "
            "for pixels from 0 to 255 call .to(torch.uint8) first"
        )
    images = images.detach().float()
    low, high = (float(end) for end in images.aminmax())
    if math.isnan(low):
        first = int(images.isnan().flatten(1).any(1).nonzero()[0])
        raise UserError(f"images contain NaN, image {first} is the first of them; mend or leave out these")
    if low < 0 or high > 1:
        raise UserError(
            f"images that are floats must lie in [0, 1]; given: [{low:g}, {high:g}]; "
            "divide pixels by 255, and normalise inside the model (sw.Normalize)"
        )
    return images


def checked_labels(labels: Tensor, images: Tensor) -> Tensor:
    """A class number for each of the images: int64 (M,), where the images are."""
    if not isinstance(labels, Tensor):
        raise UserError(f"labels must be a torch tensor (M,); given: {type(labels).__name__}")
    if labels.shape != images.shape[:1]:
        hint = "; of one-hot labels pass labels.argmax(1)" if labels.ndim == 2 else ""
        raise UserError(
            f"labels must be one for each of {len(images):,} images; given shape: {tuple(labels.shape)}{hint}"
        )
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise UserError(
            f"labels must be whole numbers, such as int64; given: {_name(labels.dtype)}; call .long() first"
        )
    labels = labels.to(images.device, torch.int64)
    if int(labels.min()) < 0:
        raise UserError(f"labels must be classes, counted from 0; given: {int(labels.min())}")
    return labels


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
