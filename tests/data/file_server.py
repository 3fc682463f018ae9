"""A file server on 127.0.0.1 that notes what was asked of it and can misbehave.

It answers to https addresses; `Plaintext` leaves out TLS, which tests of a client's logic do not need.
"""

import http.client
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib import request


class Plaintext(request.HTTPSHandler):
    """Answers for https addresses in place of the handler that encrypts."""

    def https_open(self, req: request.Request) -> http.client.HTTPResponse:
        return self.do_open(http.client.HTTPConnection, req)


@dataclass
class FileServer:
    files: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)  # a file's name to another address
    drops: list[int] = field(default_factory=list)  # bytes sent before hanging up, one for each request
    errors: list[int] = field(default_factory=list)  # statuses answered first, one for each request
    asked: list[str] = field(default_factory=list)

    def __enter__(self) -> "FileServer":
        state = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                state.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._server.server_port}/"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        name = handler.path.lstrip("/")
        self.asked.append(name)
        if self.errors:
            return handler.send_error(self.errors.pop(0))
        if name in self.redirects:
            handler.send_response(302)
            handler.send_header("Location", self.redirects[name])
            handler.send_header("Content-Length", "0")
            return handler.end_headers()
        if name not in self.files:
            return handler.send_error(404)
        content = self.files[name]
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        with suppress(ConnectionError):  # a client may have read enough
            handler.wfile.write(content[: self.drops.pop(0)] if self.drops else content)
        return None
