"""A run is read once: each of its files is opened one time, from a folder or from an archive."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from shieldwall.errors import UserError
from shieldwall.recipes import get
from shieldwall.results.archive import pack
from shieldwall.results.certificate_file import COLUMNS
from shieldwall.results.record import read_runs

LINE = "0 3 3 0.5 1 0:00:02 0.9 0.1 one-sided 10 0.001 {} 4 {} gaussian(0.25) l2 float32 7 {}"
FILES = ("recipe.yaml", "start.yaml", "environment.json", "training.jsonl", "weights.yaml")


def write_votes(folder: Path) -> None:
    folder.mkdir(parents=True)
    for vote, counts in (("we", ("9,1", "3,1")), ("eas", ("9,1;8,2", "3,1;4,0"))):
        text = f"{' '.join(COLUMNS)}\n{LINE.format(*counts, vote)}\n".replace(" ", "\t")
        (folder / f"{vote}.tsv").write_text(text)
    (folder / "settings.yaml").write_text("n: 10\nevery: 5\n")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    write_votes(folder / "certificates")
    write_votes(folder / "more-draws")
    (folder / "recipe.yaml").write_text(get("smoke").to_yaml())
    (folder / "start.yaml").write_text("name: first\n---\nname: before it\n")
    (folder / "environment.json").write_text(json.dumps({"train": {"commit": "abc"}, "odd": 3}))
    (folder / "training.jsonl").write_text('{"epoch": 1, "loss": 0.5}\n{"epo')
    (folder / "weights.yaml").write_text("sween: [0.5, 0.5]\n")
    return folder


def test_a_run_says_how_it_was_made(run: Path) -> None:
    (record,) = read_runs([run])
    assert (record.name, record.home, record.is_run) == ("smoke", run, True)
    assert list(record.certificates) == ["we", "eas"]
    assert [log.title for log in record.logs] == ["smoke WE", "smoke EAS"]
    assert record.recipe == get("smoke")
    assert [origin["name"] for origin in record.origins] == ["first", "before it"]
    assert record.environment == {"train": {"commit": "abc"}}
    assert record.training == [{"epoch": 1, "loss": 0.5}]
    assert record.settings == {"n": 10, "every": 5}


def test_every_number_behind_a_certificate_is_kept(run: Path) -> None:
    (record,) = read_runs([run])
    we, eas = record.certificates["we"], record.certificates["eas"]
    for certificates, counts, chosen in (
        (we, [[9, 1]], [[3, 1]]),
        (eas, [[[9, 1], [8, 2]]], [[[3, 1], [4, 0]]]),
    ):
        assert certificates.counts is not None
        assert certificates.selection_counts is not None
        assert certificates.counts.tolist() == counts
        assert certificates.selection_counts.tolist() == chosen
        assert certificates.p_lower is not None
        assert certificates.p_upper is not None
        assert (certificates.p_lower[0], certificates.p_upper[0]) == (0.9, 0.1)
        assert certificates.seconds is not None
        assert certificates.seconds.tolist() == [2.0]
        assert (certificates.n0, certificates.seed, certificates.fixed_n) == (4, 7, 10)


def test_what_was_not_recorded_is_empty(tmp_path: Path) -> None:
    (tmp_path / "sigma_0.5").write_text("idx\tlabel\tpredict\tradius\tcorrect\n0\t1\t1\t0.5\t1\n")
    (record,) = read_runs([tmp_path / "sigma_0.5"])
    certificates = record.certificates["sigma_0.5"]
    assert (record.name, record.recipe, record.settings, record.is_run) == ("sigma_0.5", None, {}, False)
    assert (record.environment, record.training, record.origins) == ({}, [], [])
    unknown = (
        certificates.counts, certificates.p_lower, certificates.n, certificates.n0, certificates.alpha,
        certificates.bound, certificates.noise, certificates.precision, certificates.seed,
    )  # fmt: skip
    assert set(unknown) == {None}


def test_a_recipe_of_another_version_is_not_read_but_kept(run: Path) -> None:
    content = {**yaml.safe_load((run / "recipe.yaml").read_text()), "of_the_future": 3}
    (run / "recipe.yaml").write_text(yaml.safe_dump(content))
    (record,) = read_runs([run])
    assert record.recipe is None
    assert record.recipe_content is not None
    assert record.recipe_content["of_the_future"] == 3


def test_a_damaged_training_log_is_told_to_those_who_need_it(run: Path) -> None:
    (run / "training.jsonl").write_text('{"epoch": 1}\nnothing\n{"epoch": 2}\n')
    (record,) = read_runs([run])
    with pytest.raises(UserError, match=r"run/training\.jsonl, line 2 is damaged"):
        _ = record.training


def opened(arguments: list[str]) -> list[str]:
    """The files that a command line opens, as Python's audit events tell."""
    code = (
        "import sys\n"
        "def hook(event, arguments):\n"
        "    if event == 'open' and isinstance(arguments[0], str): print('OPENED', arguments[0])\n"
        "sys.addaudithook(hook)\n"
        "from shieldwall.cli import main\n"
        f"sys.argv = ['shieldwall', *{arguments!r}]\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return [line.removeprefix("OPENED ") for line in done.stdout.splitlines() if line.startswith("OPENED ")]


def test_a_page_opens_each_file_of_its_runs_once(run: Path, tmp_path: Path) -> None:
    pack(run, tmp_path / "packed.tar.xz")
    runs = [run, run / "more-draws", tmp_path / "packed.tar.xz"]
    paths = opened(["report", *map(str, runs), "--html", str(tmp_path / "page.html")])
    folders = [f"{folder}/{name}" for folder in ("certificates", "more-draws") for name in
               ("we.tsv", "eas.tsv", "settings.yaml")]  # fmt: skip
    expected = [str(run / name) for name in (*FILES, *folders)] + [str(tmp_path / "packed.tar.xz")]
    assert sorted(path for path in paths if path in expected) == sorted(expected)
    inside = [path for path in paths if path.startswith(f"{tmp_path}/") and "page.html" not in path]
    assert sorted(inside) == sorted(expected)
