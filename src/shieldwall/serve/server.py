"""The server around the page: a socket of our own choice, and uvicorn on it until Ctrl-C."""

import asyncio
import errno
import math
import os
import socket
from collections import Counter
from ipaddress import ip_address

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from shieldwall.errors import UserError
from shieldwall.serve.app import application
from shieldwall.serve.service import Service

PORT = 8080
_PORTS_TRIED = 20
HEADER_SECONDS = 20.0  # how long a connection may stay without a whole request
MAX_CONNECTIONS = 512
_MAX_HEADER_BYTES, _MESSAGE_MARGIN = 16_384, 4_096


def listen(host: str, port: int | None = None) -> socket.socket:
    """A socket at this port; without one at 8080, or at the next that is free."""
    ports = range(PORT, PORT + _PORTS_TRIED) if port is None else [port]
    for number in ports:
        try:
            places = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, *_, address = places[0]
            return socket.create_server(address, family=family, backlog=128)
        except (socket.gaierror, UnicodeError) as error:
            raise UserError(f"--host {host!r} is no name or address of this machine") from error
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                reason = os.strerror(error.errno or 0)
                raise UserError(f"{host}, port {number} cannot be listened at: {reason}") from error
    taken = f"port {port} is" if port is not None else f"ports {PORT} to {PORT + _PORTS_TRIED - 1} are"
    raise UserError(f"{taken} in use; give another one with --port")


def address_of(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    address = ip_address(host)
    if address.is_unspecified:
        address = ip_address("::1" if address.version == 6 else "127.0.0.1")
    return f"http://[{address}]:{port}/" if address.version == 6 else f"http://{address}:{port}/"


def is_open_to_others(sock: socket.socket) -> bool:
    return not ip_address(sock.getsockname()[0]).is_loopback


class Connection(H11Protocol):  # of uvicorn's two, the one whose headers have a limit
    """Closed if it is slow to ask; where there are too many, one of the client that has most is closed."""

    _slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > MAX_CONNECTIONS:
            clients = [(getattr(other, "client", None) or [None])[0] for other in self.connections]
            busiest = Counter(clients).most_common(1)[0][0]
            list(self.connections)[clients.index(busiest)].transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def _watch(self) -> None:
        """Start to wait for a whole request, or end it as one is here."""
        waits = self.cycle is None or self.cycle.response_complete
        if waits and self._slow is None:
            self._slow = self.loop.call_later(HEADER_SECONDS, self._give_up)
        elif not waits and self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _give_up(self) -> None:
        if self in self.connections:  # else it has become a WebSocket
            self.transport.abort()


def server_for(service: Service, host: str) -> uvicorn.Server:
    """The server of a page that is reached by `host` and by this machine's name: run(sockets=[...]) it."""
    machine = socket.gethostname()
    config = uvicorn.Config(
        application(service, [host, machine, f"{machine}.local"]), http=Connection, ws="websockets-sansio",
        log_level="warning", access_log=False, proxy_headers=False, server_header=False,
        ws_per_message_deflate=False, h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
        ws_max_size=4 * (math.prod(service.shape) // 3 + 1) + _MESSAGE_MARGIN,
        timeout_keep_alive=5, timeout_graceful_shutdown=3,
    )  # fmt: skip
    return uvicorn.Server(config)
