"""A turn for every visitor; how a job begins and ends. In this process, without a network."""

import json
import math
from collections.abc import Callable, Coroutine

import anyio
import pytest
from serve_tools import IsBright, Visit, linear_service, start, visit
from starlette.types import Message
from torch import Tensor

from shieldwall.serve.app import application
from shieldwall.serve.service import Service

BATCH = 256


def watched(service: Service) -> list[int]:
    """The grey level of the image in each batch that the service's model is given, up to some noise.

    It is read off the first 16 rows: what fills the rest of a batch may be anything.
    """
    greys: list[int] = []

    def note(_: object, batches: tuple[Tensor]) -> None:
        if len(batches[0]) == BATCH:
            greys.append(round(255 * float(batches[0][:16].mean())))

    service.runs[0].members[0].register_forward_pre_hook(note)
    return greys


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message is heard when it is made, whatever else is waiting."""
    monkeypatch.setattr("shieldwall.serve.app.MESSAGE_SECONDS", 0.0)


def run(test: Callable[[], Coroutine[object, object, None]]) -> None:
    anyio.run(test)


def test_every_visitor_gets_a_turn_before_any_gets_the_next(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("shieldwall.serve.live.TURN_SECONDS", 0.0)  # a turn is one batch
    service = linear_service()
    greys = watched(service)
    app = application(service)

    async def three_visits() -> None:
        async with visit(app) as dark, visit(app) as grey, visit(app) as bright:
            for visitor, level in ((dark, 20), (grey, 120), (bright, 220)):
                visitor.say(start(n=5_000, grey=level))
            for visitor in (dark, grey, bright):
                assert (await visitor.until_done())[-1]["draws"] == 5_000

    run(three_visits)
    order = [min((20, 120, 220), key=lambda level: abs(level - grey)) for grey in greys]
    all_began = max(order.index(level) for level in (20, 120, 220))
    first_ended = min(len(order) - order[::-1].index(level) for level in (20, 120, 220))
    rounds = [order[k : k + 3] for k in range(all_began, first_ended - 2)]
    assert len(rounds) > 30
    assert all(len(set(turns)) == 3 for turns in rounds)


def test_a_page_that_does_not_listen_holds_nobody_up_and_is_sampled_no_further():
    service = linear_service()
    greys = watched(service)
    app = application(service)

    async def two_visits() -> None:
        async with visit(app, listens=False) as slow, visit(app) as quick:
            slow.say(start(n=5_000, grey=20))
            quick.say(start(n=5_000, grey=220))
            assert (await quick.until_done())[-1]["draws"] == 5_000
            assert min(greys) > 100
            slow.listens.set()
            assert (await slow.until_done())[-1]["draws"] == 5_000
            assert min(greys) < 30

    run(two_visits)


def test_a_closed_page_stops_its_job():
    service = linear_service()
    greys = watched(service)

    async def short_visit() -> None:
        async with visit(application(service)) as visitor:
            visitor.say(start(n=100_000))
            await visitor.until(draws=100)

    run(short_visit)
    assert 0 < len(greys) < 100  # of the 400 that all samples would take


def test_orders_of_a_page_that_is_gone_leave_no_error_behind(caplog: pytest.LogCaptureFixture):
    class Gone(Visit):
        async def _take(self, message: Message) -> None:
            if message["type"] == "websocket.send":
                raise OSError("the page is gone")

    async def ordering() -> None:
        page = Gone()
        for job in range(3):
            page.say(start(job=job, n=100))
        page.leave()
        await page.attend(application(linear_service()))

    run(ordering)
    assert caplog.records == []


def test_a_stopped_job_ends_with_what_is_certified_by_then_and_nothing_follows():
    async def stopping() -> None:
        async with visit(application(linear_service())) as visitor:
            visitor.say(start(n=100_000))
            await visitor.until(draws=500)
            visitor.say(json.dumps({"type": "stop", "job": 0}))  # an earlier job's
            visitor.say(json.dumps({"type": "stop", "job": 1}))
            done = (await visitor.until_done())[-1]
            assert done["type"] == "done"
            assert 500 <= done["draws"] < 100_000
            assert done["label"] == 1
            visitor.say("{")
            assert (await visitor.hear())["type"] == "error"
            visitor.say(start(job=2, n=100))
            assert (await visitor.until_done())[-1]["draws"] == 100

    run(stopping)


def test_a_new_image_cancels_the_old_job():
    async def changing() -> None:
        async with visit(application(linear_service())) as visitor:
            visitor.say(start(job=1, n=100_000))
            await visitor.until(draws=100)
            visitor.say(start(job=2, n=200, grey=100))
            heard = await visitor.until_done()
            first = next(k for k, message in enumerate(heard) if message["job"] == 2)
            assert {message["job"] for message in heard[first:]} == {2}
            assert (heard[-1]["draws"], heard[-1]["chosen"]) == (200, 0)

    run(changing)


def test_a_client_of_many_pages_makes_room_for_one_of_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("shieldwall.serve.app.MAX_VISITORS", 3)
    app = application(linear_service())

    async def visits() -> None:
        async with visit(app, client="crowd") as first, visit(app, client="crowd") as second:
            first.say(start(n=100_000))
            await first.until(draws=100)
            async with visit(app, client="one"), visit(app, client="two") as newcomer:
                while await first.hear() is not None:
                    pass
                assert first.closed == (
                    1013,
                    "your place was given to another visitor; close some of your pages",
                )
                for visitor in (newcomer, second):
                    visitor.say(start(n=100))
                    assert (await visitor.until_done())[-1]["draws"] == 100
                async with visit(app, client="two") as refused:
                    assert await refused.hear() is None
                    assert refused.closed == (1013, "too many visitors at the moment")

    run(visits)


def test_a_job_that_fails_says_so_and_the_page_goes_on(caplog: pytest.LogCaptureFixture):
    class Broken(IsBright):
        def forward(self, x: Tensor) -> Tensor:
            if x[:8].mean() > 0.8:
                raise ZeroDivisionError("secret")
            return super().forward(x) * (math.nan if x[:8].mean() < 0.2 else 1.0)

    service = linear_service()
    service.runs[0].members[:] = [Broken()]  # type: ignore[index]

    async def failing() -> None:
        async with visit(application(service)) as visitor:
            visitor.say(start(job=1, grey=255))
            assert await visitor.until_done() == [
                {
                    "type": "error",
                    "message": "the server failed at this image; its console says why",
                    "job": 1,
                }
            ]
            visitor.say(start(job=2, grey=0))
            assert "NaN scores" in (await visitor.until_done())[-1]["message"]
            visitor.say(start(job=3, n=100))
            assert (await visitor.until_done())[-1]["type"] == "done"

    run(failing)
    assert "secret" in caplog.text


def test_samples_that_can_never_certify_are_refused():
    async def asking() -> None:
        async with visit(application(linear_service(alpha=1e-60))) as visitor:
            visitor.say(start(n=100))
            assert "use n >=" in (await visitor.until_done())[-1]["message"]

    run(asking)


def test_every_job_has_a_seed_of_its_own(monkeypatch: pytest.MonkeyPatch):
    seeds = iter([11, 11, 12])
    monkeypatch.setattr("shieldwall.serve.live.secrets.randbits", lambda bits: next(seeds))

    async def certifying() -> list[object]:
        heard = []
        async with visit(application(linear_service())) as visitor:
            for job in range(3):
                visitor.say(start(job=job, grey=130))
                heard.append((await visitor.until_done())[-1]["counts"])
        return heard

    first, second, third = anyio.run(certifying)
    assert first == second != third
