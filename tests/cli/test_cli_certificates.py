"""Every line of the certificate files follows from its own counts."""

from pathlib import Path

import numpy as np
import pytest
from cli_tools import COUNTS, VOTES, rows
from scipy.stats import beta, norm

from shieldwall.data import datasets

SIGMA, N0, N, ALPHA = 0.25, 100, 1_000, 0.001
BEFORE_SMOOTHING = [vote for vote in VOTES if vote != "eas"]


@pytest.fixture(params=BEFORE_SMOOTHING)
def lines(request: pytest.FixtureRequest, finished: Path) -> list[dict[str, str]]:
    return lines_of(request.param, finished)


def lines_of(vote: str, run: Path) -> list[dict[str, str]]:
    header, *body = rows(run / "certificates" / f"{vote}.tsv")
    names = [cell.decode() for cell in header]
    return [dict(zip(names, (cell.decode() for cell in line), strict=True)) for line in body]


def numbers(cell: str) -> list[int]:
    return [int(part) for part in cell.split(",")]


@pytest.mark.parametrize("vote", VOTES)
def test_the_header_starts_with_the_fields_own_columns(vote: str, finished: Path):
    header = (finished / "certificates" / f"{vote}.tsv").read_text().splitlines()[0]
    assert header.split("\t") == [
        *("idx", "label", "predict", "radius", "correct", "time"),
        *("p_lower", "p_upper", "bound", "n", "alpha", "counts", "n0", "counts0"),
        *("noise", "norm", "precision", "seed", "vote"),
    ]


def test_every_twelfth_test_input_is_there_with_its_label(lines: list[dict[str, str]]):
    indices = [int(line["idx"]) for line in lines]
    assert indices == list(range(0, 360, 12))
    assert [int(line["label"]) for line in lines] == datasets.load("digits").test.labels[indices].tolist()


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
        assert float(line["p_upper"]) == 1 - p_lower
        assert line["bound"] == "one-sided"
        assert line["noise"] == "gaussian(0.25)"
        assert line["norm"] == "l2"
        assert line["precision"] == "float32"
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
        tuple(line[COUNTS] for line in rows(finished / "certificates" / f"{vote}.tsv")[1:]) for vote in VOTES
    }
    assert len(counts) == len(VOTES)


def test_the_certificate_after_smoothing_follows_from_the_members_counts(finished: Path):
    """thm:rob-radii-after for two members, each bounded at half of alpha."""
    members = [lines_of(f"member-{k}", finished) for k in (1, 2)]
    certified = 0
    for line, *alone in zip(lines_of("eas", finished), *members, strict=True):
        for column in ("counts", "counts0"):
            assert line[column] == ";".join(one[column] for one in alone)
        chosen_by = max(alone, key=lambda one: max(numbers(one["counts0"])))
        chosen = int(np.argmax(numbers(chosen_by["counts0"])))
        wins = [numbers(one["counts"])[chosen] for one in alone]
        lower = [beta.ppf(ALPHA / 2, k, N - k + 1) if k else 0.0 for k in wins]
        radius = SIGMA / 2 * (norm.ppf(max(lower)) + norm.ppf(min(lower)))
        assert float(line["p_lower"]) == pytest.approx(max(lower))
        assert float(line["p_upper"]) == pytest.approx(1 - min(lower))
        assert float(line["radius"]) == pytest.approx(max(radius, 0.0))
        assert int(line["predict"]) == (chosen if radius > 0 else -1)
        assert (line["bound"], line["vote"], line["n"], line["n0"]) == (
            "after-smoothing",
            "eas",
            "1000",
            "100",
        )
        certified += radius > 0
    assert certified > 15
