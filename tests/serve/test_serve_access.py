"""Only the page's own browser tab may talk to the server."""

import io
import logging
import select
import socket
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection

import anyio
import httpx
import pytest
from PIL import Image
from serve_tools import PATIENCE, linear_service, opened, served, start
from starlette.types import Message
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from shieldwall.serve import app, server
from shieldwall.serve.app import application


def own_origin(address: str) -> dict[str, str]:
    return {"origin": address.rstrip("/")}


def port(address: str) -> str:
    return address.rstrip("/").rpartition(":")[2]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "192.168.1.7", "[::1]"])
def test_addresses_and_localhost_are_served(address: str, host: str):
    assert httpx.get(address, headers={"host": f"{host}:{port(address)}"}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", ""])
def test_another_sites_name_that_points_here_is_refused(address: str, host: str):
    answer = httpx.get(address, headers={"host": host and f"{host}:{port(address)}"})
    assert answer.status_code in (400, 403)  # h11 refuses none at all
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
    records: list[logging.LogRecord] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = records.append  # type: ignore[method-assign]
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
    assert [record.getMessage() for record in records] == []


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
    "path", ["", "page.js", "certificate.js", "page.css", "icon.svg", "test/0", "nothing/here"]
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


def answer_to(address: str, *pieces: bytes) -> bytes:
    """What the server answers to these bytes until it closes the connection."""
    with socket.create_connection(("127.0.0.1", int(port(address))), timeout=PATIENCE) as connection:
        for piece in pieces:
            connection.sendall(piece)
        answer = b""
        with suppress(ConnectionResetError):  # what was sent and not read makes the end a reset
            while received := connection.recv(4_096):
                answer += received
        return answer


def test_headers_that_never_end_are_not_kept(address: str):
    answer = answer_to(address, b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X-Filler: " + b"x" * 40_000)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")


def test_a_request_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.1)
    with served(linear_service()) as address:
        assert answer_to(address) == b""
        assert answer_to(address, b"GET / HTT") == b""
        with closing(HTTPConnection("127.0.0.1", int(port(address)), timeout=PATIENCE)) as kept:
            kept.request("GET", "/icon.svg")
            assert kept.getresponse().read()
            kept.sock.sendall(b"GET / HTT")
            assert kept.sock.recv(1) == b""
        with opened(address) as page:  # a WebSocket may say nothing for as long as it likes
            assert answer_to(address) == b""
            page.send(start(n=100))
            assert page.until_done()[-1]["draws"] == 100


def test_a_client_of_many_connections_makes_room_for_one_of_few(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 4)
    monkeypatch.setattr(server, "HEADER_SECONDS", PATIENCE)
    with served(linear_service()) as address, ExitStack() as stack:
        there = ("127.0.0.1", int(port(address)))
        crowd = [
            stack.enter_context(socket.create_connection(there, PATIENCE, source_address=("127.0.0.2", 0)))
            for _ in range(4)
        ]
        assert httpx.get(address).status_code == 200
        ended, _, _ = select.select(crowd, [], [], PATIENCE)
        assert [one.recv(1) for one in ended] == [b""]


def test_an_image_that_takes_too_long_to_decode_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(app, "DECODE_SECONDS", 0)
    content = io.BytesIO()
    Image.new("L", (8, 8)).save(content, "PNG")
    with served(linear_service()) as address:
        answer = httpx.post(f"{address}upload", content=content.getvalue(), headers=own_origin(address))
        assert answer.status_code == 413
        assert (
            answer.json()["error"] == "the image takes longer than 0 seconds to decode; choose a smaller one"
        )


def test_files_of_one_client_wait_for_each_other_and_those_of_others_do_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(app, "MAX_WAITING", 1)
    page = application(linear_service())
    said: dict[str, list[int]] = {"busy": [], "other": []}

    async def upload(client: str, gone: anyio.Event) -> None:
        async def receive() -> Message:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                said[client].append(message["status"])

        headers = [(b"host", b"localhost"), (b"origin", b"http://localhost")]
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/upload",
            "headers": headers,
            "client": (client, 1),
        }
        await page(scope, receive, send)

    async def uploads() -> None:
        gone, gone_too = anyio.Event(), anyio.Event()
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(upload, "busy", gone)
            tasks.start_soon(upload, "other", gone_too)
            await anyio.wait_all_tasks_blocked()
            assert said == {"busy": [429], "other": []}
            gone_too.set()
            await anyio.wait_all_tasks_blocked()
            assert said == {"busy": [429], "other": [400]}
            gone.set()
        assert said["busy"] == [429, 400, 400]

    anyio.run(uploads)


def test_an_image_that_never_arrives_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(app, "BODY_SECONDS", 0.1)
    with served(linear_service()) as slow:
        origin = slow.rstrip("/").encode()
        head = b"POST /upload HTTP/1.1\r\nHost: %s\r\nOrigin: %s\r\nContent-Length: 1000\r\n\r\n"
        answer = answer_to(slow, head % (origin.removeprefix(b"http://"), origin), b"some of it")
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"the file took longer than 0.1 seconds to arrive" in answer


def test_a_visitor_who_leaves_during_an_upload_leaves_no_error_behind():
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"origin", b"http://localhost")]
    scope = {"type": "http", "method": "POST", "path": "/upload", "headers": headers}
    anyio.run(application(linear_service()), scope, receive, send)
    assert sent[0]["status"] == 400
