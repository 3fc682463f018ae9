"""The server around the page: a socket of our own choice, and uvicorn on it until Ctrl-C."""

import errno
import math
import os
import socket
from ipaddress import ip_address

import uvicorn

from shieldwall.errors import UserError
from shieldwall.serve.app import BODY_SECONDS, MAX_VISITORS, application
from shieldwall.serve.service import Service

PORT = 8080
_PORTS_TRIED = 20
_MAX_HEADER_BYTES = 16_384
_MESSAGE_MARGIN = 4_096


def listen(host: str, port: int | None = None) -> socket.socket:
    """A socket at this port; without one at 8080, or at the next that is free."""
    ports = range(PORT, PORT + _PORTS_TRIED) if port is None else [port]
    for number in ports:
        try:
            family, *_, address = socket.getaddrinfo(
                host, number, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            return socket.create_server(address, family=family, backlog=128)
        except socket.gaierror as error:
            raise UserError(f"--host {host!r} is no name or address of this machine") from error
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                reason = os.strerror(error.errno or 0)
                raise UserError(f"{host}, port {number} cannot be listened at: {reason}") from error
    taken = f"port {port} is" if port is not None else f"ports {PORT} to {PORT + _PORTS_TRIED - 1} are"
    raise UserError(f"{taken} in use; give another one with --port")


def address_of(sock: socket.socket) -> str:
    """The page's address for a browser on this machine."""
    host, port = sock.getsockname()[:2]
    address = ip_address(host)
    if address.is_unspecified:
        address = ip_address("::1" if address.version == 6 else "127.0.0.1")
    return f"http://[{address}]:{port}/" if address.version == 6 else f"http://{address}:{port}/"


def is_open_to_others(sock: socket.socket) -> bool:
    return not ip_address(sock.getsockname()[0]).is_loopback


def server_for(
    service: Service,
    host: str,
    *,
    max_visitors: int = MAX_VISITORS,
    body_seconds: float = BODY_SECONDS,
) -> uvicorn.Server:
    """The server of a page that is reached by `host` and by this machine's name: run(sockets=[...]) it."""
    machine = socket.gethostname()
    config = uvicorn.Config(
        application(
            service, [host, machine, f"{machine}.local"], max_visitors=max_visitors, body_seconds=body_seconds
        ),
        http="h11",  # of uvicorn's parsers of headers the one with a limit to set
        ws="websockets-sansio",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
        ws_max_size=4 * (math.prod(service.shape) // 3 + 1) + _MESSAGE_MARGIN,
        limit_concurrency=4 * max_visitors + 16,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=3,
    )
    return uvicorn.Server(config)
