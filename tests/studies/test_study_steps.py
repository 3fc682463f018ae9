"""Which steps of a study are done, as the run folders say it."""

from pathlib import Path
from shutil import rmtree

import pytest

from shieldwall.console import QUIET
from shieldwall.results.archive import pack
from shieldwall.runs.certify import certify_run
from shieldwall.runs.train import train_run
from shieldwall.studies import engine, study
from shieldwall.studies.steps import Places, Step, steps_of

CRASHES = """\
import os
from pathlib import Path

def perform(task, worker, places=None):
    (task["folder"] / "members").mkdir(parents=True)
    for k in range(1, MADE + 1):
        (task["folder"] / "members" / f"member-{k}.safetensors").touch()
    os._exit(3)
"""


def smoke_steps(folder: Path, more: str = "") -> list[Step]:
    path = folder / "mine.yaml"
    path.write_text(f"rows: {{a: {{recipe: smoke}}}}\ncertification.limit: 2\n{more}")
    return steps_of(study.get(str(path)))


@pytest.mark.parametrize("made", [2, 1])
def test_a_process_that_ends_after_its_last_file_has_done_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: int
) -> None:
    (tmp_path / "crashes.py").write_text(CRASHES.replace("MADE", str(made)))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(engine, "_WORK", "crashes:perform")
    (train, *_), places = smoke_steps(tmp_path), Places([tmp_path / "runs"])
    left, failed = engine.run_steps([train], places, QUIET, jobs=1)
    if made == train.run.recipe.members:
        assert (left, failed, places.state(train)) == ([], {}, "done")
    else:
        assert (left, failed) == ([train], {train.name: "its process ended with code 3"})
        assert places.failure(train.run)["step"] == "train"


@pytest.mark.parametrize("more", ["", "certification.bound: two-sided\n", "certification.radii: [0.5]\n"])
def test_a_run_is_certified_as_the_study_wants_it_with_any_bound(tmp_path: Path, more: str) -> None:
    train, certify, _ = smoke_steps(tmp_path, more)
    folder = Places([tmp_path / "runs"]).folder(train.run)
    train_run(train.run.recipe, folder)
    certify_run(folder)
    places = Places([tmp_path / "runs"])
    assert places.is_done(certify)
    assert places.certificates(certify.run) == "certificates"
    other = "" if "two" in more else "certification.bound: two-sided\n"
    assert not places.is_done(smoke_steps(tmp_path, other)[1])


def test_the_members_of_a_packed_run_are_made_anew_in_its_folder(tmp_path: Path) -> None:
    """Others start from them; the packed run has its certificates alone."""
    train, certify, packing = smoke_steps(tmp_path)
    root = tmp_path / "runs"
    folder = Places([root]).folder(train.run)
    train_run(train.run.recipe, folder)
    certify_run(folder)
    pack(folder, Places([root]).archive(train.run))
    rmtree(folder)
    places = Places([root])
    assert [places.is_done(step) for step in (train, certify, packing)] == [False, True, True]
    train_run(train.run.recipe, places.folder(train.run))
    assert all(map(places.is_done, (train, certify, packing)))
