"""Who may talk to the server: pages that it served itself.

    Host      an IP address, localhost or a name of this machine: else another site's name was pointed here
    Origin    of a WebSocket or a POST, the very Host asked: else another site's page is asking

A page of another site carries its site's name in Host or in Origin, and a browser does not let it lie.
"""

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

_CONTENT_POLICY = "; ".join(
    [
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "connect")),
        "img-src 'self' data:",
        *(f"{kind} 'none'" for kind in ("base-uri", "form-action", "frame-ancestors")),
    ]
)
_HEADERS = {
    "content-security-policy": _CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class HostCheck:
    """Serves every address, and of names those of this machine.

    Another site may point its own name here (DNS rebinding), but no name is an address.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app = app
        self._app_by_name = TrustedHostMiddleware(app, allowed_hosts=list(names), www_redirect=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app if _has_address_as_host(scope) else self._app_by_name
        await app(scope, receive, send)


class OriginCheck:
    """Refuses the pages of other sites, and gives every answer the headers that keep the page to itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        if not _changes_state(scope) or _is_from_own_page(scope):
            await self._app(scope, receive, send_with_headers)
            return
        refusal = "only the page served here may ask for this"
        if scope["type"] == "websocket":  # closed before it is accepted: the browser is told 403
            await WebSocketClose(1008, refusal)(scope, receive, send)
        else:
            await JSONResponse({"error": refusal}, 403)(scope, receive, send_with_headers)


def _changes_state(scope: Scope) -> bool:
    return scope["type"] == "websocket" or (
        scope["type"] == "http" and scope["method"] not in ("GET", "HEAD")
    )


def _is_from_own_page(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return headers.get("origin") in [f"{scheme}://{headers.get('host')}" for scheme in ("http", "https")]


def _has_address_as_host(scope: Scope) -> bool:
    if scope["type"] == "lifespan":
        return True
    try:
        ipaddress.ip_address(urlsplit(f"//{Headers(scope=scope).get('host', '')}").hostname or "")
    except ValueError:
        return False
    return True
