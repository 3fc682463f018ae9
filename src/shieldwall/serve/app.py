"""The live page: its files, images in, and the WebSocket that certifies them, a turn for each visitor."""

import base64
import ipaddress
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import anyio
from anyio import to_process, to_thread
from anyio.abc import TaskGroup
from jinja2 import StrictUndefined, Template
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketClose, WebSocketDisconnect, WebSocketState

from shieldwall.data.images import TOO_LARGE, ImageRejected
from shieldwall.errors import UserError
from shieldwall.serve import live
from shieldwall.serve.images import FRAMES, MAX_BYTES, PreparedImage, from_drawing, from_upload
from shieldwall.serve.service import Service
from shieldwall.vocabulary import vote_title

MAX_VISITORS = 128
MESSAGE_SECONDS = 0.1  # what passes at least between two messages of a page that are read
MAX_UPLOADS = 16  # files held in memory at a time, each of at most `MAX_BYTES`; a client has one of them
MAX_WAITING = 8  # files of one client that may wait
BODY_SECONDS = 20.0  # how long an image may take to arrive
DECODE_SECONDS = 10.0  # how long an image may take to decode, in a process that is then ended
STEPS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)  # what the slider of n offers
_MAX_INDEX_DIGITS = 9
_SCRIPTS = ("page.js", "common.js", "image.js", "certificate.js")
_FILES = {"page.css": "text/css", "icon.svg": "image/svg+xml", **dict.fromkeys(_SCRIPTS, "text/javascript")}
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin", "cross-origin-opener-policy": "same-origin",
}  # fmt: skip
_TITLES = {"we": "weighted (WE)", "mme": "max-margin (MME)", "eas": "after smoothing (EAS)"}
_log = logging.getLogger(__name__)


def application(service: Service, names: Iterable[str] = ()) -> Starlette:
    """The page for these runs; `names` are host names that it is reached by, besides addresses."""
    asked, static = _Routes(service), files("shieldwall.serve").joinpath("static")
    routes: list[BaseRoute] = [
        Route("/", Response(page(service), media_type="text/html"), methods=["GET"]),
        Route("/test/{index}", asked.test_image), WebSocketRoute("/certify", asked.certify),
        Route("/upload", asked.upload, methods=["POST"]), Route("/drawing", asked.drawing, methods=["POST"]),
    ]  # fmt: skip
    for name, kind in _FILES.items():
        content = Response(static.joinpath(name).read_bytes(), media_type=kind)
        routes.append(Route(f"/{name}", content, methods=["GET"]))
    access = Middleware(AccessCheck, names=["localhost", *names])
    handlers = {ImageRejected: _refuse, HTTPException: _refuse}
    return Starlette(routes=routes, middleware=[access], exception_handlers=handlers)


def page(service: Service) -> str:
    text = files("shieldwall.serve").joinpath("static", "page.html.j2").read_text("utf-8")
    frame, (channels, height, width) = FRAMES.get(service.data), service.shape

    def titled(name: str) -> dict[str, str]:
        title = _TITLES.get(name, vote_title(name).replace("we-", "WE, weights by "))
        return {"name": name, "title": title}

    runs = [{"family": r.family, "sigma": r.sigma, "votes": list(map(titled, r.votes))} for r in service.runs]
    known = {
        "classes": service.classes, "channels": channels, "height": height, "width": width,
        "tests": len(service.test), "pen": frame.pen if frame else None, "steps": STEPS,
        "maxBytes": MAX_BYTES, "copies": live.NUM_COPIES, "runs": runs,
    }  # fmt: skip
    layout = Template(text, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    facts = {"data": service.data, "tests": len(service.test), "max_megabytes": MAX_BYTES // 2**20}
    html: str = layout.render(known=known, draws=frame is not None, **facts)
    return html


class AccessCheck:
    """Only pages that the server served itself may talk to it; its headers keep them to themselves.

    Host      an IP address, localhost or a name of this machine: else another site's name points here
    Origin    of a WebSocket or a POST, the very Host asked: else another site's page is asking
    """

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app, self._names = app, {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        app, refusal = self._app, "" if scope["type"] == "lifespan" else self._refusal(scope)
        if refusal and scope["type"] == "websocket":
            app = WebSocketClose(1008, refusal)  # before it is accepted: the browser is told 403
        elif refusal:
            app = JSONResponse({"error": refusal}, 403)
        await app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> str:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        try:
            name = urlsplit(f"//{host}").hostname or ""
            if name not in self._names:
                ipaddress.ip_address(name)  # another site may point its name here, but no name is an address
        except ValueError:
            return "nothing is served under this name"
        is_own_page = headers.get("origin") in (f"http://{host}", f"https://{host}")
        changes_state = scope.get("method") not in ("GET", "HEAD")
        return "only the page served here may ask for this" if changes_state and not is_own_page else ""


class _Routes:
    def __init__(self, service: Service) -> None:
        self._service, self._frame = service, FRAMES.get(service.data)
        self._visits: list[tuple[str, anyio.CancelScope]] = []
        # First in, first out: who has had a turn waits until everyone else has had one.
        self._turns, self._decoding = anyio.CapacityLimiter(1), anyio.CapacityLimiter(2)
        self._uploads = anyio.CapacityLimiter(MAX_UPLOADS)
        self._upload_of: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()

    def test_image(self, request: Request) -> Response:
        text, test = request.path_params["index"], self._service.test
        if not len(test):
            raise ImageRejected(404, f"the data set {self._service.data} is not on this machine")
        name = live.shorten(text, _MAX_INDEX_DIGITS)
        if not name.isdecimal() or (index := int(name)) >= len(test):
            raise ImageRejected(404, f"there is no test image {name}: they go from 0 to {len(test) - 1}")
        truth = self._service.classes[int(test.labels[index])]
        pixels = live.to_pixels(test.images([index])[0])
        return _answer(PreparedImage(pixels, f"test image {index}, class {truth}"))

    async def upload(self, request: Request) -> Response:
        return await self._prepare(request, from_upload, self._service.shape, self._frame)

    async def drawing(self, request: Request) -> Response:
        if self._frame is None:
            data = self._service.data
            raise ImageRejected(404, f"drawings are for handwritten digits; these runs are on {data}")
        return await self._prepare(request, from_drawing, self._frame)

    async def _prepare(self, request: Request, prepare: Callable[..., PreparedImage], *how: Any) -> Response:
        """The image, once no other file of this client and few of others are being read."""
        turn = self._upload_of.setdefault(_client(request), anyio.Lock())
        if turn.statistics().tasks_waiting >= MAX_WAITING:
            raise ImageRejected(429, "too many files from this address at a time; try again in a while")
        async with turn, self._uploads:
            content = await _body(request)
            async with self._decoding:
                try:
                    with anyio.fail_after(DECODE_SECONDS):
                        image = await to_process.run_sync(prepare, content, *how, cancellable=True)
                except TimeoutError as error:
                    reason = f"the image takes longer than {DECODE_SECONDS:g} seconds to decode"
                    raise ImageRejected(TOO_LARGE, f"{reason}; choose a smaller one") from error
        return _answer(image)

    async def certify(self, socket: WebSocket) -> None:
        """One open page, of at most one job. Where all places are taken, one of two pages more makes room."""
        await socket.accept()
        pages, client = Counter(client for client, _ in self._visits), _client(socket)
        if len(self._visits) >= MAX_VISITORS:
            busiest, most = pages.most_common(1)[0]
            if most < pages[client] + 2:
                await socket.close(1013, "too many visitors at the moment")
                return
            next(scope for other, scope in self._visits if other == busiest).cancel()
        async with anyio.create_task_group() as tasks:
            visit = client, tasks.cancel_scope
            self._visits.append(visit)
            try:
                await self._converse(socket, tasks)
                tasks.cancel_scope.cancel()
            finally:
                self._visits.remove(visit)
        if socket.client_state == socket.application_state == WebSocketState.CONNECTED:
            with suppress(WebSocketDisconnect):
                await socket.close(1013, "your place was given to another visitor; close some of your pages")

    async def _converse(self, socket: WebSocket, tasks: TaskGroup) -> None:
        job, next_at = _Job(-1), 0.0
        try:
            while (message := await socket.receive())["type"] != "websocket.disconnect":
                if (text := message.get("text")) is None:
                    job.scope.cancel()
                    await socket.close(1003, "a message must be text")
                    return
                await anyio.sleep_until(next_at)
                next_at = anyio.current_time() + MESSAGE_SECONDS
                try:
                    order = live.parse(text, self._service)
                    if isinstance(order, live.Start):
                        job.scope.cancel()
                        job = _Job(order.job)
                        tasks.start_soon(self._sample, socket, order, job)
                    elif order == job.number:
                        job.stopped.set()
                except UserError as error:
                    await job.tell(socket, {"type": "error", "message": str(error)})
        except WebSocketDisconnect:  # while it was sent an answer
            pass

    async def _sample(self, socket: WebSocket, start: live.Start, job: "_Job") -> None:
        """Turn by turn, each sent before the next one is waited for: a slow page slows only itself."""
        turns = live.replies(start, job.stopped, self._service.device)
        with suppress(WebSocketDisconnect), job.scope:
            try:
                while message := await to_thread.run_sync(next, turns, None, limiter=self._turns):
                    if job.scope.cancel_called:  # during the turn
                        return
                    await job.tell(socket, message)
            except WebSocketDisconnect:
                raise
            except UserError as error:
                await job.tell(socket, {"type": "error", "message": str(error)})
            except Exception:  # one job's fault must not end the others'
                _log.exception("a job failed")
                reason = "the server failed at this image; its console says why"
                await job.tell(socket, {"type": "error", "message": reason})


@dataclass(eq=False)
class _Job:
    number: int
    stopped: threading.Event = field(default_factory=threading.Event)  # set: what is certified now is wanted
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)  # cancelled: nothing more is wanted

    async def tell(self, socket: WebSocket, message: dict[str, Any]) -> None:
        if socket.application_state != WebSocketState.CONNECTED:  # an earlier message found it gone
            raise WebSocketDisconnect
        try:
            await socket.send_json({**message, "job": self.number})
        except RuntimeError as error:  # the connection ended without a word
            raise WebSocketDisconnect from error


async def _body(request: Request) -> bytes:
    """The body, given up as soon as it is known to be too large or too slow."""
    reason = f"the file is larger than {MAX_BYTES // 2**20} MB; choose a smaller one"
    too_large, length = ImageRejected(TOO_LARGE, reason), request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > MAX_BYTES:
        raise too_large
    content = bytearray()
    try:
        with anyio.fail_after(BODY_SECONDS):
            async for part in request.stream():
                content += part
                if len(content) > MAX_BYTES:
                    raise too_large
    except TimeoutError as error:
        raise ImageRejected(408, f"the file took longer than {BODY_SECONDS:g} seconds to arrive") from error
    except ClientDisconnect as error:
        raise ImageRejected(400, "the file did not arrive whole") from error
    return bytes(content)


def _client(connection: HTTPConnection) -> str:
    return connection.client.host if connection.client else ""


def _answer(image: PreparedImage) -> Response:
    return JSONResponse({"pixels": base64.b64encode(image.pixels.tobytes()).decode(), "note": image.note})


async def _refuse(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": f"{request.url.path} is not served here"}, error.status_code)
    status = getattr(error, "status", 400)
    headers = {"connection": "close"} if status in (408, TOO_LARGE, 429) else {}  # the rest is not read
    return JSONResponse({"error": str(error)}, status, headers)
