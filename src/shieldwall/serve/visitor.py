"""One open page: at most one job, whose messages are sent as fast as the page takes them, and no faster.

What waits to be sent is replaced by what is known later: a slow page sees fewer updates, not late ones, and a
page that does not listen costs no memory.
"""

import asyncio
import threading
from contextlib import suppress

from starlette.websockets import WebSocket, WebSocketDisconnect

from shieldwall.errors import UserError
from shieldwall.serve.messages import Start, parse, replies
from shieldwall.serve.runs import Offer
from shieldwall.serve.sampler import Job, Message, Sampler

UPDATE_SECONDS = 0.05
UNSUPPORTED_DATA = 1003


class Visitor:
    def __init__(self, socket: WebSocket, offer: Offer, sampler: Sampler) -> None:
        self._socket = socket
        self._offer = offer
        self._sampler = sampler
        self._loop = asyncio.get_running_loop()
        self._outbox: dict[str, Message] = {}
        self._has_mail = asyncio.Event()
        self._number = -1
        self._job: Job | None = None
        self._stopped = threading.Event()

    async def attend(self) -> None:
        """Answer until the page is closed; then its job ends, too."""
        await self._socket.accept()
        sender = asyncio.create_task(self._send())
        try:
            while True:
                try:
                    text = await self._socket.receive_text()
                except KeyError:  # a binary message, which no page sends
                    await self._socket.close(UNSUPPORTED_DATA, "a message must be text")
                    return
                try:
                    self._answer(text)
                except UserError as error:
                    self._put({"type": "error", "message": str(error), "job": self._number})
        except WebSocketDisconnect:
            pass
        finally:
            self._cancel()
            sender.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await sender

    def _answer(self, text: str) -> None:
        message = parse(text, self._offer)
        if isinstance(message, Start):
            self._begin(message)
        elif message.job == self._number:
            self._stopped.set()

    def _begin(self, start: Start) -> None:
        self._cancel()
        self._outbox.clear()
        self._stopped = threading.Event()
        self._number = start.job
        turns = replies(start, self._offer.device, self._stopped)
        job = Job(turns, lambda message: self._hear(job, {**message, "job": start.job}))
        self._sampler.submit(job)
        self._job = job

    def _cancel(self) -> None:
        if self._job is not None:
            self._job.cancel()
        self._job = None

    def _hear(self, job: Job, message: Message) -> None:
        """Called by the sampler's thread."""
        self._loop.call_soon_threadsafe(lambda: None if job.is_cancelled else self._put(message))

    def _put(self, message: Message) -> None:
        kind = "standing" if "curve" in message else message["type"]
        if kind == "standing" and kind in self._outbox:
            message = {**message, "curve": [*self._outbox[kind]["curve"], *message["curve"]]}
        self._outbox[kind] = message
        self._has_mail.set()

    async def _send(self) -> None:
        while True:
            await self._has_mail.wait()
            self._has_mail.clear()
            mail, self._outbox = self._outbox, {}
            for message in mail.values():
                await self._socket.send_json(message)
            await asyncio.sleep(UPDATE_SECONDS)
