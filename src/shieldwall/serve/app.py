"""The routes: the page and its parts, images in, and the WebSocket that certifies them."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from shieldwall.serve.guard import Guard
from shieldwall.serve.handwriting import FRAMES
from shieldwall.serve.images import (
    MOST_BYTES,
    TOO_LARGE,
    Prepared,
    RefusedError,
    from_drawing,
    from_upload,
    too_large,
)
from shieldwall.serve.messages import pixels_of, shortened
from shieldwall.serve.page import page
from shieldwall.serve.runs import Offer
from shieldwall.serve.sampler import Sampler
from shieldwall.serve.visitor import Visitor

MOST_VISITORS = 64
TRY_AGAIN_LATER = 1013
_MOST_DIGITS = 9
_SCRIPTS = ("page.js", "common.js", "image.js", "standing.js")
_KINDS = {"page.css": "text/css", "icon.svg": "image/svg+xml", **dict.fromkeys(_SCRIPTS, "text/javascript")}


def application(offer: Offer, names: Iterable[str] = (), most_visitors: int = MOST_VISITORS) -> Starlette:
    """The page for these runs; `names` are host names that it is reached by, besides addresses."""
    return _Routes(offer, most_visitors).application(names)


class _Routes:
    def __init__(self, offer: Offer, most_visitors: int) -> None:
        self._offer = offer
        self._most_visitors = most_visitors
        self._visitors = 0
        self._sampler = Sampler()
        self._frame = FRAMES.get(offer.data)
        self._page = page(offer)

    def application(self, names: Iterable[str]) -> Starlette:
        return Starlette(
            routes=[
                Route("/", self._show),
                *(Route(f"/{name}", partial(_part, name)) for name in _KINDS),
                Route("/test/{index}", self._test_image),
                Route("/upload", self._upload, methods=["POST"]),
                Route("/drawing", self._drawing, methods=["POST"]),
                WebSocketRoute("/certify", self._certify),
            ],
            middleware=[Middleware(Guard, names=names)],
            exception_handlers={RefusedError: _refuse, HTTPException: _fail},
            lifespan=self._lifespan,
        )

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self._one_at_a_time = anyio.CapacityLimiter(1)
        self._sampler.start()
        yield
        self._sampler.close()

    async def _show(self, request: Request) -> Response:
        return HTMLResponse(self._page)

    def _test_image(self, request: Request) -> Response:
        given, test = request.path_params["index"], self._offer.test
        if not len(test):
            raise RefusedError(404, f"the data set {self._offer.data} is not on this machine")
        index = int(given) if given.isdecimal() and len(given) <= _MOST_DIGITS else len(test)
        if index >= len(test):
            name = shortened(given, _MOST_DIGITS)
            raise RefusedError(404, f"there is no test image {name}: they go from 0 to {len(test) - 1}")
        pixels = (test.images([index])[0] * 255).round().byte().permute(1, 2, 0).cpu().numpy()
        truth = self._offer.classes[int(test.labels[index])]
        return _answer(Prepared(pixels, f"test image {index}, class {truth}"))

    async def _upload(self, request: Request) -> Response:
        return await self._prepared(
            request, lambda content: from_upload(content, self._offer.shape, self._frame)
        )

    async def _drawing(self, request: Request) -> Response:
        frame = self._frame
        if frame is None:
            raise RefusedError(
                404, f"drawings are for handwritten digits; these runs are on {self._offer.data}"
            )
        return await self._prepared(request, lambda content: from_drawing(content, frame))

    async def _prepared(self, request: Request, prepare: Callable[[bytes], Prepared]) -> Response:
        content = await _body(request)
        return _answer(await anyio.to_thread.run_sync(prepare, content, limiter=self._one_at_a_time))

    async def _certify(self, socket: WebSocket) -> None:
        if self._visitors >= self._most_visitors:
            await socket.accept()
            await socket.close(TRY_AGAIN_LATER, "too many visitors at the moment")
            return
        self._visitors += 1
        try:
            await Visitor(socket, self._offer, self._sampler).attend()
        finally:
            self._visitors -= 1


async def _body(request: Request) -> bytes:
    """The body, given up as soon as it is known to be too large."""
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > MOST_BYTES:
        raise too_large()
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > MOST_BYTES:
            raise too_large()
    return bytes(content)


def _answer(prepared: Prepared) -> Response:
    return JSONResponse({"pixels": pixels_of(prepared.pixels), "note": prepared.note})


async def _part(name: str, request: Request) -> Response:
    content = files("shieldwall.serve").joinpath("static", name).read_bytes()
    return Response(content, media_type=_KINDS[name])


async def _refuse(request: Request, error: Exception) -> Response:
    status = getattr(error, "status", 400)
    headers = {"connection": "close"} if status == TOO_LARGE else {}  # the rest of the body is not read
    return JSONResponse({"error": str(error)}, status_code=status, headers=headers)


async def _fail(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return JSONResponse({"error": f"{request.url.path} is not served here"}, status_code=status)
