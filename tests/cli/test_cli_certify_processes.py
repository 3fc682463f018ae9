"""Two processes certify to the bytes of one, whoever is killed; only the first of them writes and speaks.

Run as a script, this file is one of the processes: it carries out one command after the other.
"""

import json
import os
import re
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
import typer
from cli_tools import (
    Gate,
    Outcome,
    Shieldwall,
    finish,
    free_port,
    line_count,
    lines,
    process,
    processes,
    snapshot,
    timeless,
    train_gated,
    wait_until,
)
from torch.distributed.run import parse_args

from shieldwall import cli, distributed

RADII = ["--radii", "0.25,0.5"]
PATIENCE = 1.0


def carry_out(commands: list[list[str]]) -> None:
    """Call the command line again and again, each time over a connection of its own."""
    for port, *command in commands:
        os.environ["MASTER_PORT"] = port
        sys.argv = ["shieldwall", *command]
        try:
            cli.main()
        except SystemExit as ended:
            if ended.code:
                raise
        distributed.TIMEOUT = timedelta(seconds=PATIENCE)


@dataclass(frozen=True)
class Killed:
    """A certification by two processes, the second of which was killed in the middle of an input."""

    run: Path
    first: Outcome


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_gated(tmp_path_factory.mktemp("gated"))


@pytest.fixture(scope="module")
def killed(gated: Path, tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """After a round of one input each, both are at the second input of a round of two."""
    folder = tmp_path_factory.mktemp("killed")
    run = Path(shutil.copytree(gated, folder / "run"))
    gate = Gate(folder / "gate", batches=2)
    with processes("-m", "shieldwall", "certify", run, cwd=run, **gate.variables) as both:
        for rank, one in enumerate(both):
            wait_until(lambda rank=rank: gate.is_reached(rank), one)
        both[1].send_signal(signal.SIGKILL)
        both[1].wait()
        gate.open()
        first = finish(both[0])
    return Killed(run, first)


@dataclass(frozen=True)
class Pair:
    """What two processes did, command by command."""

    run: Path
    slow: Path
    first: Outcome
    other: Outcome
    before_the_mistake: dict[str, bytes]


@pytest.fixture(scope="module")
def pair(finished: Path, gated: Path, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """The last command but one waits for an input of the second process for longer than processes wait for
    one another in training; the last one is a mistake that only the first process can see."""
    folder = tmp_path_factory.mktemp("pair")
    run = Path(shutil.copytree(finished, folder / "run"))
    slow = Path(shutil.copytree(gated, folder / "slow"))
    gate = Gate(folder / "gate", batches=0)
    commands = [
        ["certify", run, "--to", "fixed"],
        ["certify", run, "--to", "radii", *RADII],
        ["certify", run, "--to", "one", "--limit", 1],
        ["certify", run, "--to", "one", "--limit", 1],
        ["certify", slow, "--limit", 1],
        ["certify", run, "--to", "fixed", "--n", 2_000],
    ]
    plan = json.dumps([[str(free_port()), *map(str, command)] for command in commands])
    with processes(__file__, plan, cwd=slow, **gate.variables) as (first, other):
        wait_until(lambda: gate.is_reached(1), other)
        before = snapshot(run)
        time.sleep(2 * PATIENCE)
        gate.open()
        told = finish(first)
        other.terminate()  # as torchrun does once a process has failed
        return Pair(run, slow, told, finish(other), before)


@pytest.mark.parametrize(("folder", "options"), [("fixed", []), ("radii", RADII)])
def test_two_processes_give_the_bytes_of_one(
    folder: str, options: list[str], shieldwall: Shieldwall, pair: Pair, trained: Path
):
    assert shieldwall("certify", trained, *options).code == 0
    assert timeless(pair.run, folder=folder) == timeless(trained)
    assert len(timeless(pair.run, folder=folder)["we"]) == 31


def test_there_may_be_more_processes_than_inputs(pair: Pair):
    assert timeless(pair.run, folder="one") == timeless(pair.run, 1)


def test_a_process_waits_for_a_slow_input_of_another(shieldwall: Shieldwall, pair: Pair):
    assert shieldwall("certify", pair.slow, "--limit", 1, "--to", "whole").code == 0
    assert timeless(pair.slow) == timeless(pair.slow, folder="whole")


def test_only_the_first_process_writes_and_speaks(pair: Pair):
    assert pair.other.out == ""
    progress, following = re.compile("certifying .* 100%, done in"), re.compile("next: shieldwall report")
    said = pair.first.out.splitlines()
    assert sum(bool(progress.match(line)) for line in said) == 4
    assert sum(bool(following.match(line)) for line in said) == 5
    assert f"{pair.run}/one: all 1 inputs are certified already" in said
    assert not list(pair.run.rglob("*.part"))
    noted = json.loads((pair.run / "environment.json").read_text())["certify"]
    assert noted["processes"] == 2


def test_a_mistake_is_told_once(pair: Pair):
    assert pair.first.code == 2
    assert "error: " not in pair.other.err
    (told,) = [line for line in pair.first.err.splitlines() if line.startswith("error: ")]
    assert "other settings (n: 1000, not 2000)" in told
    assert "Traceback" not in pair.first.err
    after = snapshot(pair.run)
    assert after == pair.before_the_mistake


def test_a_killed_process_costs_the_round_it_was_in(killed: Killed):
    assert killed.first.code == 2
    assert len(killed.first.err.splitlines()) == 1
    assert killed.first.err.startswith("error: the processes lost one another: ")
    assert "run the same command to go on" in killed.first.err
    files = list((killed.run / "certificates").glob("*.tsv"))
    assert {line_count(path) - 1 for path in files} == {2}


def test_torchrun_goes_on_after_a_kill_to_the_same_bytes(
    shieldwall: Shieldwall, killed: Killed, tmp_path: Path
):
    run = Path(shutil.copytree(killed.run, tmp_path / "run"))
    where = ("--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}")
    command = ["-m", "torch.distributed.run", *where, "-m", "shieldwall", "certify", run]
    with process(*command, "--limit", "9", cwd=run) as started:
        try:
            done = finish(started)
        finally:
            started.terminate()  # which ends its processes, too
            started.wait()
    assert done.code == 0, done
    first, last, following = done.out.splitlines()
    assert re.fullmatch(r"certifying 9 inputs, 4 votes: 33%  .* inputs/s", first)
    assert re.fullmatch(r"certifying 9 inputs, 4 votes: 100%, done in \d+\.\d s  .* inputs/s", last)
    assert following == f"next: shieldwall report {run}"
    assert shieldwall("certify", run, "--limit", 9, "--to", "whole").code == 0
    assert timeless(run) == timeless(run, folder="whole")


def test_one_process_goes_on_after_a_kill_to_the_same_bytes(
    shieldwall: Shieldwall, killed: Killed, tmp_path: Path
):
    run = Path(shutil.copytree(killed.run, tmp_path / "run"))
    before = lines(run)["we"]
    assert shieldwall("certify", run, "--limit", 9).code == 0
    assert shieldwall("certify", run, "--limit", 9, "--to", "whole").code == 0
    assert timeless(run) == timeless(run, folder="whole")
    assert lines(run)["we"][:2] == before  # with their times


@pytest.mark.parametrize("verb", ["train", "certify"])
def test_torchrun_leaves_every_option_to_the_command(verb: str):
    """It looks for its own options among the command's, too, and for those that begin like them."""
    parameters = typer.main.get_command(cli.app).commands[verb].params
    options = [parameter.opts[-1] for parameter in parameters if parameter.opts[-1].startswith("-")]
    assert len(options) > 5
    for option in options:
        arguments = [verb, "run", option, "1"]
        assert parse_args(["-m", "shieldwall", *arguments]).training_script_args == arguments


if __name__ == "__main__":
    carry_out(json.loads(sys.argv[1]))
