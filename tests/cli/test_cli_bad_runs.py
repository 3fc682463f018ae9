"""Run folders that are not what a command needs: refused in one line, and left as they were."""

import shutil
from pathlib import Path

import pytest
import torch
from cli_tools import Outcome, Shieldwall, refused, snapshot
from safetensors.torch import load_file, save_file

from shieldwall.files import save_tensors

MEMBER = "members/member-2.safetensors"


@pytest.fixture
def run(run: Path) -> Path:
    """Without digests, which would tell of any damage first."""
    (run / "SHA256SUMS").unlink()
    return run


def certify_refused(shieldwall: Shieldwall, run: Path, options: list[str], *said: str) -> None:
    before = snapshot(run)
    refused(shieldwall("certify", run, *options), *said)
    assert snapshot(run) == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--n", "9"], ["n = 9 ", "alpha = 0.001", "use n >= 10"]),
        (["--n", "-5"], ["use n >= 10"]),
        (["--n", "3", "--alpha", "0.1"], ["alpha = 0.1", "use n >= 4"]),
        (["--n0", "0"], ["n0", "at least 1"]),
        (["--alpha", "0"], ["alpha", "between 0 and 1"]),
        (["--alpha", "1.5"], ["alpha", "between 0 and 1"]),
        (["--alpha", "nan"], ["alpha", "between 0 and 1"]),
        (["--every", "0"], ["every must be at least 1"]),
        (["--limit", "0"], ["limit must be at least 1"]),
        (["--batch-size", "0"], ["--batch-size must be at least 1"]),
        (["--batch-size", "-3"], ["--batch-size must be at least 1"]),
        (["--to", ""], ["--to takes the name of a folder"]),
        (["--to", ".."], ["--to takes the name of a folder"]),
        (["--to", "a/b"], ["--to takes the name of a folder"]),
        (["--to", "members"], ["holds files, but no settings.yaml", "--to NAME"]),
        (["--to", "recipe.yaml"], ["cannot write"]),
    ],
)
def test_settings_that_cannot_be(options: list[str], said: list[str], shieldwall: Shieldwall, run: Path):
    certify_refused(shieldwall, run, options, *said)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--n", "2000"], "n: 1000, not 2000"),
        (["--n0", "10"], "n0: 100, not 10"),
        (["--alpha", "0.01"], "alpha: 0.001, not 0.01"),
        (["--seed", "5"], "seed: 0, not 5"),
        (["--every", "5"], "every: 12, not 5"),
    ],
)
def test_settings_other_than_the_folder_holds(
    options: list[str], said: str, shieldwall: Shieldwall, run: Path
):
    certify_refused(shieldwall, run, options, f"other settings ({said})", "--to NAME")


def test_certificates_of_other_weights(shieldwall: Shieldwall, run: Path):
    shutil.copy(run / "members/member-1.safetensors", run / MEMBER)
    certify_refused(shieldwall, run, [], "other settings (members_sha256: ", "--to NAME")


@pytest.mark.parametrize("content", ["", "- a", "n: [", "\x00"])
def test_settings_that_are_damaged(content: str, shieldwall: Shieldwall, run: Path):
    (run / "certificates/settings.yaml").write_text(content)
    certify_refused(shieldwall, run, [], "certificates/settings.yaml is damaged")


def test_settings_that_are_gone(shieldwall: Shieldwall, run: Path):
    (run / "certificates/settings.yaml").unlink()
    certify_refused(shieldwall, run, [], "certificates holds files, but no settings.yaml")


def every_verb(shieldwall: Shieldwall, run: Path) -> list[Outcome]:
    return [shieldwall("certify", run), shieldwall("predict", run, "--index", "0")]


def test_a_folder_that_is_not_there(shieldwall: Shieldwall):
    for outcome in every_verb(shieldwall, Path("nowhere")):
        refused(outcome, "nowhere is not a run folder: it does not exist", "shieldwall train RECIPE")
    assert not Path("nowhere").exists()


def test_a_folder_without_a_recipe(shieldwall: Shieldwall):
    Path("plain").mkdir()
    for outcome in every_verb(shieldwall, Path("plain")):
        refused(outcome, "plain is not a run folder: it has no recipe.yaml")
    assert not list(Path("plain").iterdir())


def test_a_name_that_no_file_can_have(shieldwall: Shieldwall):
    for outcome in every_verb(shieldwall, Path("x" * 300)):
        refused(outcome, "File name too long")


def test_a_run_that_is_not_trained(shieldwall: Shieldwall, trained: Path):
    (trained / MEMBER).unlink()
    before = snapshot(trained)
    for outcome in every_verb(shieldwall, trained):
        refused(outcome, f"{trained} is not trained yet", f"--out {trained}")
    assert snapshot(trained) == before


def test_a_recipe_that_is_damaged(shieldwall: Shieldwall, run: Path):
    (run / "recipe.yaml").write_text("name: [")
    certify_refused(shieldwall, run, [], "recipe.yaml is not readable YAML")


@pytest.mark.parametrize("content", [b"[1, 2]", b"{", b"\xff"])
def test_an_environment_that_is_damaged(content: bytes, shieldwall: Shieldwall, run: Path):
    (run / "environment.json").write_bytes(content)
    before = snapshot(run)
    refused(shieldwall("certify", run, "--limit", "1", "--to", "new"), "environment.json is damaged")
    after = snapshot(run)
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize("keep", [0, 4, 1_000, -1])
def test_weights_that_are_truncated(keep: int, shieldwall: Shieldwall, run: Path):
    (run / MEMBER).write_bytes((run / MEMBER).read_bytes()[:keep])
    before = snapshot(run)
    for outcome in every_verb(shieldwall, run):
        refused(outcome, f"{run / MEMBER} is truncated or corrupt")
    assert snapshot(run) == before


@pytest.mark.parametrize("at", [0, 8, 9])
def test_weights_that_are_corrupt(at: int, shieldwall: Shieldwall, run: Path):
    content = bytearray((run / MEMBER).read_bytes())
    content[at] ^= 0xFF
    (run / MEMBER).write_bytes(content)
    certify_refused(shieldwall, run, [], f"{run / MEMBER} is truncated or corrupt")


def test_weights_that_are_something_else(shieldwall: Shieldwall, run: Path):
    torch.save({"a": torch.zeros(2)}, run / MEMBER)
    certify_refused(shieldwall, run, [], f"{run / MEMBER} is truncated or corrupt")


def test_weights_of_another_number_of_classes(shieldwall: Shieldwall, run: Path):
    state = load_file(run / MEMBER)
    last = max(key for key in state if key.endswith("bias"))
    state[last] = state[last][:7].clone()
    save_file(state, run / MEMBER)
    certify_refused(shieldwall, run, [], f"the weights in {run / MEMBER} do not fit the model", last, "[7]")


def test_weights_of_another_model(shieldwall: Shieldwall, run: Path):
    save_file({"a": torch.zeros(2)}, run / MEMBER)
    certify_refused(shieldwall, run, [], f"the weights in {run / MEMBER} do not fit the model")


def test_weights_that_are_not_numbers(shieldwall: Shieldwall, run: Path):
    state = load_file(run / MEMBER)
    save_file({key: torch.full_like(value, torch.nan) for key, value in state.items()}, run / MEMBER)
    refused(shieldwall("certify", run, "--to", "new"), "NaN")


def test_a_checkpoint_that_is_damaged_or_of_another_training(shieldwall: Shieldwall, trained: Path):
    shutil.rmtree(trained / "members")
    (trained / "checkpoint.safetensors").write_bytes(b"\x00" * 20)
    before = snapshot(trained)
    refused(shieldwall("train", "smoke", "--out", trained), "checkpoint.safetensors is damaged")
    after = snapshot(trained)
    assert after["checkpoint.safetensors"] == before["checkpoint.safetensors"]
    assert after["training.jsonl"] == before["training.jsonl"]
    save_tensors(
        trained / "checkpoint.safetensors", {"a": torch.zeros(2)}, {"fingerprint": "other"}, sealed=True
    )
    refused(shieldwall("train", "smoke", "--out", trained), "belongs to another training (other; this one: ")
