"""The WebSocket: what is streamed, and how a job begins and ends."""

import asyncio
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
import torch
from serve_tools import DISTANCE, SIGMA, Page, linear_offer, opened, served, start
from starlette.websockets import WebSocket
from websockets.exceptions import ConnectionClosed

import shieldwall as sw
from shieldwall.serve import messages
from shieldwall.serve.sampler import Message, Sampler
from shieldwall.serve.visitor import Visitor


@pytest.fixture
def page(address: str) -> Iterator[Page]:
    with opened(address) as page:
        yield page


@pytest.fixture
def known_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages.secrets, "randbits", lambda bits: 11)


@pytest.mark.usefixtures("known_seed")
def test_counts_stream_in_and_end_in_a_certificate(page: Page):
    page.send(start(job=4, n=50_000))
    started, *progress, done = page.until_done()
    assert started["type"] == "started"
    assert len(started["samples"]) == 8
    assert all(one["image"].startswith("data:image/png;base64,") for one in started["samples"])
    assert {one["type"] for one in progress} == {"progress"}
    assert {one["job"] for one in [started, *progress, done]} == {4}
    draws = [one["draws"] for one in [*progress, done]]
    assert draws == sorted(draws)
    assert draws[-1] == 50_000
    assert all(sum(one["counts"]) == one["draws"] for one in [*progress, done])
    curve = [point for one in [*progress, done] for point in one["curve"]]
    assert [point[0] for point in curve] == sorted({point[0] for point in curve})
    assert len([point for point in curve if point[0] < 1_000]) >= 5
    assert curve[-1] == [50_000, done["radius"]]
    assert max(point[1] for point in curve) < min(DISTANCE, started["limit"])

    counts = torch.tensor([done["counts"]])
    again = sw.certificates_from_counts(counts, counts, sw.Gaussian(SIGMA), 0.001, bound="sequential(50000)")
    assert (done["label"], done["radius"]) == (again.labels.item(), again.radii.item())
    assert done["radius"] > 0.75
    assert started["norm"] == "l2"


def test_a_stopped_job_ends_with_what_is_certified_by_then():
    with served(linear_offer(seconds=0.01)) as address, opened(address) as page:
        page.send(start(n=100_000))
        page.until(draws=500)
        page.send(json.dumps({"type": "stop", "job": 1}))
        done = page.until_done()[-1]
        assert done["type"] == "done"
        assert 500 <= done["draws"] < 20_000
        assert done["label"] == 1
        page.send(start(job=2, n=100))
        assert page.until_done()[-1]["draws"] == 100


def test_a_new_image_cancels_the_old_job():
    with served(linear_offer(seconds=0.005)) as address, opened(address) as page:
        page.send(start(job=1, n=100_000))
        page.until(draws=100)
        page.send(start(job=2, n=200, grey=100))
        heard = page.until_done()
        after = next(k for k, one in enumerate(heard) if one["job"] == 2)
        assert {one["job"] for one in heard[after:]} == {2}
        assert (heard[-1]["draws"], heard[-1]["chosen"]) == (200, 0)


def test_a_closed_page_stops_its_job():
    offer = linear_offer(seconds=0.005)
    passes = 0

    def count(*_: object) -> None:
        nonlocal passes
        passes += 1

    offer.runs[0].members[0].register_forward_hook(count)
    with served(offer) as address:
        with opened(address) as page:
            page.send(start(n=100_000))
            page.until(draws=100)
        before = 0
        while passes > before:
            before = passes
            time.sleep(0.2)
    assert 0 < passes < 200  # of the 400 that all draws would take


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "must be JSON"),
        ("[" * 4_000, "must be JSON"),
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


def test_visitors_beyond_the_limit_are_told_to_come_back():
    with served(linear_offer(), most_visitors=1) as address, opened(address):
        with opened(address) as second, pytest.raises(ConnectionClosed) as refused:
            second.hear()
        assert refused.value.rcvd is not None
        assert (refused.value.rcvd.code, refused.value.rcvd.reason) == (
            1013,
            "too many visitors at the moment",
        )


def test_four_visitors_at_once_all_see_steady_progress():
    """A model of 10 ms a batch: one after the other, each job would keep the rest waiting for 4 s."""

    def longest_gap(address: str) -> float:
        with opened(address) as page:
            page.send(start(n=100_000))
            page.hear()
            heard, draws = [time.monotonic()], [0]
            while heard[-1] - heard[0] < 1.5:
                draws.append(page.hear()["draws"])
                heard.append(time.monotonic())
            assert draws == sorted(draws)
            assert draws[-1] > 100
            return max(after - before for before, after in pairwise(heard))

    with served(linear_offer(seconds=0.01)) as address, ThreadPoolExecutor(4) as visitors:
        gaps = list(visitors.map(longest_gap, [address] * 4))
    assert max(gaps) < 1.0, gaps


def test_a_message_larger_than_any_image_closes_the_connection(page: Page):
    page.send("x" * 100_000)
    with pytest.raises(ConnectionClosed) as closed:
        page.hear()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009


async def no_page(*_: object) -> Any:
    raise AssertionError("nothing is sent here")


def test_what_waits_for_a_page_that_does_not_listen_stays_small():
    async def what_waits() -> list[Message]:
        visitor = Visitor(WebSocket({"type": "websocket"}, no_page, no_page), linear_offer(), Sampler())
        for k in range(1_000):
            visitor._put({"type": "error", "message": str(k)})
            visitor._put({"type": "progress", "draws": k, "curve": [[k, 0.0]]})
        return list(visitor._outbox.values())

    error, progress = asyncio.run(what_waits())
    assert error["message"] == "999"
    assert progress["draws"] == 999
    assert [draws for draws, _ in progress["curve"]] == list(range(1_000))
