"""Votes against slow, literal transcriptions of the paper's definitions."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from shieldwall import UserError
from shieldwall.ensembles.votes import (
    Vote,
    default_votes,
    max_margin,
    vote_set,
    weighted,
)

GRID = 64
"""Confidences are multiples of 1/64: sums and differences of them are exact in float32."""


def literal_weighted(confidences: list[list[float]], weights: list[float]) -> int:
    """def:weighted-ensemble: argmax over classes i of sum_j w_j f_j(x)_i, the lowest i on a tie."""
    scores = [
        sum(w * member[i] for w, member in zip(weights, confidences, strict=True))
        for i in range(len(confidences[0]))
    ]
    return scores.index(max(scores))


def literal_max_margin(confidences: list[list[float]]) -> int:
    """def:maximum-margin-ensemble: F_c with c = argmax_i f_i at F_i minus f_i at F_i^(2)."""
    margins, predictions = [], []
    for member in confidences:
        first = member.index(max(member))
        others = [value for i, value in enumerate(member) if i != first]
        predictions.append(first)
        margins.append(member[first] - max(others))
    return predictions[margins.index(max(margins))]


@st.composite
def confidence_tables(draw: st.DrawFn) -> list[list[float]]:
    """N members by K classes, each row a distribution on the grid; ties are likely."""
    num_members = draw(st.integers(1, 5))
    num_classes = draw(st.integers(2, 6))
    rows = []
    for _ in range(num_members):
        cuts = sorted(
            draw(st.lists(st.integers(0, GRID), min_size=num_classes - 1, max_size=num_classes - 1))
        )
        rows.append([(b - a) / GRID for a, b in zip([0, *cuts], [*cuts, GRID], strict=True)])
    return rows


@given(confidence_tables(), st.data())
def test_weighted_is_the_paper_s_definition(table: list[list[float]], data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(1, 8).map(float), min_size=len(table), max_size=len(table)))
    scores = weighted(torch.tensor(table)[:, None], torch.tensor(weights))
    assert int(scores.argmax(-1)) == literal_weighted(table, weights)
    equal = vote_set(["we"], len(table)).counted[0](torch.tensor(table)[:, None])
    assert int(equal) == literal_weighted(table, [1.0] * len(table))


@given(confidence_tables())
def test_max_margin_is_the_paper_s_definition(table: list[list[float]]) -> None:
    assert int(max_margin(torch.tensor(table)[:, None]).argmax(-1)) == literal_max_margin(table)


@given(st.lists(confidence_tables(), min_size=2, max_size=2))
def test_inputs_of_a_batch_do_not_see_each_other(tables: list[list[list[float]]]) -> None:
    first, second = tables
    num_members = min(len(first), len(second))
    num_classes = min(len(first[0]), len(second[0]))
    a, b = (torch.tensor(t)[:num_members, :num_classes] for t in (first, second))
    for vote in default_votes(num_members):
        together = vote(torch.stack([a, b], dim=1))
        assert together.tolist() == [int(vote(a[:, None])), int(vote(b[:, None]))]


def test_weighted_scores_are_confidences() -> None:
    table = torch.tensor([[[0.5, 0.5]], [[0.25, 0.75]]])
    assert weighted(table, torch.tensor([3.0, 1.0])).tolist() == [[0.4375, 0.5625]]


def test_ties_go_to_the_lowest_class() -> None:
    table = torch.tensor([[[0.25, 0.75]], [[0.75, 0.25]]])
    assert int(vote_set(["we"], 2).counted[0](table)) == 0
    within_one_member = torch.tensor([[[0.5, 0.5]]])
    assert int(vote_set(["mme"], 1).counted[0](within_one_member)) == 0


def test_equal_margins_go_to_the_lowest_member() -> None:
    table = torch.tensor([[[0.25, 0.75]], [[0.75, 0.25]]])
    assert int(vote_set(["mme"], 2).counted[0](table)) == 1


def test_single_votes_are_the_members_own() -> None:
    table = torch.tensor([[[0.9, 0.1]], [[0.2, 0.8]]])
    assert int(vote_set(["member-1"], 2).counted[0](table)) == 0
    assert int(vote_set(["member-2"], 2).counted[0](table)) == 1


@pytest.mark.parametrize("name", ["member-0", "member-3", "member-01", "WE", "vote", "mme-1-2", "agree-1-2"])
def test_unknown_votes_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="unknown vote"):
        vote_set([name], 2)


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [0.0, 0.0], [1.0, float("nan")]])
def test_weights_that_cannot_weigh_are_refused(weights: list[float]) -> None:
    with pytest.raises(UserError, match="weights"):
        vote_set(["we-own"], 2, {"own": weights})


def test_weights_are_moved_to_the_confidences_once() -> None:
    """Each move from the host would make a GPU wait for it."""
    vote = vote_set(["we-own"], 2, {"own": [0.3, 0.7]}).counted[0]
    confidences = torch.rand(2, 5, 3, dtype=torch.float64)
    first = vote.scores(confidences)
    moved = vars(vote.scores)["_weights"]
    assert moved.dtype == torch.float64
    assert vote.scores(confidences).equal(first)
    assert vars(vote.scores)["_weights"] is moved


def test_a_vote_set_counts_what_its_votes_need() -> None:
    default = vote_set(None, 2, {"sween": [0.3, 0.7]})
    assert default.reported == ("member-1", "member-2", "we", "mme", "we-sween", "eas")
    assert [vote.name for vote in default.counted] == ["member-1", "member-2", "we", "mme", "we-sween"]
    assert vote_set(None, 1).reported == ("member-1", "we", "mme")
    few = vote_set(["we", "eas", "member-2"], 3)
    assert few.reported == ("we", "eas", "member-2")
    assert [vote.name for vote in few.counted] == ["we", "member-2", "member-1", "member-3"]
    assert few.member_rows == [2, 1, 3]
    assert vote_set(["mme"], 3).member_rows == []


def test_votes_of_one_s_own_stand_beside_those_by_name() -> None:
    first = Vote("first", lambda confidences: confidences[0])
    votes = vote_set([first, "mme"], 2)
    assert votes.counted[0] is first
    assert votes.reported == ("first", "mme")


@pytest.mark.parametrize(
    ("votes", "message"),
    [
        (["we", "we"], "'we' is taken"),
        ([Vote("eas", weighted)], "'eas' is taken"),  # type: ignore[arg-type]
        ([], "at least one vote is needed"),
        (["we-sween"], "unknown vote 'we-sween'"),
        (["mme-1-2"], "unknown vote 'mme-1-2'"),
    ],
)
def test_vote_sets_that_are_none(votes: list[Vote | str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        vote_set(votes, 2)


def test_one_member_alone_has_no_ensemble_after_smoothing() -> None:
    with pytest.raises(UserError, match="unknown vote 'eas'"):
        vote_set(["eas"], 1)
