"""Pages whose certificates are known: a linear classifier of 8 x 8 images, served in this process."""

import asyncio
import base64
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import torch
from starlette.types import ASGIApp, Message
from torch import Tensor, nn
from websockets.sync.client import ClientConnection, connect

from shieldwall import recipes
from shieldwall.data.splits import TensorSplit
from shieldwall.ensembles.votes import vote_set
from shieldwall.models.registry import build_members
from shieldwall.noise.distributions import Gaussian
from shieldwall.runs.folder import RunFolder
from shieldwall.serve.server import address_of, listen, server_for
from shieldwall.serve.service import ServedRun, Service

SHAPE = (1, 8, 8)
SIGMA = 0.5
GREY = 153
"""0.6: 0.1 too bright in each of 64 pixels, so 0.8 from the boundary."""
DISTANCE = 0.8
PATIENCE = 120
"""Seconds after which something that never comes fails its test, however busy the machine is."""


class IsBright(nn.Module):
    """Class 1 where the mean pixel is above a threshold."""

    def __init__(self, threshold: float = 0.5) -> None:
        super().__init__()
        self.threshold = threshold

    def forward(self, x: Tensor) -> Tensor:
        brightness = x.flatten(1).mean(1) - (self.threshold - 0.5)
        return torch.stack([1 - brightness, brightness], dim=1)


def linear_service(*, batch_size: int = 256, data: str = "digits", alpha: float = 0.001) -> Service:
    pixels = torch.arange(3 * 64, dtype=torch.uint8).reshape(3, *SHAPE)
    run = ServedRun(
        family="linear",
        sigma=SIGMA,
        noise=Gaussian(SIGMA),
        members=[IsBright()],
        votes={"member-1": [vote_set(["member-1"], 1).counted[0]]},
        n0=50,
        alpha=alpha,
        batch_size=batch_size,
    )
    test = TensorSplit(pixels, torch.tensor([0, 1, 1]))
    return Service(data, ("dark", "bright"), SHAPE, test, torch.device("cpu"), (run,))


def make_run(path: Path, **changes: object) -> Path:
    """A run folder with members as they are before training."""
    recipe = replace(recipes.get("smoke"), **changes)
    shape = (1, 28, 28) if recipe.data == "mnist" else (1, 8, 8)
    run = RunFolder.create(path, recipe)
    run.save_members(build_members(recipe.model, recipe.members, 10, shape, recipe.seed))
    return path


def start(job: int = 1, n: int = 1_000, grey: int = GREY, **changes: object) -> str:
    pixels = base64.b64encode(bytes([grey]) * 64).decode()
    return json.dumps(
        {"type": "start", "job": job, "run": 0, "vote": "member-1", "n": n, "pixels": pixels, **changes}
    )


@contextmanager
def served(service: Service) -> Iterator[str]:
    """The address of a real server, until the block is left."""
    with listen("127.0.0.1", 0) as sock:
        server = server_for(service, "127.0.0.1")
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield address_of(sock)
        finally:
            server.should_exit = True
            thread.join()


class Page:
    """The WebSocket of an open page."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def send(self, text: str) -> None:
        self.connection.send(text)

    def hear(self) -> dict[str, Any]:
        return dict(json.loads(self.connection.recv(timeout=PATIENCE)))

    def until_done(self) -> list[dict[str, Any]]:
        heard = [self.hear()]
        while heard[-1]["type"] not in ("done", "error"):
            heard.append(self.hear())
        return heard


@contextmanager
def opened(address: str) -> Iterator[Page]:
    with connect(address.replace("http", "ws") + "certify", origin=address.rstrip("/")) as connection:
        yield Page(connection)


class Visit:
    """A page's WebSocket without a network: it takes what it is sent once it listens."""

    closed: tuple[int, str] | None = None

    def __init__(self, client: str = "testclient") -> None:
        self._client = client
        self._from_page: asyncio.Queue[Message] = asyncio.Queue()
        self._from_server: asyncio.Queue[Message] = asyncio.Queue()
        self.listens = asyncio.Event()
        self._from_page.put_nowait({"type": "websocket.connect"})

    def say(self, text: str) -> None:
        self._from_page.put_nowait({"type": "websocket.receive", "text": text})

    def leave(self) -> None:
        self._from_page.put_nowait({"type": "websocket.disconnect", "code": 1001})

    async def hear(self) -> Any:
        """The next message; None once the server has closed the page."""
        message = await self._from_server.get()
        if message["type"] == "websocket.close":
            self.closed = message["code"], message["reason"]
            return None
        return json.loads(message["text"])

    async def until(self, draws: int) -> None:
        """Hear all up to the first message of so many samples."""
        while (await self.hear()).get("draws", 0) < draws:
            pass

    async def until_done(self) -> list[dict[str, Any]]:
        heard = [await self.hear()]
        while heard[-1]["type"] not in ("done", "error"):
            heard.append(await self.hear())
        return heard

    async def attend(self, app: ASGIApp) -> None:
        headers = [(b"host", b"localhost"), (b"origin", b"http://localhost")]
        scope = {
            "type": "websocket",
            "path": "/certify",
            "headers": headers,
            "client": (self._client, 1),
            "subprotocols": [],
        }
        await app(scope, self._from_page.get, self._take)

    async def _take(self, message: Message) -> None:
        if message["type"] in ("websocket.send", "websocket.close"):
            await self.listens.wait()
            self._from_server.put_nowait(message)


@asynccontextmanager
async def visit(app: ASGIApp, *, listens: bool = True, client: str = "testclient") -> AsyncIterator[Visit]:
    """A visit that ends with the block, which is left once the server has done with it."""
    visitor = Visit(client)
    if listens:
        visitor.listens.set()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(visitor.attend, app)
            yield visitor
            visitor.leave()
