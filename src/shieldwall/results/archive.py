"""A packed run: what a run folder says, without its weights, in one small file NAME.tar.xz.

Names are sorted and times zero: the same run gives the same bytes. `report` reads it like the folder.
"""

import io
import lzma
import tarfile
from pathlib import Path

from shieldwall.errors import UserError
from shieldwall.files import write_atomic
from shieldwall.results.checks import SUMS, Sums

SUFFIX = ".tar.xz"
MAX_BYTES = 256 * 2**20  #: of an unpacked run: 1,000 inputs with 8 votes take 2 MB, 50,000 take 100 MB
MAX_FILES = 10_000
#: What a run folder says beside its certificates and its digests.
RUN_FILES = ("recipe.yaml", "start.yaml", "environment.json", "training.jsonl", "weights.yaml")


def pack(run: Path, file: Path) -> None:
    if not file.name.endswith(SUFFIX):
        raise UserError(f"a packed run is called NAME{SUFFIX}; given: {file}")
    if not (run / "recipe.yaml").is_file():
        raise UserError(f"{run} is not a run folder: there is no recipe.yaml in it")
    paths = [run / name for name in (*RUN_FILES, SUMS) if (run / name).is_file()]
    for settings in run.glob("*/settings.yaml"):
        paths += [settings, *settings.parent.glob("*.tsv")]
    content = {path.relative_to(run).as_posix(): path.read_bytes() for path in paths}
    Sums.read(run).check_packed(content)
    if sum(map(len, content.values())) > MAX_BYTES // 2:
        raise UserError(f"{run} has over {MAX_BYTES // 2**21} MB of certificates: too much for one file")
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(content):
            member = tarfile.TarInfo(name)
            member.size = len(content[name])
            archive.addfile(member, io.BytesIO(content[name]))
    # Higher presets were no smaller on MNIST runs, and take eight times the memory to read.
    write_atomic(file, lzma.compress(plain.getvalue(), preset=6))


def is_archive(path: Path) -> bool:
    return path.name.endswith(SUFFIX) and path.is_file()


def read_archive(file: Path) -> dict[str, bytes]:
    """The files of a packed run by their names; links, names that lead outside and too much are refused."""
    if not file.is_file():
        raise UserError(f"{file}: there is no such file")
    content: dict[str, bytes] = {}
    try:
        reader = lzma.LZMADecompressor(memlimit=MAX_BYTES)
        plain = reader.decompress(file.read_bytes(), max_length=MAX_BYTES)
        if not reader.eof:
            is_full = len(plain) == MAX_BYTES
            what = "unpacks to more than is allowed" if is_full else "is cut off; get it again"
            raise UserError(f"{file} {what}")
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
            for member in archive:
                inside = "\0" not in member.name and not {"", ".", ".."} & set(member.name.split("/"))
                if not member.isreg() or not inside or member.name in content or len(content) == MAX_FILES:
                    what = f"{member.name!r}, which is no plain file in it, or more than {MAX_FILES:,} files"
                    raise UserError(f"{file} is not a packed run: it holds {what}")
                data = archive.extractfile(member)
                assert data is not None
                content[member.name] = data.read()
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise UserError(f"{file} is damaged, or not a packed run ({error}); get it again") from error
    if "recipe.yaml" not in content:
        raise UserError(f"{file} is not a packed run: there is no recipe.yaml in it")
    return content
