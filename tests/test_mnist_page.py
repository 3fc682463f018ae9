"""docs/results.md and the README's summary: what the files in results/mnist give, and nothing else."""

import hashlib
import json
import math
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from shieldwall import recipes
from shieldwall.results.archive import pack

ROOT = Path(__file__).parents[1]
HEADER = "idx label predict radius correct n alpha noise bound vote"
VOTES = ("member-1", "we", "mme", "eas", "we-sween", "we-grid")
README = "Before.\n<!-- mnist:begin -->\nold\n<!-- mnist:end -->\nAfter.\n"
ROWS = (
    *("gaussian", "drt", "smoothadv", "drt-smoothadv", "drt-gd", "drt-cm", "adp", "gal"),
    *("macer", "stability", "consistency", "drt-consistency"),
)
Write = Callable[..., None]


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import mnist_page

    return mnist_page


@pytest.fixture
def call(page: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    def call(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["mnist_page.py", *arguments])
        return int(page.main())

    return call


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("docs", "results/mnist"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "README.md").write_text(README)
    return tmp_path


@pytest.fixture
def write(root: Path) -> Write:
    """Packs a run of 1,000 inputs: of each vote so many correct ones at each radius, the rest wrong."""

    def write(name: str, *assignments: str, every: int = 10, **votes: dict[float, int]) -> None:
        row, _, sigma = name.rpartition("-")
        recipe = recipes.override(recipes.get(f"mnist-{row.removesuffix('-5')}-{sigma}"), assignments)
        folder = root / "work" / name
        certificates = folder / "certificates"
        certificates.mkdir(parents=True)
        (folder / "recipe.yaml").write_text(replace(recipe, init_from="runs/plain-0.5").to_yaml())
        stages = {"train": ("2026-11-16", "a" * 40), "certify": ("2026-11-17", "b" * 40)}
        environment = {
            stage: {"date": f"{date}T09:00:00", "commit": commit, "device": "H200"}
            for stage, (date, commit) in stages.items()
        }
        (folder / "environment.json").write_text(json.dumps(environment))
        settings = {
            "data": "mnist", "every": every, "norm": "l2", "n0": 100, "n": 100_000, "alpha": 0.001,
            "bound": "one-sided", "precision": "float32",
            "weights": hashlib.sha256(name.encode()).hexdigest(),
        }  # fmt: skip
        (certificates / "settings.yaml").write_text(yaml.safe_dump(settings))
        for vote in VOTES:
            levels = votes.get(vote.replace("-", "_"), votes["others"])
            correct = [radius for radius, count in levels.items() for _ in range(count)]
            lines = [HEADER.split()]
            for k in range(1_000):
                hit = k < len(correct)
                radius = correct[k] if hit else 0.5
                cells = [
                    k,
                    0,
                    int(not hit),
                    radius,
                    int(hit),
                    100_000,
                    0.001,
                    f"gaussian({sigma})",
                    "one-sided",
                    vote,
                ]
                lines.append([str(cell) for cell in cells])
            text = "".join("\t".join(cells) + "\n" for cells in lines)
            (certificates / f"{vote}.tsv").write_text(text)
        pack(folder, root / "results" / "mnist" / f"{name}.tar.xz")
        shutil.rmtree(root / "work")

    return write


def section(text: str, heading: str) -> str:
    """What stands below a heading, up to the next one."""
    return text.split(f"# {heading}\n", 1)[1].split("\n#", 1)[0]


def cells(text: str, label: str, below: int = 0) -> list[str]:
    """The cells of the table's row with this label, or of one below it."""
    lines = text.splitlines()
    at = next(k for k, line in enumerate(lines) if line.startswith(f"| {label} |"))
    return [cell.strip() for cell in lines[at + below].strip("|").split("|")][1:]


def test_the_repository_is_what_its_files_give(
    call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("--check") == 0, capsys.readouterr().out


def test_the_files_of_the_repository_are_small() -> None:
    assert sum(file.stat().st_size for file in (ROOT / "results").rglob("*") if file.is_file()) < 20_000_000


def test_with_no_file_the_page_is_a_list_of_what_is_to_be_measured(
    root: Path, call: Callable[..., int]
) -> None:
    """57,000 images are 223 mini-batches of 256: 90 epochs have 20,070 steps."""
    assert call("--root", str(root)) == 0
    text = (root / "docs" / "results.md").read_text()
    assert re.findall("^#+ (.*)", text, re.MULTILINE) == [
        "MNIST: measured, beside the paper",
        "Not measured yet",
    ]
    todo = section(text, "Not measured yet")
    assert cells(todo, "gaussian") == [
        *("0.25 / 0.5 / 1", "90", "256", "20,070", "`python benchmarks/mnist.py gaussian`")
    ]
    schedule = recipes.get("mnist-drt-0.5").schedule
    steps = schedule.epochs * math.ceil(57_000 / schedule.batch_size)
    assert cells(todo, "drt")[1:4] == [str(schedule.epochs), str(schedule.batch_size), f"{steps:,}"]
    assert todo.count("`python benchmarks/mnist.py ") == len(ROWS)
    assert "300\nmillion forward passes" in todo
    summary = (root / "README.md").read_text()
    assert summary.startswith("Before.\n<!-- mnist:begin -->\nThe paper's MNIST tables")
    assert "none of the 36 runs is done" in summary
    assert summary.endswith("\n<!-- mnist:end -->\nAfter.\n")
    assert "| - |" not in text + summary


def test_measured_rows_by_hand(root: Path, write: Write, call: Callable[..., int]) -> None:
    """WE of Gaussian: 992 / 990 / 960 correct at sigma 0.25 / 0.5 / 1.0, of these 490 to 1.6 and 350 to 2.1.

    The best over sigma at 0 is 99.2 of sigma 0.25; at 1.5 it is 49.0 of sigma 0.5; at 2.0 it is 35.0.
    ACR: .992 * .8 = .794; .5 * .8 + .49 * 1.6 = 1.184; .61 * .8 + .35 * 2.1 = 1.223.
    """
    write("gaussian-0.25", others={0.8: 992}, member_1={0.8: 980})
    write("gaussian-0.5", others={0.8: 500, 1.6: 490})
    write("gaussian-1.0", others={0.8: 610, 2.1: 350})
    drt = ("objective.rho_gd=7", "objective.rho_cm=5", "schedule.epochs=60", "schedule.lr=0.01")
    write("drt-0.5", *drt, others={0.8: 990})
    write("gaussian-5-0.5", others={0.7: 1_000})
    (root / "results/mnist/notes.yaml").write_text("gaussian: Because\n  of this.\ndrt-0.5: And that.\n")
    steps = {
        "device": "H200",
        "date": "2026-11-16",
        "commit": "c" * 40,
        "milliseconds": {"drt": 8, "gaussian": 4},
    }
    (root / "results/mnist/step-seconds.json").write_text(json.dumps(steps))
    assert call("--root", str(root)) == 0
    text = (root / "docs" / "results.md").read_text()

    first = section(text, "Sigma 0.25")
    assert cells(first, "WE (Gaussian)") == ["99.2", "99.2", "99.2", "99.2"]
    assert cells(first, "WE (Gaussian)", 1) == ["99.2", "98.4", "96.9", "93.7"]
    assert cells(first, "WE (Gaussian)", 2) == ["+0.0", "+0.8", "**+2.3**", "**+5.5**"]
    assert cells(first, "Gaussian, single", 2)[0] == "**-1.1**"

    second = section(text, "Sigma 0.50")
    assert cells(second, "DRT + WE (Gaussian), rho 7, 5") == ["99.0"] * 4 + ["0.0"] * 4
    assert "| &nbsp; paper, rho 80, 5 | 98.4 |" in second
    assert "*drt-0.5*: And that." in second

    best = section(text, "The best over sigma")
    assert cells(best, "WE (Gaussian)") == [*["99.2"] * 4, *["49.0"] * 3, *["35.0"] * 2, "0.0", "0.0"]
    assert cells(best, "WE (Gaussian)", 1)[6:9] == ["70.4", "49.0", "35.2"]
    assert cells(best, "WE (Gaussian)", 2)[6:9] == ["**-21.4**", "**-14.0**", "-0.2"]
    assert cells(best, "DRT + WE (Gaussian): sigma 0.25 and 1 not yet measured")[0] == "99.0"
    assert "*gaussian*: Because of this." in best
    assert text.count("Because of this.") == 1

    acr = section(text, "Average certified radius")
    ours = cells(acr, "WE (Gaussian)")
    assert ours == [
        "0.794",
        "0.915",
        "**-0.121**",
        "1.184",
        "1.585",
        "**-0.401**",
        "1.223",
        "1.669",
        "**-0.446**",
    ]
    assert cells(acr, "Best published single model")[1::3] == ["0.933", "1.700", "1.831"]

    assert cells(section(text, "gaussian-5"), "gaussian-5: WE: sigma 0.25 and 1 not yet measured")[3] == "0.0"
    assert "paper" not in section(text, "gaussian-5")
    assert cells(text, "gaussian-5, sigma 0.50") == ["0.700"] * 6
    assert cells(section(text, "What a training step costs"), "Gaussian") == ["4.00", "0.50", "-", "-"]
    assert "Ours: H200, 2026-11-16, commit ccccccc." in text
    assert section(text, "Protocol").startswith(
        "\nEvery 10th test image (1,000), n0 = 100, n = 100,000, alpha = 0.001, one-sided bound, L2 radii, "
        "float32. The same for all 5 files.\n"
    )
    weights = hashlib.sha256(b"drt-0.5").hexdigest()[:12]
    assert cells(text, "`drt-0.5`") == [
        *("`mnist-drt-0.5`", "7, 5", "60", "0.01", "plain-0.5", "-", "0", "1,000", "100 + 100,000"),
        *("2026-11-16", "2026-11-17", "aaaaaaa, then bbbbbbb", "H200", f"`{weights}`"),
    ]

    summary = (root / "README.md").read_text()
    assert cells(summary, "WE (Gaussian)") == [
        *("0.794 / 0.915", "1.184 / 1.585", "1.223 / 1.669"),
        *("99.2 / 99.2", "99.2 / 96.9", "49.0 / 90.6", "49.0 / 70.4", "35.0 / 35.2", "0.0 / 12.9"),
    ]
    assert cells(summary, "DRT + WE (Gaussian)")[1:4] == ["0.792 / 1.637", "- / 1.745", "- / 99.5"]
    assert "4 of 36 runs" in summary
    assert "(docs/results.md)" in summary

    todo = section(text, "Not measured yet")
    assert "| gaussian |" not in todo
    epochs = [recipes.get(f"mnist-drt-{sigma}").schedule.epochs for sigma in (0.25, 1.0)]
    hours = f"{sum(epochs) * 57_000 / 256 * 8 / 3_600_000:.1f}"
    assert "| hours of training, H200 |" in todo
    assert cells(todo, "drt")[0] == "0.25 / 1"
    assert cells(todo, "drt")[-2:] == [hours, "`python benchmarks/mnist.py drt --sigmas 0.25,1.0`"]
    assert cells(todo, "smoothadv")[-2] == "-"
    for page in (text.partition("## Not measured yet")[0], summary):
        assert "SmoothAdv" not in page
        assert "MACER (" not in page
        assert not re.search(r"^\|[^|]*\|( - \|)+$", page, re.MULTILINE)
    assert "Other ways" in text  # DRT is in it; ADP and GAL are not
    assert "GAL" not in section(text, "Other ways to diverse ensembles (the paper's Table 18)")


def test_when_all_is_measured_no_list_is_left(root: Path, page: ModuleType) -> None:
    results = page.Results(root)
    results.__dict__["runs"] = {(row, sigma): None for row in ROWS for sigma in (0.25, 0.5, 1.0)}
    assert page.not_measured(results) == ""


def test_notes_wait_for_their_rows(root: Path, write: Write, call: Callable[..., int]) -> None:
    (root / "results/mnist/notes.yaml").write_text("gaussian: Because.\ndrt: Later.\n")
    write("gaussian-0.5", others={0.8: 500})
    assert call("--root", str(root)) == 0
    text = (root / "docs" / "results.md").read_text()
    assert text.count("Because.") == 1
    assert "Later." not in text


def test_files_that_were_certified_in_other_ways_are_named(
    root: Path, write: Write, call: Callable[..., int]
) -> None:
    write("gaussian-0.5", others={0.8: 900})
    write("drt-0.5", others={0.8: 900}, every=1)
    call("--root", str(root))
    ways = section((root / "docs" / "results.md").read_text(), "Protocol").splitlines()[1:3]
    assert [(way[:18], way.rpartition(": ")[2]) for way in ways] == [
        ("- Every 10th test ", "gaussian-0.5"),
        ("- Every test image", "drt-0.5"),
    ]


def test_check_writes_nothing_and_sees_every_change(
    root: Path, write: Write, call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("--root", str(root), "--check") == 1
    assert not (root / "docs" / "results.md").exists()
    assert (root / "README.md").read_text() == README
    assert call("--root", str(root)) == 0
    assert call("--root", str(root), "--check") == 0
    write("gaussian-0.5", others={0.8: 900})
    capsys.readouterr()
    assert call("--root", str(root), "--check") == 1
    assert capsys.readouterr().out.count("is out of date; run python benchmarks/mnist_page.py") == 2
    call("--root", str(root))
    (root / "README.md").write_text(
        (root / "README.md").read_text().replace("0.720 / 1.585", "1.720 / 1.585")
    )
    assert call("--root", str(root), "--check") == 1


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        (lambda folder: (folder / "notes.yaml").write_text("drtt: x"), "no table has a row called drtt"),
        (lambda folder: (folder / "gaussian-0.5.tar.xz").rename(folder / "gaussian.tar.xz"), "ROW-SIGMA"),
        (
            lambda folder: (folder / "gaussian-0.5.tar.xz").rename(folder / "gaussian-1.0.tar.xz"),
            "by sigma 1.0",
        ),
        (lambda folder: (folder / "gaussian-0.5.tar.xz").rename(folder / "adp-0.5.tar.xz"), "the method adp"),
        (lambda folder: (folder.parents[1] / "README.md").write_text("no markers"), "README.md has no lines"),
    ],
)
def test_mistakes_are_told_in_one_line(
    root: Path,
    write: Write,
    call: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    prepare: Callable[[Path], object],
    said: str,
) -> None:
    write("gaussian-0.5", others={0.8: 900})
    prepare(root / "results" / "mnist")
    assert call("--root", str(root)) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert said in error


def test_a_run_that_is_not_certified_is_refused(
    root: Path, call: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "run").mkdir()
    (root / "run" / "recipe.yaml").write_text(recipes.get("mnist-drt-1.0").to_yaml())
    pack(root / "run", root / "results" / "mnist" / "drt-1.0.tar.xz")
    assert call("--root", str(root)) == 2
    assert "drt-1.0.tar.xz: this packed run has no certificates" in capsys.readouterr().err
