"""Which runs may be served, and what the page knows of them."""

import json
import re
from pathlib import Path

import pytest
import torch
from serve_tools import make_run

from shieldwall import recipes
from shieldwall.errors import UserError
from shieldwall.runs.folder import RunFolder
from shieldwall.serve.app import page
from shieldwall.serve.service import load_service


def known(text: str) -> dict[str, object]:
    script = re.search(r'<script type="application/json" id="known">(.*?)</script>', text, re.DOTALL)
    assert script is not None
    return dict(json.loads(script[1]))


def test_runs_that_differ_by_sigma_are_one_family(tmp_path: Path):
    paths = [
        make_run(tmp_path / "a", name="digits-gaussian-0.5", sigma=0.5),
        make_run(tmp_path / "b", name="digits-gaussian"),
    ]
    service = load_service(paths, device="cpu")
    assert [(run.family, run.sigma) for run in service.runs] == [
        ("digits-gaussian", 0.5),
        ("digits-gaussian", 0.25),
    ]
    assert (service.data, service.shape, len(service.test)) == ("digits", (1, 8, 8), 360)
    assert list(service.runs[0].votes) == ["we", "mme", "eas", "member-1", "member-2"]
    assert [vote.name for vote in service.runs[0].votes["eas"]] == ["member-1", "member-2"]
    assert not any(member.training for run in service.runs for member in run.members)


def test_runs_of_one_name_are_told_apart_by_their_folders(tmp_path: Path):
    service = load_service(
        [make_run(tmp_path / "a"), make_run(tmp_path / "b"), make_run(tmp_path / "c", sigma=1.0)],
        device="cpu",
    )
    assert [run.family for run in service.runs] == ["smoke (a)", "smoke (b)", "smoke"]
    with pytest.raises(UserError, match="given twice"):
        load_service([tmp_path / "a", tmp_path / "a"], device="cpu")


def test_tuned_weights_make_a_vote(tmp_path: Path):
    path = make_run(tmp_path / "a")
    RunFolder(path).save_weights("sween", [1.0, 0.0])
    run = load_service([path], device="cpu").runs[0]
    confidences = torch.rand(2, 5, 10).softmax(-1)
    assert torch.equal(run.votes["we-sween"][0](confidences), confidences[0].argmax(-1))


def test_a_single_member_has_one_vote(tmp_path: Path):
    assert list(load_service([make_run(tmp_path / "a", members=1)], device="cpu").runs[0].votes) == [
        "member-1"
    ]


def test_without_the_data_there_are_no_test_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SHIELDWALL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    service = load_service([make_run(tmp_path / "a", data="mnist", model="lenet", members=1)], device="cpu")
    assert (service.shape, service.classes, len(service.test)) == ((1, 28, 28), tuple("0123456789"), 0)
    text = page(service)
    assert 'id="pad"' in text
    assert 'id="test"' not in text


def test_what_cannot_be_served_is_refused_in_a_line(tmp_path: Path):
    with pytest.raises(UserError, match="unknown data set 'digit'; did you mean 'digits'"):
        load_service([make_run(tmp_path / "typo", data="digit")], device="cpu")
    with pytest.raises(UserError, match="nothing to serve"):
        load_service([])
    with pytest.raises(UserError, match="is not a run folder"):
        load_service([tmp_path / "none"])
    RunFolder.create(tmp_path / "bare", recipes.get("smoke"))
    with pytest.raises(UserError, match="is not trained yet"):
        load_service([tmp_path / "bare"])
    paths = [make_run(tmp_path / "a"), make_run(tmp_path / "b", data="mnist", model="lenet")]
    with pytest.raises(UserError, match="one page serves one data set"):
        load_service(paths)
    with pytest.raises(UserError, match="does not exist"):
        load_service(paths[:1], data_dir=tmp_path / "none")


def test_the_page_knows_its_runs_and_no_name_breaks_out_of_it(tmp_path: Path):
    name = "<script>alert(1)<!--<script>-0.5"
    text = page(load_service([make_run(tmp_path / "a", name=name)], device="cpu"))
    told = known(text)
    assert told["runs"] == [
        {
            "family": "<script>alert(1)<!--<script>",
            "sigma": 0.25,
            "votes": [
                {"name": "we", "title": "weighted (WE)"},
                {"name": "mme", "title": "max-margin (MME)"},
                {"name": "eas", "title": "after smoothing (EAS)"},
                {"name": "member-1", "title": "member 1"},
                {"name": "member-2", "title": "member 2"},
            ],
        }
    ]
    assert text.count("<script") == 2
    assert (told["channels"], told["height"], told["width"], told["tests"]) == (1, 8, 8, 360)
