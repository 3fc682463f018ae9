"""Tables and figures of five packed runs of 1,000 inputs and eight votes each: byte for byte as they were.

The runs are fixtures of a network that is no longer here; their numbers are of no other interest.
"""

import hashlib
import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import scipy
import yaml
from typer.testing import CliRunner

from shieldwall import cli

RUNS = Path(__file__).parents[1] / "fixtures" / "mnist-old-lenet"
EXPECTED = RUNS / "expected"
NUMBER = re.compile(r"[0-9]+(?:[.][0-9]+)?(?:e-?[0-9]+)?")
OPTIONS = {
    "all": ["*.tar.xz"],
    "envelope": [
        "gaussian-*.tar.xz",
        "--votes",
        "we,mme",
        "--radii",
        "0.5,1,1.5",
        "--envelope",
        "--intervals",
    ],
}


@pytest.fixture(scope="module", params=OPTIONS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables and a figure, as NAME.csv, .md, .tex and .svg in a folder."""
    folder = tmp_path_factory.mktemp(request.param)
    pattern, *options = OPTIONS[request.param]
    tables = [word for end in ("csv", "md", "tex") for word in ("--table", f"{folder}/{request.param}.{end}")]
    runs = [str(path) for path in sorted(RUNS.glob(pattern))]
    assert len(runs) >= 3
    plot = ["--plot", f"{folder}/{request.param}.svg"]
    done = CliRunner().invoke(cli.app, ["report", *runs, *options, *tables, *plot], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return folder


def test_tables_are_the_same_bytes(written: Path) -> None:
    tables = sorted(path for path in written.iterdir() if path.suffix != ".svg")
    assert len(tables) == 3
    known = yaml.safe_load((EXPECTED / "figures.yaml").read_text())
    for path in tables:
        made, expected = path.read_text(), (EXPECTED / path.name).read_text()
        if scipy.__version__ == known["scipy"]:
            assert made == expected, path.name
        else:  # other versions differ in the last digit
            assert NUMBER.sub("", made) == NUMBER.sub("", expected)
            values, expected_values = (np.array(NUMBER.findall(text), float) for text in (made, expected))
            np.testing.assert_allclose(values, expected_values, rtol=1e-9)


def test_figures_are_the_same_bytes(written: Path) -> None:
    known = yaml.safe_load((EXPECTED / "figures.yaml").read_text())
    if matplotlib.__version__ != known["matplotlib"]:
        pytest.skip("another version of matplotlib draws other bytes")
    (figure,) = written.glob("*.svg")
    assert hashlib.sha256(figure.read_bytes()).hexdigest() == known[figure.name]
