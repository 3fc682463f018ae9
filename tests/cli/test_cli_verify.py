"""verify finds what was changed in a run, and accepts what verbs left, finished or not."""

import json
import random
import shutil
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest
from cli_tools import VOTES, Shieldwall, refused, unsealed
from typer.testing import CliRunner

from shieldwall import cli
from shieldwall.results.archive import pack
from shieldwall.runs.verify import verify_run

FIXTURES = Path(__file__).parents[1] / "fixtures/mnist-old-lenet"
Change = Callable[[Path, random.Random], object]


def files_of(run: Path) -> list[Path]:
    return sorted(path for path in run.rglob("*") if path.is_file() and path.name != ".lock")


def flip_a_bit(run: Path, dice: random.Random) -> None:
    path = dice.choice(files_of(run))
    content = bytearray(path.read_bytes())
    content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    path.write_bytes(content)


def table(run: Path, dice: random.Random) -> Path:
    folder = dice.choice(sorted(settings.parent for settings in run.glob("*/settings.yaml")))
    return folder / f"{dice.choice(VOTES)}.tsv"


def edit_rows(run: Path, dice: random.Random, edit: Callable[[list[bytes]], object]) -> None:
    path = table(run, dice)
    header, *rows = path.read_bytes().splitlines(keepends=True)
    edit(rows)
    path.write_bytes(b"".join([header, *rows]))


def delete_a_row(run: Path, dice: random.Random) -> None:
    edit_rows(run, dice, lambda rows: rows.pop(dice.randrange(len(rows))))


def double_a_row(run: Path, dice: random.Random) -> None:
    edit_rows(run, dice, lambda rows: rows.insert(0, dice.choice(rows)))


def swap_rows(run: Path, dice: random.Random) -> None:
    first, second = dice.sample(range(10), 2)

    def swap(rows: list[bytes]) -> None:
        rows[first], rows[second] = rows[second], rows[first]

    edit_rows(run, dice, swap)


def write_a_cell(run: Path, dice: random.Random) -> None:
    column = dice.choice([0, 1, 2, 3, 6, 7, 9, 10, 11, 12, 13])

    def edit(rows: list[bytes]) -> None:
        row = dice.randrange(len(rows))
        cells = rows[row].split(b"\t")
        cells[column] = b"9.5" if column in (3, 6, 7, 10) else cells[column] + b"1"
        rows[row] = b"\t".join(cells)

    edit_rows(run, dice, edit)


def zero_the_counts(run: Path, dice: random.Random) -> None:
    def edit(rows: list[bytes]) -> None:
        cells = rows[0].split(b"\t")
        cells[11] = b";".join(b",".join(b"0" for _ in part.split(b",")) for part in cells[11].split(b";"))
        rows[0] = b"\t".join(cells)

    edit_rows(run, dice, edit)


def swap_tables(run: Path, dice: random.Random) -> None:
    first, second = dice.sample(VOTES, 2)
    shutil.copy((one := table(run, dice)).with_stem(first), one.with_stem(second))


def swap_members(run: Path, dice: random.Random) -> None:
    first, second = dice.sample([1, 2], 2)
    shutil.copy(run / f"members/member-{first}.safetensors", run / f"members/member-{second}.safetensors")


def change_settings(run: Path, dice: random.Random) -> None:
    path = table(run, dice).with_name("settings.yaml")
    old, new = dice.choice([("alpha: 0.001", "alpha: 0.01"), ("seed: 0", "seed: 1"), ("norm: l", "norm: ")])
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def change_the_recipe(run: Path, dice: random.Random) -> None:
    path = run / "recipe.yaml"
    old, new = dice.choice([("members: 2", "members: 1"), ("sigma: 0.25", "sigma: 0.5")])
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def lose_a_file(run: Path, dice: random.Random) -> None:
    dice.choice(files_of(run)).unlink()


def rename_a_file(run: Path, dice: random.Random) -> None:
    path = dice.choice(files_of(run))
    path.rename(path.with_name(f"old-{path.name}"))


def cut_a_file(run: Path, dice: random.Random) -> None:
    path = dice.choice(files_of(run))
    path.write_bytes(path.read_bytes()[: dice.randrange(path.stat().st_size)])


def swap_two_files(run: Path, dice: random.Random) -> None:
    one, two = dice.sample(files_of(run), 2)
    one_content, two_content = one.read_bytes(), two.read_bytes()
    one.write_bytes(two_content)
    two.write_bytes(one_content)


def write_a_digit(run: Path, dice: random.Random) -> None:
    path = dice.choice([path for path in files_of(run) if path.suffix != ".safetensors"])
    content = bytearray(path.read_bytes())
    place = dice.choice([k for k, byte in enumerate(content) if chr(byte).isdigit()])
    content[place] = ord(dice.choice(sorted(set("0123456789") - {chr(content[place])})))
    path.write_bytes(content)


def lose_a_digest(run: Path, dice: random.Random) -> None:
    path = run / "SHA256SUMS"
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[dice.randrange(len(lines))]
    path.write_bytes(b"".join(lines))


def add_a_table(run: Path, dice: random.Random) -> None:
    shutil.copy(table(run, dice), table(run, dice).with_name("we-best.tsv"))


def add_a_member(run: Path, dice: random.Random) -> None:
    shutil.copy(run / "members/member-1.safetensors", run / f"members/member-{dice.choice('3x')}.safetensors")


CHANGES: dict[Change, int] = {
    flip_a_bit: 70, write_a_digit: 20, delete_a_row: 8, double_a_row: 8, swap_rows: 8, write_a_cell: 20,
    zero_the_counts: 4, swap_tables: 8, swap_members: 2, swap_two_files: 8, change_settings: 6,
    change_the_recipe: 4, lose_a_file: 10, rename_a_file: 6, cut_a_file: 8, lose_a_digest: 6, add_a_table: 2,
    add_a_member: 2,
}  # fmt: skip


def test_there_are_200_changes():
    assert sum(CHANGES.values()) == 200


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with every kind of file: tuned weights, a start, several folders of certificates."""
    folder = tmp_path_factory.mktemp("whole")
    smaller = ["--set", "members=2", "--set", "schedule.epochs=1", "--set", "holdout_every=9"]
    for command in (
        ["train", "smoke", "--out", "start", *smaller],
        ["train", "smoke", "--out", "run", "--from", "start", *smaller],
        ["tune-weights", "run"],
        ["certify", "run", "--limit", "12"],
        ["certify", "run", "--limit", "12", "--radii", "0.1,0.25", "--to", "radii"],
        ["certify", "run", "--limit", "12", "--exact-noise", "--bound", "two-sided", "--to", "exact"],
        ["certify", "run", "--limit", "12", "--norm", "linf", "--to", "parts", "--shard", "1/2"],
        ["certify", "run", "--limit", "12", "--norm", "linf", "--to", "parts", "--shard", "2/2"],
        ["merge", "run", "--to", "parts"],
    ):
        with chdir(folder):
            result = CliRunner().invoke(cli.app, command, catch_exceptions=False)
        assert result.exit_code == 0, result.output
    return folder / "run"


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_every_change_is_found(change: Change, whole: Path, tmp_path: Path):
    run = Path(shutil.copytree(whole, tmp_path / "run"))
    before = {path: path.read_bytes() for path in files_of(run)}
    assert {path.name for path in before} > {"weights.yaml", "start.yaml", "we-sween.tsv", "SHA256SUMS"}
    for number in range(CHANGES[change]):
        change(run, random.Random(number))
        changed = [path for path in before if not path.exists() or path.read_bytes() != before[path]]
        verification = verify_run(run)
        assert verification.status == "changed", (number, changed, verification)
        assert len(verification.detail.splitlines()) == 1
        for path in set(files_of(run)) - set(before):
            path.unlink()
        for path in changed:
            path.write_bytes(before[path])
    assert verify_run(run).status == "verified"


def test_every_bit_of_a_packed_run_counts(whole: Path, tmp_path: Path):
    packed = tmp_path / "run.tar.xz"
    pack(whole, packed)
    content = packed.read_bytes()
    assert verify_run(packed).status == "verified"
    for number in range(20):
        dice = random.Random(number)
        flipped = bytearray(content)
        flipped[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
        packed.write_bytes(flipped)
        assert verify_run(packed).status == "changed"


OF_CERTIFICATES = [delete_a_row, double_a_row, swap_rows, write_a_cell, zero_the_counts, swap_tables]


@pytest.mark.parametrize("change", [*OF_CERTIFICATES, change_settings], ids=lambda change: change.__name__)
def test_an_interrupted_run_is_checked_from_its_counts(change: Change, run: Path):
    unsealed(run)
    verification = verify_run(run)
    assert verification.status == "interrupted"
    assert "digests, none yet of certificates/" in verification.detail
    before = {path: path.read_bytes() for path in files_of(run)}
    for number in range(10):
        change(run, random.Random(number))
        # The last row of a single table may be lost: a kill can do the same.
        lost = change is delete_a_row and any(
            before[p].startswith(p.read_bytes()) for p in before if p.read_bytes() != before[p]
        )
        assert lost or verify_run(run).status == "changed", number
        for path, content in before.items():
            path.write_bytes(content)


def test_report_and_certify_refuse_what_was_changed(shieldwall: Shieldwall, run: Path):
    we = run / "certificates/we.tsv"
    content = we.read_bytes()
    we.write_bytes(content.replace(b"\t0.", b"\t9.", 1))
    refused(shieldwall("report", run), "we.tsv is not the file that was written")
    refused(shieldwall("certify", run), "we.tsv is not the file that was written")
    we.write_bytes(content)
    member = run / "members/member-1.safetensors"
    weights = bytearray(member.read_bytes())
    weights[-5] ^= 1
    member.write_bytes(weights)
    refused(
        shieldwall("certify", run, "--limit", 31), "member-1.safetensors is not the file that was written"
    )
    assert shieldwall("report", run).code == 0  # no table depends on weights


def test_report_misses_a_table(shieldwall: Shieldwall, run: Path):
    (run / "certificates/we.tsv").unlink()
    refused(shieldwall("report", run), "we.tsv is missing; SHA256SUMS lists it")
    shutil.rmtree(run / "certificates")  # what certify advises is no change
    assert shieldwall("certify", run, "--limit", 2).code == 0
    assert verify_run(run).status == "verified"


@pytest.mark.parametrize("tables", [1, len(VOTES)])
def test_a_certification_that_was_killed_early_is_interrupted(run: Path, tables: int):
    """Its files have a header, and one of them half a line."""
    unsealed(run)
    for vote in VOTES[-tables:]:
        path = run / f"certificates/{vote}.tsv"
        path.write_bytes(path.read_bytes().partition(b"\n")[0] + b"\n0\t7")
    assert verify_run(run).status == "interrupted"


def test_shards_are_checked(shieldwall: Shieldwall, run: Path):
    assert shieldwall("certify", run, "--to", "parts", "--shard", "2/3").code == 0
    assert verify_run(run).status == "interrupted"
    path = run / "parts.shards/2-of-3/mme.tsv"
    path.write_bytes(path.read_bytes().replace(b"\t0.", b"\t1.", 1))
    assert "mme.tsv, line" in verify_run(run).detail


def test_what_cannot_be_checked_is_an_error(shieldwall: Shieldwall, run: Path, tmp_path: Path):
    refused(shieldwall("verify", tmp_path / "nothing"), "nothing does not exist")
    packed = tmp_path / "packed.tar.xz"
    pack(run, packed)
    refused(shieldwall("verify", packed, "--redraw", 1), "is a packed run, which has no weights")


def test_pretrained_members_are_as_they_were_published(shieldwall: Shieldwall):
    assert shieldwall("verify", "digits-gaussian-0.25").out.endswith(
        "verified: pretrained, every file as it was published\n"
    )


def test_a_file_of_a_run_stands_for_the_run(run: Path):
    flip_a_bit(run / "members", random.Random(0))
    for path in (run, run / "certificates", run / "certificates/we.tsv"):
        assert "is not the file that was written" in verify_run(path).detail


def test_the_command_prints_a_line_or_an_object_for_each_run(
    shieldwall: Shieldwall, run: Path, tmp_path: Path
):
    packed = tmp_path / "packed.tar.xz"
    pack(run, packed)
    done = shieldwall("verify", run, packed, FIXTURES / "gaussian-0.5.tar.xz")
    assert done.code == 0, done
    assert done.out.splitlines() == [
        f"{run}: verified: 30 inputs, 5 votes; 11 digests",
        f"{packed}: verified: 30 inputs, 5 votes; 11 digests",
        f"{FIXTURES / 'gaussian-0.5.tar.xz'}: unverified: 1000 inputs, 8 votes; made without SHA256SUMS",
    ]
    (run / "SHA256SUMS").unlink()
    done = shieldwall("verify", run, "--json")
    assert done.code == 1
    assert json.loads(done.out)["status"] == "changed"
    assert "has lost its SHA256SUMS" in json.loads(done.out)["detail"]


def test_tables_of_other_tools_are_unverified(shieldwall: Shieldwall, tmp_path: Path):
    log = tmp_path / "sigma_0.25"
    log.write_text("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t7\t7\t0.5\t1\t0:00:01\n")
    assert shieldwall("verify", log).out == f"{log}: unverified: it has no counts to check\n"


def test_a_folder_of_runs_is_not_checked_as_one(shieldwall: Shieldwall, run: Path):
    refused(shieldwall("verify", run.parent), "is a folder of runs; give each of them: shieldwall verify")
    (run.parent / "packed").mkdir()
    pack(run, run.parent / "packed" / "run.tar.xz")
    refused(shieldwall("verify", run.parent / "packed"), "is a folder of runs")


def test_a_diagnosis_leaves_a_verified_run(shieldwall: Shieldwall, run: Path):
    assert shieldwall("theory", "diagnose", run, "--limit", "1", "--draws", "60").code == 0
    assert shieldwall("verify", run).out == f"{run}: verified: 30 inputs, 5 votes; 11 digests\n"
    for name in ("SHA256SUMS", "environment.json"):
        (run / name).unlink()
    assert shieldwall("theory", "diagnose", run, "--limit", "1", "--draws", "60").code == 0
    assert not (run / "SHA256SUMS").exists()


def test_drawing_again_compares_counts(shieldwall: Shieldwall, run: Path):
    done = shieldwall("verify", run, "--redraw", 3)
    assert done.code == 0, done
    assert done.out.endswith("certificates: 3 inputs drawn again: equal counts\n")


def test_drawing_again_finds_counts_of_other_weights(shieldwall: Shieldwall, run: Path):
    """The rows of other inputs are right in themselves, and no digest is left: only the samples tell."""
    for vote in VOTES:
        path = run / f"certificates/{vote}.tsv"
        header, *rows = path.read_bytes().splitlines(keepends=True)
        indices = [row.split(b"\t")[:2] for row in rows]
        moved = zip(indices, rows[1:] + rows[:1], strict=True)
        others = [b"\t".join([*first, *row.split(b"\t")[2:]]) for first, row in moved]
        fixed = []
        for row in others:
            cells = row.split(b"\t")
            cells[4] = b"%d" % (cells[1] == cells[2])
            fixed.append(b"\t".join(cells))
        path.write_bytes(b"".join([header, *fixed]))
    (run / "SHA256SUMS").unlink()
    environment = json.loads((run / "environment.json").read_text())
    for stage in [environment["train"], environment["certify"], *environment["history"]]:
        del stage["digests"]
    (run / "environment.json").write_text(json.dumps(environment))
    assert verify_run(run).status == "unverified"
    said = verify_run(run, 2)
    assert said.status == "changed"
    assert "drawn again, they are" in said.detail


def test_a_checkpoint_with_a_flipped_bit_is_not_resumed(shieldwall: Shieldwall, tmp_path: Path):
    run = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:

        def stop(*arguments: object) -> None:
            raise KeyboardInterrupt

        patch.setattr("shieldwall.runs.folder.RunFolder.save_members", stop)
        shieldwall("train", "smoke", "--out", run)
    checkpoint = run / "checkpoint.safetensors"
    whole = checkpoint.read_bytes()
    dice = random.Random(0)
    for _ in range(50):
        content = bytearray(whole)
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
        checkpoint.write_bytes(content)
        assert verify_run(run).status == "changed"
    refused(shieldwall("train", "smoke", "--out", run), "checkpoint.safetensors is damaged", "delete it")
    checkpoint.write_bytes(whole)
    assert verify_run(run).status == "interrupted"
    assert shieldwall("train", "smoke", "--out", run).code == 0
    assert verify_run(run).status == "verified"
