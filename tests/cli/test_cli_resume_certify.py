"""Whatever a kill left of the certificates, certifying again gives the bytes of an uninterrupted run."""

import json
from pathlib import Path

import pytest
import torch
from cli_tools import COUNTS, VOTES, Shieldwall, refused, rows, snapshot, timeless, unsealed

INPUTS = 4


def certificates(run: Path, vote: str) -> Path:
    return run / "certificates" / f"{vote}.tsv"


def cut_back(run: Path, inputs: int) -> None:
    """As after a kill when so many inputs were certified."""
    unsealed(run)
    for vote in VOTES:
        lines = certificates(run, vote).read_bytes().splitlines(keepends=True)
        certificates(run, vote).write_bytes(b"".join(lines[: inputs + 1]))


def half_a_line(run: Path) -> None:
    with certificates(run, "we").open("ab") as file:
        file.write(b"24\t4\t4\t0.57")


def half_a_line_in_all(run: Path) -> None:
    for vote in VOTES:
        with certificates(run, vote).open("ab") as file:
            file.write(b"24\t4")


def a_line_without_its_end(run: Path) -> None:
    certificates(run, "mme").write_bytes(certificates(run, "mme").read_bytes()[:-1])


def one_file_ahead(run: Path) -> None:
    last = certificates(run, "member-1").read_bytes().splitlines(keepends=True)[-1]
    with certificates(run, "member-1").open("ab") as file:
        file.write(last.replace(b"12", b"24", 1))


def one_file_behind(run: Path) -> None:
    lines = certificates(run, "mme").read_bytes().splitlines(keepends=True)
    certificates(run, "mme").write_bytes(b"".join(lines[:-1]))


def only_a_header(run: Path) -> None:
    certificates(run, "we").write_bytes(certificates(run, "we").read_bytes().splitlines(keepends=True)[0])


def half_a_header(run: Path) -> None:
    certificates(run, "member-2").write_bytes(b"idx\tlabel\tpre")


def an_empty_file(run: Path) -> None:
    certificates(run, "member-1").write_bytes(b"")


def a_missing_file(run: Path) -> None:
    certificates(run, "mme").unlink()


def only_settings(run: Path) -> None:
    for vote in VOTES:
        certificates(run, vote).unlink()


def half_of_the_settings(run: Path) -> None:
    only_settings(run)
    settings = run / "certificates" / "settings.yaml"
    settings.rename(settings.with_name(".settings.yaml.part")).write_bytes(b"data: dig")


def nothing_more(run: Path) -> None:
    pass


STATES = [
    *(nothing_more, half_a_line, half_a_line_in_all, a_line_without_its_end, one_file_ahead, one_file_behind),
    *(only_a_header, half_a_header, an_empty_file, a_missing_file, only_settings, half_of_the_settings),
]


@pytest.mark.parametrize("damage", STATES)
def test_resuming_gives_the_same_bytes(damage, shieldwall: Shieldwall, run: Path, finished: Path):
    cut_back(run, 2)
    damage(run)
    done = shieldwall("certify", run, "--limit", INPUTS)
    assert done.code == 0, done
    assert timeless(run) == timeless(finished, INPUTS)
    assert not list(run.rglob("*.part"))


def test_resuming_does_not_certify_again_what_is_there(shieldwall: Shieldwall, run: Path):
    cut_back(run, 2)
    half_a_line(run)
    before = {vote: rows(certificates(run, vote))[1:3] for vote in VOTES if vote != "we"}
    assert "4 inputs, 4 votes: 75%" in shieldwall("certify", run, "--limit", INPUTS).out
    for vote, lines in before.items():
        assert rows(certificates(run, vote))[1:3] == lines  # with their times


def test_a_larger_limit_goes_on(shieldwall: Shieldwall, trained: Path, finished: Path):
    assert shieldwall("certify", trained, "--limit", 2).code == 0
    assert timeless(trained) == timeless(finished, 2)
    assert shieldwall("certify", trained, "--limit", 5).code == 0
    assert timeless(trained) == timeless(finished, 5)
    assert "all 3 inputs are certified already" in shieldwall("certify", trained, "--limit", 3).out
    assert timeless(trained) == timeless(finished, 5)


def began_with(file: Path, stage: str | None, **facts: str) -> None:
    """Say so in the record of versions and device."""
    stages = json.loads(file.read_text())
    (stages if stage is None else stages[stage]).update(facts)
    file.write_text(json.dumps(stages))


@pytest.mark.parametrize("jobs", [[], ["--jobs", "2"]])
@pytest.mark.parametrize("facts", [{"torch": "1.0"}, {"device": "NVIDIA H200"}])
def test_going_on_with_another_torch_or_device_is_said(
    facts: dict[str, str], jobs: list[str], shieldwall: Shieldwall, trained: Path, finished: Path
):
    assert "note:" not in shieldwall("certify", trained, "--limit", 2).out
    began_with(trained / "environment.json", "certify", **facts)
    assert "note:" not in shieldwall("certify", trained, "--limit", 2, *jobs).out  # nothing is left to do
    began_with(trained / "environment.json", "certify", **facts)
    out = shieldwall("certify", trained, "--limit", 4, *jobs).out
    began = f"torch {facts.get('torch', torch.__version__)} on {facts.get('device', 'cpu')}"
    assert out.splitlines()[0] == (
        f"note: it began with {began} and continues with torch {torch.__version__} on cpu: "
        "results may differ in rounding"
    )
    assert timeless(trained) == timeless(finished, 4)
    assert "note:" not in shieldwall("certify", trained, "--limit", 5).out


def test_a_shard_has_its_own_record(shieldwall: Shieldwall, trained: Path):
    assert shieldwall("certify", trained, "--limit", 6, "--shard", "1/2").code == 0
    shard = trained / "certificates.shards/1-of-2"
    for vote in VOTES:
        lines = (shard / f"{vote}.tsv").read_bytes().splitlines(keepends=True)
        (shard / f"{vote}.tsv").write_bytes(b"".join(lines[:2]))
    began_with(shard / "environment.json", "certify", torch="1.0")
    assert "note:" not in shieldwall("certify", trained, "--limit", 6, "--shard", "2/2").out
    assert "began with torch 1.0 on" in shieldwall("certify", trained, "--limit", 6, "--shard", "1/2").out


@pytest.mark.parametrize("size", [1_100, 64, 7])
def test_the_batch_size_changes_the_time_alone(
    size: int, shieldwall: Shieldwall, trained: Path, finished: Path
):
    assert shieldwall("certify", trained, "--limit", 3, "--batch-size", size).code == 0
    assert timeless(trained) == timeless(finished, 3)


def test_another_seed_draws_other_noise(shieldwall: Shieldwall, run: Path, finished: Path):
    assert shieldwall("certify", run, "--limit", 3, "--seed", 1, "--to", "again").code == 0
    ours, theirs = timeless(run, folder="again")["we"][1:], timeless(finished, 3)["we"][1:]
    counts = [[line.split(b"\t")[COUNTS - 1] for line in lines[1:]] for lines in (ours, theirs)]
    assert all(a != b for a, b in zip(*counts, strict=True))


@pytest.mark.parametrize(
    ("vote", "line", "content"),
    [("we", 2, b"12\t3\t3\n"), ("mme", 1, b"x" + b"\t1" * 14 + b"\n"), ("we", 0, b"idx\tlabel\tother\n")],
)
def test_a_file_that_was_edited_is_named_and_left_alone(
    vote: str, line: int, content: bytes, shieldwall: Shieldwall, run: Path
):
    unsealed(run)
    lines = certificates(run, vote).read_bytes().splitlines(keepends=True)
    certificates(run, vote).write_bytes(b"".join([*lines[:line], content, *lines[line + 1 :]]))
    before = snapshot(run)
    refused(shieldwall("certify", run), str(certificates(run, vote)), "move")
    assert snapshot(run) == before


def test_a_line_damaged_in_every_file_loses_nothing(shieldwall: Shieldwall, run: Path):
    unsealed(run)
    for vote in VOTES:
        lines = certificates(run, vote).read_bytes().splitlines(keepends=True)
        certificates(run, vote).write_bytes(b"".join([*lines[:5], b"damage\n", *lines[6:]]))
    before = snapshot(run)
    refused(shieldwall("certify", run), "line 6 is damaged")
    assert snapshot(run) == before


def test_files_that_disagree_are_refused(shieldwall: Shieldwall, run: Path):
    unsealed(run)
    lines = certificates(run, "we").read_bytes().splitlines(keepends=True)
    certificates(run, "we").write_bytes(b"".join([*lines[:3], *lines[4:]]))
    before = snapshot(run)
    refused(shieldwall("certify", run), "disagree about input 24")
    assert snapshot(run) == before
