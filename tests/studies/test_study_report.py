"""The paper's tables with ours beside them, by hand; what differs, and when it is called a difference."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from shieldwall.report.formats import to_markdown
from shieldwall.results import paper
from shieldwall.results.record import read_runs
from shieldwall.studies import report, study
from shieldwall.studies.report import shares_differ
from shieldwall.studies.steps import Places, cost, steps_of, to_do
from shieldwall.studies.study import Run, Study

ROOT = Path(__file__).parents[2]
INPUTS = 1_000
HEADER = "idx label predict radius correct n alpha noise bound vote"
Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A certified run of 1,000 inputs: of each vote so many correct ones at each radius, the rest wrong."""

    def write(run: Run, **votes: dict[float, int]) -> None:
        folder = tmp_path / run.folder
        certificates = folder / "certificates"
        certificates.mkdir(parents=True)
        (folder / "recipe.yaml").write_text(replace(run.recipe, init_from=run.start and "gone").to_yaml())
        if run.start is not None:
            (folder / "start.yaml").write_text(run.start.recipe.to_yaml())
        made = {"date": "2026-11-16T09:00", "commit": "a" * 40, "device": "cpu"}
        (folder / "environment.json").write_text(json.dumps({"train": made, "certify": made}))
        settings = {
            **asdict(run.recipe.certification), "norm": "l2", "seed": 0, "members_sha256": "b" * 64,
            "noise": f"gaussian({run.recipe.sigma})",
        }  # fmt: skip
        if run.tune:
            settings["tuned"] = {way: [1.0] for way in run.tune}
        del settings["radii"]
        (certificates / "settings.yaml").write_text(yaml.safe_dump(settings))
        names = ["member-1", "member-2", "member-3", "we", "mme", "eas", *(f"we-{way}" for way in run.tune)]
        for vote in names:
            levels = votes.get(vote.replace("-", "_"), votes["others"])
            radii = [radius for radius, count in levels.items() for _ in range(count)]
            lines = [HEADER.split()]
            for k in range(INPUTS):
                hit = k < len(radii)
                cells = [settings["every"] * k, 0, int(not hit), radii[k] if hit else 0.5, int(hit)]
                cells += [settings["n"], 0.001]
                lines.append([*map(str, cells), f"gaussian({run.recipe.sigma})", "one-sided", vote])
            (certificates / f"{vote}.tsv").write_text("".join("\t".join(line) + "\n" for line in lines))

    return write


def tables(known: Study, folder: Path) -> dict[str, list[list[str]]]:
    """The cells of each table's lines."""
    places = Places([folder])
    records = read_runs(path for run in known.shown if (path := places.readable(run)))
    found = {}
    for table in report.tables_of(known, records):
        lines = [line for line in to_markdown(table).splitlines() if line.startswith("|")][2:]
        found[table.title.partition(",")[0]] = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in lines
        ]
    return found


def line(table: list[list[str]], label: str, below: int = 0) -> list[str]:
    return table[[cells[0] for cells in table].index(label) + below][1:]


def test_each_sigma_and_the_best_of_all_by_hand(tmp_path: Path, write: Write) -> None:
    """WE of Gaussian: 992 / 990 / 960 correct at sigma 0.25 / 0.5 / 1, of these 490 to 1.6 and 350 to 2.1.

    The best over sigma at 0 is 99.2 of sigma 0.25; at 1.5 it is 49.0 of sigma 0.5; at 2.0 it is 35.0.
    """
    best = study.get("tab:mnisttable")
    small, middle, large = (run for run in best.runs if run.row == "gaussian")
    write(small, others={0.8: 992}, member_1={0.8: 980})
    write(middle, others={0.8: 500, 1.6: 490})
    write(large, others={0.8: 610, 2.1: 350})
    (table,) = tables(best, tmp_path).values()
    label = "WE (Gaussian), best of 3 runs"
    assert line(table, label) == [*["99.2"] * 4, *["49.0"] * 3, *["35.0"] * 2, "0.0", "0.0"]
    assert line(table, label, 1)[6:9] == ["70.4", "49.0", "35.2"]
    assert line(table, label, 2)[6:9] == ["**-21.4**", "**-14.0**", "-0.2"]
    assert line(table, "Gaussian, best of 3 runs")[0] == "99.0"
    assert line(table, "SWEEN (Gaussian), best of 3 runs")[0] == "99.2"
    assert {cells[0].partition(" (")[0] for cells in table[::3]} == {
        "Gaussian, best of 3 runs",
        "SWEEN",
        "WE",
        "MME",
    }

    (table,) = tables(study.get("tab:bigtablemnist0.25"), tmp_path).values()
    assert line(table, "WE (Gaussian)") == ["99.2"] * 4
    assert line(table, "WE (Gaussian)", 1) == ["99.2", "98.4", "96.9", "93.7"]
    assert line(table, "WE (Gaussian)", 2) == ["+0.0", "+0.8", "**+2.3**", "**+5.5**"]


def test_runs_that_the_paper_does_not_have_are_shown_too(tmp_path: Path, write: Write) -> None:
    known = study.get("mnist-short", only="*consistency", sigmas=[1.0])
    for run in known.runs:
        write(run, others={0.8: 900})
    found = tables(known, tmp_path)
    assert list(found) == ["ours that the paper does not have"]
    titles = {cells[0] for cells in found["ours that the paper does not have"]}
    for method in ("consistency", "drt-consistency"):
        assert {f"mnist-short-{method}-1.0 {vote}" for vote in ("member 1", "WE", "MME", "EAS")} <= titles


def test_drt_is_held_against_its_own_weights_and_against_the_best(tmp_path: Path, write: Write) -> None:
    at_sigma = study.get("tab:bigtablemnist1.00", only="drt")
    first, second = (run for run in at_sigma.shown if run.values["rho"] in ((5.0, 0.5), (5.0, 5.0)))
    write(first, others={0.3: 900})
    write(second, others={0.3: 200, 1.2: 600})
    (table,) = tables(at_sigma, tmp_path).values()
    assert line(table, "DRT + WE (Gaussian), rho 5, 0.5")[:2] == ["90.0", "90.0"]
    assert line(table, "DRT + WE (Gaussian), rho 5, 5")[4] == "60.0"
    (best,) = tables(study.get("tab:mnisttable", only="drt"), tmp_path).values()
    assert line(best, "DRT + WE (Gaussian), best of 2 of 24 runs")[:5] == [
        "90.0",
        "90.0",
        "60.0",
        "60.0",
        "60.0",
    ]
    (radius,) = tables(study.get("tab:acr-mnist", only="drt"), tmp_path).values()
    assert line(radius, "DRT + MME / WE (Gaussian), sigma 1, best of 2 of 6 runs") == [
        "0.780"
    ]  # .2 * .3 + .6 * 1.2
    assert line(radius, "DRT + MME / WE (Gaussian), sigma 1, best of 2 of 6 runs", 2) == ["**-0.965**"]


def test_what_is_left_is_listed_once_with_its_cost(tmp_path: Path, write: Write) -> None:
    """Gaussian: 90 epochs of 57,000 images, 1 ms each; 1,000 inputs of 100,100 samples, 0.1 ms each."""
    known = study.get("tab:bigtablemnist1.00")
    write(known.runs[0], others={0.3: 900})
    places, steps = Places([tmp_path]), steps_of(known)
    left = to_do(steps, places)
    assert known.runs[0].row == "gaussian"
    assert {step.kind for step in left if step.run == known.runs[0]} == {
        "train",
        "pack",
    }  # DRT needs its weights
    seconds = {cost(step, places)[0]: 1e-3 if step.kind == "train" else 1e-4 for step in steps}
    lines = report.not_measured(known, [step for step in steps if step.run == known.runs[0]], places, seconds)
    hours = (90 * 57_000 * 1e-3 + (1_000 * 100_100 + 3_000 * 10) * 1e-4) / 3600
    command = "`shieldwall study run tab:bigtablemnist1.00 --rows gaussian --sigma 1`"
    assert lines == [f"gaussian, sigma 1: members to start others from, {hours:.1f} hours: {command}"]
    assert math.isclose(hours, 4.2, abs_tol=0.05)
    drt = [entry for entry in report.not_measured(known, left, places, {}) if entry.startswith("drt,")]
    assert drt == [f"drt, sigma 1: 6 runs: {command.replace('gaussian', 'drt')}"]


def test_a_page_says_how_each_run_was_made(tmp_path: Path, write: Write) -> None:
    known = study.get("mnist-short", only="gaussian", sigmas=[1.0])
    write(known.runs[0], others={0.3: 900})
    places = Places([tmp_path])
    path = places.readable(known.runs[0])
    assert path is not None
    records = read_runs([path])
    page = report.page(known, report.tables_of(known, records), records, ["x: `y`"], "a machine")
    assert (
        "- `mnist-short-gaussian-1.0`: 40 epochs, learning rate 0.05, seed 0; 1,000 inputs, n0 = 100," in page
    )
    assert (
        "bfloat16; trained 2026-11-16, certified 2026-11-16, commit aaaaaaa, cpu; weights `bbbbbbbbbbbb`"
        in page
    )
    assert "## Not measured yet\n\nHours of one core or GPU: a machine.\n\n- x: `y`\n" in page
    assert "| &nbsp; paper | 96.5 |" in page


@pytest.mark.parametrize(
    ("name", "runs", "page"),
    [
        ("mnist-short", "mnist", "results.md"),
        ("mnist-short-trend", "mnist", "results-trend.md"),
        ("mnist-short-methods", "mnist", "results-methods.md"),
        ("mnist-short-seeds", "mnist", "results-seeds.md"),
        ("cifar10-small", "cifar10", "results-cifar10.md"),
    ],
)
def test_the_results_pages_are_what_the_packed_runs_give(
    name: str, runs: str, page: str, tmp_path: Path
) -> None:
    """shieldwall study report mnist-short --runs results/mnist --to docs/results.md"""
    from typer.testing import CliRunner

    from shieldwall import cli

    arguments = [
        "study", "report", name, "--runs", str(ROOT / "results" / runs), "--to", str(tmp_path / "page.md")
    ]  # fmt: skip
    result = CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert (ROOT / "docs" / page).read_text() == (tmp_path / "page.md").read_text()


def test_the_files_of_the_repository_are_small() -> None:
    assert sum(file.stat().st_size for file in (ROOT / "results").rglob("*") if file.is_file()) < 20_000_000


def test_every_study_is_on_the_page_of_the_paper_s_tables() -> None:
    text = (ROOT / "docs" / "reproduce.md").read_text()
    for name in study.names():
        assert f"`shieldwall study run {name}`" in text or f"`shieldwall study report {name}`" in text


def test_seconds_per_mini_batch() -> None:
    known = study.get("time-per-mini-batch")
    places, training = Places([Path("nowhere")]), [step for step in steps_of(known) if step.kind == "train"]
    seconds = {cost(step, places)[0]: 1 / 256 for step in training if step.run.row in ("drt", "gaussian")}
    table = report.seconds_table(known, training, places, seconds)
    cells = zip(*(column.cells for column in table.columns), strict=True)
    rows = dict(zip(table.row_titles, cells, strict=True))
    assert rows["drt"] == ("1.000", "1.04")
    assert rows["gaussian"] == ("1.000", "")
    assert rows["cifar10-smoothadv"] == ("", "6.39")


@pytest.mark.parametrize(
    ("ours", "theirs", "differ"),
    [
        # p = 901/1002, q = 931/1002: 2.99 points against 1.96 sqrt(.0906/1002 + .0659/1002) = 2.45
        (0.900, 0.930, True),
        # q = 921/1002: 2.00 points against 2.51
        (0.900, 0.920, False),
        # p = 1001/1002, where a plain interval would have no width: 0.499 against 0.516, 0.599 against 0.552
        (1.000, 0.995, False),
        (1.000, 0.994, True),
        (1.000, 1.000, False),
        (0.000, 0.000, False),
    ],
)
def test_two_shares_by_hand(ours: float, theirs: float, differ: bool) -> None:
    assert shares_differ(ours, INPUTS, theirs, INPUTS) is differ
    assert shares_differ(theirs, INPUTS, ours, INPUTS) is differ


def test_fewer_inputs_allow_for_more() -> None:
    assert shares_differ(0.90, 1_000, 0.93, 1_000)
    assert not shares_differ(0.90, 100, 0.93, 1_000)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_equal_shares_differ_one_time_in_twenty_at_most(share: float) -> None:
    """4,000 pairs: 5% of them is 200 with a standard deviation of 14; 250 is passed with probability 2e-4."""
    draws = np.random.default_rng(7).binomial(INPUTS, share, size=(4_000, 2)) / INPUTS
    apart = sum(shares_differ(a, INPUTS, b, INPUTS) for a, b in draws.tolist())
    assert 80 < apart < 250


def test_the_paper_s_rows_are_of_one_vote_each() -> None:
    """A published row with weights is of one run, and of one vote or of the pair that it names."""
    known = study.get("tab:bigtablemnist0.50")
    votes = ["member-1", "member-2", "we", "mme", "eas", "we-grid", "we-sween"]
    for row in paper.rows("tab:bigtablemnist0.50"):
        fitting = [
            (run.key, vote) for run in known.shown for vote in votes if paper.is_of(row, run.recipe, vote)
        ]
        assert len(fitting) == 1
