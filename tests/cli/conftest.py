"""One run of the smoke recipe for all, and the command line as a function."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from cli_tools import Outcome, Shieldwall
from typer.testing import CliRunner

from shieldwall import cli


@pytest.fixture(scope="session", autouse=True)
def no_trusted_code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests trust is not written into anyone's home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.setenv("SHIELDWALL_TRUST_CODE", "")
        yield


@pytest.fixture(autouse=True)
def bare_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working directory, no data on the machine, an output of 80 columns without colours."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("SHIELDWALL_DATA", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("SHIELDWALL_TRUST_CODE", "")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(cli.console, "_width", None)


@pytest.fixture
def shieldwall(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shieldwall:
    """The command line, called in this process."""

    def call(*arguments: str | Path) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["shieldwall", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main()
        code = ended.value.code
        assert code is None or isinstance(code, int)
        return Outcome(code or 0, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smoke recipe, trained and certified without interruption: not to be changed."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("finished") / "run"
    for command in (["train", "smoke", "--out", str(folder)], ["certify", str(folder)]):
        result = CliRunner().invoke(cli.app, command, catch_exceptions=False)
        assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A trained and certified run folder to do anything with."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture
def trained(run: Path) -> Path:
    """A run folder that is trained and not certified."""
    shutil.rmtree(run / "certificates")
    return run
