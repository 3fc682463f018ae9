"""One file over HTTP, resumed where it stopped and checked before it gets its name."""

import hashlib
import time
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from shieldwall.errors import UserError

Progress = Callable[[str, int, int], None]

ATTEMPTS = 5
PAUSE_S = 1.0
_TIMEOUT_S = 30.0
_CHUNK = 1 << 18
_PARTIAL, _OUT_OF_RANGE = 206, 416


class _DroppedError(Exception):
    """The connection failed in a way that trying again may mend."""


def download(url: str, target: Path, md5: str, on_progress: Progress | None = None) -> None:
    """Make `target` the file at `url` with this checksum; nothing is done if it already is."""
    part = target.with_name(target.name + ".part")
    try:
        if has_md5(target, md5):
            return
        part.parent.mkdir(parents=True, exist_ok=True)
        _complete(url, part, md5, on_progress)
        if not has_md5(part, md5):
            part.unlink()
            raise UserError(f"{url} does not have the published checksum {md5}; what came was deleted")
        part.replace(target)
    except OSError as error:
        raise UserError(
            f"cannot write {part}: {error.strerror}; once mended, run it again to resume"
        ) from error


def has_md5(path: Path, md5: str) -> bool:
    """Whether the file is there with this checksum."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
    return digest.hexdigest() == md5


def _complete(url: str, part: Path, md5: str, on_progress: Progress | None) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _continue(url, part, md5, on_progress)
            return
        except _DroppedError as error:
            if attempt == ATTEMPTS:
                raise UserError(f"could not fetch {url}: {error}; run it again to resume") from error
            time.sleep(PAUSE_S * attempt)


def _continue(url: str, part: Path, md5: str, on_progress: Progress | None) -> None:
    """Ask for what `part` lacks, and add it."""
    have = part.stat().st_size if part.exists() else 0
    try:
        response = _open(url, have)
    except HTTPError as error:
        error.close()
        # Out of range: either nothing was lacking, or what is there is longer than the file.
        if error.code == _OUT_OF_RANGE and has_md5(part, md5):
            return
        if error.code == _OUT_OF_RANGE and have:
            part.unlink()
        elif error.code < 500:
            raise UserError(f"{url} answered {error.code} {error.reason}") from error
        raise _DroppedError(f"the server answered {error.code} {error.reason}") from error
    with response:
        # A server that knows no ranges answers 200 and sends everything again.
        done = have if response.status == _PARTIAL else 0
        if done and not response.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
            part.unlink()
            raise _DroppedError("the server sent another part than the one asked for")
        length = response.headers.get("Content-Length")
        total = done + int(length) if length else 0
        with part.open("ab" if done else "wb") as file:
            while chunk := _receive(response):
                done += file.write(chunk)
                if on_progress is not None:
                    on_progress(part.stem, done, total)
    if done < total:
        raise _DroppedError(f"the connection closed after {done:,} of {total:,} bytes")


def _open(url: str, start: int) -> HTTPResponse:
    try:
        request = Request(url, headers={"Range": f"bytes={start}-"} if start else {})
        response: HTTPResponse = urlopen(request, timeout=_TIMEOUT_S)
        return response
    except HTTPError:
        raise
    except ValueError as error:
        raise UserError(f"{url} is not an address to fetch from: {error}") from error
    except (OSError, HTTPException) as error:
        raise _DroppedError(str(error)) from error


def _receive(response: HTTPResponse) -> bytes:
    try:
        return response.read(_CHUNK)
    except (OSError, HTTPException) as error:
        raise _DroppedError(str(error)) from error
