"""One process at a time works on a run folder, and a killed one is in nobody's way."""

import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from cli_tools import Shieldwall, finish, line_count, process, refused, snapshot, timeless, wait_until

from shieldwall.errors import UserError
from shieldwall.files import load_tensors
from shieldwall.results.certificate_writer import CertificateWriter
from shieldwall.runs.folder import RunFolder, exclusive_lock


@pytest.mark.parametrize("command", [["certify"], ["train", "smoke", "--out"]])
def test_a_second_process_is_refused_until_the_first_lets_go(
    command: list[str], shieldwall: Shieldwall, run: Path
):
    before = snapshot(run)
    with RunFolder(run).lock():
        refused(shieldwall(*command, run), f"another process is working on {run}")
        assert snapshot(run) == before
    assert shieldwall(*command, run).code == 0


def test_a_folder_that_is_being_certified_is_not_touched(shieldwall: Shieldwall, trained: Path):
    with RunFolder(trained).lock():
        refused(shieldwall("certify", trained, "--limit", 2), "another process is working on")
        assert not (trained / "certificates").exists()


def test_the_lock_is_let_go_after_an_error(run: Path):
    with pytest.raises(RuntimeError), RunFolder(run).lock():
        raise RuntimeError
    with RunFolder(run).lock():
        pass


def test_the_lock_is_not_taken_twice_by_one_process(run: Path):
    with RunFolder(run).lock(), pytest.raises(UserError, match="another process"), RunFolder(run).lock():
        pass


def test_reading_needs_no_lock(shieldwall: Shieldwall, run: Path):
    with RunFolder(run).lock():
        assert shieldwall("report", run).code == 0
        assert shieldwall("predict", run, "--index", 0, "--n", 10).code == 0


def test_a_killed_certification_lets_go_and_is_completed_to_the_same_bytes(
    shieldwall: Shieldwall, trained: Path, finished: Path
):
    file = trained / "certificates/mme.tsv"
    with process("-m", "shieldwall", "certify", trained) as first:
        wait_until(lambda: line_count(file) > 2, first)
        first.send_signal(signal.SIGSTOP)
        refused(shieldwall("certify", trained), f"another process is working on {trained}")
        first.kill()
        assert finish(first).code == -signal.SIGKILL
    assert 3 <= line_count(file) < 31
    assert shieldwall("certify", trained).code == 0
    assert timeless(trained) == timeless(finished)


def after_input(number: int, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Do this once so many inputs are certified."""
    append, seen = CertificateWriter.append, []

    def append_and_act(self: CertificateWriter, *arguments: Any) -> None:
        append(self, *arguments)
        seen.append(arguments)
        if len(seen) == number:
            act()

    monkeypatch.setattr(CertificateWriter, "append", append_and_act)


@pytest.mark.parametrize("options", [[], ["--shard", "1/2"]])
@pytest.mark.parametrize("is_replaced", [True, False])
def test_who_has_lost_the_lock_writes_no_more(
    options: list[str], is_replaced: bool, shieldwall: Shieldwall, trained: Path, finished: Path
):
    """Someone deletes the lock file, and perhaps another process takes a new lock."""
    folder = trained / ("certificates.shards/1-of-2" if options else "certificates")
    lock = folder.with_name(".1-of-2.lock") if options else trained / ".lock"
    with ExitStack() as others, pytest.MonkeyPatch.context() as patch:

        def lose() -> None:
            lock.unlink()
            if is_replaced:
                others.enter_context(exclusive_lock(lock, trained))

        after_input(2, lose, patch)
        refused(shieldwall("certify", trained, *options), f"the lock file {lock} was deleted")
    assert {line_count(path) for path in folder.glob("*.tsv")} == {3}
    assert shieldwall("certify", trained, *options).code == 0
    if not options:
        assert timeless(trained) == timeless(finished)


def test_a_lock_lost_with_the_last_input_is_told(
    shieldwall: Shieldwall, trained: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
):
    after_input(4, (trained / ".lock").unlink, monkeypatch)
    refused(shieldwall("certify", trained, "--limit", 4), f"the lock file {trained / '.lock'} was deleted")
    assert timeless(trained) == timeless(finished, 4)


def test_a_training_that_has_lost_the_lock_stops_before_its_next_checkpoint(
    shieldwall: Shieldwall, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder, save = tmp_path / "lost", RunFolder.save_log

    def save_and_lose(self: RunFolder, records: list[dict[str, Any]]) -> None:
        save(self, records)
        (folder / ".lock").unlink()

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save_log", save_and_lose)
        refused(
            shieldwall("train", "smoke", "--out", folder), f"the lock file {folder / '.lock'} was deleted"
        )
    assert RunFolder(folder).epochs_done() == 1
    assert load_tensors(folder / "checkpoint.safetensors")[1]["records"].count('"epoch"') == 1
    assert shieldwall("train", "smoke", "--out", folder).code == 0
    weights = "members/member-1.safetensors"
    assert (folder / weights).read_bytes() == (finished / weights).read_bytes()


def swap_weights(run: Path) -> None:
    first, second = RunFolder(run).member_paths()
    first.write_bytes(second.read_bytes())


def test_weights_that_are_swapped_meanwhile_are_noticed(
    shieldwall: Shieldwall, trained: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
):
    after_input(2, lambda: swap_weights(trained), monkeypatch)
    said = "the weights were changed by another process; put those back that"
    refused(shieldwall("certify", trained, "--limit", 4), str(trained / "members"), said)
    assert timeless(trained) == timeless(finished, 4)  # of the weights before, as the settings say
    refused(shieldwall("certify", trained, "--limit", 5), "is not the file that was written")
    (trained / "SHA256SUMS").unlink()
    refused(shieldwall("certify", trained, "--limit", 5), "other settings (members_sha256: ")


def test_weights_that_are_swapped_while_they_are_read_are_noticed(
    shieldwall: Shieldwall, trained: Path, monkeypatch: pytest.MonkeyPatch
):
    load = RunFolder.load_members

    def load_and_swap(self: RunFolder, members: Any) -> None:
        load(self, members)
        swap_weights(trained)

    monkeypatch.setattr(RunFolder, "load_members", load_and_swap)
    refused(
        shieldwall("certify", trained), "the weights were changed by another process; run the same command"
    )
    assert not (trained / "certificates").exists()
