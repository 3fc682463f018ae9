"""The WebSocket over a real connection: what is streamed, and what is refused."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
import torch
from serve_tools import DISTANCE, SIGMA, Page, linear_service, opened, served, start
from websockets.exceptions import ConnectionClosed

import shieldwall as sw
from shieldwall.serve import live


@pytest.fixture
def page(address: str) -> Iterator[Page]:
    with opened(address) as page:
        yield page


@pytest.fixture
def known_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live.secrets, "randbits", lambda bits: 11)


@pytest.mark.usefixtures("known_seed")
def test_counts_stream_in_and_end_in_a_certificate(page: Page):
    page.send(start(job=4, n=50_000))
    started, *progress, done = page.until_done()
    assert started["type"] == "started"
    assert len(started["copies"]) == 8
    assert all(copy["image"].startswith("data:image/png;base64,") for copy in started["copies"])
    assert {message["type"] for message in progress} == {"progress"}
    certificates = [*progress, done]
    assert {message["job"] for message in [started, *certificates]} == {4}
    draws = [message["draws"] for message in certificates]
    assert all(before < after for before, after in pairwise(draws))
    assert draws[-1] == 50_000
    assert all(sum(message["counts"]) == message["draws"] for message in certificates)
    assert sum(count < 1_000 for count in draws) >= 5
    assert max(message["radius"] for message in certificates) < min(DISTANCE, started["limit"])

    counts = torch.tensor([done["counts"]])
    bound = "sequential(50000,0.35,0.25)"
    again = sw.certificates_from_counts(counts, counts, sw.Gaussian(SIGMA), 0.001, bound=bound)
    assert (done["label"], done["radius"]) == (again.labels.item(), again.radii.item())
    assert done["radius"] > 0.75
    assert started["norm"] == "l2"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "must be a JSON object"),
        ("[" * 4_000, "must be a JSON object"),
        ("[1]", "JSON object"),
        ('{"type": "start"}', "job must be a whole number"),
        ('{"type": "shout", "job": 1}', "start or stop; given: 'shout'"),
        (start(run=1), "run must be a whole number from 0 to 0; given: 1"),
        (start(run=True), "run must be a whole number"),
        (start(vote="we"), "vote must be one of member-1; given: 'we'"),
        (start(vote=["member-1"]), "vote must be one of"),
        (start(n=99), "n must be a whole number from 100 to 100,000; given: 99"),
        (start(n=100_001), "given: 100001"),
        (start(n=1e3), "given: 1000.0"),
        (start(pixels="AAAA"), "8 x 8 x 1 = 64 bytes; given: 3"),
        (start(pixels="*"), "base64"),
        (start(pixels=None), "base64"),
        (start(vote="x" * 1_000), "given: '" + "x" * 39 + "..."),
    ],
)
def test_what_no_page_sends_is_refused_and_the_page_goes_on(page: Page, text: str, said: str):
    page.send(text)
    refusal = page.hear()
    assert refusal["type"] == "error"
    assert said in refusal["message"]
    page.send(start(n=100))
    assert page.until_done()[-1]["draws"] == 100


def test_a_binary_message_ends_the_visit(page: Page):
    page.connection.send(b"\x00")
    with pytest.raises(ConnectionClosed) as closed:
        page.hear()
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1003, "a message must be text")


def test_visitors_beyond_the_limit_are_told_to_come_back(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("shieldwall.serve.app.MAX_VISITORS", 1)
    with served(linear_service()) as address, opened(address):
        with opened(address) as second, pytest.raises(ConnectionClosed) as refused:
            second.hear()
        assert refused.value.rcvd is not None
        assert (refused.value.rcvd.code, refused.value.rcvd.reason) == (
            1013,
            "too many visitors at the moment",
        )


def test_a_message_larger_than_any_image_closes_the_connection(page: Page):
    page.send("x" * 100_000)
    with pytest.raises(ConnectionClosed) as closed:
        page.hear()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009
