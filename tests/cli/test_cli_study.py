"""`study show`, `run` and `report`: every step once, whatever fails or is killed, and to the same bytes."""

import os
import resource
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from cli_tools import Outcome, Shieldwall, finish, process, refused, snapshot, wait_until

sys.path.insert(0, str(Path(__file__).parents[1] / "data"))
from tiny_sets import write_mnist

from shieldwall.results import paper
from shieldwall.studies import study
from shieldwall.studies.steps import Places, steps_of

MINE = """\
summary: small digits
schedule.epochs: 2
certification.every: 60
certification.n: 500
holdout_every: 10
members: 2
rows:
  base: {recipe: smoke, tune: [sween]}
  drt: {recipe: digits-drt, from: base, rho: [[0.05, 0.2], [0.1, 0.2]], votes: [we]}
"""
BROKEN = """\
  broken: {recipe: smoke, model: 'nowhere:nothing'}
  diverging: {recipe: smoke, schedule.lr: 9.0e+29}
"""
RUN = ("-m", "shieldwall", "study", "run", "mine.yaml", "--jobs", "2")


@pytest.fixture
def mine() -> Path:
    path = Path("mine.yaml")
    path.write_text(MINE)
    return path


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study without interruption: not to be changed."""
    folder = tmp_path_factory.mktemp("filled")
    (folder / "mine.yaml").write_text(MINE)
    with process(*RUN, cwd=folder) as started:
        done = finish(started)
    assert done.code == 0, done
    return folder


def results(place: Path) -> dict[str, bytes]:
    """What each run came to: weights, and certificates without their times."""
    kept = {}
    for name, content in snapshot(place / "runs").items():
        if name.endswith(".tsv"):
            cells = [line.split(b"\t") for line in content.splitlines()]
            kept[name] = b"\n".join(b"\t".join(line[:5] + line[6:]) for line in cells)
        elif name.endswith(".safetensors") or name.endswith(("weights.yaml", "recipe.yaml", "settings.yaml")):
            kept[name] = content
    return kept


def resumed(place: Path) -> Outcome:
    with process(*RUN, cwd=place) as started:
        return finish(started)


def is_done(place: Path) -> bool:
    places = Places([place / "runs"])
    return all(places.is_done(step) for step in steps_of(study.get(str(place / "mine.yaml"))))


def test_all_steps_are_done_once(filled: Path, mine: Path, shieldwall: Shieldwall) -> None:
    runs = shutil.copytree(filled / "runs", "runs")
    names = {path.name.removesuffix(".tar.xz") for path in Path("runs").iterdir()}
    assert len(names) == 3
    assert sum(name.startswith("smoke-0.25") for name in names) == 1
    before = snapshot(Path("runs"))
    assert {name.rpartition("/")[2] for name in before} >= {"we-sween.tsv", "we.tsv", "eas.tsv"}
    again = shieldwall("study", "run", "mine.yaml")
    assert (again.code, again.out) == (
        0,
        "mine.yaml: small digits\nnext: shieldwall study report mine.yaml\n",
    )
    assert snapshot(Path(runs)) == before
    shown = shieldwall("study", "show", "mine.yaml", "--no-cost").out
    assert shown.count("done") == 2 * 3 + 4
    assert "missing" not in shown


def test_its_report_names_rows_by_what_varies(filled: Path, mine: Path, shieldwall: Shieldwall) -> None:
    shutil.copytree(filled / "runs", "runs")
    files = [Path(name) for name in ("page.md", "t.tex", "p.png", "p.html")]
    said = shieldwall("study", "report", "mine.yaml", *(part for file in files for part in ("--to", file)))
    assert said.code == 0
    assert all(file.stat().st_size > 0 for file in files)
    page = files[0].read_text()
    lines = page.splitlines()
    assert any(line.startswith("|  | rho | clean 0.00 |") for line in lines)
    drt = [line.split(" | ")[:2] for line in lines if line.startswith("| digits-drt")]
    assert drt == [["| digits-drt-0.25 WE", "0.05, 0.2"], ["| digits-drt-0.25 WE", "0.1, 0.2"]]
    assert "not measured" not in page.lower()
    assert page.count("learning rate") == 3


def test_packed_runs_are_finished_runs(filled: Path, mine: Path, shieldwall: Shieldwall) -> None:
    Path("packed").mkdir()
    for file in (filled / "runs").glob("*.tar.xz"):
        shutil.copy(file, "packed")
    ours = shieldwall("study", "report", "mine.yaml", "--runs", "packed")
    shutil.copytree(filled / "runs", "runs")
    assert ours.out == shieldwall("study", "report", "mine.yaml").out
    assert "not measured" not in ours.out
    run = shieldwall("study", "run", "mine.yaml", "--runs", "here", "--runs", "packed")
    assert run.out.endswith("next: shieldwall study report mine.yaml\n")
    assert not Path("here").exists()


def test_a_run_made_by_hand_is_recognised(finished: Path, shieldwall: Shieldwall) -> None:
    Path("mine.yaml").write_text("rows: {all: {recipe: smoke}}\n")
    by_hand = Path(shutil.copytree(finished, "runs/by-hand"))
    before = snapshot(by_hand)
    done = shieldwall("study", "run", "mine.yaml")
    assert done.code == 0
    assert "pack all, sigma 0.25: done" in done.out
    assert "(1 of 1 steps)" in done.out
    assert snapshot(by_hand) == before
    assert sorted(path.name for path in Path("runs").iterdir()) == ["by-hand", "by-hand.tar.xz"]


def test_another_protocol_has_certificates_of_its_own(finished: Path, shieldwall: Shieldwall) -> None:
    Path("mine.yaml").write_text("rows: {all: {recipe: smoke, certification.n: 50}}\n")
    by_hand = Path(shutil.copytree(finished, "runs/by-hand"))
    before = snapshot(by_hand / "certificates")
    assert "(2 of 2 steps)" in shieldwall("study", "run", "mine.yaml").out
    assert snapshot(by_hand / "certificates") == before
    (other,) = by_hand.glob("certificates-*")
    assert "n: 50\n" in (other / "settings.yaml").read_text()
    assert "50" in shieldwall("study", "report", "mine.yaml").out


def test_a_failed_row_does_not_stop_the_others(
    mine: Path, filled: Path, shieldwall: Shieldwall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHIELDWALL_TRUST_CODE", "nowhere:nothing")
    shutil.copytree(filled / "runs", "runs")
    mine.write_text(MINE + BROKEN)
    failed = shieldwall("study", "run", "mine.yaml")
    assert failed.code == 1
    assert "train broken, sigma 0.25, members 2, model nowhere:nothing: failed: model " in failed.out
    assert "train diverging, sigma 0.25, members 2: failed: training diverged in epoch 1" in failed.out
    assert failed.out.endswith("failed steps: 2; steps that need them, or are left: 4\n")
    shown = shieldwall("study", "show", "mine.yaml", "--no-cost").out
    assert shown.count("failed") == 4  # of each row, and why
    assert "cannot import 'nowhere'" in shown
    report = shieldwall("study", "report", "mine.yaml").out
    assert "`shieldwall study run mine.yaml --rows broken --sigma 0.25`" in report


def test_minutes_end_a_run_and_the_same_command_resumes(mine: Path, shieldwall: Shieldwall) -> None:
    stopped = shieldwall("study", "run", "mine.yaml", "--minutes", "0")
    assert (stopped.code, stopped.out.splitlines()[-1]) == (
        0,
        "10 steps are left; run the same command to resume",
    )


def test_costs_are_measured_once(mine: Path, shieldwall: Shieldwall) -> None:
    first = shieldwall("study", "show", "mine.yaml", "--rows", "base").out
    assert "timing 2 kinds of steps" in first
    assert "hours of one core or GPU" in first
    known = Path("runs/step-seconds.json").read_bytes()
    assert "timing" not in shieldwall("study", "show", "mine.yaml", "--rows", "base").out
    assert Path("runs/step-seconds.json").read_bytes() == known


def as_the_paper_s(place: Path, *arguments: str, run: Sequence[str] = (), **variables: str) -> list[str]:
    """The lines of the paper's table, filled from nothing on 40 training and 3 test images."""
    write_mnist(place / "data" / "mnist", extra=34)
    for verb in (["run", *run], ["report", "--to", "t.md"]):
        with process(
            *(
                "-m",
                "shieldwall",
                "study",
                verb[0],
                "tab:mnisttable",
                *verb[1:],
                "--scale",
                "tiny",
                "--data-dir",
                "data",
            ),
            *arguments,
            cwd=place,
            **variables,
        ) as started:
            done = finish(started)
        assert done.code == 0, done
        assert "scale 0.01: fewer epochs, inputs and draws" in done.out
    assert "not measured yet" not in done.out
    return [line for line in (place / "t.md").read_text().splitlines() if line]


def test_rows_of_the_paper_s_table_from_nothing() -> None:
    lines = as_the_paper_s(Path(), "--rows", "stability", "--sigma", "0.5")
    ours, theirs = [line for line in lines if line.startswith("|")][2:4]
    assert ours.startswith("| Stability | ")
    assert theirs.startswith("| &nbsp; paper | 99.3 | 98.6 |")
    assert "not measured: Gaussian, SmoothAdv, MACER, SWEEN (Gaussian)" in "\n".join(lines)


@pytest.mark.slow
def test_the_whole_table_from_nothing() -> None:
    lines = as_the_paper_s(Path())
    ours = [line.split(" | ")[0].strip("| ") for line in lines if line.startswith("|")][2::3]
    assert ours == [f"{row.label}, best of 3 runs" for row in paper.rows("tab:mnisttable")]
    assert len(list(Path("runs").glob("*.tar.xz"))) == 18


def test_the_studies_are_listed(shieldwall: Shieldwall) -> None:
    listed = shieldwall("study", "list").out
    assert all(f"\n{name} " in listed for name in study.names())


def test_mistakes(mine: Path, shieldwall: Shieldwall) -> None:
    refused(shieldwall("study", "show", "tab:mnistable"), "did you mean 'tab:mnisttable'")
    refused(shieldwall("study", "run", "mine.yaml", "--jobs", "0"), "--jobs must be at least 1")
    refused(shieldwall("study", "run", "mine.yaml", "--runs", "a", "--runs", "b"), "b is none")


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["checkpoint.safetensors", "we.tsv"])
def test_killed_at_any_time_it_comes_to_the_same(filled: Path, mine: Path, stage: str) -> None:
    with process(*RUN) as started:
        wait_until(lambda: any(Path("runs").rglob(stage)), started)
        started.kill()
    locked = Places([Path("runs")])
    runs = study.get("mine.yaml").runs
    while any(locked.is_locked(run) for run in runs):  # until its workers have noticed
        pass
    assert resumed(Path()).code == 0
    assert results(Path()) == results(filled)


@pytest.mark.slow
def test_ctrl_c_ends_it(filled: Path, mine: Path) -> None:
    with process(*RUN) as started:
        wait_until(lambda: any(Path("runs").rglob("training.jsonl")), started)
        started.send_signal(signal.SIGINT)
        ended = finish(started)
    assert (ended.code, ended.err) == (130, "interrupted; run the same command to resume\n")
    assert not any(Places([Path("runs")]).is_locked(run) for run in study.get("mine.yaml").runs)
    assert resumed(Path()).code == 0
    assert results(Path()) == results(filled)


@pytest.mark.slow
def test_a_killed_worker_is_a_failed_step(filled: Path, mine: Path) -> None:
    with process(*RUN) as started:
        wait_until(lambda: any(Path("runs").rglob("training.jsonl")), started)
        children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
        workers = [pid for pid in children if b"import serve" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        os.kill(int(workers[0]), signal.SIGKILL)
        ended = finish(started)
    assert ended.code == 1
    assert "failed: its process ended with code -9" in ended.out
    assert resumed(Path()).code == 0
    assert results(Path()) == results(filled)


@pytest.mark.slow
def test_two_share_the_work(filled: Path, mine: Path) -> None:
    with process(*RUN) as one, process(*RUN) as other:
        outcomes = [finish(one), finish(other)]
    assert [outcome.code for outcome in outcomes] == [0, 0], outcomes
    done = [line for outcome in outcomes for line in outcome.out.splitlines() if ": done in" in line]
    assert (
        len({line.rpartition(": done")[0] for line in done}) == 10
    )  # one may see that the other has done it
    assert results(Path()) == results(filled)


@pytest.mark.slow
def test_a_full_disk_is_a_failed_step(filled: Path, mine: Path) -> None:
    """No file may be larger than 20 kB: no checkpoint can be written, but a note of the failure can."""

    def fill() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))

    with process(*RUN, before=fill) as started:
        ended = finish(started)
    assert ended.code == 1
    assert "train base, sigma 0.25, members 2: failed: cannot write " in ended.out
    assert "the disk is full" in ended.out
    assert resumed(Path()).code == 0
    assert results(Path()) == results(filled)
