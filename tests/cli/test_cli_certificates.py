"""Every line of the certificate files follows from its own counts."""

from pathlib import Path

import numpy as np
import pytest
from cli_tools import VOTES, rows
from scipy.stats import beta, norm

from shieldwall import data

SIGMA, N0, N, ALPHA = 0.25, 100, 1_000, 0.001


@pytest.fixture(params=VOTES)
def lines(request: pytest.FixtureRequest, finished: Path) -> list[dict[str, str]]:
    header, *body = rows(finished / "certificates" / f"{request.param}.tsv")
    names = [cell.decode() for cell in header]
    return [dict(zip(names, (cell.decode() for cell in line), strict=True)) for line in body]


def numbers(cell: str) -> list[int]:
    return [int(part) for part in cell.split(",")]


@pytest.mark.parametrize("vote", VOTES)
def test_the_header_starts_with_the_fields_own_columns(vote: str, finished: Path):
    header = (finished / "certificates" / f"{vote}.tsv").read_text().splitlines()[0]
    assert header.split("\t") == [
        *("idx", "label", "predict", "radius", "correct", "time"),
        *("p_lower", "n", "alpha", "counts", "n0", "counts0", "noise", "seed", "vote"),
    ]


def test_every_twelfth_test_input_is_there_with_its_label(lines: list[dict[str, str]]):
    indices = [int(line["idx"]) for line in lines]
    assert indices == list(range(0, 360, 12))
    assert [int(line["label"]) for line in lines] == data.load("digits").test.labels[indices].tolist()


def test_counts_add_up_to_the_draws(lines: list[dict[str, str]]):
    for line in lines:
        assert (int(line["n"]), int(line["n0"])) == (N, N0)
        assert len(numbers(line["counts"])) == len(numbers(line["counts0"])) == 10
        assert sum(numbers(line["counts"])) == N
        assert sum(numbers(line["counts0"])) == N0


def test_bound_radius_and_prediction_follow_from_the_counts(lines: list[dict[str, str]]):
    for line in lines:
        chosen = int(np.argmax(numbers(line["counts0"])))
        successes = numbers(line["counts"])[chosen]
        p_lower = float(line["p_lower"])
        expected = beta.ppf(ALPHA, successes, N - successes + 1) if successes else 0.0
        assert p_lower == pytest.approx(expected, rel=1e-12)
        if p_lower > 0.5:
            assert int(line["predict"]) == chosen
            assert float(line["radius"]) == SIGMA * norm.ppf(p_lower)
        else:
            assert line["predict"] == "-1"
            assert line["radius"] == "0.0"
        assert line["correct"] == str(int(line["predict"] == line["label"]))
        assert float(line["alpha"]) == ALPHA
        assert line["noise"] == "gaussian(0.25)"
        assert line["seed"] == "0"


def test_the_run_shows_certified_and_abstaining_inputs_and_its_vote(lines: list[dict[str, str]]):
    """So that the tests above have seen both."""
    assert 0 < sum(line["predict"] == "-1" for line in lines) < 15
    assert sum(line["correct"] == "1" for line in lines) > 15
    assert len({line["vote"] for line in lines}) == 1


@pytest.mark.parametrize("vote", VOTES)
def test_a_file_holds_the_vote_it_is_named_after(vote: str, finished: Path):
    _, *body = rows(finished / "certificates" / f"{vote}.tsv")
    assert {line[-1].decode() for line in body} == {vote}


def test_the_votes_differ(finished: Path):
    counts = {
        tuple(line[9] for line in rows(finished / "certificates" / f"{vote}.tsv")[1:]) for vote in VOTES
    }
    assert len(counts) == len(VOTES)
