"""Whatever is given, the answer is a result or a UserError: a property for each kind of input."""

import gzip
import io
import lzma
import struct
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

from shieldwall import recipes
from shieldwall.cli import app
from shieldwall.cli.options import console
from shieldwall.data.files import read_idx
from shieldwall.data.folder import FolderSplit
from shieldwall.errors import UserError
from shieldwall.files import load_tensors
from shieldwall.results.record import read_runs
from shieldwall.runs.predict import read_image
from shieldwall.runs.verify import verify_run
from shieldwall.texts import json_value, shown, yaml_documents

some = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
SCALARS = st.one_of(
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.booleans(),
    st.none(),
    st.text(max_size=8),
    st.sampled_from([
        "2020-99-99", "1e999", ".nan", "0x" + "f" * 100, "9" * 5000, "!!timestamp x", "!!int x", "!!bool x",
        "!!binary x", "!!set {a}", "*a", "&a [*a]", "[" * 5000, "{" * 500, "? [a]\n: 1", "<<: 3", "1:1:1",
        "a: &a [x]\nb: [*a, *a]", "--- 1\n--- 2", "../../x", "=1+1", "\x1b[2J", "~", "-5", "1_0", "os:system",
    ]),
)  # fmt: skip
KEYS = [
    "sigma", "seed", "members", "name", "data", "model", "noise", "schedule", "schedule.lr",
    "objective", "objective.name", "objective.num_noise", "certification.n", "certification.alpha",
    "certification.radii", "certification.limit", "init_from", "holdout_every", "", "a.b.c",
]  # fmt: skip


def text_of(value: object) -> str:
    return value if isinstance(value, str) else yaml.safe_dump(value).removesuffix("...\n")


ANY_TEXT = SCALARS.map(text_of).map(lambda text: text.encode(errors="replace"))


@some
@given(st.lists(st.tuples(st.sampled_from(KEYS), SCALARS), min_size=1, max_size=3))
def test_assignments(pairs: list[tuple[str, object]]) -> None:
    with suppress(UserError):
        recipe = recipes.override(recipes.get("smoke"), [f"{key}={text_of(value)}" for key, value in pairs])
        assert recipes.from_mapping(yaml_documents(recipe.to_yaml(), "")[0]) == recipe


@some
@given(st.one_of(st.binary(max_size=200), ANY_TEXT))
def test_yaml_and_json(content: bytes) -> None:
    for read in (yaml_documents, json_value):
        with suppress(UserError):
            read(content, "a file")


@pytest.mark.parametrize(
    "bomb",
    [
        "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
            f"{new}: &{new} [{', '.join(9 * [f'*{old}'])}]\n"
            for old, new in zip("abcdefg", "bcdefgh", strict=True)
        ),
        "".join(f"&a{k} [*a{k - 1}]: 1\n" if k else "&a0 [x]: 1\n" for k in range(40)),
        "&a [*a]",
        33 * "[" + 33 * "]",
        "a: " + "x" * 2**18,
        "seed: 0b" + "1" * 10_000,
    ],
)  # fmt: skip
def test_budgets_of_yaml(bomb: str) -> None:
    with pytest.raises(UserError, match="a file is"):
        yaml_documents(bomb, "a file")


LINE = "idx\tlabel\tpredict\tradius\tcorrect\tn\tcounts\tbound\tnoise\n"
CELL = st.one_of(
    SCALARS.map(text_of),
    st.sampled_from(["0", "7", "1e308", "9" * 20, "5,1", "5;1", "gaussian(1e309)", "x(y"]),
)


@some
@given(st.lists(st.lists(CELL, min_size=9, max_size=9), min_size=1, max_size=3), st.booleans())
def test_logs(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], whole: bool) -> None:
    log = tmp_path_factory.mktemp("log") / "any.log"
    body = "".join(
        "\t".join(["0", "1", "1", "0.5", "1"][: 5 * whole] + row[5 * whole :]) + "\n" for row in rows
    )
    log.write_bytes((LINE + body).encode(errors="replace"))
    with suppress(UserError):
        read_runs([log])
    verify_run(log)


@settings(some, max_examples=20)
@given(st.sampled_from(["recipe.yaml", "environment.json", "training.jsonl", "certificates/settings.yaml",
                        "weights.yaml", "SHA256SUMS", "certificates/we.tsv", "start.yaml"]),
       st.one_of(st.binary(max_size=60), ANY_TEXT),
       st.booleans())  # fmt: skip
def test_runs_with_any_file(run: Path, name: str, content: bytes, keep_sums: bool) -> None:

    path, sums = run / name, run / "SHA256SUMS"
    before, digests = path.read_bytes() if path.exists() else None, sums.read_bytes()
    if not keep_sums:
        sums.unlink()
    path.write_bytes(content)
    for command in (
        ["report"],
        ["verify", "--redraw", "1"],
        ["certify", "--limit", "1"],
        ["predict", "--index", "0"],
    ):
        result = CliRunner().invoke(app, [command[0], str(run), *command[1:]])
        assert isinstance(result.exception, UserError | SystemExit | None), (command, result.exception)
    path.unlink(missing_ok=True)
    if before is not None:
        path.write_bytes(before)
    sums.write_bytes(digests)


def png(size: tuple[int, int], mode: str = "RGB", kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.new(mode, size).save(file, kind)
    return file.getvalue()


@some
@given(st.sampled_from([png((8, 8)), png((8, 8), "I;16"), png((8, 8), kind="JPEG"), png((8, 8), "P", "GIF"),
                        png((8, 8), "1", "BMP"), png((8, 8), kind="PPM"), png((16, 16), kind="ICNS"),
                        png((8, 8), "1", "XBM")]), st.integers(0, 400), st.binary(max_size=8))  # fmt: skip
def test_images(tmp_path_factory: pytest.TempPathFactory, content: bytes, place: int, other: bytes) -> None:
    path = tmp_path_factory.mktemp("image") / "x.png"
    path.write_bytes(content[:place] + other + content[place + len(other) :])
    with suppress(UserError):
        read_image(path, (1, 8, 8))
    with suppress(UserError):
        FolderSplit([str(path)], torch.tensor([0])).images([0])


def test_budgets_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shieldwall.data.files._MOST_BYTES", 2**16)
    images, labels = tmp_path / "images.gz", tmp_path / "labels"
    images.write_bytes(gzip.compress(struct.pack(">4I", 0x803, 2**31, 28, 28) + bytes(2**17)))
    labels.write_bytes(struct.pack(">2I", 0x801, 2**31))
    with pytest.raises(UserError, match="has more than 65,536 bytes"):
        read_idx("mnist", images, labels)
    thin = tmp_path / "thin.png"
    thin.write_bytes(png((1, 6_000)))
    with pytest.raises(UserError, match="one side is more than 50 times as long as the other"):
        FolderSplit([str(thin)], torch.tensor([0])).images([0])
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for number in range(10_001):
            archive.addfile(tarfile.TarInfo(f"a/{number}"))
    packed = tmp_path / "run.tar.xz"
    packed.write_bytes(lzma.compress(plain.getvalue(), preset=0))
    with pytest.raises(UserError, match="more than 10,000 files"):
        read_runs([packed])


@some
@given(st.binary(max_size=300), st.integers(0, 300))
def test_packed_runs(tmp_path_factory: pytest.TempPathFactory, content: bytes, size: int) -> None:
    packed = tmp_path_factory.mktemp("packed") / "run.tar.xz"
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name in ("recipe.yaml", "certificates/we.tsv", "certificates/settings.yaml", "environment.json"):
            member = tarfile.TarInfo(name)
            member.size = min(size, len(content))
            archive.addfile(member, io.BytesIO(content))
    packed.write_bytes(lzma.compress(plain.getvalue(), preset=0))
    with suppress(UserError):
        read_runs([packed])
    packed.write_bytes(content)
    with suppress(UserError):
        read_runs([packed])


@some
@given(st.binary(max_size=100), st.integers(0, 2**64 - 1))
def test_weights(tmp_path_factory: pytest.TempPathFactory, content: bytes, size: int) -> None:
    path = tmp_path_factory.mktemp("weights") / "member-1.safetensors"
    for prefix in (struct.pack("<Q", size), struct.pack("<Q", len(content)), b""):
        path.write_bytes(prefix + content)
        with suppress(UserError):
            load_tensors(path)


@some
@given(st.text(max_size=30))
def test_no_text_steers_a_terminal(text: str) -> None:
    plain = shown(text)
    assert shown(plain) == plain
    assert not any((ord(c) < 32 and c not in "\t\n") or 127 <= ord(c) < 160 for c in plain)
    plain.encode()


def test_the_console_shows_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    console.print("a:cat:b [red]\x1b[2J\x07", soft_wrap=True)
    assert capsys.readouterr().out == "a:cat:b [red]\\x1b[2J\n"
