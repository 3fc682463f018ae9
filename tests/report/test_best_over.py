"""Runs of one method: named by what differs in their recipes, and the best over any keys of these."""

from collections.abc import Callable
from pathlib import Path

import pytest
from shown import as_markdown
from worked_log import WORKED

from shieldwall.errors import UserError
from shieldwall.results.intervals import accuracy
from shieldwall.results.record import read_runs
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
    assert "best rho, sigma: at each radius the best of the runs that differ in that, selected on these" in (
        as_markdown([row])
    )
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
