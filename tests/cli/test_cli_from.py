"""Training that starts from another run's members, and what cannot be regularised, refused beforehand."""

import json
from pathlib import Path

import pytest
import torch
import yaml
from cli_tools import Shieldwall, refused, snapshot
from torch import nn

from shieldwall.files import load_tensors

DRT = ("--set", "objective.name=drt", "--set", "objective.rho_gd=0.01", "--set", "objective.rho_cm=0.2")


def test_drt_starts_from_trained_members(shieldwall: Shieldwall, trained: Path, tmp_path: Path) -> None:
    before = snapshot(trained)
    out = tmp_path / "drt"
    done = shieldwall("train", "smoke", *DRT, "--set", "schedule.epochs=1", "--from", trained, "--out", out)
    assert done.code == 0, done.err
    assert "random weights" not in done.out
    assert snapshot(trained) == before
    assert yaml.safe_load((out / "recipe.yaml").read_text())["init_from"] == str(trained)
    assert (out / "start.yaml").read_text() == (trained / "recipe.yaml").read_text()
    first = json.loads((out / "training.jsonl").read_text().splitlines()[0])
    from_scratch = json.loads((trained / "training.jsonl").read_text().splitlines()[0])
    assert first["cross_entropy"] < from_scratch["cross_entropy"] / 3
    assert {"gd", "cm", "cosine"} <= first.keys()
    ours, theirs = (load_tensors(run / "members" / "member-1.safetensors")[0] for run in (out, trained))
    assert any(not ours[name].equal(theirs[name]) for name in ours)


def test_drt_from_scratch_is_remarked_on(shieldwall: Shieldwall, tmp_path: Path) -> None:
    done = shieldwall("train", "smoke", *DRT, "--set", "schedule.epochs=1", "--out", tmp_path / "drt")
    assert done.code == 0, done.err
    assert "random weights; DRT usually fine-tunes trained members: --from RUN" in done.out


def test_the_starting_weights_are_the_other_run_s(
    shieldwall: Shieldwall, trained: Path, tmp_path: Path
) -> None:
    """With a learning rate of next to nothing, the members stay what they were."""
    out = tmp_path / "still"
    still = ("--set", "schedule.lr=1e-30", "--set", "schedule.epochs=1", "--set", "schedule.weight_decay=0")
    assert shieldwall("train", "smoke", *still, "--from", trained, "--out", out).code == 0
    again = shieldwall("train", "smoke", *still, "--from", out, "--out", tmp_path / "again")
    assert again.code == 0, again.err
    written = yaml.safe_load_all((tmp_path / "again" / "start.yaml").read_text())
    assert list(written) == [yaml.safe_load((run / "recipe.yaml").read_text()) for run in (out, trained)]
    for k in (1, 2):
        name = f"members/member-{k}.safetensors"
        ours, theirs = load_tensors(out / name)[0], load_tensors(trained / name)[0]
        assert all(ours[key].equal(theirs[key]) for key in theirs)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "members=3"], "it has 2 members, the recipe 3"),
        (["--set", "model=lenet"], "its model is 'digits-cnn', the recipe's 'lenet'; --set model=digits-cnn"),
        (
            ["--set", "model=digits-cnn,lenet"],
            "its model is 'digits-cnn', the recipe's 'lenet'; --set model=digits-cnn",
        ),
    ],
)
def test_other_members_are_refused(
    shieldwall: Shieldwall, trained: Path, tmp_path: Path, options: list[str], said: str
) -> None:
    outcome = shieldwall("train", "smoke", *options, "--from", trained, "--out", tmp_path / "out")
    refused(outcome, "cannot start from", said)
    assert not (tmp_path / "out").exists()


STILL = ("--set", "schedule.lr=1e-30", "--set", "schedule.epochs=1", "--set", "schedule.weight_decay=0")


def small(num_classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))


def test_an_ensemble_of_different_architectures_from_other_runs_and_plain_weights(
    shieldwall: Shieldwall, trained: Path, tmp_path: Path
) -> None:
    """One member of a run, one of a checkpoint of DataParallel, in an ensemble of two networks."""
    weights = small(10).state_dict()
    torch.save(
        {"epoch": 3, "state_dict": {f"module.{k}": v for k, v in weights.items()}}, tmp_path / "own.pth"
    )
    source = trained / "members" / "member-2.safetensors"
    model = f"model=digits-cnn,{__name__}:small"
    out = tmp_path / "both"
    done = shieldwall(
        *("train", "smoke", *DRT, *STILL, "--set", model, "--set", "sigma=0.5"),
        *("--from", source, "--from", tmp_path / "own.pth", "--out", out),
    )
    assert done.code == 0, done.err
    assert f"warning: {trained} was trained with the noise gaussian(0.25), not gaussian(0.5)" in done.out
    assert f"warning: {tmp_path / 'own.pth'} does not say with which noise and method" in done.out
    first, second = (load_tensors(out / "members" / f"member-{k}.safetensors")[0] for k in (1, 2))
    assert all(first[key].equal(value) for key, value in load_tensors(source)[0].items())
    assert all(second[key].equal(value) for key, value in weights.items())
    written = list(yaml.safe_load_all((out / "start.yaml").read_text()))
    assert written[0] == yaml.safe_load((trained / "recipe.yaml").read_text())
    assert written[1]["weights"] == "own.pth"
    assert shieldwall("certify", out, "--every", "120", "--n", "100").code == 0
    report = shieldwall("report", out)
    assert "member 2" in report.out
    again = shieldwall("train", "smoke", *STILL, "--set", model, "--from", out, "--out", tmp_path / "again")
    assert again.code == 0, again.err
    assert len(list(yaml.safe_load_all((tmp_path / "again" / "start.yaml").read_text()))) == 3


def test_members_of_another_method_are_remarked_on(
    shieldwall: Shieldwall, trained: Path, tmp_path: Path
) -> None:
    base = ("--set", "objective.base={name: consistency}")
    done = shieldwall("train", "smoke", *DRT, *base, *STILL, "--from", trained, "--out", tmp_path / "out")
    assert f"warning: {trained} was trained with the method gaussian, not consistency" in done.out
    assert "noise" not in done.out


def test_files_that_hold_no_weights_are_refused(
    shieldwall: Shieldwall, trained: Path, tmp_path: Path
) -> None:
    other = tmp_path / "weights.pth"
    start = ("train", "smoke", "--from", trained / "members" / "member-1.safetensors", "--from", other)
    for content, said in (
        (b"no weights", "is not a file of weights that torch.load reads safely"),
        ([1, 2], "holds no state dict"),
        (small(10).state_dict(), "do not fit the model"),
    ):
        if isinstance(content, bytes):
            other.write_bytes(content)
        else:
            torch.save(content, other)
        refused(shieldwall(*start, "--out", tmp_path / "out"), said)
        assert not (tmp_path / "out").exists()
    many = ("--set", "model=digits-cnn,digits-cnn,digits-cnn")
    refused(shieldwall("train", "smoke", *many), "one for each member: 2; given: 3")


def test_a_run_without_weights_is_refused(shieldwall: Shieldwall, trained: Path, tmp_path: Path) -> None:
    (trained / "members" / "member-2.safetensors").unlink()
    refused(shieldwall("train", "smoke", "--from", trained, "--out", tmp_path / "out"), "is not trained yet")
    refused(shieldwall("train", "smoke", "--from", "nowhere", "--out", tmp_path / "out"), "nowhere")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([*DRT, "--set", "members=1"], "at least 2 members; given: 1"),
        ([*DRT, "--set", "objective.rho_gd=-1"], "rho_gd must be a number that is not negative; given: -1"),
        ([*DRT, "--set", "objective.base={name: adp}"], "DRT cannot wrap ADP"),
        ([*DRT, "--set", "objective.base={name: drt}"], "misses"),
    ],
)
def test_what_drt_cannot_train_is_refused_before_training(
    shieldwall: Shieldwall, tmp_path: Path, options: list[str], said: str
) -> None:
    refused(shieldwall("train", "smoke", *options, "--out", tmp_path / "out"), said)
    assert not (tmp_path / "out").exists()
