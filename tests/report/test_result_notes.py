"""The line below a table: what all of its numbers were made with, to the letter."""

from collections.abc import Callable
from pathlib import Path

import pytest
from shown import notes
from worked_log import changed, read_log

from shieldwall.report.tables import STOPPED_EARLY
from shieldwall.results.record import Log

Write = Callable[..., Path]
USUAL = "6 inputs, n = 1,000, alpha = 0.001, sigma = 0.25"
EARLY = {"n": ["48", "48", "100000", "1234", "48", "582"], "bound": "sequential(100000)"}


def said(folder: Path, write_ours: Write, *each: dict[str, str | list[str]]) -> list[str]:
    return notes([read_log(write_ours(folder / f"{k}.tsv", **cells)) for k, cells in enumerate(each)])


@pytest.mark.parametrize(
    ("cells", "line"),
    [
        ({}, USUAL),
        ({"noise": "exact-gaussian(0.25)"}, f"{USUAL}, exact Gaussian noise"),
        ({"noise": f"uniform({0.25 * 3**0.5!r})"}, f"{USUAL}, uniform noise"),
        ({"noise": f"laplace({0.25 / 2**0.5!r})"}, f"{USUAL}, Laplace noise"),
        ({"noise": "salt(0.1)"}, "6 inputs, n = 1,000, alpha = 0.001, noise salt(0.1)"),
        ({"noise": ""}, "6 inputs, n = 1,000, alpha = 0.001"),
        ({"precision": "bfloat16"}, f"{USUAL}, bfloat16"),
        ({"bound": "two-sided"}, f"{USUAL}, two-sided bound"),
        ({"bound": [f"randomized(0.{k})" for k in range(6)]}, f"{USUAL}, randomized bound"),
        ({"bound": "after-smoothing"}, USUAL),
        ({"bound": "after-smoothing-two-sided"}, f"{USUAL}, two-sided bound"),
        (
            EARLY,
            "6 inputs, n up to 100,000, 16,993 samples on average, "
            "alpha = 0.001, sigma = 0.25, sequential bound",
        ),
        (
            {**EARLY, "n": "48"},
            "6 inputs, n up to 100,000, 48 samples on average, alpha = 0.001, sigma = 0.25, sequential bound",
        ),
        (
            {**EARLY, "bound": "one-sided"},
            "6 inputs, 16,993 samples on average, alpha = 0.001, sigma = 0.25",
        ),
        (
            {"noise": "uniform(0.3)", "precision": "tf32", "bound": "two-sided"},
            "6 inputs, n = 1,000, alpha = 0.001, sigma = 0.173205, uniform noise, tf32, two-sided bound",
        ),
    ],
)
def test_one_log(tmp_path: Path, write_ours: Write, cells: dict[str, str | list[str]], line: str) -> None:
    lines = [line, *([STOPPED_EARLY] if "n up to" in line else [])]
    assert said(tmp_path, write_ours, cells) == lines
    assert said(tmp_path, write_ours, cells, cells) == lines


@pytest.mark.parametrize(
    ("first", "second", "line"),
    [
        ({"noise": "uniform(0.3)"}, {"noise": "uniform(0.4)"}, "n = 1,000, alpha = 0.001, uniform noise"),
        ({"noise": "exact-gaussian(0.25)"}, {}, "n = 1,000, alpha = 0.001, sigma = 0.25"),
        ({"precision": "tf32"}, {"precision": "float16"}, "n = 1,000, alpha = 0.001, sigma = 0.25"),
        ({"bound": "two-sided"}, {}, "n = 1,000, alpha = 0.001, sigma = 0.25"),
        (
            {"bound": "two-sided"},
            {"bound": "after-smoothing-two-sided"},
            "n = 1,000, alpha = 0.001, sigma = 0.25, two-sided bound",
        ),
        (EARLY, {"n": "100000"}, "alpha = 0.001, sigma = 0.25"),
        (EARLY, {**EARLY, "n": "48"}, "n up to 100,000, alpha = 0.001, sigma = 0.25, sequential bound"),
    ],
)
def test_only_what_the_logs_share(
    tmp_path: Path,
    write_ours: Write,
    first: dict[str, str | list[str]],
    second: dict[str, str | list[str]],
    line: str,
) -> None:
    assert said(tmp_path, write_ours, first, second) == [
        f"6 inputs, {line}",
        *([STOPPED_EARLY] if "sequential" in str(first) else []),
    ]


def test_a_foreign_log_says_nothing_of_itself(worked: Log) -> None:
    foreign = changed(worked, n=None, alpha=None, noise=None, precision=None, bound=None)
    assert notes([foreign]) == ["6 inputs"]
