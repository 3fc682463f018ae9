"""From a recipe to a report through the command line, and what the run folder then holds."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from cli_tools import VOTES, Shieldwall, line_count, timeless
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file

import shieldwall as sw
from shieldwall import recipes
from shieldwall.data import datasets
from shieldwall.models.registry import build_members
from shieldwall.runs import predict


def test_train_certify_report_predict_work_one_after_the_other(shieldwall: Shieldwall, tmp_path: Path):
    folder = tmp_path / "whole"
    done = shieldwall(
        "train", "smoke", "--out", folder, "--set", "schedule.epochs=1", "--set", "sigma=0.5", "--seed", 7
    )
    assert done.code == 0
    assert done.err == ""
    assert done.out.endswith(f"run folder: {folder}\nnext: shieldwall certify {folder}\n")
    done = shieldwall("certify", folder, "--n", 20, "--n0", 5, "--limit", 3)
    assert done.code == 0
    assert done.out.endswith(f"next: shieldwall report {folder}\n")
    done = shieldwall("report", folder)
    assert done.code == 0
    for title in ("smoke member 1", "smoke member 2", "smoke WE", "smoke MME"):
        assert title in done.out
    done = shieldwall("predict", folder, "--index", "0,7", "--vote", "mme", "--n", 50)
    assert done.code == 0
    assert [line.split()[:3] for line in done.out.splitlines()[1:]] == [
        ["test", "input", "0"],
        ["test", "input", "7"],
    ]

    recipe = yaml.safe_load((folder / "recipe.yaml").read_text())
    assert recipe["sigma"] == 0.5
    assert recipe["schedule"]["epochs"] == 1
    assert recipe["seed"] == 7
    assert recipe["certification"]["n"] == 1_000
    assert recipes.from_mapping(recipe) == recipes.override(
        recipes.get("smoke"), ["schedule.epochs=1", "sigma=0.5", "seed=7"]
    )
    assert line_count(folder / "training.jsonl") == 1


def test_the_run_folder_defaults_to_the_recipe(shieldwall: Shieldwall):
    assert shieldwall("train", "smoke", "--set", "schedule.epochs=1").code == 0
    assert Path("runs/smoke/members/member-2.safetensors").is_file()


def test_nothing_in_the_run_folder_is_unexpected(finished: Path):
    names = {str(path.relative_to(finished)) for path in finished.rglob("*") if path.is_file()}
    assert names == {
        ".lock",
        "SHA256SUMS",
        "recipe.yaml",
        "environment.json",
        "training.jsonl",
        "members/member-1.safetensors",
        "members/member-2.safetensors",
        "certificates/settings.yaml",
        *(f"certificates/{vote}.tsv" for vote in VOTES),
    }


def test_the_environment_tells_what_both_stages_ran_with(finished: Path):
    environment = json.loads((finished / "environment.json").read_text())
    assert [stage.pop("stage") for stage in environment["history"]] == ["train", "certify"]
    assert environment.pop("history") == list(environment.values())
    assert set(environment) == {"train", "certify"}
    for stage in environment.values():
        assert stage["torch"] == torch.__version__
        assert stage["shieldwall"]
        assert stage["numpy"]
        assert stage["python"]
        assert "commit" in stage
        assert stage["device"]
        assert stage["threads"] == 1


def test_members_are_safetensors_that_fit_the_model(finished: Path):
    members = build_members("digits-cnn", 2, 10, (1, 8, 8), seed=0)
    states = []
    for number, member in enumerate(members, start=1):
        path = finished / "members" / f"member-{number}.safetensors"
        with safe_open(path, framework="pt") as file:
            assert set(file.keys()) == set(member.state_dict())
        states.append(load_file(path))
        member.load_state_dict(states[-1])
        assert any(
            not torch.equal(states[-1][key], value)
            for key, value in build_members("digits-cnn", 2, 10, (1, 8, 8), seed=0)[number - 1]
            .state_dict()
            .items()
        )
    assert any(not torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_the_training_log_has_one_object_per_epoch(finished: Path):
    records = [json.loads(line) for line in (finished / "training.jsonl").read_text().splitlines()]
    schedule = recipes.get("smoke").schedule
    assert [record["epoch"] for record in records] == [1, 2, 3]
    assert [record["lr"] for record in records] == [schedule.lr_at(k, 1) for k in range(3)]
    assert records[2]["loss"] < records[0]["loss"]
    for record in records:
        assert set(record) == {"epoch", "lr", "loss", "cross_entropy", "noisy_accuracy", "weakest", "seconds"}
        assert record["loss"] == pytest.approx(2 * record["cross_entropy"])  # the sum over two members


def test_training_again_changes_nothing(shieldwall: Shieldwall, run: Path):
    before = (run / "members/member-1.safetensors").read_bytes()
    done = shieldwall("train", "smoke", "--out", run)
    assert done.code == 0
    assert f"{run} is trained already\n" in done.out
    assert (run / "members/member-1.safetensors").read_bytes() == before


def test_certifying_again_changes_nothing(shieldwall: Shieldwall, run: Path, finished: Path):
    done = shieldwall("certify", run)
    assert done.code == 0
    assert f"{run}/certificates: all 30 inputs are certified already\n" in done.out
    for vote in VOTES:
        assert (run / f"certificates/{vote}.tsv").read_bytes() == (
            finished / f"certificates/{vote}.tsv"
        ).read_bytes()


def test_other_settings_go_to_another_folder(shieldwall: Shieldwall, run: Path, finished: Path):
    done = shieldwall("certify", run, "--n", 50, "--limit", 2, "--seed", 3, "--to", "quick")
    assert done.code == 0
    assert done.out.endswith(f"next: shieldwall report {run}/quick\n")
    assert shieldwall("report", run / "quick").code == 0
    assert len(timeless(run, folder="quick")["we"]) == 3
    assert timeless(run) == timeless(finished)


def test_an_image_file_gets_the_answer_of_the_same_test_input(shieldwall: Shieldwall, run: Path):
    image = datasets.load("digits").test.images([0])[0, 0]
    Image.fromarray((255 * image).round().byte().numpy()).save("zero.png")
    (row,) = shieldwall("predict", run, "zero.png", "--seed", 3).out.splitlines()[1:]
    (known,) = shieldwall("predict", run, "--index", "0", "--seed", 3).out.splitlines()[1:]
    assert row.split()[:2] == ["zero.png", "0"]
    assert known.split()[:5] == ["test", "input", "0", "0", "0"]
    assert row.split()[2:] == known.split()[5:]  # the votes


def test_an_answer_does_not_depend_on_the_others_asked_for(shieldwall: Shieldwall, run: Path):
    (alone,) = shieldwall("predict", run, "--index", "7", "--seed", 3).out.splitlines()[1:]
    *_, beside = shieldwall("predict", run, "--index", "0,1,7", "--seed", 3).out.splitlines()[1:]
    assert alone.split() == beside.split()


def test_answers_are_of_a_fresh_seed_unless_one_is_given(
    shieldwall: Shieldwall, run: Path, monkeypatch: pytest.MonkeyPatch
):
    given = [shieldwall("predict", run, "--index", "0,7", "--seed", seed).out for seed in (8, 9)]
    fresh = iter((8, 9))
    monkeypatch.setattr("secrets.randbits", lambda bits: next(fresh))
    assert [shieldwall("predict", run, "--index", "0,7").out for _ in range(2)] == given
    assert given[0] != given[1]


def test_precision_and_exact_noise_are_the_recipes_unless_given(run: Path, monkeypatch: pytest.MonkeyPatch):
    chosen = []

    def spy(*arguments: Any, **options: Any) -> sw.Predictions:
        chosen.append((str(options["noise"]).partition("(")[0], options["precision"]))
        return sw.predict(*arguments, **options)

    monkeypatch.setattr(predict, "predict", spy)
    (run / "SHA256SUMS").unlink()
    recipe = run / "recipe.yaml"
    content = yaml.safe_load(recipe.read_text())
    content["certification"] |= {"precision": "bfloat16", "exact_noise": True}
    recipe.write_text(yaml.safe_dump(content))
    for options in ({}, {"precision": "float32"}, {"exact_noise": False}):
        predict.predict_run(run, indices=[0], n=10, device="cpu", **options)
    assert chosen == [
        ("exact-gaussian", "bfloat16"),
        ("exact-gaussian", "float32"),
        ("gaussian", "bfloat16"),
    ]


def test_an_answer_that_cannot_be_told_is_an_abstention(shieldwall: Shieldwall, run: Path):
    assert "abstains" in shieldwall("predict", run, "--index", "0", "--n", 5).out
