"""Only the page's own browser tab may talk to the server."""

import logging

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect


def port(address: str) -> str:
    return address.rstrip("/").rpartition(":")[2]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "192.168.1.7", "[::1]"])
def test_addresses_and_localhost_are_served(address: str, host: str):
    assert httpx.get(address, headers={"host": f"{host}:{port(address)}"}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", ""])
def test_another_sites_name_that_points_here_is_refused(address: str, host: str):
    answer = httpx.get(address, headers={"host": host and f"{host}:{port(address)}"})
    assert answer.status_code in (400, 403)
    assert "runs" not in answer.text


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", None])
def test_another_sites_page_may_not_upload_or_certify(address: str, origin: str | None):
    headers = {} if origin is None else {"origin": origin}
    answer = httpx.post(f"{address}upload", content=b"", headers=headers)
    assert answer.status_code == 403
    assert answer.json()["error"] == "only the page served here may ask for this"
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(address.replace("http", "ws") + "certify", additional_headers=headers),
    ):
        pass
    assert refused.value.response.status_code == 403


def test_a_refused_websocket_leaves_no_line_in_the_log(address: str):
    said: list[logging.LogRecord] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = said.append  # type: ignore[method-assign]
    log = logging.getLogger("uvicorn.error")
    log.addHandler(handler)
    try:
        for origin in ("http://evil.example", None):
            with (
                pytest.raises(InvalidStatus),
                connect(f"{address}certify".replace("http", "ws"), origin=origin),
            ):
                pass
        httpx.get(address)  # what the last refusal would log is logged by now
    finally:
        log.removeHandler(handler)
    assert [one.getMessage() for one in said] == []


def test_a_websocket_under_another_sites_name_is_refused_even_from_its_own_page(address: str):
    """DNS rebinding: Host and Origin agree, and both are the stranger's."""
    answer = httpx.get(
        f"{address}certify",
        headers={
            "host": "evil.example",
            "origin": "http://evil.example",
            "connection": "upgrade",
            "upgrade": "websocket",
            "sec-websocket-version": "13",
            "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        },
    )
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "path", ["", "page.js", "standing.js", "page.css", "icon.svg", "test/0", "nothing/here"]
)
def test_every_answer_confines_the_page_to_this_server(address: str, path: str):
    headers = httpx.get(address + path).headers
    assert headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers


def test_what_is_not_there_is_said_in_json(address: str):
    for path, method in (("../recipe.yaml", "GET"), ("page.py", "GET"), ("upload", "GET"), ("", "DELETE")):
        answer = httpx.request(method, address + path, headers={"origin": address.rstrip("/")})
        assert answer.status_code in (404, 405)
        assert "error" in answer.json()
