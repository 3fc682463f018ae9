"""Fetching from a server on this machine: whole, resumed, interrupted and wrong."""

import hashlib
import importlib
import io
import tarfile
from pathlib import Path

import pytest
from file_server import FileServer
from tiny_sets import CIFAR_NAMES, write_cifar_binary

from shieldwall.data import download as downloads
from shieldwall.data import fetch
from shieldwall.data.fetch import SOURCES, Source
from shieldwall.errors import UserError

FILES = {
    "train-images-idx3-ubyte.gz": bytes(range(256)) * 4000,
    "train-labels-idx1-ubyte.gz": b"labels",
    "t10k-images-idx3-ubyte.gz": b"more images" * 100,
    "t10k-labels-idx1-ubyte.gz": b"more labels",
}
FIRST = "train-images-idx3-ubyte.gz"
SIZE = len(FILES[FIRST])


def md5s(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.md5(content).hexdigest() for name, content in files.items()}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny files stand for the official ones, and nothing waits."""
    monkeypatch.setattr(downloads, "PAUSE_S", 0.0)
    monkeypatch.setitem(SOURCES, "mnist", Source("http://127.0.0.1:9/unused/", md5s(FILES)))


@pytest.fixture
def mnist(server: FileServer) -> FileServer:
    server.files.update(FILES)
    return server


@pytest.fixture
def part(tmp_path: Path) -> Path:
    """The first file's beginning, 1,000 bytes of it, left by an earlier run."""
    path = tmp_path / "mnist" / f"{FIRST}.part"
    path.parent.mkdir()
    path.write_bytes(FILES[FIRST][:1000])
    return path


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_file_is_fetched_once(mnist: FileServer, tmp_path: Path):
    folder = fetch("mnist", tmp_path, mnist.url)
    assert folder == tmp_path / "mnist"
    assert held(folder) == FILES
    assert mnist.asked == [(name, None) for name in FILES]
    assert fetch("mnist", tmp_path, mnist.url.rstrip("/")) == folder
    assert len(mnist.asked) == 4


def test_only_a_lacking_or_wrong_file_is_fetched_again(mnist: FileServer, tmp_path: Path):
    folder = fetch("mnist", tmp_path, mnist.url)
    (folder / FIRST).write_bytes(b"damaged")
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    fetch("mnist", tmp_path, mnist.url)
    assert [name for name, _ in mnist.asked[4:]] == [FIRST, "t10k-labels-idx1-ubyte.gz"]
    assert held(folder) == FILES


def test_files_go_where_they_are_looked_for_first(
    mnist: FileServer, cache: Path, tmp_path: Path, monkeypatch
):
    assert fetch("mnist", base_url=mnist.url) == cache / "mnist"
    monkeypatch.setenv("SHIELDWALL_DATA", str(tmp_path / "named"))
    assert fetch("mnist", base_url=mnist.url) == tmp_path / "named" / "mnist"
    assert held(tmp_path / "named" / "mnist") == FILES


def test_a_part_is_resumed_and_only_the_rest_is_sent(mnist: FileServer, tmp_path: Path, part: Path):
    fetch("mnist", tmp_path, mnist.url)
    assert mnist.asked[0] == (FIRST, "bytes=1000-")
    assert mnist.sent[0] == SIZE - 1000
    assert held(part.parent) == FILES


def test_a_server_without_ranges_sends_it_all(mnist: FileServer, tmp_path: Path, part: Path):
    mnist.ranges = False
    fetch("mnist", tmp_path, mnist.url)
    assert mnist.asked[0] == (FIRST, "bytes=1000-")
    assert mnist.sent[0] == SIZE
    assert held(part.parent) == FILES


def test_a_complete_part_is_only_renamed(mnist: FileServer, tmp_path: Path, part: Path):
    part.write_bytes(FILES[FIRST])
    fetch("mnist", tmp_path, mnist.url)
    assert mnist.asked[0] == (FIRST, f"bytes={SIZE}-")
    assert [name for name, _ in mnist.asked].count(FIRST) == 1
    assert held(part.parent) == FILES


def test_a_part_longer_than_the_file_is_begun_anew(mnist: FileServer, tmp_path: Path, part: Path):
    part.write_bytes(FILES[FIRST] + b"?")
    fetch("mnist", tmp_path, mnist.url)
    assert mnist.asked[:2] == [(FIRST, f"bytes={SIZE + 1}-"), (FIRST, None)]
    assert held(part.parent) == FILES


def test_another_range_than_asked_for_is_not_appended(mnist: FileServer, tmp_path: Path, part: Path):
    mnist.shift = 7
    fetch("mnist", tmp_path, mnist.url)
    assert mnist.asked[:2] == [(FIRST, "bytes=1000-"), (FIRST, None)]
    assert held(part.parent) == FILES


@pytest.mark.parametrize("ranges", [True, False])
def test_a_dropped_connection_is_tried_again(mnist: FileServer, tmp_path: Path, ranges: bool):
    mnist.ranges = ranges
    mnist.drops = [300_000, 400_000]
    folder = fetch("mnist", tmp_path, mnist.url)
    second, third = ("bytes=300000-", "bytes=700000-" if ranges else "bytes=400000-")
    assert mnist.asked[:3] == [(FIRST, None), (FIRST, second), (FIRST, third)]
    assert held(folder) == FILES


def test_a_connection_that_keeps_dropping_leaves_a_part_to_resume(mnist: FileServer, tmp_path: Path):
    mnist.drops = [1000] * downloads.ATTEMPTS
    closed = f"the connection closed after 5,000 of {SIZE:,} bytes; run it again to resume$"
    with pytest.raises(UserError, match=f"^could not fetch {mnist.url}{FIRST}: {closed}"):
        fetch("mnist", tmp_path, mnist.url)
    assert held(tmp_path / "mnist") == {f"{FIRST}.part": FILES[FIRST][:5000]}
    mnist.asked.clear()
    fetch("mnist", tmp_path, mnist.url)
    assert mnist.asked[0] == (FIRST, "bytes=5000-")


def test_a_passing_server_error_is_tried_again(mnist: FileServer, tmp_path: Path):
    mnist.errors = [503, 500]
    assert held(fetch("mnist", tmp_path, mnist.url)) == FILES


def test_a_file_the_server_lacks_is_not_tried_again(server: FileServer, tmp_path: Path):
    with pytest.raises(UserError, match=f"^{server.url}{FIRST} answered 404 Not Found$"):
        fetch("mnist", tmp_path, server.url)
    assert len(server.asked) == 1


def test_an_unreachable_server_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("no_proxy", "*")
    with FileServer() as gone:
        url = gone.url
    with pytest.raises(
        UserError, match=f"^could not fetch {url}{FIRST}: .*refused.*; run it again to resume$"
    ):
        fetch("mnist", tmp_path, url)


def test_an_address_that_is_none_is_said(tmp_path: Path):
    with pytest.raises(UserError, match=r"^nowhere/.* is not an address to fetch from"):
        fetch("mnist", tmp_path, "nowhere")


def test_a_wrong_checksum_deletes_the_part(mnist: FileServer, tmp_path: Path):
    mnist.files[FIRST] = b"something else"
    with pytest.raises(UserError, match="does not have the published checksum"):
        fetch("mnist", tmp_path, mnist.url)
    assert held(tmp_path / "mnist") == {}


def test_a_resumed_part_of_something_else_is_noticed(mnist: FileServer, tmp_path: Path, part: Path):
    part.write_bytes(b"?" * 1000)
    with pytest.raises(UserError, match="does not have the published checksum"):
        fetch("mnist", tmp_path, mnist.url)
    assert held(part.parent) == {}
    assert held(fetch("mnist", tmp_path, mnist.url)) == FILES


def test_progress_is_reported(mnist: FileServer, tmp_path: Path, part: Path):
    seen: list[tuple[str, int, int]] = []
    fetch("mnist", tmp_path, mnist.url, lambda *step: seen.append(step))
    assert {name for name, _, _ in seen} == set(FILES)
    done = [count for name, count, _ in seen if name == FIRST]
    assert done == sorted(done)
    assert done[0] > 1000
    assert done[-1] == SIZE
    assert {total for name, _, total in seen if name == FIRST} == {SIZE}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a device that is always full")
def test_a_full_disk_is_said(mnist: FileServer, tmp_path: Path):
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / f"{FIRST}.part").symlink_to("/dev/full")
    with pytest.raises(UserError, match=rf"^cannot write .*{FIRST}\.part: No space left on device"):
        fetch("mnist", tmp_path, mnist.url)
    assert len(mnist.asked) == 1


def test_a_folder_that_cannot_be_made_is_said(mnist: FileServer, tmp_path: Path):
    (tmp_path / "mnist").touch()
    with pytest.raises(UserError, match=r"^cannot write .*: "):
        fetch("mnist", tmp_path, mnist.url)


def archive(folder: Path, extra: str | None = None) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.add(folder, arcname="cifar-10-batches-bin")
        if extra is not None:
            tar.addfile(tarfile.TarInfo(extra))
    return packed.getvalue()


@pytest.fixture
def cifar(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileServer:
    write_cifar_binary(tmp_path / "original")
    server.files["cifar-10-binary.tar.gz"] = archive(tmp_path / "original")
    monkeypatch.setitem(SOURCES, "cifar10", Source("http://127.0.0.1:9/unused/", md5s(server.files)))
    return server


def test_cifar_is_unpacked_and_its_archive_removed(cifar: FileServer, tmp_path: Path):
    folder = fetch("cifar10", tmp_path / "data", cifar.url)
    assert folder == tmp_path / "data" / "cifar-10-batches-bin"
    assert held(folder) == held(tmp_path / "original")
    assert list((tmp_path / "data").iterdir()) == [folder]
    fetch("cifar10", tmp_path / "data", cifar.url)
    assert len(cifar.asked) == 1


def test_a_lacking_cifar_batch_is_fetched_again(cifar: FileServer, tmp_path: Path):
    folder = fetch("cifar10", tmp_path / "data", cifar.url)
    (folder / f"{CIFAR_NAMES[2]}.bin").unlink()
    fetch("cifar10", tmp_path / "data", cifar.url)
    assert held(folder) == held(tmp_path / "original")


def test_an_archive_cannot_reach_outside(cifar: FileServer, tmp_path: Path, monkeypatch):
    cifar.files["cifar-10-binary.tar.gz"] = archive(tmp_path / "original", extra="../../outside")
    monkeypatch.setitem(SOURCES, "cifar10", Source("http://127.0.0.1:9/unused/", md5s(cifar.files)))
    folder = fetch("cifar10", tmp_path / "data", cifar.url)
    assert not (tmp_path / "outside").exists()
    assert (folder / "outside").is_file()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digits", "nothing to fetch"),
        ("imagenet", "imagenet/train/<class>"),
        ("minst", "no data set called 'minst'; did you mean 'mnist'"),
    ],
)
def test_what_cannot_be_fetched_is_said(tmp_path: Path, name: str, message: str):
    with pytest.raises(UserError, match=message):
        fetch(name, tmp_path)


def test_the_module_can_still_be_imported_beside_the_function():
    assert importlib.import_module("shieldwall.data.fetch").fetch is fetch
