"""A file server on 127.0.0.1 that notes what was asked of it and can misbehave."""

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType


@dataclass
class FileServer:
    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    shift: int = 0  # how many bytes beside the asked one a range starts
    drops: list[int] = field(default_factory=list)  # bytes sent before hanging up, one for each request
    errors: list[int] = field(default_factory=list)  # statuses answered first, one for each request
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)

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
        return f"http://127.0.0.1:{self._server.server_port}/"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        name, asked = handler.path.lstrip("/"), handler.headers.get("Range")
        self.asked.append((name, asked))
        if self.errors:
            return handler.send_error(self.errors.pop(0))
        if name not in self.files:
            return handler.send_error(404)
        content, start = self.files[name], 0
        if asked and self.ranges:
            start = int(asked.removeprefix("bytes=").removesuffix("-")) + self.shift
            if start >= len(content):
                return handler.send_error(416)
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            handler.send_response(200)
        body = content[start:]
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        body = body[: self.drops.pop(0)] if self.drops else body
        self.sent.append(len(body))
        handler.wfile.write(body)
        return None
