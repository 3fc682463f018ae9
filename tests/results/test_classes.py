"""Certified accuracy by class and p_A, worked by hand."""

import numpy as np
import pytest

from shieldwall.results.certificates import Certificates
from shieldwall.results.metrics import by_class, carried, probabilities


def certificates(truth: list[int], labels: list[int], radii: list[float], **fields: object) -> Certificates:
    return Certificates(np.array(labels), np.array(radii), truth=np.array(truth), **fields)  # type: ignore[arg-type]


def test_each_class_is_counted_by_itself() -> None:
    made = certificates([0, 0, 0, 3, 3, 7], [0, 0, 1, 3, -1, 7], [0.5, 0.2, 0.9, 0.4, 0.0, 0.25])
    classes, sizes, counts = by_class(made, [0.0, 0.25, 0.5])
    assert classes.tolist() == [0, 3, 7]
    assert sizes.tolist() == [3, 2, 1]
    assert counts.tolist() == [[2, 1, 1], [1, 1, 0], [1, 1, 0]]
    assert (counts.sum(0) / 6).tolist() == made.certified_accuracy(None, [0.0, 0.25, 0.5]).tolist()


@pytest.mark.parametrize(
    ("of_one", "of_others", "said"), [(9, 1, True), (5, 0, True), (4, 0, False), (9, 6, False)]
)
def test_one_class_carries_a_radius_only_beyond_chance(of_one: int, of_others: int, said: bool) -> None:
    """Of 5 of 5, the lower bound at 95% is 0.05^(1/5) = 0.549; of 4 of 4 it is 0.473, of 9 of 15 0.36."""
    truth = [k for k in range(10) for _ in range(10)]
    radii = np.full(100, 0.3)
    radii[40 : 40 + of_one] = 1.0
    radii[:of_others] = 1.0
    found = carried(certificates(truth, truth, radii.tolist()), [0.0, 0.25, 0.5, 0.75])
    assert found == ((0.5, 4, of_one, of_one + of_others) if said else None)


def test_a_class_with_a_third_of_the_inputs_is_not_asked() -> None:
    truth = [0] * 40 + [1] * 30 + [2] * 30
    radii = [1.0] * 40 + [0.1] * 60
    assert carried(certificates(truth, truth, radii), [0.5]) is None
    assert carried(certificates([0, 1, 2], [1, 2, 0], [1.0, 1.0, 1.0]), [0.5]) is None


def test_p_a_is_the_share_of_the_true_class() -> None:
    made = certificates(
        [1, 0, 2], [1, 1, -1], [0.1, 0.2, 0.0], counts=np.array([[10, 90, 0], [30, 70, 0], [0, 50, 50]])
    )
    found = probabilities(made)
    assert found is not None
    assert found.tolist() == [0.9, 0.3, 0.5]


def test_p_a_is_of_the_first_samples_where_there_are_no_others() -> None:
    counts, first = np.array([[10, 90], [0, 0]]), np.array([[1, 9], [8, 2]])
    found = probabilities(certificates([1, 1], [1, 0], [0.1, 0.0], counts=counts, selection_counts=first))
    assert found is not None
    assert found.tolist() == [0.9, 0.2]


def test_p_a_of_a_class_beyond_the_counts_is_zero_and_members_have_none() -> None:
    found = probabilities(certificates([5], [0], [0.1], counts=np.array([[3, 7]])))
    assert found is not None
    assert found.tolist() == [0.0]
    assert probabilities(certificates([0], [0], [0.1])) is None
    assert probabilities(certificates([0], [0], [0.1], counts=np.array([[[3, 7], [4, 6]]]))) is None
