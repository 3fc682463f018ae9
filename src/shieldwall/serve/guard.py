"""Who may talk to the server: pages that it served itself.

    Host      an IP address, localhost or a name given at the start: else another site's name was pointed here
    Origin    of a WebSocket or a POST, the very Host asked: else another site's page is asking

A page of another site carries its site's name in Host or in Origin, and a browser does not let it lie.
"""

import ipaddress
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

POLICY_VIOLATION = 1008
CONTENT_POLICY = "; ".join(
    [
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "connect")),
        "img-src 'self' data:",
        *(f"{kind} 'none'" for kind in ("base-uri", "form-action", "frame-ancestors")),
    ]
)
_HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Refuses strangers, and gives every answer the headers that keep the page to itself."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app = app
        self._names = {"localhost", *(name.lower() for name in names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self._is_ours(host):
            refusal = "this address is not served here; use the one that `shieldwall serve` printed"
        elif _acts(scope) and headers.get("origin") not in (f"http://{host}", f"https://{host}"):
            refusal = "only the page served here may ask for this"
        else:
            await self._app(scope, receive, _with_headers(send))
            return
        if scope["type"] == "websocket":  # closed before it is accepted: the browser is told 403
            await WebSocketClose(POLICY_VIOLATION, refusal)(scope, receive, send)
        else:
            await JSONResponse({"error": refusal}, status_code=403)(scope, receive, _with_headers(send))

    def _is_ours(self, host: str) -> bool:
        name = _without_port(host).lower()
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _acts(scope: Scope) -> bool:
    return scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(_HEADERS)
        await send(message)

    return sending
