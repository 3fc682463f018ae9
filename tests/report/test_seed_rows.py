"""Runs that differ only by seed: one row, its mean, its spread, and what is left apart."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from shown import as_markdown, as_rows, averaged
from worked_log import CERTIFIED_OTHERWISE, WORKED, changed, read_logs

from shieldwall.results.intervals import (
    abstentions,
    accuracy,
    accuracy_deviation,
    accuracy_interval,
    average_radius,
    of_mean,
    of_proportion,
)
from shieldwall.results.record import Log
from shieldwall.results.rows import Row

Write = Callable[..., Path]
BETTER = [(0, 0, 0, "0.75"), (1, 1, 1, "0.5"), *WORKED[2:]]
"""The worked log with the first two radii a quarter larger."""


def read(tmp_path: Path, *folders: str) -> list[Row]:
    return averaged(read_logs([tmp_path / folder for folder in folders]))


@pytest.fixture
def three(tmp_path: Path, write_run: Write) -> list[Row]:
    for seed, lines in enumerate([WORKED, BETTER, BETTER]):
        write_run(tmp_path / f"run-{seed}", "digits", ["we", "member-1"], lines, seed=seed)
    return read(tmp_path, "run-0", "run-1", "run-2")


def test_one_row_for_each_vote_by_hand(three: list[Row]) -> None:
    """At r = 0.5 the first run has 2 of 6, the others 3 of 6: mean 8 / 18, deviation (1 / 6) / sqrt(3). The
    ACR is 1.9 / 6 and twice 2.4 / 6: mean 6.7 / 18, deviation (0.5 / 6) / sqrt(3)."""
    assert [(row.title, row.run, row.vote, row.seeds) for row in three] == [
        ("digits member 1", "digits", "member-1", 3),
        ("digits WE", "digits", "we", 3),
    ]
    row = three[1]
    assert accuracy(row, [0.0, 0.5]).tolist() == pytest.approx([4 / 6, 8 / 18])
    spread = accuracy_deviation(row, [0.0, 0.5])
    assert spread is not None
    assert spread.tolist() == pytest.approx([0.0, 1 / 6 / 3**0.5])
    acr = average_radius(row)
    assert acr is not None
    assert (acr.value, acr.deviation) == (pytest.approx(6.7 / 18), pytest.approx(0.5 / 6 / 3**0.5))
    assert abstentions(row) == pytest.approx(1 / 6)


def test_its_interval_is_over_inputs_and_seeds(three: list[Row]) -> None:
    """At r = 0.5 the mean is 2.67 of 6: the interval over inputs is from that of 2 to that of 3."""
    low, high = accuracy_interval(three[1], [0.5])
    mean, seeds, inputs = 8 / 18, of_mean(np.array([2 / 6, 3 / 6, 3 / 6])), of_proportion([2, 3], 6)
    assert low[0] == pytest.approx(max(0.0, mean - np.hypot(mean - seeds.low, mean - inputs.low[0])))
    assert high[0] == pytest.approx(min(1.0, mean + np.hypot(seeds.high - mean, inputs.high[1] - mean)))
    acr, seeds = average_radius(three[1]), of_mean(np.array([1.9, 2.4, 2.4]) / 6)
    inputs = of_mean(np.array([2 / 3, 1.25 / 3, 0.1, 0.0, 0.0, 1.05]))
    assert acr is not None
    half = np.hypot(acr.value - seeds.low, acr.value - inputs.low)
    assert acr.interval == (pytest.approx(max(0.0, acr.value - half)), pytest.approx(acr.value + half))


def test_seeds_that_agree_are_no_surer_than_one_of_them(worked: Log) -> None:
    """All of 60 images in each of three runs: the 60 say no more for being certified three times."""
    idx = np.arange(60)
    log = changed(worked, indices=idx, truth=idx, labels=idx, radii=np.ones(60), correct=idx >= 0)
    one, several = (accuracy_interval(Row("", "", (logs,)), [0.5]) for logs in ((log,), (log, log, log)))
    assert float(several.low[0]) == float(one.low[0]) == pytest.approx(0.025 ** (1 / 60))
    assert float(several.high[0]) == float(one.high[0]) == 1.0


def test_inputs_in_another_order_are_the_same_inputs(worked: Log) -> None:
    turned = replace(worked, certificates=worked.certificates[::-1])
    both, straight = (average_radius(Row("", "", ((worked, other),))) for other in (turned, worked))
    assert both is not None
    assert straight is not None
    assert both.interval == pytest.approx(straight.interval)


def test_the_interval_of_one_log_is_over_inputs(worked: Log) -> None:
    (row,) = as_rows([worked])
    low, high = accuracy_interval(row, [0.0, 0.25, 2.0])
    expected = of_proportion([4, 3, 0], 6)
    assert (low.tolist(), high.tolist()) == (expected.low.tolist(), expected.high.tolist())
    assert accuracy_deviation(row, [0.0]) is None
    acr, by_hand = average_radius(row), of_mean(np.array([0.5, 0.25, 0.1, 0.0, 0.0, 1.05]))
    assert acr is not None
    assert (*acr.interval, acr.deviation) == (max(0.0, by_hand.low), by_hand.high, None)


def test_an_interval_stays_between_0_and_1(tmp_path: Path, write_run: Write) -> None:
    none = [(idx, label, -1, "0.0") for idx, label, _, _ in WORKED]
    for seed, lines in enumerate([WORKED, none]):
        write_run(tmp_path / f"{seed}", "digits", ["we"], lines, seed=seed)
    (row,) = read(tmp_path, "0", "1")
    low, high = accuracy_interval(row, [0.0])
    assert (low.tolist(), high.tolist()) == ([0.0], [1.0])


def test_tables_say_what_the_margin_is(three: list[Row]) -> None:
    said = as_markdown(three, [0.5])
    assert "| digits WE | 66.7 ± 0.0 | 44.4 ± 9.6 | 0.372 ± 0.048 | 16.7 | 6 |" in said
    assert said.endswith("\n\nmean ± standard deviation over 3 seeds\n")
    said = as_markdown(three, [0.5], intervals=True)
    assert "| 44.4 [0.0, 94.3] |" in said
    assert "\n\nin brackets: the 95% interval over " in said


def test_a_single_run_beside_them_is_told_apart(tmp_path: Path, three: list[Row], write_run: Write) -> None:
    write_run(tmp_path / "other", "letters", ["we"], seed=0)
    rows = read(tmp_path, "other", "run-0", "run-1", "run-2")
    said = as_markdown(rows, [0.5], intervals=True)
    assert [line.split(" | ")[0] for line in said.splitlines()[4:7]] == [
        "| letters WE",
        "| digits member 1 (3 seeds)",
        "| digits WE (3 seeds)",
    ]
    assert (
        "over inputs (accuracy: Clopper-Pearson, ACR: Student's t) and, where averaged, over 3 seeds" in said
    )
    assert "over 3 seeds (Student's t" in said


@pytest.mark.parametrize(
    "other",
    [
        {"schedule": {"epochs": 3}},
        {"objective": {"name": "gaussian", "num_noise": 4}},
        *CERTIFIED_OTHERWISE,
        {"seed": 0},
        {"start": "runs/elsewhere"},
    ],
    ids=str,
)
def test_what_differs_by_more_stays_apart(tmp_path: Path, write_run: Write, other: dict[str, object]) -> None:
    write_run(tmp_path / "a", "digits", ["we"], seed=0)
    write_run(tmp_path / "b", "digits", ["we"], **{"seed": 1, **other})
    assert [(row.title, row.seeds) for row in read(tmp_path, "a", "b")] == [
        ("digits (a) WE", 1),
        ("digits (b) WE", 1),
    ]


def test_a_seed_that_is_there_twice_is_no_sample(tmp_path: Path, write_run: Write) -> None:
    for folder, seed in (("a", 0), ("b", 1), ("c", 0)):
        write_run(tmp_path / folder, "digits", ["we", "mme"], seed=seed)
    titles = [row.title for row in read(tmp_path, "a", "b", "c")]
    assert titles == [f"digits ({folder}) {vote}" for folder in "abc" for vote in ("WE", "MME")]


def test_they_may_start_from_runs_that_differ_by_seed(tmp_path: Path, write_run: Write) -> None:
    for seed, epochs in enumerate([1, 1, 2]):
        folder = write_run(tmp_path / f"drt-{seed}", "drt", ["we"], seed=seed, start=f"gone/{seed}")
        (folder / "start.yaml").write_text(f"name: plain\nseed: {seed}\nepochs: {epochs}\n")
    rows = read(tmp_path, "drt-0", "drt-1", "drt-2")
    assert [(row.title, row.seeds) for row in rows] == [("drt WE", 2), ("drt (drt-2) WE", 1)]


def test_what_the_starts_started_from_counts_too(tmp_path: Path, write_run: Write) -> None:
    for seed, first in enumerate(["", "", "---\nname: first\n"]):
        folder = write_run(tmp_path / f"drt-{seed}", "drt", ["we"], seed=seed, start=f"gone/{seed}")
        (folder / "start.yaml").write_text(f"name: plain\n{first}")
    assert [row.seeds for row in read(tmp_path, "drt-0", "drt-1", "drt-2")] == [2, 1]


def test_starts_that_nothing_is_known_of_are_alike_in_the_same_folder_only(
    tmp_path: Path, write_run: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed, start in enumerate(["plain", "plain", "other"]):
        write_run(tmp_path / start, "plain", ["we"])
        write_run(tmp_path / f"{seed}", "drt", ["we"], seed=seed, start=start)
    for folder in (tmp_path, tmp_path.parent):  # whatever lies at that path from here
        monkeypatch.chdir(folder)
        assert [row.seeds for row in read(tmp_path, "0", "1", "2")] == [2, 1]


def test_two_groups_of_one_name_say_what_differs(tmp_path: Path, write_run: Write) -> None:
    for folder, seed, epochs in (("a", 0, 1), ("b", 1, 1), ("c", 0, 2), ("d", 1, 2)):
        write_run(tmp_path / folder, "digits", ["we"], seed=seed, epochs=epochs)
    rows = read(tmp_path, "a", "b", "c", "d")
    assert [row.title for row in rows] == ["digits (epochs 1) WE", "digits (epochs 2) WE"]


def test_logs_of_other_tools_stay_as_they_are(tmp_path: Path, write_ours: Write) -> None:
    files = [write_ours(tmp_path / name / "sigma_0.25") for name in ("a", "b")]
    assert [row.seeds for row in averaged(read_logs(files))] == [1, 1]


def test_the_order_of_a_recipe_s_keys_does_not_matter(tmp_path: Path, write_run: Write) -> None:
    one = {"objective": {"name": "drt", "rho_gd": 1.0}, "members": 3}
    other = {"members": 3, "objective": {"rho_gd": 1.0, "name": "drt"}}
    for seed, recipe in enumerate([one, other]):
        write_run(tmp_path / f"{seed}", "digits", ["we"], seed=seed, **recipe)
    assert [row.seeds for row in read(tmp_path, "0", "1")] == [2]


@pytest.mark.parametrize("broken", [b"name: [", b"\xff\xfe", b"just text"])
def test_a_start_that_cannot_be_read_is_no_error(tmp_path: Path, write_run: Write, broken: bytes) -> None:
    for seed in range(2):
        folder = write_run(tmp_path / f"{seed}", "drt", ["we"], seed=seed, start="plain")
        (folder / "start.yaml").write_bytes(broken)
    assert [row.seeds for row in read(tmp_path, "0", "1")] == [2]
