"""Certificates as arrays: what is derived from counts, rows of them, and several put together."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from shieldwall.errors import UserError
from shieldwall.results.archive import read_archive
from shieldwall.results.certificate_file import SETTINGS, VERSION
from shieldwall.results.certificates import Certificates
from shieldwall.results.record import read
from shieldwall.vocabulary import ABSTAIN

COUNTS = np.array([[9, 1, 0], [3, 4, 3], [0, 0, 12]])
MADE = Certificates(
    labels=np.array([0, ABSTAIN, 2]),
    radii=np.array([0.5, 0.0, 0.75]),
    p_lower=np.array([0.8, 0.1, 0.9]),
    counts=COUNTS,
    selection_counts=np.array([[5, 0, 0], [2, 3, 0], [0, 0, 5]]),
    alpha=0.001,
    bound="sequential(12)",
    noise="laplace(0.5)",
    norm="l1",
)


def test_the_samples_are_counted():
    assert MADE.n is not None
    assert MADE.n.tolist() == [10, 10, 12]
    assert (MADE.n0, MADE.max_n, MADE.bound_kind) == (5, 12, "sequential")
    by_member = Certificates(MADE.labels, MADE.radii, counts=np.stack([COUNTS, COUNTS[:, ::-1]], axis=1))
    assert by_member.n is not None
    assert by_member.n.tolist() == [10, 10, 12]


@pytest.mark.parametrize(
    ("noise", "sigma"),
    [
        ("gaussian(0.25)", 0.25),
        ("exact-gaussian(0.25)", 0.25),
        ("uniform(0.75)", 0.75 / 3**0.5),
        ("laplace(0.5)", 0.5 * 2**0.5),
        ("speckle(0.5)", None),
        ("gaussian", None),
        (None, None),
    ],
)
def test_sigma_is_the_standard_deviation_of_the_noise(noise: str | None, sigma: float | None):
    assert replace(MADE, noise=noise).sigma == (None if sigma is None else pytest.approx(sigma, rel=1e-15))


def test_rows_and_their_concatenation():
    first, rest = MADE[:1], MADE[np.array([1, 2])]
    assert (len(first), len(rest)) == (1, 2)
    both = Certificates.concat([first, rest])
    for name in ("labels", "radii", "p_lower", "counts", "selection_counts", "n"):
        np.testing.assert_array_equal(getattr(both, name), getattr(MADE, name))
    assert (both.alpha, both.bound, both.n0, both.seed) == (0.001, "sequential(12)", 5, None)


def test_what_differs_among_parts_is_not_known_of_all():
    both = Certificates.concat([MADE, replace(MADE, alpha=0.01, p_lower=None)])
    assert (both.alpha, both.p_lower, both.noise) == (None, None, "laplace(0.5)")
    with pytest.raises(UserError, match="different norms"):
        Certificates.concat([MADE, replace(MADE, norm="l2")])


def test_the_right_classes_tell_what_is_correct():
    assert MADE.with_truth([0, 1, 0]).correct.tolist() == [True, False, False]
    with pytest.raises(UserError, match="3 certificates need as many true classes"):
        MADE.with_truth([0, 1])
    with pytest.raises(UserError, match="with_truth"):
        _ = MADE.correct


def test_certificates_need_no_torch():
    code = "import sys, shieldwall.results.certificates; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


WHOLE = replace(
    MADE, n0=5, precision="float32", seed=7, indices=np.array([4, 0, 9]), truth=np.array([0, 1, 1]),
    p_upper=np.array([0.2, 0.9, 0.1]), seconds=np.array([0.25, 0.5, 1.0]),
)  # fmt: skip


def test_certificates_are_equal_where_they_say_the_same():
    assert replace(MADE, seconds=np.ones(3)) == MADE != replace(MADE, truth=np.array([0, 0, 0]))
    assert replace(MADE, alpha=0.01) != MADE != "certificates"
    assert MADE[:2] != MADE
    for name in ("labels", "radii", "p_lower", "counts", "selection_counts"):
        assert replace(MADE, **{name: getattr(MADE, name)[::-1]}) != MADE, name


def test_rows_are_taken_as_from_an_array():
    assert list(MADE) == [MADE[:1], MADE[1:2], MADE[2:]]
    assert MADE[-1] == MADE[2:]
    assert MADE[MADE.radii > 0] == MADE[[0, 2]]
    with pytest.raises(IndexError):
        _ = MADE[3]


@pytest.mark.parametrize("suffix", [".tsv", ".json"])
@pytest.mark.parametrize(
    "made",
    [
        WHOLE,
        replace(WHOLE, truth=None, radii=WHOLE.radii / 3),
        replace(WHOLE, p_lower=None, counts=None, alpha=None, value_range=(-1.0, 1.0)),
        replace(WHOLE, value_range=None, counts=np.stack([COUNTS, COUNTS[:, ::-1]], axis=1)),
    ],
)
def test_what_is_saved_is_what_is_loaded(made: Certificates, suffix: str, tmp_path: Path):
    made.save(tmp_path / f"made{suffix}")
    assert Certificates.load(tmp_path / f"made{suffix}") == made
    assert read(tmp_path / f"made{suffix}") == {"made": made}


def test_a_saved_table_is_the_file_of_a_run(tmp_path: Path):
    """But for the name of the vote, which certificates of a model alone do not have."""
    (run,) = Path(__file__).parents[2].glob("results/digits/gaussian-0.25.tar.xz")
    we = read(run)["we"]
    we.save(tmp_path / "we.tsv")
    written = [line + b"\twe" for line in (tmp_path / "we.tsv").read_bytes().splitlines()[1:]]
    assert written == read_archive(run)["certificates/we.tsv"].splitlines()[1:]


def test_json_follows_the_documented_schema(tmp_path: Path):
    schema = json.loads((Path(__file__).parents[2] / "docs/certificates-1.schema.json").read_text())
    jsonschema = pytest.importorskip("jsonschema")
    for name, made in {"whole": WHOLE, "few": replace(MADE, counts=None, alpha=None)}.items():
        made.save(tmp_path / f"{name}.json")
        jsonschema.validate(json.loads((tmp_path / f"{name}.json").read_text()), schema)
    assert schema["properties"]["version"] == {"const": VERSION}
    assert set(schema["properties"]["settings"]["properties"]) == set(SETTINGS)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"format": "shieldwall certificates", "version": 2}', "version 2, not 1"),
        ("{", "not certificates as shieldwall saves them"),
        (
            '{"format": "shieldwall certificates", "version": 1, "settings": {}, "certificates": []}',
            "no 'label",
        ),
        (
            '{"format": "shieldwall certificates", "version": 1, "settings": {"x": 1}, "certificates": []}',
            "unknown settings x",
        ),
    ],
)
def test_other_json_is_refused(text: str, says: str, tmp_path: Path):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(UserError, match=f"x.json: .*{says}"):
        Certificates.load(tmp_path / "x.json")


def test_a_file_of_another_kind_is_refused(tmp_path: Path):
    with pytest.raises(UserError, match=r"saved as \.tsv or \.json"):
        MADE.save(tmp_path / "made.csv")
    with pytest.raises(UserError, match="cannot be read"):
        Certificates.load(tmp_path / "none.json")


def test_a_table_of_pandas():
    pytest.importorskip("pandas")
    table = WHOLE.to_pandas()
    columns = "index truth label radius correct p_lower p_upper n seconds"
    assert list(table.columns) == columns.split()
    assert table.correct.mul(table.radius).mean() == WHOLE.acr()
    assert "correct" not in MADE.to_pandas()
    assert MADE.to_pandas([0, 1, 2]).truth.tolist() == [0, 1, 2]


def test_one_line_says_what_they_are():
    assert repr(MADE) == (
        "Certificates(3 inputs, 33.3% abstain, mean radius at least 0.417, laplace(0.5), n up to 12, "
        "alpha = 0.001)"
    )
    made = replace(WHOLE, bound="one-sided", n=np.full(3, 12), value_range=(-1, 1))
    assert repr(made) == (
        "Certificates(3 inputs, 33.3% abstain, ACR 0.167, laplace(0.5), pixels in [-1, 1], n = 12, "
        "alpha = 0.001)"
    )
    shown = Certificates.concat([WHOLE] * 20)._repr_html_()
    assert shown.count("<tr>") == 1 + 20 + 1
    assert "abstains" in shown


def test_radii_of_other_pixels_are_also_those_of_the_unit_range():
    made = replace(MADE, value_range=(-1.0, 3.0)).in_unit_range()
    assert (made.noise, made.value_range, made.sigma) == ("laplace(0.125)", (0.0, 1.0), 0.125 * 2**0.5)
    np.testing.assert_array_equal(made.radii, MADE.radii / 4)
    with pytest.raises(UserError, match="is not known"):
        replace(MADE, value_range=None).in_unit_range()
