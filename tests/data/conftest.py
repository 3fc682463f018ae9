"""Every test sees an empty home for data, whatever lies on the machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from file_server import FileServer


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder, the last place searched; it does not exist yet."""
    monkeypatch.delenv("SHIELDWALL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "shieldwall"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.setenv("no_proxy", "*")
    with FileServer() as running:
        yield running
