"""An image's certificate as it grows, and what a page and the server say to each other about it, as JSON.

    n0 samples choose class A;  of t <= n fresh ones, S return it
    radius(t) = noise.radius(p(t)),    p(t) = the `Sequential(n)` bound of S among t, at alpha

Why every number on the page may be believed. n is fixed before the first sample. With probability at least
1 - alpha (`smoothing.count_bounds`) all radii of one job hold together, also those shown on the way, so the
visitor may stop at any of them; so do those of ensemble-after-smoothing. Nothing is picked by its outcome:
each radius is a function of the counts beside it. A second job on the same image has samples and an error of
its own; the better of the two has both. Samples come from a seed that the visitor does not know, used once.

    page    start {job, run, vote, n, pixels}    stop {job}
    server  started {n, n0, alpha, limit, norm, is_by_member, copies}   error {message}
            progress, done {draws, counts, chosen, label, radius, p_lower}

Each has its job. `pixels` are the bytes of an image of the model's size, row by row, in base64. A job of
ensemble-after-smoothing is by member: a noisy copy has every member's label.
"""

import base64
import binascii
import io
import json
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from shieldwall import seeds
from shieldwall.binomial import check_draws, clopper_pearson_lower
from shieldwall.data.splits import to_float
from shieldwall.errors import UserError, check
from shieldwall.serve.images import Pixels
from shieldwall.serve.service import ServedRun, Service
from shieldwall.smoothing.certificates import Counts, certificates_from_counts, eas_from_counts
from shieldwall.smoothing.count_bounds import LAST_LOOK, Ball, Sequential
from shieldwall.smoothing.inference import Labeler
from shieldwall.smoothing.sampler import FIRST_VIEW, Sampler
from shieldwall.smoothing.stopping import FixedSampleSize
from shieldwall.vocabulary import ABSTAIN, EAS

MIN_N, MAX_N = 100, 100_000
NUM_COPIES = 8  # noisy copies of the image that are shown; they are not among the samples counted
TURN_SECONDS = 0.025  # how long a visitor's turn may take; a batch begun is finished
_MAX_JOB = 2**53

Message = dict[str, Any]


@dataclass(frozen=True)
class Start:
    job: int
    run: ServedRun
    vote: str
    n: int
    image: Tensor  # (C, H, W) in [0, 1]


@dataclass(frozen=True)
class LiveCertificate:
    draws: int
    counts: list[int]  # how often each class won; for ensemble-after-smoothing, the most of a member
    chosen: int  # the class that the first n0 samples return most often, so far if they are not made
    label: int | None  # the certified class; None while nothing is certified
    radius: float
    p_lower: float


def parse(text: str, service: Service) -> Start | int:
    """The message, if it is one that a page sends: a job, or the number of the one to stop."""
    try:
        message: object = json.loads(text)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise UserError("a message must be a JSON object")
    kind, vote, pixels = (message.get(name) for name in ("type", "vote", "pixels"))
    job = _int(message, "job", 0, _MAX_JOB)
    if kind == "stop":
        return job
    check(kind == "start", "a message is of type start or stop", shorten(repr(kind)))
    run = service.runs[_int(message, "run", 0, len(service.runs) - 1)]
    check(vote in [*run.votes], f"vote must be one of {', '.join(run.votes)}", shorten(repr(vote)))
    return Start(job, run, str(vote), _int(message, "n", MIN_N, MAX_N), _image(pixels, service.shape))


def replies(start: Start, stopped: threading.Event, device: torch.device) -> Iterator[Message]:
    """A message per turn: the noisy copies, what is known, and, at n or once `stopped`, what is certified."""
    check_draws(start.run.n0, start.n, start.run.alpha, share=_share(start))
    seed = secrets.randbits(63)
    yield {
        "type": "started", "copies": noisy_copies(start, seed, device), "n": start.n, "n0": start.run.n0,
        "alpha": start.run.alpha, "limit": largest_radius(start), "norm": _ball(start).norm,
        "is_by_member": start.vote == EAS,
    }  # fmt: skip
    for certificate in certificates(start, seed, device):
        is_over = stopped.is_set() or certificate.draws == start.n
        yield {"type": "done" if is_over else "progress", **asdict(certificate)}
        if is_over:
            return


def certificates(start: Start, seed: int, device: torch.device) -> Iterator[LiveCertificate]:
    """What is known after each turn; the last has n samples."""
    run = start.run
    rule = FixedSampleSize(start.n, Sequential(start.n))
    sampler = Sampler(
        run.members, run.votes[start.vote], run.noise, run.n0, rule, seed=seed, shape=start.image.shape,
        device=device, batch_size=run.batch_size,
    )  # fmt: skip
    look, deadline = FIRST_VIEW, time.monotonic() + TURN_SECONDS
    for counts in sampler.stream(start.image):
        draws = int(counts.estimation[0].sum())
        if draws >= min(look, start.n) or time.monotonic() >= deadline:
            yield _certificate(start, counts)
            look, deadline = max(FIRST_VIEW, 2 * draws), time.monotonic() + TURN_SECONDS


def largest_radius(start: Start) -> float:
    """The radius if every sample returns class A: n samples certify no more."""
    p_lower = clopper_pearson_lower(start.n, start.n, _share(start) * start.run.alpha)
    return float(_ball(start).radius(p_lower))


def noisy_copies(start: Start, seed: int, device: torch.device) -> list[Message]:
    run, shape = start.run, (NUM_COPIES, *start.image.shape)
    generator = seeds.generator(device, seed, "copies")
    noisy = run.noise.perturb(start.image.to(device), run.noise.sample(shape, generator))
    labels, _ = Labeler(run.members, run.votes[start.vote], device)(noisy)
    pairs = zip(noisy.cpu(), labels.T.tolist(), strict=True)
    return [{"image": png_address(image), "labels": votes} for image, votes in pairs]


def png_address(image: Tensor) -> str:
    rows = to_pixels(image)
    buffer = io.BytesIO()
    Image.fromarray(rows[:, :, 0] if rows.shape[2] == 1 else rows).save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def to_pixels(image: Tensor) -> Pixels:
    """(C, H, W), clipped to [0, 1], as bytes (H, W, C)."""
    return np.asarray((image.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).cpu())


def _certificate(start: Start, counts: Counts) -> LiveCertificate:
    selection, estimation = counts.selection, counts.estimation
    draws, most = int(estimation[0].sum()), estimation.max(0).tolist()
    chosen = int(selection.argmax()) % selection.shape[-1]
    if not draws:
        return LiveCertificate(draws, most, chosen, label=None, radius=0.0, p_lower=0.0)
    certify = eas_from_counts if start.vote == EAS else certificates_from_counts
    if start.vote == EAS:
        selection, estimation = selection[None], estimation[None]
    run, bound, size = start.run, Sequential(start.n), start.image.numel()
    certificate = certify(selection, estimation, run.noise, run.alpha, bound=bound, size=size)
    assert certificate.p_lower is not None
    label = None if certificate.labels[0] == ABSTAIN else int(certificate.labels[0])
    return LiveCertificate(
        draws, most, chosen, label, float(certificate.radii[0]), float(certificate.p_lower[0])
    )


def _share(start: Start) -> float:
    """The part of alpha that the last bound of each vote counted has."""
    return LAST_LOOK / len(start.run.votes[start.vote])


def _ball(start: Start) -> Ball:
    return Ball.of(start.run.noise, None, start.image.numel())


def _image(pixels: object, shape: tuple[int, int, int]) -> Tensor:
    """(C, H, W) in [0, 1] from base64 of bytes (H, W, C)."""
    channels, height, width = shape
    try:
        content = base64.b64decode(pixels if isinstance(pixels, str) else "?", validate=True)
    except (ValueError, binascii.Error) as error:
        raise UserError("pixels must be bytes in base64") from error
    size = height * width * channels
    check(
        len(content) == size, f"pixels must be {height} x {width} x {channels} = {size} bytes", len(content)
    )
    rows = np.frombuffer(content, dtype=np.uint8).reshape(height, width, channels)
    return to_float(torch.from_numpy(rows.copy()).permute(2, 0, 1).contiguous())


def _int(message: Message, name: str, least: int, most: int) -> int:
    value = message.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        rule = f"{name} must be a whole number from {least:,} to {most:,}"
        raise UserError(f"{rule}; given: {shorten(repr(value))}")
    return value


def shorten(text: str, length: int = 40) -> str:
    """What a visitor sent, as a message of ours repeats it."""
    return text if len(text) <= length else text[:length] + "..."
