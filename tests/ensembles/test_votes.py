"""Votes against slow, literal transcriptions of the paper's definitions."""

import itertools

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from shieldwall import UserError
from shieldwall.ensembles.votes import max_margin, named, pair_names, resolve, single, standard, weighted

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
    equal = named("we", len(table))(torch.tensor(table)[:, None])
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
    for vote in standard(num_members):
        together = vote(torch.stack([a, b], dim=1))
        assert together.tolist() == [int(vote(a[:, None])), int(vote(b[:, None]))]


def test_weighted_scores_are_confidences() -> None:
    table = torch.tensor([[[0.5, 0.5]], [[0.25, 0.75]]])
    assert weighted(table, torch.tensor([3.0, 1.0])).tolist() == [[0.4375, 0.5625]]


def test_ties_go_to_the_lowest_class() -> None:
    table = torch.tensor([[[0.25, 0.75]], [[0.75, 0.25]]])
    assert int(named("we", 2)(table)) == 0
    within_one_member = torch.tensor([[[0.5, 0.5]]])
    assert int(named("mme", 1)(within_one_member)) == 0


def test_equal_margins_go_to_the_lowest_member() -> None:
    table = torch.tensor([[[0.25, 0.75]], [[0.75, 0.25]]])
    assert int(named("mme", 2)(table)) == 1


def test_single_votes_are_the_members_own() -> None:
    table = torch.tensor([[[0.9, 0.1]], [[0.2, 0.8]]])
    assert int(named("member-1", 2)(table)) == 0
    assert int(named("member-2", 2)(table)) == 1
    assert single(table, 1).equal(table[1])


@pytest.mark.parametrize("name", ["member-0", "member-3", "member-01", "WE", "vote"])
def test_unknown_votes_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="no vote called"):
        named(name, 2)


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [0.0, 0.0], [1.0, float("nan")]])
def test_weights_that_cannot_weigh_are_refused(weights: list[float]) -> None:
    with pytest.raises(UserError, match="weights"):
        named("we", 2, weights)


def test_votes_need_distinct_names() -> None:
    with pytest.raises(UserError, match="distinct"):
        resolve(["we", "we"], 2)
    with pytest.raises(UserError, match="at least one"):
        resolve([], 2)


@given(confidence_tables())
def test_votes_of_a_pair_see_these_two_members_only(table: list[list[float]]) -> None:
    confidences = torch.tensor(table)[:, None]
    for a, b in itertools.combinations(range(len(table)), 2):
        pair = [table[a], table[b]]
        assert int(named(f"mme-{a + 1}-{b + 1}", len(table))(confidences)) == literal_max_margin(pair)
        first, second = (member.index(max(member)) for member in pair)
        agreed = int(named(f"agree-{a + 1}-{b + 1}", len(table))(confidences))
        assert agreed == (first if first == second else len(table[0]))


def test_disagreement_elects_nobody() -> None:
    table = torch.tensor([[[0.9, 0.1], [0.9, 0.1]], [[0.6, 0.4], [0.2, 0.8]]])
    assert named("agree-1-2", 2)(table).tolist() == [0, 2]
    assert named("agree-1-2", 2).scores(table).tolist() == [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]


def test_names_of_pairs() -> None:
    assert pair_names(1) == []
    assert pair_names(2) == ["mme-1-2", "agree-1-2"]
    assert pair_names(3) == ["mme-1-2", "agree-1-2", "mme-1-3", "agree-1-3", "mme-2-3", "agree-2-3"]
    assert [vote.name for vote in resolve(pair_names(3), 3)] == pair_names(3)
    assert not {*pair_names(3)} & {vote.name for vote in standard(3)}


@pytest.mark.parametrize("name", ["mme-1-3", "mme-2-1", "agree-1-1", "agree-0-1", "mme-1", "agree"])
def test_pairs_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"no vote called '{name}'"):
        named(name, 2)


def test_weights_are_moved_to_the_confidences_once() -> None:
    """Each move from the host would make a GPU wait for it."""
    vote = named("we", 2, [0.3, 0.7])
    confidences = torch.rand(2, 5, 3, dtype=torch.float64)
    first = vote.scores(confidences)
    moved = vars(vote.scores)["_weights"]
    assert moved.dtype == torch.float64
    assert vote.scores(confidences).equal(first)
    assert vars(vote.scores)["_weights"] is moved
