"""Many files: folders, their order, and titles that tell them apart."""

from collections.abc import Callable
from pathlib import Path

import pytest
from worked_log import read_logs

from shieldwall.errors import UserError

Write = Callable[..., Path]
VOTES = ["we-sween", "eas", "mme", "zebra", "member-10", "we", "member-2", "apple", "member-1"]


def test_order_and_titles_of_a_run(tmp_path: Path, write_run: Write) -> None:
    run = write_run(tmp_path / "out", "digits", VOTES)
    logs = read_logs([run])
    assert [log.title for log in logs] == [
        "digits member 1",
        "digits member 2",
        "digits member 10",
        "digits WE",
        "digits MME",
        "digits EAS",
        "digits apple",
        "digits we-sween",
        "digits zebra",
    ]
    assert {log.run for log in logs} == {"digits"}
    assert [log.vote for log in logs][:4] == ["member-1", "member-2", "member-10", "we"]
    assert [log.is_member for log in logs] == [True] * 3 + [False] * 6


def test_any_mix_and_each_file_once(
    tmp_path: Path, write_run: Write, write_ours: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "a", "first", ["we", "member-1"])
    write_run(tmp_path / "b", "second", ["mme", "we"])
    write_ours(tmp_path / "other.tsv")
    monkeypatch.chdir(tmp_path / "b")
    logs = read_logs(["certificates", "../other.tsv", "../a/certificates/we.tsv", "../a", "."])
    assert [log.title for log in logs] == ["second WE", "second MME", "other", "first WE", "first member 1"]


def test_runs_that_share_a_name_say_their_folder(tmp_path: Path, write_run: Write) -> None:
    same = [write_run(tmp_path / folder, "digits", ["we"]) for folder in ("a", "b")]
    other = write_run(tmp_path / "c", "letters", ["we"])
    logs = read_logs([*same, other])
    assert [log.title for log in logs] == ["digits (a) WE", "digits (b) WE", "letters WE"]
    assert [log.run for log in logs] == ["digits (a)", "digits (b)", "letters"]


def test_as_much_of_the_folder_as_it_takes(tmp_path: Path, write_ours: Write) -> None:
    files = [write_ours(tmp_path / model / "test" / "sigma_0.25") for model in ("cohen", "salman")]
    assert [log.title for log in read_logs(files)] == ["sigma_0.25 (cohen/test)", "sigma_0.25 (salman/test)"]


def test_another_certificate_folder_of_the_same_run(
    tmp_path: Path, write_run: Write, write_ours: Write
) -> None:
    run = write_run(tmp_path / "out", "digits", ["we"])
    write_ours(run / "more-draws" / "we.tsv")
    assert [log.title for log in read_logs([run / "more-draws"])] == ["digits WE"]
    both = read_logs([run, run / "more-draws"])
    assert [log.title for log in both] == ["digits (out) WE", "digits (more-draws) WE"]


def test_votes_in_a_folder_without_a_recipe_take_its_name(tmp_path: Path, write_ours: Write) -> None:
    for vote in ("eas", "we", "member-1"):
        write_ours(tmp_path / "copied" / f"{vote}.tsv", vote=vote)
    titles = [log.title for log in read_logs([tmp_path / "copied"])]
    assert titles == ["copied member 1", "copied WE", "copied EAS"]


def test_a_recipe_without_a_name_leaves_the_folder_s(tmp_path: Path, write_run: Write) -> None:
    run = write_run(tmp_path / "out", "digits", ["we"])
    (run / "recipe.yaml").write_text("sigma: 0.25\n")
    assert read_logs([run])[0].title == "out WE"


def test_broken_recipe(tmp_path: Path, write_run: Write) -> None:
    run = write_run(tmp_path / "out", "digits", ["we"])
    (run / "recipe.yaml").write_text("name: [\n")
    with pytest.raises(UserError, match=r"recipe\.yaml is not readable YAML"):
        read_logs([run])


def test_run_without_certificates(tmp_path: Path, write_run: Write) -> None:
    run = write_run(tmp_path / "out", "digits", [])
    with pytest.raises(UserError, match=f"{run}: .*no certificates.*shieldwall certify {run}$"):
        read_logs([run])
    (run / "certificates").mkdir()
    with pytest.raises(UserError, match=f"shieldwall certify {run}$"):
        read_logs([run / "certificates"])


def test_folder_without_logs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a run folder"):
        read_logs([tmp_path])


def test_path_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere: there is no such file or folder"):
        read_logs([tmp_path / "nowhere"])
