"""docs/certification.md: complete, and true where it can be run; docs/equations.md names what exists."""

import importlib
import inspect
import math
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import yaml
from scipy.stats import norm
from typer.main import get_group
from typer.testing import CliRunner

import shieldwall as sw
from shieldwall import cli
from shieldwall.noise.distributions import KINDS
from shieldwall.results.certificate_file import COLUMNS
from shieldwall.runs.predict import predict_run
from shieldwall.smoothing.count_bounds import LAST_LOOK, Sequential, in_norm
from shieldwall.smoothing.inference import DTYPES
from shieldwall.vocabulary import BOUNDS, NORMS

DOCS = Path(__file__).parents[1] / "docs"
TEXT = (DOCS / "certification.md").read_text()


class Example(NamedTuple):
    language: str
    line: int
    code: str


def examples() -> list[Example]:
    """Every fenced block with the number of its first line."""
    found = re.finditer(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return [Example(one[1], TEXT[: one.start(2)].count("\n") + 1, one[2]) for one in found]


def section(title: str) -> str:
    """What stands below a heading of any level, up to the next one."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found, f"no section {title!r}"
    return found[1]


def rows(title: str) -> list[list[str]]:
    """The cells of all tables of a section, without headings."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    headings = {at for k, line in enumerate(lines) if line.startswith("| :") for at in (k - 1, k)}
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for k, line in enumerate(lines)
        if k not in headings
    ]


def in_code(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def test_every_option_of_the_command_line_is_in_the_table() -> None:
    explained = set().union(*(in_code(row[0]) for row in rows("Every option")))
    options = {
        name
        for parameter in get_group(cli.app).commands["certify"].params
        if parameter.param_type_name == "option"
        for name in parameter.opts
    } - {"--help"}
    assert len(options) > 15
    assert options - explained == set()
    assert {name for name in explained if name.startswith("--")} - options == set()


def test_every_keyword_is_in_the_table() -> None:
    explained = set().union(*(in_code(row[0]) for row in rows("Every option")))
    keywords = {
        name
        for function in (sw.certify, sw.certify_members)
        for name, one in inspect.signature(function).parameters.items()
        if one.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert len(keywords) >= 15
    assert keywords - explained == set()


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("Bounds", BOUNDS),
        ("Exact noise and precision", tuple(DTYPES)),
        ("Other noise", tuple(f"noise={kind}" for kind in KINDS)),
    ],
)
def test_every_choice_has_a_row(title: str, names: tuple[str, ...]) -> None:
    explained = [name for row in rows(title) for name in in_code(" ".join(row[:2]))]
    assert [name for name in names if name not in explained] == []


def test_every_column_of_the_file_is_explained_in_its_order() -> None:
    assert [row[0] for row in rows("The file")] == [f"`{column}`" for column in COLUMNS]
    assert all(len(row[1]) > 10 for row in rows("The file"))


def test_links_lead_somewhere() -> None:
    headings = re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", one).lower().replace(" ", "-") for one in headings}
    links = re.findall(r"\]\(([^)]+)\)", TEXT)
    assert len(links) > 5
    for link in links:
        path, _, anchor = link.partition("#")
        assert (DOCS / path).exists() if path else anchor in anchors, link
    for path in re.findall(r"`((?:tests|benchmarks|src)/[\w./]+)`", TEXT):
        assert (DOCS.parent / path).exists(), path


def test_the_largest_radii_are_as_said() -> None:
    told = re.findall(r"([\d.]+) sigma\s+for\s+(?:n\s=\s)?([\d,]+)", section("Samples, n and alpha"))
    assert len(told) == 3
    for radius, n in told:
        assert round(norm.ppf(0.001 ** (1 / int(n.replace(",", "")))), 2) == float(radius)


def test_alpha_is_shared_between_the_looks_as_said() -> None:
    text = section("Stopping early")
    assert f"Clopper-Pearson at {LAST_LOOK:g} alpha" in text
    assert f"a is {Sequential.sequence:g} alpha" in text
    assert f"({Sequential.unanimous:g} alpha)^(1/t)" in text


def test_the_floor_of_samples_is_as_said() -> None:
    told = re.findall(r"([\d.]+) sigma (?:these are )?([\d,]+)(?:\s+samples)?[,.]", section("Stopping early"))
    assert len(told) == 3
    for radius, draws in told:
        assert int(draws.replace(",", "")) == math.ceil(math.log(0.001) / norm.logcdf(float(radius)))


@pytest.mark.parametrize("size", [4, 100])
def test_the_table_of_norms_is_the_code_s(size: int) -> None:
    factor = {"r": 1.0, "r / sqrt(d)": 1 / math.sqrt(size), "r / d": 1 / size}
    for native, *cells in rows("Norms"):
        (name,) = in_code(native)
        told = [factor[cell] for cell in cells]
        assert told == pytest.approx([in_norm(1.0, name, wanted, size) for wanted in NORMS])


Session = tuple[Path, dict[str, Any]]
"""The folder in which the examples ran, and the names that the Python ones left."""


def ran_in_order() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for language, line, code in examples():
        if language == "sh":
            for command in code.splitlines():
                program, *arguments = shlex.split(command, comments=True)
                assert program == "shieldwall", f"line {line}"
                done = CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
                assert done.exit_code == 0, f"{command}: {done.output}"
        else:
            exec(compile("\n" * (line - 1) + code, "docs/certification.md", "exec"), names)
    return names


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("docs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return folder, ran_in_order()


def test_the_examples_run(session: Session) -> None:
    folder, names = session
    assert [one.language for one in examples()].count("sh") >= 3
    assert [one.language for one in examples()].count("python") >= 4
    assert {"found", "answer", "jointly"} <= set(names)
    assert len(list((folder / "runs" / "smoke" / "certificates").glob("*.tsv"))) == 5


def test_the_settings_named_are_those_of_the_files(session: Session) -> None:
    folder, _ = session
    said = re.search(r"`settings\.yaml` beside.*?(?=\n\n)", section("The file"), re.DOTALL)
    assert said
    explained = in_code(said[0])
    for made in (folder / "runs").glob("*/*/settings.yaml"):
        assert set(yaml.safe_load(made.read_text())) - explained == set()


WAYS = {
    "two-sided": ["--bound", "two-sided"],
    "exact": ["--exact-noise"],
    "linf": ["--norm", "linf"],
}


@pytest.fixture(scope="module")
def folders(session: Session) -> dict[str, str]:
    """Certificates made in other ways than those that the example shows, by name."""
    run = session[0] / "runs" / "smoke"
    for name, options in WAYS.items():
        done = CliRunner().invoke(cli.app, ["certify", str(run), "--limit", "5", "--to", name, *options])
        assert done.exit_code == 0, done.output
    made = {name: str(run / name) for name in ("at-radii", *WAYS)}
    return {**made, "laplace": str(session[0] / "runs" / "laplace" / "certificates")}


@pytest.mark.parametrize("name", ["at-radii", "laplace", *WAYS])
def test_the_example_computes_any_line_again(name: str, session: Session, folders: dict[str, str]) -> None:
    again, lines = session[1]["again"], session[1]["lines"]
    found = [line for vote in ("mme", "eas") for line in lines(vote, folders[name])]
    assert name != "at-radii" or any(int(line["n"]) < 1_000 for line in found)
    for line in found:
        computed = again(line)
        assert computed.labels.item() == int(line["predict"])
        assert computed.radii.item() == float(line["radius"])
        assert computed.p_lower.item() == float(line["p_lower"])
        assert computed.p_upper.item() == float(line["p_upper"])


def test_eas_is_at_most_what_its_best_member_has_alone(session: Session) -> None:
    certified = 0
    for line in session[1]["lines"]("eas", str(session[0] / "runs" / "smoke" / "certificates")):
        alone = 0.25 * norm.ppf(float(line["p_lower"]))
        assert float(line["radius"]) <= max(alone, 0.0) + 1e-12
        certified += float(line["radius"]) > 0
    assert certified > 15


def test_prediction_of_a_test_input_has_the_draws_of_its_certificate(session: Session) -> None:
    run = session[0] / "runs" / "smoke"
    line = session[1]["lines"]("mme", str(run / "certificates"))[2]
    index, seed = int(line["idx"]), int(line["seed"])
    (answer,) = predict_run(run, indices=[index], vote="mme", n=1_100, seed=seed, device="cpu")
    total = sum(session[1]["counts"](line[column]) for column in ("counts", "counts0"))
    leading = sorted(total.flatten().tolist(), reverse=True)
    assert [count for _, count in answer.votes] == leading[:3]


def test_functions_named_in_the_table_of_equations_exist() -> None:
    statements = (DOCS / "equations.md").read_text().partition("\n## ")[0]
    table = [cell for cell in re.findall(r"<br>([^|]+)<br>", statements) if cell.startswith("`")]
    assert len(table) > 10
    for name in set().union(*map(in_code, table)):
        if "(" in name:
            assert hasattr(sw, name.partition("(")[0]), name
            continue
        if name.startswith("examples/"):
            assert (DOCS.parent / name).is_file(), name
            continue
        package, *path = name.split(".")
        found: object = importlib.import_module(f"shieldwall.{package}")
        for part in path:
            if not hasattr(found, part):
                found = importlib.import_module(f"{found.__name__}.{part}")  # type: ignore[attr-defined]
            else:
                found = getattr(found, part)
