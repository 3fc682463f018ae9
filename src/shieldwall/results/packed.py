"""A packed run: what a run folder says, without its weights, in one small file NAME.tar.xz.

recipe.yaml, start.yaml, environment.json, training.jsonl, weights.yaml and every folder of certificates,
names sorted, times zero: the same run gives the same bytes. `report` reads it as it reads the folder.
"""

import atexit
import io
import itertools
import lzma
import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path

from shieldwall.errors import UserError
from shieldwall.files import write_atomic

SUFFIX = ".tar.xz"
MOST_BYTES = 256 * 2**20
"""Of an unpacked run: 1,000 inputs with 8 votes take 2 MB, 50,000 take 100 MB."""
_FILES = ("recipe.yaml", "start.yaml", "environment.json", "training.jsonl", "weights.yaml")
_NUMBERS = itertools.count()


def pack(run: Path, file: Path) -> None:
    """Write the run folder `run` to `file`, in one step."""
    if not file.name.endswith(SUFFIX):
        raise UserError(f"a packed run is called NAME{SUFFIX}; given: {file}")
    if not (run / "recipe.yaml").is_file():
        raise UserError(f"{run} is not a run folder: there is no recipe.yaml in it")
    content = {path.relative_to(run).as_posix(): path.read_bytes() for path in _kept(run)}
    if sum(map(len, content.values())) > MOST_BYTES // 2:
        raise UserError(
            f"{run} holds more than {MOST_BYTES // 2**21} MB of certificates: too much for one file"
        )
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(content):
            member = tarfile.TarInfo(name)
            member.size = len(content[name])
            archive.addfile(member, io.BytesIO(content[name]))
    # Higher presets were no smaller on MNIST runs, and take eight times the memory to read.
    write_atomic(file, lzma.compress(plain.getvalue(), preset=6))


def is_packed(path: Path) -> bool:
    return path.name.endswith(SUFFIX) and path.is_file()


def as_folder(path: Path) -> Path:
    """A folder to read: `path` itself, or what is packed in it."""
    return unpacked(path) if is_packed(path) else path


def unpacked(file: Path) -> Path:
    """A folder with the packed run, for the life of this process; its name is the file's.

    A file that reaches outside of that folder, holds links or unpacks to more than MOST_BYTES is refused.
    """
    if not file.is_file():
        raise UserError(f"{file}: there is no such file")
    found = file.stat()
    return _unpacked(file.resolve(), found.st_mtime_ns, found.st_size)


@cache
def _unpacked(file: Path, changed: int, size: int) -> Path:
    content = _read(file)
    # The whole path again, so that files of the same name are told apart as folders are.
    folder = (
        _home()
        / str(next(_NUMBERS))
        / file.relative_to(file.anchor).with_name(file.name.removesuffix(SUFFIX))
    )
    folder.mkdir(parents=True)
    for name, data in content.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


@cache
def _home() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="shieldwall-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _read(file: Path) -> dict[str, bytes]:
    """The files in a packed run by name, all of them harmless."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(_decompressed(file)), mode="r:") as archive:
            for member in archive:
                if not member.isreg() or not _is_inside(member.name) or member.name in found:
                    raise UserError(
                        f"{file} is not a packed run: it holds {member.name!r}, which is no plain file in it"
                    )
                data = archive.extractfile(member)
                assert data is not None
                found[member.name] = data.read()
    except (tarfile.TarError, EOFError) as error:
        raise UserError(f"{file} is damaged, or not a packed run ({error}); get it again") from error
    if "recipe.yaml" not in found:
        raise UserError(f"{file} is not a packed run: there is no recipe.yaml in it")
    return found


def _is_inside(name: str) -> bool:
    return "\0" not in name and not {"", ".", ".."} & set(name.split("/"))


def _decompressed(file: Path) -> bytes:
    reader = lzma.LZMADecompressor(memlimit=MOST_BYTES)
    try:
        content = reader.decompress(file.read_bytes(), max_length=MOST_BYTES)
    except lzma.LZMAError as error:
        raise UserError(f"{file} is damaged, or not a packed run ({error}); get it again") from error
    if not reader.eof:
        what = "unpacks to more than is allowed" if len(content) == MOST_BYTES else "is cut off; get it again"
        raise UserError(f"{file} {what}")
    return content


def _kept(run: Path) -> list[Path]:
    kept = [run / name for name in _FILES if (run / name).is_file()]
    for settings in run.glob("*/settings.yaml"):
        kept += [settings, *settings.parent.glob("*.tsv")]
    return kept
