"""Runs of one method: named by what differs in their recipes, and the best over any keys of these."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from shown import as_markdown
from worked_log import WORKED, Lines

from shieldwall.errors import UserError
from shieldwall.results.intervals import accuracy, accuracy_interval
from shieldwall.results.record import held_out_records, read_runs
from shieldwall.results.rows import Row, rows_of

Write = Callable[..., Path]
FAR = [(0, 0, 0, "1.5"), (1, 1, 1, "0.75"), (2, 2, 0, "0.1"), *WORKED[3:5], (5, 5, 0, "0.2")]
"""Two of six inputs, but at larger radii than in the worked log: there 4 of 6 at 0."""


@pytest.fixture
def drt(tmp_path: Path, write_run: Write) -> Callable[..., Path]:
    def write(folder: str, sigma: float, rho: tuple[float, float], **others: object) -> Path:
        objective = {"name": "drt", "base": {"name": "gaussian"}, "rho_gd": rho[0], "rho_cm": rho[1]}
        keys = {"objective": objective, "sigma": sigma, "seed": 0, "members": 3, **others}
        lines = FAR if rho == (5.0, 0.5) else WORKED
        return write_run(tmp_path / folder, f"mnist-drt-{sigma}", ["we"], lines, **keys)

    return write


def shown(*folders: Path, over: tuple[str, ...] = ()) -> list[Row]:
    return rows_of(read_runs(folders), best_over=over)


def test_rows_are_named_by_what_varies_with_a_column_each(drt: Callable[..., Path]) -> None:
    rows = shown(
        drt("a", 0.5, (5.0, 0.5)), drt("b", 0.5, (5.0, 5.0)), drt("c", 0.5, (5.0, 5.0), members=4),
        drt("d", 0.25, (1.0, 1.0)),
    )  # fmt: skip
    assert [row.title for row in rows] == [
        "mnist-drt-0.5 (rho 5, 0.5, N 3) WE",
        "mnist-drt-0.5 (rho 5, 5, N 3) WE",
        "mnist-drt-0.5 (rho 5, 5, N 4) WE",
        "mnist-drt-0.25 WE",
    ]
    lines = as_markdown(rows, [0.25]).splitlines()
    assert lines[2].startswith("|  | rho | N | clean 0.00 |")
    assert lines[4].startswith("| mnist-drt-0.5 WE | 5, 0.5 | 3 | 33.3 |")
    assert lines[7].startswith("| mnist-drt-0.25 WE |  |  | 66.7 |") or "**66.7**" in lines[7]


def test_seeds_are_averaged_before_rows_are_named(drt: Callable[..., Path]) -> None:
    rows = shown(
        drt("a", 0.5, (5.0, 0.5)), drt("b", 0.5, (5.0, 0.5), seed=1), drt("c", 0.5, (5.0, 5.0)),
        drt("d", 0.5, (5.0, 5.0), seed=1),
    )  # fmt: skip
    assert [(row.title, row.seeds) for row in rows] == [
        ("mnist-drt-0.5 (rho 5, 0.5) WE", 2),
        ("mnist-drt-0.5 (rho 5, 5) WE", 2),
    ]


def test_the_best_over_weights_and_sigma_by_hand(drt: Callable[..., Path]) -> None:
    runs = drt("a", 0.5, (5.0, 0.5)), drt("b", 0.5, (5.0, 5.0)), drt("c", 0.25, (1.0, 1.0))
    (row,) = shown(*runs, over=("rho", "sigma"))
    assert (row.title, row.combines) == ("mnist-drt WE", "best rho, sigma of 3 runs")
    assert accuracy(row, [0.0, 1.5]).tolist() == [4 / 6, 1 / 6]
    said = as_markdown([row])
    assert "best rho, sigma: at each radius the best of 3 models, the runs that differ in that; warn" in said
    first, last = shown(*runs, over=("rho",))
    assert (len(first.by_sigma), last.is_envelope) == (2, False)


def test_what_differs_in_more_is_not_left_out_silently(drt: Callable[..., Path]) -> None:
    runs = drt("a", 0.5, (5.0, 0.5)), drt("b", 0.5, (5.0, 5.0)), drt("c", 0.25, (1.0, 1.0))
    with pytest.raises(
        UserError, match=r"differ at sigma 0.5 in more than sigma: add it, such as --best-over rho"
    ):
        shown(*runs, over=("sigma",))
    with pytest.raises(UserError, match="--best-over seed needs one method"):
        shown(*runs, over=("seed",))


def hold_out(run: Path, lines: Lines, split: str = "held-out", every: int = 10) -> None:
    """Certificates of other images: the same file with other radii."""
    (run / "held-out").mkdir(exist_ok=True)
    text = (run / "certificates" / "we.tsv").read_text().splitlines()
    cells = [line.split("\t") for line in text]
    for cell, (idx, label, predict, radius) in zip(cells[1:], lines, strict=True):
        cell[:5] = [str(every * idx), str(label), str(predict), radius, str(int(label == predict))]
    (run / "held-out" / "we.tsv").write_text("".join("\t".join(cell) + "\n" for cell in cells))
    (run / "held-out" / "settings.yaml").write_text(yaml.safe_dump({"split": split}))


def test_held_out_images_choose_and_test_images_are_shown(drt: Callable[..., Path]) -> None:
    """At 0 the held-out images prefer the run that is worse on the test images, at 1.5 too."""
    runs = first, second = drt("a", 0.5, (5.0, 0.5)), drt("b", 0.5, (5.0, 5.0))
    hold_out(first, WORKED)
    hold_out(second, FAR)
    records = read_runs(runs)
    (row,) = rows_of(records, best_over=("rho",), held_out=held_out_records(records, "held-out"))
    ours, theirs = (accuracy(one, [0.0, 1.5]).tolist() for one in shown(*runs))
    assert (ours, theirs) == ([2 / 6, 1 / 6], [4 / 6, 0.0])
    # Held out, the first has 4/6 and 0, the second 2/6 and 1/6.
    assert accuracy(row, [0.0, 1.5]).tolist() == [2 / 6, 0.0]
    low, high = accuracy_interval(row, [0.0, 1.5])
    alone = [accuracy_interval(one, [0.0, 1.5]) for one in shown(*runs)]
    assert low.tolist() == [alone[0].low[0], alone[1].low[1]]
    assert high.tolist() == [alone[0].high[0], alone[1].high[1]]
    said = as_markdown([row], intervals=True)
    assert "the best of 2 models, chosen on 6 held-out inputs; no single model attains it" in said
    assert "warning" not in said
    assert "Bonferroni" not in said


def test_what_cannot_choose_is_refused(drt: Callable[..., Path]) -> None:
    runs = first, second = drt("a", 0.5, (5.0, 0.5)), drt("b", 0.5, (5.0, 5.0))
    hold_out(first, WORKED)
    records = read_runs(runs)
    with pytest.raises(UserError, match=r"b has no certificates in held-out: run `certify --held-out` on it"):
        held_out_records(records, "held-out")
    hold_out(second, WORKED, split="test")
    with pytest.raises(UserError, match="is not of held-out images"):
        held_out_records(records, "held-out")
    hold_out(second, WORKED, every=20)
    with pytest.raises(UserError, match="the held-out certificates differ in their inputs or settings"):
        rows_of(records, best_over=("rho",), held_out=held_out_records(records, "held-out"))
