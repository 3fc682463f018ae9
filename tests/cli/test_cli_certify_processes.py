"""Several processes certify to the bytes of one: shards by hand, and `--jobs` of one machine."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
import typer
import yaml
from cli_tools import (
    Gate,
    Shieldwall,
    finish,
    line_count,
    lines,
    process,
    refused,
    snapshot,
    timeless,
    train_gated,
    wait_until,
)
from torch.distributed.run import parse_args

from shieldwall import UserError, cli
from shieldwall.runs.shards import Shard
from shieldwall.runs.verify import verify_run

pytestmark = pytest.mark.slow

RADII = ["--radii", "0.25,0.5"]


@pytest.fixture(autouse=True)
def trusted(bare_surroundings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of the made models."""
    monkeypatch.setenv("SHIELDWALL_TRUST_CODE", "all")


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_gated(tmp_path_factory.mktemp("gated"))


@pytest.mark.parametrize("options", [[], RADII, ["--correct-only"]], ids=["fixed", "radii", "correct"])
def test_shards_merge_to_the_bytes_of_one_process(options: list[str], shieldwall: Shieldwall, trained: Path):
    assert shieldwall("certify", trained, *options, "--to", "whole").code == 0
    for number in (3, 1, 2):  # in any order
        outcome = shieldwall("certify", trained, *options, "--shard", f"{number}/3")
        assert outcome.code == 0
        assert f"next, once all shards are done: shieldwall merge {trained}" in outcome.out
    assert not (trained / "certificates").exists()
    outcome = shieldwall("merge", trained)
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        f"{trained}/certificates: 30 inputs of 3 shards",
        f"next: shieldwall report {trained}",
    ]
    assert timeless(trained) == timeless(trained, folder="whole")
    settings = [(trained / folder / "settings.yaml").read_bytes() for folder in ("certificates", "whole")]
    assert settings[0] == settings[1]
    assert not (trained / "certificates.shards").exists()
    noted = json.loads((trained / "environment.json").read_text())["certify"]
    assert noted["processes"] == 3
    assert shieldwall("certify", trained, *options).out.startswith(f"{trained}/certificates: all 30 inputs")


def test_there_may_be_more_shards_than_inputs(shieldwall: Shieldwall, trained: Path):
    assert shieldwall("certify", trained, "--limit", 2, "--to", "whole").code == 0
    for number in (1, 2, 3):
        assert shieldwall("certify", trained, "--limit", 2, "--shard", f"{number}/3").code == 0
    assert shieldwall("merge", trained).code == 0
    assert timeless(trained) == timeless(trained, folder="whole")


def test_shards_leave_out_what_is_certified_already(shieldwall: Shieldwall, trained: Path):
    assert shieldwall("certify", trained, "--limit", 7).code == 0
    before = lines(trained)["we"]
    for number in (1, 2):
        assert shieldwall("certify", trained, "--limit", 12, "--shard", f"{number}/2").code == 0
    shards = sorted((trained / "certificates.shards").glob("*/we.tsv"))
    assert [line_count(path) - 1 for path in shards] == [0, 5]
    assert shieldwall("merge", trained).code == 0
    assert lines(trained)["we"][:7] == before  # with their times
    assert shieldwall("certify", trained, "--limit", 12, "--to", "whole").code == 0
    assert timeless(trained) == timeless(trained, folder="whole")


def test_the_command_that_merges_is_printed_and_takes_a_pretrained_name(shieldwall: Shieldwall):
    certify = ["certify", "digits-gaussian-0.25", "--limit", "2", "-n", "100", "--to", "parts", "--shard"]
    shieldwall(*certify, "1/2")
    printed = shieldwall(*certify, "2/2").out.splitlines()[-1]
    assert printed.endswith("shieldwall merge runs/digits-gaussian-0.25 --to parts")
    assert shieldwall("merge", "digits-gaussian-0.25", "--to", "parts").code == 0


def test_shards_are_not_merged_before_all_are_done(shieldwall: Shieldwall, trained: Path):
    refused(shieldwall("merge", trained), f"{trained} has no shards of certificates to merge", "--shard K/N")
    assert shieldwall("certify", trained, "--limit", 6, "--shard", "1/3").code == 0
    assert shieldwall("certify", trained, "--limit", 6, "--shard", "3/3").code == 0
    before = snapshot(trained)
    refused(
        shieldwall("merge", trained),
        "2 of 6 inputs of certificates are not certified yet, input 24 first",
        "shards so far: 1-of-3, 3-of-3; missing: 2-of-3",
    )
    assert snapshot(trained) == before
    assert shieldwall("certify", trained, "--limit", 6, "--shard", "2/3").code == 0
    half = trained / "certificates.shards/2-of-3/mme.tsv"
    half.write_bytes(half.read_bytes()[:-5])
    refused(
        shieldwall("merge", trained), "1 of 6 inputs of certificates are not certified yet, input 36 first"
    )
    assert shieldwall("certify", trained, "--limit", 6, "--shard", "2/3").code == 0
    assert shieldwall("merge", trained).code == 0
    assert len(timeless(trained)["mme"]) == 7


def test_shards_of_other_settings_are_not_mixed(shieldwall: Shieldwall, trained: Path):
    assert shieldwall("certify", trained, "--limit", 4, "--shard", "1/2").code == 0
    assert shieldwall("certify", trained, "--limit", 4, "--n", 500, "--shard", "2/2").code == 0
    refused(shieldwall("merge", trained), "certified with other settings (n: 1000, not 500", "delete the one")
    shutil.rmtree(trained / "certificates.shards/2-of-2")
    assert shieldwall("certify", trained, "--limit", 6, "--shard", "2/2").code == 0
    refused(shieldwall("merge", trained), "certified with other settings (inputs: 4, not 6)")
    shutil.rmtree(trained / "certificates.shards")
    assert shieldwall("certify", trained, "--limit", 1).code == 0
    refused(shieldwall("certify", trained, "--n", 500, "--shard", "1/2"), "other settings (n: 1000, not 500)")


@pytest.mark.parametrize("key", ["members_sha256", "data_sha256"])
def test_a_shard_of_other_members_or_data_is_refused_by_name(key: str, shieldwall: Shieldwall, trained: Path):
    for number in (1, 2):
        assert shieldwall("certify", trained, "--limit", 4, "--shard", f"{number}/2").code == 0
    settings = trained / "certificates.shards/2-of-2/settings.yaml"
    settings.write_text(yaml.safe_dump({**yaml.safe_load(settings.read_text()), key: 64 * "0"}))
    said = "2-of-2 was certified with other members" if key == "members_sha256" else "data_sha256: "
    refused(shieldwall("merge", trained), said, "2-of-2")


@pytest.mark.parametrize(
    ("text", "environment", "shard"),
    [
        ("3/16", {}, Shard(3, 16)),
        ("1/1", {}, Shard(1, 1)),
        ("auto", {"SLURM_ARRAY_TASK_ID": "4", "SLURM_ARRAY_TASK_COUNT": "16"}, Shard(5, 16)),
        (
            "auto",
            {"SLURM_ARRAY_TASK_ID": "4", "SLURM_ARRAY_TASK_COUNT": "4", "SLURM_ARRAY_TASK_MIN": "1"},
            Shard(4, 4),
        ),
        ("auto/16", {"JOB_COMPLETION_INDEX": "15"}, Shard(16, 16)),
    ],
)
def test_names_of_shards(text: str, environment: dict[str, str], shard: Shard):
    assert Shard.parse(text, environment) == shard


@pytest.mark.parametrize("text", ["", "3", "3/", "/3", "a/b", "3.5/4", "auto", "auto/16"])
def test_what_names_no_shard(text: str):
    with pytest.raises(UserError, match="such as 3/16"):
        Shard.parse(text, {})


@pytest.mark.parametrize("text", ["0/3", "4/3", "-1/3", "1/0"])
def test_shards_that_there_are_not(text: str):
    with pytest.raises(UserError, match="the shards are 1/"):
        Shard.parse(text, {})


def test_the_parts_are_all_of_the_inputs_once():
    for total in (0, 1, 5, 30):
        for count in (1, 2, 3, 7):
            parts = [Shard(number + 1, count).part(range(total)) for number in range(count)]
            assert [index for part in parts for index in part] == list(range(total))
            assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_jobs_certify_to_the_bytes_of_one_process(shieldwall: Shieldwall, trained: Path):
    assert shieldwall("certify", trained, "--limit", 9, "--to", "whole").code == 0
    assert shieldwall("certify", trained, "--limit", 3).code == 0
    outcome = shieldwall("certify", trained, "--limit", 9, "--jobs", 2)
    assert outcome.code == 0, outcome
    *_, last, following = outcome.out.splitlines()
    assert last.startswith("certifying 9 inputs by 2 processes: 100%, done in ")
    assert following == f"next: shieldwall report {trained}"
    assert timeless(trained) == timeless(trained, folder="whole")
    assert not (trained / "certificates.shards").exists()
    assert json.loads((trained / "environment.json").read_text())["certify"]["processes"] == 2
    assert yaml.safe_load((trained / "certificates/settings.yaml").read_text())["threads"] == 1
    assert verify_run(trained, 2).status == "verified"


def test_a_mistake_of_jobs_is_told_once(shieldwall: Shieldwall, run: Path):
    before = snapshot(run)
    refused(shieldwall("certify", run, "--jobs", 2, "--n", 500), "other settings (n: 1000, not 500)")
    assert snapshot(run) == before
    refused(shieldwall("certify", run, "--jobs", 0), "--jobs must be at least 1")
    refused(shieldwall("certify", run, "--jobs", 2, "--shard", "1/2"), "cannot be used with --shard")


def test_jobs_that_are_stopped_go_on_to_the_same_bytes(shieldwall: Shieldwall, gated: Path, tmp_path: Path):
    run = Path(shutil.copytree(gated, tmp_path / "run"))
    gate = Gate(tmp_path / "gate", batches=2)
    options = ("--limit", "8", "--jobs", "2")
    with process("-m", "shieldwall", "certify", run, *options, cwd=run, **gate.variables) as started:
        wait_until(gate.is_reached, started)
        started.send_signal(signal.SIGINT)
        gate.open()
        ended = finish(started)
    assert ended.code == 130
    assert ended.err == "interrupted; run the same command to resume\n"
    assert not (run / "certificates").exists()
    with process("-m", "shieldwall", "certify", run, *options, cwd=run) as started:
        assert finish(started).code == 0
    assert shieldwall("certify", run, "--limit", 8, "--to", "whole").code == 0
    assert timeless(run) == timeless(run, folder="whole")


def test_torchrun_is_told_what_to_use_instead(
    shieldwall: Shieldwall, run: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(os.environ, "WORLD_SIZE", "2")
    refused(
        shieldwall("certify", run),
        "certify cannot run under torchrun; use --jobs N or, on several machines, --shard K/N",
    )


def test_torchrun_leaves_every_option_to_training():
    """It looks for its own options among the command's, too, and for those that begin like them."""
    parameters = typer.main.get_command(cli.app).commands["train"].params
    options = [parameter.opts[-1] for parameter in parameters if parameter.opts[-1].startswith("-")]
    assert len(options) > 5
    for option in options:
        arguments = ["train", "run", option, "1"]
        assert parse_args(["-m", "shieldwall", *arguments]).training_script_args == arguments
