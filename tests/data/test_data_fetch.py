"""Fetching from a server on this machine: whole, broken off and wrong."""

import errno
import hashlib
import io
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from file_server import FileServer
from rich.console import Console
from tiny_sets import CIFAR_NAMES, write_cifar_binary

from shieldwall.data.datasets import KNOWN, fetch
from shieldwall.errors import UserError

FILES = {
    "train-images-idx3-ubyte.gz": bytes(range(256)) * 12_000,
    "train-labels-idx1-ubyte.gz": b"labels",
    "t10k-images-idx3-ubyte.gz": b"more images" * 100,
    "t10k-labels-idx1-ubyte.gz": b"more labels",
}
FIRST = "train-images-idx3-ubyte.gz"
SIZE = len(FILES[FIRST])
UNUSED = "https://127.0.0.1:9/unused/"


def published(files: dict[str, bytes]) -> dict[str, tuple[int, str]]:
    return {name: (len(content), hashlib.sha256(content).hexdigest()) for name, content in files.items()}


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny files stand for the official ones."""
    monkeypatch.setitem(KNOWN, "mnist", replace(KNOWN["mnist"], url=UNUSED, files=published(FILES)))


@pytest.fixture
def mnist(server: FileServer) -> FileServer:
    server.files.update(FILES)
    return server


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_file_is_fetched_once(mnist: FileServer, tmp_path: Path):
    folder = fetch("mnist", tmp_path, mnist.url)
    assert folder == tmp_path / "mnist"
    assert held(folder) == FILES
    assert mnist.asked == list(FILES)
    assert fetch("mnist", tmp_path, mnist.url.rstrip("/")) == folder
    assert len(mnist.asked) == 4


def test_only_a_missing_or_wrong_file_is_fetched_again(mnist: FileServer, tmp_path: Path):
    folder = fetch("mnist", tmp_path, mnist.url)
    (folder / FIRST).write_bytes(b"damaged")
    (folder / "t10k-labels-idx1-ubyte.gz").unlink()
    fetch("mnist", tmp_path, mnist.url)
    assert mnist.asked[4:] == [FIRST, "t10k-labels-idx1-ubyte.gz"]
    assert held(folder) == FILES


def test_files_go_where_they_are_looked_for_first(
    mnist: FileServer, cache: Path, tmp_path: Path, monkeypatch
):
    assert fetch("mnist", base_url=mnist.url) == cache / "mnist"
    monkeypatch.setenv("SHIELDWALL_DATA", str(tmp_path / "named"))
    assert fetch("mnist", base_url=mnist.url) == tmp_path / "named" / "mnist"
    assert held(tmp_path / "named" / "mnist") == FILES


def test_a_dropped_connection_leaves_whole_files_alone(mnist: FileServer, tmp_path: Path):
    second = list(FILES)[1]
    mnist.drops = [SIZE, 3]
    dropped = "the connection closed after 3 of 6 bytes; run the same command to try again$"
    with pytest.raises(UserError, match=f"^could not fetch {mnist.url}{second}: {dropped}"):
        fetch("mnist", tmp_path, mnist.url)
    assert held(tmp_path / "mnist") == {FIRST: FILES[FIRST]}
    assert held(fetch("mnist", tmp_path, mnist.url)) == FILES
    assert mnist.asked.count(FIRST) == 1


def test_a_file_the_server_lacks_is_said(server: FileServer, tmp_path: Path):
    with pytest.raises(UserError, match=f"^{server.url}{FIRST} answered 404 Not Found$"):
        fetch("mnist", tmp_path, server.url)
    assert held(tmp_path / "mnist") == {}


def test_a_server_error_is_said(mnist: FileServer, tmp_path: Path):
    mnist.errors = [503]
    with pytest.raises(UserError, match=f"^{mnist.url}{FIRST} answered 503 Service Unavailable$"):
        fetch("mnist", tmp_path, mnist.url)


def test_an_unreachable_server_is_said(server: FileServer, tmp_path: Path):
    with FileServer() as gone:
        url = gone.url
    with pytest.raises(UserError, match=f"^could not fetch {url}{FIRST}: .*refused.*; run the same command"):
        fetch("mnist", tmp_path, url)


@pytest.mark.parametrize("url", ["nowhere", "http://127.0.0.1:9", "ftp://127.0.0.1", "file:///tmp"])
def test_only_https_is_spoken(tmp_path: Path, url: str):
    with pytest.raises(UserError, match=rf"^{url}/.* is not an https address"):
        fetch("mnist", tmp_path, url)


def test_a_redirect_within_https_is_followed(mnist: FileServer, tmp_path: Path):
    mnist.redirects[FIRST] = f"{mnist.url}elsewhere"
    mnist.files["elsewhere"] = FILES[FIRST]
    assert held(fetch("mnist", tmp_path, mnist.url)) == FILES
    assert mnist.asked[:2] == [FIRST, "elsewhere"]


def test_a_redirect_to_plain_http_is_not_followed(mnist: FileServer, tmp_path: Path):
    mnist.redirects[FIRST] = f"{mnist.url}elsewhere".replace("https", "http")
    mnist.files["elsewhere"] = FILES[FIRST]
    with pytest.raises(UserError, match=f"^could not fetch {mnist.url}{FIRST}: .*unknown url type: http;"):
        fetch("mnist", tmp_path, mnist.url)
    assert mnist.asked == [FIRST]


def test_encryption_is_what_the_tests_leave_out(mnist: FileServer, tmp_path: Path, monkeypatch):
    """Without the stand-in, the same address gets a TLS handshake, which this server cannot answer."""
    monkeypatch.undo()
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setitem(KNOWN, "mnist", replace(KNOWN["mnist"], files=published(FILES)))
    with pytest.raises(UserError, match=r"(?i)could not fetch .*(ssl|wrong version|closed)"):
        fetch("mnist", tmp_path, mnist.url)


@pytest.mark.parametrize(
    ("content", "fault"),
    [(FILES[FIRST][:-1] + b"?", "is not"), (FILES[FIRST] + b"?", "is not")],
)
def test_another_file_than_the_published_one_is_not_kept(
    mnist: FileServer, tmp_path: Path, content: bytes, fault: str
):
    mnist.files[FIRST] = content
    sha256 = hashlib.sha256(FILES[FIRST]).hexdigest()
    expected = rf"{fault} the published file \({SIZE:,} bytes, SHA-256 {sha256}\); not kept$"
    with pytest.raises(UserError, match=f"^{mnist.url}{FIRST} {expected}"):
        fetch("mnist", tmp_path, mnist.url)
    assert held(tmp_path / "mnist") == {}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """What is shown of the progress: a file's name, the bytes received and the total."""
    seen: list[tuple[str, int, int]] = []

    @contextmanager
    def bar(console: Console, title: str, total: int) -> Iterator[Callable[[int, str], None]]:
        yield lambda received, note: seen.append((title, received, total))

    monkeypatch.setattr("shieldwall.data.files.progress_bar", bar)
    return seen


def test_no_more_is_read_than_the_published_length(
    mnist: FileServer, tmp_path: Path, shown: list[tuple[str, int, int]]
):
    mnist.files[FIRST] = FILES[FIRST] * 20
    with pytest.raises(UserError, match="is not the published file"):
        fetch("mnist", tmp_path, mnist.url)
    assert shown[-1][1] == SIZE
    assert len(shown) == -(-(SIZE + 1) // (1 << 20))


def test_progress_is_reported(mnist: FileServer, tmp_path: Path, shown: list[tuple[str, int, int]]):
    fetch("mnist", tmp_path, mnist.url)
    assert {name for name, _, _ in shown} == set(FILES)
    received = [count for name, count, _ in shown if name == FIRST]
    assert received == sorted(set(received))
    assert len(received) > 1
    assert received[-1] == SIZE
    assert {total for name, _, total in shown if name == FIRST} == {SIZE}


def test_a_full_disk_is_said(mnist: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr("shieldwall.files.os.fsync", full)
    with pytest.raises(UserError, match=rf"^cannot write .*{FIRST}: the disk is full"):
        fetch("mnist", tmp_path, mnist.url)
    assert held(tmp_path / "mnist") == {}


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


def serve_cifar(
    server: FileServer, content: bytes, monkeypatch: pytest.MonkeyPatch, original: Path | None = None
) -> FileServer:
    server.files["cifar-10-binary.tar.gz"] = content
    known = replace(KNOWN["cifar10"], url=UNUSED, files=published(server.files))
    if original is not None:
        batches = (original / f"{name}.bin" for name in CIFAR_NAMES)
        known = replace(
            known, unpacked=tuple(hashlib.sha256(path.read_bytes()).hexdigest() for path in batches)
        )
    monkeypatch.setitem(KNOWN, "cifar10", known)
    return server


@pytest.fixture
def cifar(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileServer:
    write_cifar_binary(tmp_path / "original")
    return serve_cifar(server, archive(tmp_path / "original"), monkeypatch, tmp_path / "original")


def test_cifar_is_unpacked_and_its_archive_removed(cifar: FileServer, tmp_path: Path):
    folder = fetch("cifar10", tmp_path / "data", cifar.url)
    assert folder == tmp_path / "data" / "cifar-10-batches-bin"
    assert held(folder) == held(tmp_path / "original")
    assert list((tmp_path / "data").iterdir()) == [folder]
    fetch("cifar10", tmp_path / "data", cifar.url)
    assert len(cifar.asked) == 1


def test_a_missing_cifar_batch_is_fetched_again(cifar: FileServer, tmp_path: Path):
    folder = fetch("cifar10", tmp_path / "data", cifar.url)
    (folder / f"{CIFAR_NAMES[2]}.bin").unlink()
    fetch("cifar10", tmp_path / "data", cifar.url)
    assert held(folder) == held(tmp_path / "original")


@pytest.mark.parametrize("batch", [0, 5])
def test_a_cifar_batch_of_other_bytes_is_fetched_again(cifar: FileServer, tmp_path: Path, batch: int):
    """Of the same length: nothing but the checksum says so."""
    folder = fetch("cifar10", tmp_path / "data", cifar.url)
    changed = folder / f"{CIFAR_NAMES[batch]}.bin"
    content = changed.read_bytes()
    changed.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    fetch("cifar10", tmp_path / "data", cifar.url)
    assert len(cifar.asked) == 2
    assert held(folder) == held(tmp_path / "original")


def test_the_cifar_archive_has_its_published_length_and_checksum(
    cifar: FileServer, tmp_path: Path, monkeypatch
):
    content = cifar.files["cifar-10-binary.tar.gz"]
    for wrong, fault in (
        (content[:-1], "closed after"),
        (content + b"?", "is not the published file"),
        (content[::-1], "is not"),
    ):
        cifar.files["cifar-10-binary.tar.gz"] = wrong
        with pytest.raises(UserError, match=fault):
            fetch("cifar10", tmp_path / "data", cifar.url)
        assert not (tmp_path / "data" / "cifar-10-batches-bin").exists()
        assert held(tmp_path / "data") == {}
    with pytest.raises(UserError, match="is not an https address"):
        fetch("cifar10", tmp_path / "data", cifar.url.replace("https", "http"))


def test_an_archive_cannot_reach_outside(cifar: FileServer, tmp_path: Path, monkeypatch):
    serve_cifar(cifar, archive(tmp_path / "original", extra="../../outside"), monkeypatch)
    folder = fetch("cifar10", tmp_path / "data", cifar.url)
    assert not (tmp_path / "outside").exists()
    assert (folder / "outside").is_file()


def test_an_archive_that_is_none_is_said(cifar: FileServer, tmp_path: Path, monkeypatch):
    serve_cifar(cifar, b"no archive", monkeypatch)
    with pytest.raises(UserError, match=r"^cannot unpack .*cifar-10-binary\.tar\.gz: "):
        fetch("cifar10", tmp_path / "data", cifar.url)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digits", "nothing to fetch"),
        ("imagenet", "imagenet/train/<class>"),
        ("minst", "'minst'; did you mean 'mnist'"),
    ],
)
def test_what_cannot_be_fetched_is_said(tmp_path: Path, name: str, message: str):
    with pytest.raises(UserError, match=message):
        fetch(name, tmp_path)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_every_official_source_is_https_with_a_sha256(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    known = KNOWN[name]
    assert known.url.startswith("https://")
    assert known.files
    for size, sha256 in known.files.values():
        assert size > 0
        assert len(bytes.fromhex(sha256)) == 32
