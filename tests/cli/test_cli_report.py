"""`report`: the files it writes, the rows it shows, and what it refuses."""

import csv
import re
import shutil
from pathlib import Path

import pytest
from cli_tools import Shieldwall, refused, snapshot

import shieldwall as sw
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.pretrained import resolve_run
from shieldwall.runs.trained import held_out_part


@pytest.fixture
def seeds(run: Path) -> list[Path]:
    """The run and a copy that says it is of another seed, its member 1 in place of its WE."""
    other = Path(shutil.copytree(run, run.parent / "other"))
    (other / "SHA256SUMS").unlink()
    recipe = other / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("seed: 0", "seed: 1"))
    content = (other / "certificates" / "member-1.tsv").read_text()
    (other / "certificates" / "we.tsv").write_text(content.replace("\tmember-1\n", "\twe\n"))
    return [run, other]


def test_tables_and_plots_of_every_kind(shieldwall: Shieldwall, run: Path) -> None:
    before = snapshot(run)
    files = ["t.tex", "t.md", "t.csv", "p.png", "p.pdf", "p.svg"]
    options = [text for name in files for text in ("--table" if name[0] == "t" else "--plot", f"out/{name}")]
    done = shieldwall("report", run, "--radii", "0.25", *options)
    assert done.code == 0
    assert sorted(path.name for path in Path("out").iterdir()) == sorted(files)
    assert snapshot(run) == before
    assert (
        "table: out/t.tex\ntable: out/t.md\ntable: out/t.csv\nplot: out/p.png, out/p.pdf, out/p.svg"
        in done.out
    )
    shown = re.search(r"smoke WE +([\d.]+) +([\d.]+) +([\d.]+)", done.out)
    assert shown
    assert f"smoke WE | {' | '.join(shown.groups())}" in Path("out/t.md").read_text().replace("**", "")
    latex = re.sub(r"\\textbf\{([\d.]+)\}", r"\1", Path("out/t.tex").read_text())
    assert f"smoke WE & {' & '.join(shown.groups())}" in latex
    with Path("out/t.csv").open(newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["vote"] == "we"]
    accuracies = [f"{100 * float(line['certified_accuracy']):.1f}" for line in lines]
    assert accuracies == list(shown.groups()[:2])


def test_the_same_command_writes_the_same_bytes(shieldwall: Shieldwall, run: Path) -> None:
    for folder in ("a", "b"):
        names = [f"{folder}/{name}" for name in ("t.tex", "t.md", "t.csv")]
        options = [text for name in names for text in ("--table", name)]
        assert shieldwall("report", run, "--intervals", *options).code == 0
    assert snapshot(Path("a")) == snapshot(Path("b"))


def test_without_a_file_to_write_nothing_is_written(shieldwall: Shieldwall, run: Path) -> None:
    before = snapshot(run)
    done = shieldwall("report", run)
    assert done.code == 0
    assert "smoke WE" in done.out
    assert "plot:" not in done.out
    assert snapshot(run) == before
    assert list(Path().iterdir()) == []


def test_a_pretrained_name_is_its_certified_copy(shieldwall: Shieldwall, run: Path) -> None:
    name = "digits-gaussian-0.25"
    refused(shieldwall("report", name), f"not certified yet; first run `shieldwall certify {name}`")
    assert not Path("runs").exists()
    resolve_run(name, to_write=True)  # as every verb does that writes
    shutil.copytree(run / "certificates", Path("runs") / name / "certificates")
    done = shieldwall("report", name, "--table", "t.md")
    assert done.code == 0, done.err
    assert "digits-gaussian-0.25 WE" in done.out


def test_intervals(shieldwall: Shieldwall, run: Path) -> None:
    done = shieldwall("report", run, "--votes", "we", "--intervals", "--table", "t.md")
    assert done.code == 0
    assert re.search(r"\[\d+\.\d, \d+\.\d\]", done.out)
    assert "in brackets: the 95% interval over inputs" in " ".join(done.out.split())


def test_votes(shieldwall: Shieldwall, run: Path) -> None:
    done = shieldwall("report", run, "--votes", "mme, we", "--table", "t.md")
    titles = [line.split(" | ")[0] for line in Path("t.md").read_text().splitlines()[4:6]]
    assert done.code == 0
    assert titles == ["| smoke WE", "| smoke MME"]
    refused(shieldwall("report", run, "--votes", "wee"), "unknown vote 'wee'; did you mean 'we'?")


def test_runs_that_differ_by_seed_are_averaged(shieldwall: Shieldwall, seeds: list[Path]) -> None:
    done = shieldwall("report", *seeds, "--votes", "we", "--plot", "p.svg")
    assert done.code == 0
    assert re.search(r"smoke WE +[\d.]+ ± [\d.]+", done.out)
    assert "mean ± standard deviation over 2 seeds" in done.out
    assert ">2 seeds</text>" in Path("p.svg").read_text()


def test_the_envelope_over_sigma(shieldwall: Shieldwall, run: Path) -> None:
    wide = Path(shutil.copytree(run, run.parent / "wide"))
    (wide / "SHA256SUMS").unlink()
    recipe = wide / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("sigma: 0.25", "sigma: 0.5"))
    for path in (wide / "certificates").iterdir():
        path.write_text(path.read_text().replace("gaussian(0.25)", "gaussian(0.5)"))
    done = shieldwall("report", run, wide, "--envelope", "--votes", "we", "--table", "t.md")
    assert done.code == 0
    said = " ".join(done.out.split())
    assert "best sigma: at each radius the best of 2 models, sigma 0.25, 0.5; warning" in said
    assert Path("t.md").read_text().count("| smoke WE |") == 1
    refused(shieldwall("report", run, "--envelope"), "--envelope needs one method at two or more sigmas")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--table", "t.xlsx"], "t.xlsx: a table is written as .tex, .md or .csv"),
        (["--table", "t.md", "--plot", "p.gif"], "p.gif: a figure is written as .png, .pdf or .svg"),
        (["--table", "text/t.md"], "text"),
        (["--table", "t.md", "--radii", "-1"], "radius"),
    ],
)
def test_refusals_leave_nothing_behind(
    shieldwall: Shieldwall, run: Path, options: list[str], said: str
) -> None:
    Path("text").write_text("no folder")
    before = snapshot(Path())
    refused(shieldwall("report", run, *options), said)
    assert snapshot(Path()) == before


def test_a_page(shieldwall: Shieldwall, run: Path) -> None:
    done = shieldwall("report", run, "--html", "out.html", "--radii", "0,0.25")
    assert done.code == 0
    assert done.out.endswith("page: out.html\n")
    assert Path("out.html").read_text().lstrip().lower().startswith("<!doctype html>")
    assert "smoke MME" in Path("out.html").read_text()
    assert shieldwall("report", run, "--html", "out.html", "--votes", "we").code == 0
    assert "smoke MME" not in Path("out.html").read_text()


def test_held_out_images_choose_what_the_test_images_show(shieldwall: Shieldwall, tmp_path: Path) -> None:
    runs = [tmp_path / "a", tmp_path / "b"]
    short = ("--set", "schedule.epochs=1", "--set", "holdout_every=4", "--set", "certification.n=100")
    for rate, run in zip(("0.1", "0.02"), runs, strict=True):
        done = shieldwall("train", "smoke", *short, "--set", f"schedule.lr={rate}", "--out", run)
        assert done.code == 0, done.err
        assert shieldwall("certify", run, "--every", "60").code == 0
        done = shieldwall("certify", run, "--every", "30", "--held-out")
        assert done.code == 0, done.err
        lines = (run / "held-out" / "we.tsv").read_text().splitlines()
        split = held_out_part(RunFolder(run).recipe, sw.load_data("digits"))
        assert [int(line.split("\t")[1]) for line in lines[1:]] == split.labels[::30].tolist()
    options = ("report", *runs, "--votes", "we", "--best-over", "schedule.lr", "--choose-on", "held-out")
    said = " ".join(shieldwall(*options).out.split())
    assert "the best of 2 models, chosen on 12 held-out inputs; no single model attains it" in said
    assert shieldwall("verify", *runs, "--redraw", "2").code == 0
    by_two = shieldwall("certify", runs[0], "--every", "30", "--held-out", "--to", "two", "--jobs", "2")
    assert by_two.code == 0, by_two.err
    counts = [
        [line.split("\t")[:5] for line in (runs[0] / folder / "we.tsv").read_text().splitlines()]
        for folder in ("held-out", "two")
    ]
    assert counts[0] == counts[1]
    refused(shieldwall("report", *runs, "--choose-on", "held-out"), "give --envelope or --best-over too")
    refused(shieldwall(*options, "--html", "x.html"), "leave out --best-over and --choose-on, or --html")


def test_what_has_none_of_the_votes_is_named(shieldwall: Shieldwall, run: Path, tmp_path: Path) -> None:
    log = tmp_path / "sigma_0.25"
    log.write_text("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\t0.5\t1\t0:00:01\n")
    shieldwall("certify", run, "--limit", "1", "--votes", "member-1", "--to", "first")
    first, *table = shieldwall("report", run, run / "first", log, "--votes", "we").out.splitlines()
    assert first == "left out, as it has none of these votes: smoke (first)"
    assert any(line.startswith("sigma_0.25 ") for line in table)  # it does not say its vote, so it is shown
