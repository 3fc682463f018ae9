"""What a page holds side by side: rows that compare, and the paper's where it has them."""

from pathlib import Path

import pytest
from test_report_page_content import SIGMA, write_run, written

from shieldwall import recipes

RHO = "\N{GREEK SMALL LETTER RHO}"


SINGLE, OVER_SIGMA = "Certified accuracy in % by radius", "The best over"


def best_cells(page: str, caption: str) -> int:
    return page.split(f"<div>{caption}")[1].split("</table>")[0].count('class="best"')


def run(folder: Path, recipe: str, radius: float = 0.1, inputs: int = 3, **changes: object) -> Path:
    return write_run(folder, recipe, {"we": [radius] * inputs}, **changes)


def change(folder: Path, old: str, new: str) -> None:
    log = folder / "certificates" / "we.tsv"
    assert old in log.read_text()
    log.write_text(log.read_text().replace(old, new))


def test_the_best_over_sigma_is_held_against_the_papers_of_the_same_sigmas_only(tmp_path: Path) -> None:
    runs = [run(tmp_path / sigma, f"mnist-gaussian-{sigma}") for sigma in ("0.25", "0.5", "1.0")]

    def best(some: list[Path]) -> list[str]:
        _, rows = written(some)
        return [row[0] for row in rows["paper"] if "best of" in row[0]]

    assert best(runs[:2]) == []
    assert best(runs) == [f"mnist-gaussian WE, best of {SIGMA} 0.25, 0.5, 1 beside WE (Gaussian); Table 1"]


def test_drt_stands_beside_the_papers_row_of_the_same_weights(tmp_path: Path) -> None:
    same = run(tmp_path / "same", "mnist-drt-1.0")
    objective = {**recipes.get("mnist-drt-0.5").objective, "rho_gd": 7, "rho_cm": 7}
    other = run(tmp_path / "other", "mnist-drt-0.5", objective=objective)
    _, rows = written([same, other])
    beside = [row[0].split(" beside ")[1] for row in rows["paper"] if " beside " in row[0]]
    assert beside[0] == f"DRT + WE (Gaussian); {SIGMA} 1; {RHO} 5, 0.5; Table 6"
    assert beside[1:] == [f"DRT + MME / WE (Gaussian); {SIGMA} 0.5; Table 7"]


def test_the_best_of_envelopes_is_marked_only_over_the_same_sigmas(tmp_path: Path) -> None:
    plain = [run(tmp_path / f"p{sigma}", f"mnist-gaussian-{sigma}") for sigma in ("0.25", "0.5", "1.0")]
    drt = [run(tmp_path / f"d{sigma}", f"mnist-drt-{sigma}", 0.3) for sigma in ("0.25", "0.5", "1.0")]
    page, _ = written([*plain, *drt])
    assert best_cells(page, OVER_SIGMA) > 0
    page, _ = written([*plain, *drt[1:]])
    assert best_cells(page, OVER_SIGMA) == 0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("\t1000\t", "\t500\t", "n"),
        ("\t0.001\t", "\t0.01\t", "alpha"),
        ("\n2\t2\t", "\n7\t2\t", "the inputs"),
    ],
)
def test_nothing_is_best_among_rows_that_do_not_compare(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    runs = [run(tmp_path / "a", "digits-gaussian"), run(tmp_path / "b", "digits-drt", 0.3)]
    page, _ = written(runs)
    assert best_cells(page, SINGLE) > 0
    assert "cannot be compared" not in page
    change(runs[1], old, new)
    page, _ = written(runs)
    assert best_cells(page, SINGLE) == 0
    assert f"the rows differ in {said} and cannot be compared" in page


def test_a_page_shows_the_votes_asked_for(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / "run", "digits-gaussian", {vote: [0.1, 0.2] for vote in ("we", "mme", "eas")})
    ]
    _, rows = written(runs, votes=["we", "eas"])
    assert [row[0] for row in rows["table"][1:]] == ["WE", "EAS"]
