"""Denoised smoothing beside training with noise: a plainly trained network behind trained denoisers.

    python benchmarks/denoised.py digits
    python benchmarks/denoised.py mnist

The same network is trained without noise and with noise of sigma 0.25. Before the first stands one denoiser,
on digits also three that vote (WE). All are certified on the same test images. On MNIST the networks see
every sixth training image.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch

import shieldwall as sw
from shieldwall.console import PlainConsole

NOISE, NO_NOISE = sw.Gaussian(0.25), sw.Gaussian(1e-9)
N = 1_000
GENTLE = {"lr": 0.1, "curve": "cosine", "warmup": 50, "clip": 0.2}
"""The stability loss has steep gradients at first, which can leave a denoiser that does nothing."""
SETTINGS: dict[str, dict[str, Any]] = {
    "digits": {
        "model": "digits-cnn", "count": 3, "every": (1, 1), "denoiser": {"width": 32, "depth": 5},
        "classifier": {"epochs": 20, "batch_size": 64, "lr": 0.1, "curve": "cosine"},
        "denoisers": {"epochs": 60, "batch_size": 64, **GENTLE},
    },
    "mnist": {
        "model": "lenet", "count": 1, "every": (6, 100), "denoiser": {"width": 16, "depth": 4},
        "classifier": {"epochs": 4, "batch_size": 128, "lr": 0.02, "curve": "cosine"},
        "denoisers": {"epochs": 3, "batch_size": 128, **GENTLE},
    },
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", choices=SETTINGS)
    parser.add_argument("--data-dir", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    settings, dataset = SETTINGS[arguments.data], sw.load_data(arguments.data, arguments.data_dir)
    train = dataset.train.subset(range(0, len(dataset.train), settings["every"][0]))
    rows = range(0, len(dataset.test), settings["every"][1])
    images, labels = dataset.test.images(rows), dataset.test.labels[list(rows)]
    began = time.perf_counter()

    def trained(noise: sw.Gaussian) -> torch.nn.Module:
        (model,) = sw.build_members(settings["model"], 1, len(dataset.classes), dataset.shape, seed=0)
        schedule = sw.Schedule(**settings["classifier"])
        sw.train([model], train, sw.GaussianAugmentation(noise, num_noise=1), schedule=schedule)
        return model

    plain, noisy = trained(NO_NOISE), trained(NOISE)
    print(f"two networks: {time.perf_counter() - began:.0f} s", flush=True)
    torch.manual_seed(0)
    shape = {"channels": dataset.shape[0], **settings["denoiser"]}
    denoised = [sw.Denoised(sw.Denoiser(**shape), plain) for _ in range(settings["count"])]
    schedule = sw.Schedule(**settings["denoisers"])
    records = sw.train(denoised, train, sw.Denoising(NOISE, num_noise=1), schedule=schedule, independent=True)
    print(f"{len(denoised)} denoisers: {time.perf_counter() - began:.0f} s; {records[-1]}", flush=True)
    votes = sw.certify_members(denoised, images, noise=NOISE, n=N, votes=["member-1", "we"])
    compared = {
        "plain": sw.certify(plain, images, noise=NOISE, n=N),
        "plain behind a denoiser": votes["member-1"],
        **({f"plain behind {len(denoised)} (WE)": votes["we"]} if len(denoised) > 1 else {}),
        "trained with noise": sw.certify(noisy, images, noise=NOISE, n=N),
    }
    PlainConsole().print(sw.compare(compared, labels, radii=[0.25, 0.5, 0.75]), crop=False)
    print(f"in all: {time.perf_counter() - began:.0f} s, {time.process_time():.0f} s of one core")


if __name__ == "__main__":
    main()
