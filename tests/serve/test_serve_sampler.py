"""One thread, a turn for everyone."""

import threading
from collections.abc import Iterator

import pytest

from shieldwall.errors import UserError
from shieldwall.serve.sampler import Job, Message, Sampler


class Log:
    """What jobs told, in the order they did."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Message]] = []
        self.changed = threading.Condition()

    def job(self, name: str, turns: Iterator[Message]) -> Job:
        def tell(message: Message) -> None:
            with self.changed:
                self.told.append((name, message))
                self.changed.notify_all()

        return Job(turns, tell)

    def wait(self, count: int) -> list[str]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.told) >= count, timeout=5)
            return [name for name, _ in self.told[:count]]


def progress(count: int) -> Iterator[Message]:
    for k in range(count):
        yield {"type": "progress", "k": k}


@pytest.fixture
def log() -> Log:
    return Log()


def test_every_job_gets_a_turn_before_any_gets_its_next(log: Log):
    sampler = Sampler()
    for name, turns in (("a", 1_000), ("b", 3), ("c", 3)):
        sampler.submit(log.job(name, progress(turns)))
    sampler.start()
    order = log.wait(20)
    sampler.close()
    assert order == list("abcabcabc") + ["a"] * 11


def test_a_cancelled_job_is_not_heard_of_again(log: Log):
    sampler = Sampler()
    first = log.job("a", progress(10**9))
    sampler.submit(first)
    sampler.submit(log.job("b", progress(10**9)))
    sampler.start()
    log.wait(10)
    first.cancel()
    with log.changed:
        so_far = len(log.told)
    log.wait(so_far + 50)
    sampler.close()
    assert {name for name, _ in log.told[so_far + 1 :]} == {"b"}


def test_a_job_that_fails_says_so_and_the_others_go_on(log: Log):
    def failing(error: Exception) -> Iterator[Message]:
        yield {"type": "progress"}
        raise error

    sampler = Sampler()
    sampler.submit(log.job("user", failing(UserError("check its weights"))))
    sampler.submit(log.job("bug", failing(ZeroDivisionError("secret"))))
    sampler.submit(log.job("good", progress(50)))
    sampler.start()
    log.wait(54)
    sampler.close()
    last = {name: message for name, message in log.told if message["type"] == "error"}
    assert last["user"]["message"] == "check its weights"
    assert "secret" not in last["bug"]["message"]
    assert [name for name, _ in log.told].count("good") == 50


def test_more_jobs_than_allowed_are_refused_until_one_is_gone(log: Log):
    sampler = Sampler(most_jobs=2)
    jobs = [log.job(name, progress(1)) for name in "abc"]
    sampler.submit(jobs[0])
    sampler.submit(jobs[1])
    with pytest.raises(UserError, match="2 others are sampling"):
        sampler.submit(jobs[2])
    jobs[0].cancel()
    sampler.submit(jobs[2])
    sampler.start()
    assert log.wait(2) == ["b", "c"]
    sampler.close()
