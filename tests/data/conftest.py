"""Every test sees an empty home for data, whatever lies on the machine."""

from collections.abc import Iterator
from pathlib import Path
from urllib.request import HTTPSHandler

import pytest
from file_server import FileServer, Plaintext

from shieldwall.data import files


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder, the last place searched; it does not exist yet."""
    monkeypatch.delenv("SHIELDWALL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "shieldwall"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """A server that the package's own opener reaches, with every handler of its own but encryption."""
    handlers = [Plaintext if handler is HTTPSHandler else handler for handler in files.HANDLERS]
    monkeypatch.setattr(files, "HANDLERS", handlers)
    monkeypatch.setenv("no_proxy", "*")
    with FileServer() as running:
        yield running
