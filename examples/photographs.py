"""Ten test images, the radius within which their answer cannot change, and what such a change looks like.

    python examples/photographs.py                                  CIFAR-10, about ten minutes on a CPU
    python examples/photographs.py --model digits-gaussian-0.25     8 x 8 digits, seconds

They are the first of each tenth of the test images, whatever the answer. Rows: the image; as the network sees
it, with noise; changed by the certified radius in the direction that an attack finds worst; changed by the
same length in one square. It prints the answers, and those at the attacked images.
"""

import argparse

import torch
from torch import Tensor

import shieldwall as sw
from shieldwall.errors import UserError

COPIES, STEPS, SQUARE = 32, 10, 1 / 6


def attacked(
    ensemble: torch.nn.Module, images: Tensor, labels: Tensor, radii: Tensor, sigma: float
) -> Tensor:
    """Images (B, C, H, W) at distance radius, by steps to lower scores of the label under noise."""
    generator = torch.Generator().manual_seed(0)
    noise = sigma * torch.randn(COPIES, 1, *images.shape[1:], generator=generator)
    lengths = radii.view(-1, 1, 1, 1)
    moved = torch.zeros_like(images)
    for _ in range(STEPS):
        moved.requires_grad_()
        scores = ensemble((images + moved + noise).flatten(0, 1)).unflatten(0, (COPIES, -1)).mean(0)
        (gradient,) = torch.autograd.grad(scores.gather(1, labels[:, None]).sum(), moved)
        moved = to_length(moved.detach() - to_length(gradient, 0.4 * lengths), lengths)
    return images + moved


def in_a_square(images: Tensor, radii: Tensor) -> Tensor:
    """Images whose middle square is darker or brighter by one number, at distance radius."""
    side = images.shape[-1]
    width = max(1, round(SQUARE * side))
    first = (side - width) // 2
    middle = (..., slice(first, first + width), slice(first, first + width))
    change = torch.zeros_like(images)
    means = images[middle].mean((1, 2, 3), keepdim=True)
    change[middle] = torch.where(means > 0.5, -1.0, 1.0)
    return images + to_length(change, radii.view(-1, 1, 1, 1))


def to_length(change: Tensor, lengths: Tensor) -> Tensor:
    norms = change.flatten(1).norm(dim=1).clamp_min(1e-20).view(-1, 1, 1, 1)
    return change / norms * lengths


def draw(rows: dict[str, Tensor], titles: list[str], file: str) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    count = len(titles)
    figure, axes = plt.subplots(len(rows), count, figsize=(1.1 * count, 1.25 * len(rows)), squeeze=False)
    for line, (name, images) in zip(axes, rows.items(), strict=True):
        for axis, image in zip(line, images.clamp(0, 1), strict=True):
            axis.imshow(image.permute(1, 2, 0).squeeze(-1).numpy(), cmap="gray", vmin=0, vmax=1)
            axis.set(xticks=[], yticks=[])
        line[0].set_ylabel(name, fontsize=7)
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title, fontsize=7)
    figure.tight_layout(pad=0.3)
    figure.savefig(file, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", default="cifar10-small-drt-0.5")
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--data-dir")
    parser.add_argument("--out", default="photographs.png")
    options = parser.parse_args()

    ensemble = sw.load(options.model)
    noise = ensemble.trained_noise
    data = sw.load_data(options.model.partition("-")[0], options.data_dir)
    count = len(data.test.labels)
    images = data.test.images(torch.arange(10) * (count // 10))
    truth = data.test.labels[torch.arange(10) * (count // 10)]

    certificates = sw.certify(ensemble, images, noise=noise, n=options.n, precision="bfloat16")
    names = [data.classes[label] if label != sw.ABSTAIN else "abstains" for label in certificates.labels]
    radii = torch.tensor(certificates.radii, dtype=torch.float32)
    labels = torch.tensor(certificates.labels).clamp_min(0)
    worst = attacked(ensemble, images, labels, radii, noise.sigma)
    answers = sw.predict(
        ensemble, worst, noise=noise, n=options.n // 10, precision="bfloat16", value_range=None
    ).labels

    for k, (name, radius) in enumerate(zip(names, certificates.radii, strict=True)):
        right = "right" if certificates.labels[k] == truth[k] else f"it is {data.classes[truth[k]]}"
        after = "abstains" if answers[k] == sw.ABSTAIN else data.classes[answers[k]]
        print(f"{k * (count // 10):5d}  {name:10} {right:16} radius {radius:.2f}  attacked: {after}")

    generator = torch.Generator().manual_seed(1)
    rows = {
        "image": images,
        "with noise": noise.perturb(images, noise.sample(images.shape, generator)),
        "attacked": worst,
        "in a square": in_a_square(images, radii),
    }
    titles = [f"{name}\n{radius:.2f}" for name, radius in zip(names, certificates.radii, strict=True)]
    try:
        draw(rows, titles, options.out)
    except ImportError:
        raise UserError("the picture needs matplotlib: pip install 'shieldwall[report]'") from None
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
