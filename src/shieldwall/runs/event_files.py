"""A TensorBoard event file of a training: one scalar per number of a record, step = epoch.

The file is only ever added to, so that a TensorBoard that watches it keeps its place, and what is added are
the points it does not hold yet. So none is lost or doubled, wherever a call before was stopped, and whether
or not that one wrote the file.
"""

import json
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path

from shieldwall.errors import UserError
from shieldwall.extras import require
from shieldwall.files import disk_errors
from shieldwall.runs.folder import RunFolder
from shieldwall.training.loop import Record

FILE = "tensorboard/events.out.tfevents.training"
LENGTH, CHECKSUM = struct.Struct("<Q"), 4

Point = tuple[str, int]
"""A tag and a step."""
Write = Callable[[Sequence[Record]], None]
"""Given all records so far, write the points that the file does not hold."""


def check_installed() -> None:
    """Say what to install before anything is trained."""
    require("tensorboard", "--tensorboard")


def writer(run: RunFolder) -> Write:
    """What to call after every epoch."""
    path = run.path / FILE
    with disk_errors(path):
        path.parent.mkdir(exist_ok=True)
        held = _repaired(path)

    def write(records: Sequence[Record]) -> None:
        with disk_errors(path), path.open("ab") as file:
            file.write(_framed(_missing(records, held)))

    return write


def write_from_log(run: RunFolder) -> None:
    """The event file of a training that is finished."""
    log = run.path / "training.jsonl"
    try:
        records = [json.loads(line) for line in log.read_text().splitlines()]
    except (OSError, ValueError) as error:
        raise UserError(f"{log} cannot be read, so there is nothing to write for TensorBoard") from error
    writer(run)(records)


def _repaired(path: Path) -> set[Point]:
    """The points in the file, which loses what a kill or a full disk left of its last event."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[import-untyped]

    content = path.read_bytes() if path.exists() else b""
    held: set[Point] = set()
    end = 0
    while len(content) >= (begin := end + LENGTH.size + CHECKSUM):
        stop = begin + LENGTH.unpack_from(content, end)[0]
        if len(content) < stop + CHECKSUM:
            break
        try:
            event = Event.FromString(content[begin:stop])
        except DecodeError as error:
            raise UserError(f"{path} is damaged; delete it, and it will be written anew") from error
        held |= {(value.tag, event.step) for value in event.summary.value}
        end = stop + CHECKSUM
    with path.open("ab") as file:
        file.truncate(end)
        if end == 0:
            version = Event(wall_time=time.time(), file_version="brain.Event:2")
            file.write(_framed([version.SerializeToString()]))
    return held


def _missing(records: Sequence[Record], held: set[Point]) -> Iterator[bytes]:
    """What is not held, which it then is; several epochs are dated as if they had run just now."""
    from tensorboard.compat.proto.event_pb2 import Event
    from torch.utils.tensorboard.summary import scalar

    ended = time.time() - sum(record["seconds"] for record in records)
    for record in records:
        ended += record["seconds"]
        for name, value in record.items():
            point = f"training/{name}", record["epoch"]
            if name != "epoch" and isinstance(value, int | float) and point not in held:
                held.add(point)
                summary = scalar(point[0], value)  # type: ignore[no-untyped-call]
                yield Event(wall_time=ended, step=point[1], summary=summary).SerializeToString()


def _framed(events: Iterable[bytes]) -> bytes:
    """Events as the file holds them: length, its checksum, event, its checksum."""
    from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

    content = BytesIO()
    for event in events:
        RecordWriter(content).write(event)
    return content.getvalue()
