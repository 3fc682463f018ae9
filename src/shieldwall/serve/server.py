"""The server: a socket of our own choice, and uvicorn on it until Ctrl-C."""

import errno
import math
import socket
from ipaddress import ip_address

import uvicorn

from shieldwall.errors import UserError
from shieldwall.serve.app import MOST_VISITORS, application
from shieldwall.serve.runs import Offer

PORT = 8080
_PORTS_TRIED = 20
_MESSAGE_MARGIN = 4_096


def listen(host: str, port: int | None = None) -> socket.socket:
    """A socket at this port; without one at 8080, or at the next that is free."""
    ports = range(PORT, PORT + _PORTS_TRIED) if port is None else [port]
    for one in ports:
        try:
            return _bound(host, one)
        except socket.gaierror as error:
            raise UserError(f"--host {host!r} is no name or address of this machine") from error
        except (OSError, OverflowError) as error:
            if getattr(error, "errno", None) != errno.EADDRINUSE:
                reason = getattr(error, "strerror", None) or str(error)
                raise UserError(f"{host}, port {one} cannot be listened at: {reason}") from error
    given = f"port {port} is" if port is not None else f"ports {PORT} to {PORT + _PORTS_TRIED - 1} are"
    raise UserError(f"{given} in use; give another one with --port")


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(128)
    except BaseException:
        sock.close()
        raise
    return sock


def address_of(sock: socket.socket) -> str:
    """The page's address for a browser on this machine."""
    host, port = sock.getsockname()[:2]
    found = ip_address(host)
    if found.is_unspecified:
        found = ip_address("::1" if found.version == 6 else "127.0.0.1")
    return f"http://[{found}]:{port}/" if found.version == 6 else f"http://{found}:{port}/"


def is_open_to_others(sock: socket.socket) -> bool:
    return not ip_address(sock.getsockname()[0]).is_loopback


def server_for(offer: Offer, host: str, most_visitors: int = MOST_VISITORS) -> uvicorn.Server:
    """The server of a page that is reached by `host` and by this machine's name: run(sockets=[...]) it."""
    here = socket.gethostname()
    config = uvicorn.Config(
        application(offer, [host, here, f"{here}.local"], most_visitors),
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws_max_size=4 * (math.prod(offer.shape) // 3 + 1) + _MESSAGE_MARGIN,
        ws_max_queue=4,
        limit_concurrency=4 * most_visitors + 16,
        timeout_graceful_shutdown=3,
    )
    return uvicorn.Server(config)
