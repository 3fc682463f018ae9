"""Who may talk to the server: pages that it served itself.

    Host      an IP address, localhost or a name of this machine: else another site's name was pointed here
    Origin    of a WebSocket or a POST, the very Host asked: else another site's page is asking

A page of another site carries its site's name in Host or in Origin, and a browser does not let it lie.
"""

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

_CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class AccessCheck:
    """Refuses other sites' names and pages; every answer has the headers that keep the page to itself."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app, self._names = app, {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        app = self._app
        if scope["type"] != "lifespan":
            headers = Headers(scope=scope)
            host, changes_state = headers.get("host", ""), scope.get("method") not in ("GET", "HEAD")
            refusal = ""
            if not self._is_ours(host):
                refusal = "nothing is served under this name"
            elif changes_state and headers.get("origin") not in (f"http://{host}", f"https://{host}"):
                refusal = "only the page served here may ask for this"
            if refusal and scope["type"] == "websocket":
                app = WebSocketClose(1008, refusal)  # before it is accepted: the browser is told 403
            elif refusal:
                app = JSONResponse({"error": refusal}, 403)
        await app(scope, receive, send_with_headers)

    def _is_ours(self, host: str) -> bool:
        """Another site may point its own name here (DNS rebinding), but no name is an address."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            return name in self._names or bool(ipaddress.ip_address(name))
        except ValueError:
            return False
