"""The live page: its files, images in, and the WebSocket that certifies them, a turn for each visitor."""

import logging
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync
from jinja2 import Environment, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from shieldwall.data.images import TOO_LARGE, ImageRejected
from shieldwall.errors import UserError
from shieldwall.serve.access import HostCheck, OriginCheck
from shieldwall.serve.images import (
    FRAMES,
    MAX_BYTES,
    PreparedImage,
    file_too_large,
    from_drawing,
    from_upload,
)
from shieldwall.serve.live import NUM_COPIES, Start, encode_pixels, parse, replies, shorten
from shieldwall.serve.service import Service

MAX_VISITORS = 64
MAX_JOBS = 16
BODY_SECONDS = 60.0
"""How long an image may take to arrive."""
STEPS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
"""What the slider of n offers."""
_MAX_INDEX_DIGITS = 9
_SCRIPTS = ("page.js", "common.js", "image.js", "certificate.js")
_FILES = {"page.css": "text/css", "icon.svg": "image/svg+xml", **dict.fromkeys(_SCRIPTS, "text/javascript")}
_VOTE_TITLES = {"we": "weighted (WE)", "mme": "max-margin (MME)", "eas": "after smoothing (EAS)"}
_log = logging.getLogger(__name__)


def application(
    service: Service,
    names: Iterable[str] = (),
    *,
    max_visitors: int = MAX_VISITORS,
    max_jobs: int = MAX_JOBS,
    body_seconds: float = BODY_SECONDS,
) -> Starlette:
    """The page for these runs; `names` are host names that it is reached by, besides addresses."""
    routes = _Routes(service, max_visitors, max_jobs, body_seconds)
    static = files("shieldwall.serve").joinpath("static")
    contents = {name: (static.joinpath(name).read_bytes(), kind) for name, kind in _FILES.items()}
    contents[""] = page(service).encode(), "text/html"
    return Starlette(
        routes=[
            *(Route(f"/{name}", _file(*content)) for name, content in contents.items()),
            Route("/test/{index}", routes.test_image),
            Route("/upload", routes.upload, methods=["POST"]),
            Route("/drawing", routes.drawing, methods=["POST"]),
            WebSocketRoute("/certify", routes.certify),
        ],
        middleware=[Middleware(OriginCheck), Middleware(HostCheck, names=["localhost", *names])],
        exception_handlers={ImageRejected: _reject, HTTPException: _fail},
    )


def page(service: Service) -> str:
    """The page with what it needs to know of the runs, as JSON inside it."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(
        files("shieldwall.serve").joinpath("static", "page.html.j2").read_text("utf-8")
    )
    frame = FRAMES.get(service.data)
    channels, height, width = service.shape
    known = {
        "classes": service.classes,
        "channels": channels,
        "height": height,
        "width": width,
        "tests": len(service.test),
        "pen": frame.pen if frame else None,
        "steps": STEPS,
        "maxBytes": MAX_BYTES,
        "copies": NUM_COPIES,
        "runs": [
            {
                "family": run.family,
                "sigma": run.sigma,
                "votes": [{"name": name, "title": _vote_title(name)} for name in run.votes],
            }
            for run in service.runs
        ],
    }
    return template.render(
        known=known, data=service.data, draws=frame is not None, tests=len(service.test),
        max_megabytes=MAX_BYTES // 2**20,
    )  # fmt: skip


class _Routes:
    """What the page asks for, and the turns that its visitors take."""

    def __init__(self, service: Service, max_visitors: int, max_jobs: int, body_seconds: float) -> None:
        self._service = service
        self._frame = FRAMES.get(service.data)
        self._max_visitors, self._max_jobs, self._body_seconds = max_visitors, max_jobs, body_seconds
        self._visitors = 0
        self._jobs: set[_Job] = set()
        # First in, first out: who has had a turn waits until everyone else has had one.
        self._turns, self._decoding = anyio.CapacityLimiter(1), anyio.CapacityLimiter(1)

    def test_image(self, request: Request) -> Response:
        text, test = request.path_params["index"], self._service.test
        if not len(test):
            raise ImageRejected(404, f"the data set {self._service.data} is not on this machine")
        index = int(text) if text.isdecimal() and len(text) <= _MAX_INDEX_DIGITS else len(test)
        if index >= len(test):
            name = shorten(text, _MAX_INDEX_DIGITS)
            raise ImageRejected(404, f"there is no test image {name}: they go from 0 to {len(test) - 1}")
        pixels = (test.images([index])[0] * 255).round().byte().permute(1, 2, 0).cpu().numpy()
        truth = self._service.classes[int(test.labels[index])]
        return _answer(PreparedImage(pixels, f"test image {index}, class {truth}"))

    async def upload(self, request: Request) -> Response:
        return await self._prepare(
            request, lambda content: from_upload(content, self._service.shape, self._frame)
        )

    async def drawing(self, request: Request) -> Response:
        frame = self._frame
        if frame is None:
            raise ImageRejected(
                404, f"drawings are for handwritten digits; these runs are on {self._service.data}"
            )
        return await self._prepare(request, lambda content: from_drawing(content, frame))

    async def _prepare(self, request: Request, prepare: Callable[[bytes], PreparedImage]) -> Response:
        content = await _body(request, self._body_seconds)
        return _answer(await run_sync(prepare, content, limiter=self._decoding))

    async def certify(self, socket: WebSocket) -> None:
        """One open page: at most one job, which a new one replaces and which ends with the page."""
        await socket.accept()
        if self._visitors >= self._max_visitors:
            await socket.close(1013, "too many visitors at the moment")
            return
        self._visitors += 1
        try:
            async with anyio.create_task_group() as tasks:
                await self._converse(socket, tasks)
                tasks.cancel_scope.cancel()
        finally:
            self._visitors -= 1

    async def _converse(self, socket: WebSocket, tasks: TaskGroup) -> None:
        job = _Job(-1)
        try:
            while (message := await socket.receive())["type"] != "websocket.disconnect":
                if (text := message.get("text")) is None:
                    job.scope.cancel()
                    await socket.close(1003, "a message must be text")
                    return
                try:
                    order = parse(text, self._service)
                    if isinstance(order, Start):
                        self._end(job)
                        job = _Job(order.job)
                        self._admit(job)
                        tasks.start_soon(self._sample, socket, order, job)
                    elif order.job == job.number:
                        job.stopped.set()
                except UserError as error:
                    await job.tell(socket, {"type": "error", "message": str(error)})
        except WebSocketDisconnect:  # while it was sent an answer
            pass
        finally:
            self._end(job)

    def _admit(self, job: "_Job") -> None:
        others = len(self._jobs)
        if others >= self._max_jobs:
            raise UserError(f"{others} others are sampling at the moment; try again in a little while")
        self._jobs.add(job)

    def _end(self, job: "_Job") -> None:
        job.scope.cancel()
        self._jobs.discard(job)

    async def _sample(self, socket: WebSocket, start: Start, job: "_Job") -> None:
        """Turn by turn, each sent before the next one is waited for: a slow page slows only itself."""
        turns = replies(start, job.stopped, self._service.device)
        with suppress(WebSocketDisconnect), job.scope:
            try:
                while message := await run_sync(next, turns, None, limiter=self._turns):
                    if job.scope.cancel_called:  # during the turn
                        return
                    await job.tell(socket, message)
            except UserError as error:
                await job.tell(socket, {"type": "error", "message": str(error)})
            except WebSocketDisconnect:
                raise
            except Exception:  # one job's fault must not end the others'
                _log.exception("a job failed")
                reason = "the server failed at this image; its console says why"
                await job.tell(socket, {"type": "error", "message": reason})
        self._jobs.discard(job)


@dataclass(eq=False)
class _Job:
    number: int
    stopped: threading.Event = field(default_factory=threading.Event)
    """Set when the page wants what is certified by now."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    """Cancelled when the page wants nothing more of it."""

    async def tell(self, socket: WebSocket, message: dict[str, Any]) -> None:
        await socket.send_json({**message, "job": self.number})


async def _body(request: Request, seconds: float) -> bytes:
    """The body, given up as soon as it is known to be too large or too slow."""
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > MAX_BYTES:
        raise file_too_large()
    content = bytearray()
    try:
        with anyio.fail_after(seconds):
            async for part in request.stream():
                content += part
                if len(content) > MAX_BYTES:
                    raise file_too_large()
    except TimeoutError as error:
        raise ImageRejected(408, f"the file took longer than {seconds:g} seconds to arrive") from error
    except ClientDisconnect as error:
        raise ImageRejected(400, "the file did not arrive whole") from error
    return bytes(content)


def _answer(image: PreparedImage) -> Response:
    return JSONResponse({"pixels": encode_pixels(image.pixels), "note": image.note})


def _file(content: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
    async def send(request: Request) -> Response:
        return Response(content, media_type=kind)

    return send


async def _reject(request: Request, error: Exception) -> Response:
    status = getattr(error, "status", 400)
    headers = {"connection": "close"} if status in (TOO_LARGE, 408) else {}  # the rest is not read
    return JSONResponse({"error": str(error)}, status, headers)


async def _fail(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return JSONResponse({"error": f"{request.url.path} is not served here"}, status)


def _vote_title(vote: str) -> str:
    return _VOTE_TITLES.get(vote) or vote.replace("member-", "member ").replace("we-", "WE, weights by ")
