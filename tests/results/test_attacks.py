"""The table of an attack: what it says and how it is read again."""

import numpy as np
import pytest

from shieldwall.errors import UserError
from shieldwall.results.attacks import Attack

FOUND = Attack(
    np.array([0, 3, 6, 9]),
    np.array([5, 1, 2, 2]),
    np.array([np.inf, 0.5, 0.0, 0.25]),
    np.array([0, 0.25, 0.5, 1]),
)
SETTINGS = {"steps": 20, "seed": 7}
TEXT = (
    "idx\tlabel\tbroken\tlengths\tsteps\tseed\n"
    "0\t5\tinf\t0,0.25,0.5,1\t20\t7\n"
    "3\t1\t0.5\t0,0.25,0.5,1\t20\t7\n"
    "6\t2\t0\t0,0.25,0.5,1\t20\t7\n"
    "9\t2\t0.25\t0,0.25,0.5,1\t20\t7\n"
)


def test_an_input_counts_up_to_the_length_that_breaks_it() -> None:
    assert FOUND.accuracy.tolist() == [0.75, 0.5, 0.25, 0.25]


def test_the_table_says_all_and_is_read_again() -> None:
    assert FOUND.to_tsv(SETTINGS) == TEXT
    assert all(map(np.array_equal, Attack.parse(TEXT, ""), FOUND))
    one_line = "".join(TEXT.splitlines(keepends=True)[:2])
    assert Attack.parse(one_line, "").accuracy.tolist() == [1.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "text", [TEXT.replace("0.5\t0", "x\t0"), "idx\tlabel\n0\t1\n", TEXT.replace("1\t20", "y\t20")]
)
def test_a_damaged_table_is_named(text: str) -> None:
    with pytest.raises(UserError, match=r"we\.tsv is damaged .*run `shieldwall attack` again"):
        Attack.parse(text, "we.tsv")
