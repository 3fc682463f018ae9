"""What a page and the server say to each other over the WebSocket, as JSON.

    page    start {job, run, vote, n, pixels}    stop {job}
    server  started {n, n0, alpha, limit, norm, is_by_member, samples}   error {message}
            progress, done {draws, counts, chosen, label, radius, p_lower, curve}

Each has its job. `pixels` are the bytes of an image of the model's size, row by row, in base64. `curve` has
[draws, radius] for every turn since the message before. A job of ensemble-after-smoothing is by member: a
sample has every member's label, and `counts` has for each class the most that a member returned it.
"""

import base64
import binascii
import json
import secrets
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shieldwall.data.splits import to_float
from shieldwall.errors import UserError
from shieldwall.serve.images import png
from shieldwall.serve.runs import Offer, Served
from shieldwall.serve.sampler import Message
from shieldwall.serve.sampling import Sampling

FEWEST_DRAWS, MOST_DRAWS = 100, 100_000
SAMPLES = 8
"""Noisy images that are shown."""
_LARGEST_JOB = 2**53


@dataclass(frozen=True)
class Start:
    job: int
    run: Served
    vote: str
    n: int
    image: Tensor
    """(C, H, W) in [0, 1]"""


@dataclass(frozen=True)
class Stop:
    job: int


def parse(text: str, offer: Offer) -> Start | Stop:
    """The message, if it is one that a page sends."""
    try:
        given: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError("a message must be JSON") from error
    if not isinstance(given, dict):
        raise UserError("a message must be a JSON object")
    kind = given.get("type")
    job = _whole("job", given.get("job"), 0, _LARGEST_JOB)
    if kind == "stop":
        return Stop(job)
    if kind != "start":
        raise UserError(f"a message is of type start or stop; given: {_short(kind)}")
    run = offer.runs[_whole("run", given.get("run"), 0, len(offer.runs) - 1)]
    vote = given.get("vote")
    if not isinstance(vote, str) or vote not in run.votes:
        raise UserError(f"vote must be one of {', '.join(run.votes)}; given: {_short(vote)}")
    n = _whole("n", given.get("n"), FEWEST_DRAWS, MOST_DRAWS)
    return Start(job, run, vote, n, image_of(given.get("pixels"), offer.shape))


def image_of(pixels: object, shape: tuple[int, int, int]) -> Tensor:
    """(C, H, W) in [0, 1] from base64 of bytes (H, W, C)."""
    channels, height, width = shape
    try:
        content = base64.b64decode(pixels if isinstance(pixels, str) else "?", validate=True)
    except (ValueError, binascii.Error) as error:
        raise UserError("pixels must be bytes in base64") from error
    if len(content) != height * width * channels:
        raise UserError(
            f"pixels must be {height} x {width} x {channels} = {height * width * channels} bytes; "
            f"given: {len(content)}"
        )
    rows = np.frombuffer(content, dtype=np.uint8).reshape(height, width, channels)
    return to_float(torch.from_numpy(rows.copy()).permute(2, 0, 1).contiguous())


def pixels_of(image: np.ndarray[Any, np.dtype[np.uint8]]) -> str:
    """Base64 of the bytes of an image (H, W, C)."""
    return base64.b64encode(np.ascontiguousarray(image).tobytes()).decode()


def replies(start: Start, device: torch.device, stopped: threading.Event) -> Iterator[Message]:
    """One message per turn: samples first, then what is known, at last what is certified.

    `stopped` ends it at the next turn, with what is certified by then.
    """
    sampling = Sampling(start.run, start.vote, start.image, start.n, secrets.randbits(63), device)
    noisy, labels = sampling.first_draws(SAMPLES)
    shown = [{"image": png(one), "labels": given} for one, given in zip(noisy, labels, strict=True)]
    yield {
        "type": "started", "samples": shown, "n": start.n, "n0": start.run.n0,
        "alpha": start.run.alpha, "limit": sampling.limit, "norm": sampling.norm,
        "is_by_member": sampling.is_by_member,
    }  # fmt: skip
    for standing in sampling.turns():
        ended = stopped.is_set() or standing.draws == start.n
        curve = [[standing.draws, standing.radius]]
        yield {"type": "done" if ended else "progress", **asdict(standing), "curve": curve}
        if ended:
            return


def _whole(name: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise UserError(f"{name} must be a whole number from {least:,} to {most:,}; given: {_short(value)}")
    return value


def _short(value: object) -> str:
    return shortened(repr(value), 40)


def shortened(text: str, most: int) -> str:
    """What a visitor sent, as a message of ours repeats it."""
    return text if len(text) <= most else text[:most] + "..."
