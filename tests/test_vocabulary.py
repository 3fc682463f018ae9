"""Votes by name: which are members, what they are called, in what order they stand."""

import pytest

from shieldwall.ensembles.votes import default_votes
from shieldwall.vocabulary import is_member, is_standard_vote, member_number, vote_order, vote_title


def test_votes_stand_in_the_order_of_a_table() -> None:
    shuffled = ["we-grid", "eas", "member-10", "mme", "member-2", "ours", "we", "member-1"]
    expected = ["member-1", "member-2", "member-10", "we", "mme", "eas", "ours", "we-grid"]
    assert sorted(shuffled, key=vote_order) == expected
    names = [vote.name for vote in default_votes(12)]
    assert sorted(names, key=vote_order) == names


@pytest.mark.parametrize(
    ("vote", "title", "number", "standard"),
    [
        ("member-12", "member 12", 12, True),
        ("we", "WE", None, True),
        ("eas", "EAS", None, True),
        ("we-grid", "we-grid", None, False),
        ("member-", "member-", None, False),
        ("member-1-2", "member-1-2", None, False),
    ],
)
def test_a_vote_by_name(vote: str, title: str, number: int | None, standard: bool) -> None:
    assert vote_title(vote) == title
    assert member_number(vote) == number
    assert is_member(vote) == (number is not None)
    assert is_standard_vote(vote) == standard
