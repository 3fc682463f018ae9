"""verify finds what was changed in a run, and accepts what verbs left, finished or not."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_tools import VOTES, Shieldwall, refused, unsealed

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
    return run / "certificates" / f"{dice.choice(VOTES)}.tsv"


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
    shutil.copy(run / f"certificates/{first}.tsv", run / f"certificates/{second}.tsv")


def swap_members(run: Path, dice: random.Random) -> None:
    first, second = dice.sample([1, 2], 2)
    shutil.copy(run / f"members/member-{first}.safetensors", run / f"members/member-{second}.safetensors")


def change_settings(run: Path, dice: random.Random) -> None:
    path = run / "certificates/settings.yaml"
    old, new = dice.choice(
        [("alpha: 0.001", "alpha: 0.01"), ("seed: 0", "seed: 1"), ("norm: l2", "norm: l1")]
    )
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def change_the_recipe(run: Path, dice: random.Random) -> None:
    path = run / "recipe.yaml"
    old, new = dice.choice([("members: 2", "members: 1"), ("sigma: 0.25", "sigma: 0.5")])
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def lose_a_file(run: Path, dice: random.Random) -> None:
    dice.choice(files_of(run)).unlink()


def add_a_table(run: Path, dice: random.Random) -> None:
    shutil.copy(table(run, dice), run / "certificates/we-best.tsv")


CHANGES: dict[Change, int] = {
    flip_a_bit: 100, delete_a_row: 10, double_a_row: 10, swap_rows: 10, write_a_cell: 20, zero_the_counts: 5,
    swap_tables: 10, swap_members: 5, change_settings: 10, change_the_recipe: 10, lose_a_file: 8,
    add_a_table: 2,
}  # fmt: skip


def test_there_are_200_changes():
    assert sum(CHANGES.values()) == 200


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_every_change_is_found(change: Change, run: Path):
    assert verify_run(run).status == "verified"
    before = {path: path.read_bytes() for path in files_of(run)}
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


OF_CERTIFICATES = [delete_a_row, double_a_row, swap_rows, write_a_cell, zero_the_counts, swap_tables]


@pytest.mark.parametrize("change", [*OF_CERTIFICATES, change_settings], ids=lambda change: change.__name__)
def test_an_interrupted_run_is_checked_from_its_counts(change: Change, run: Path):
    unsealed(run)
    verification = verify_run(run)
    assert verification.status == "interrupted"
    assert "no digest yet of certificates/" in verification.detail
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


def test_the_command_prints_a_line_or_an_object_for_each_run(
    shieldwall: Shieldwall, run: Path, tmp_path: Path
):
    packed = tmp_path / "packed.tar.xz"
    pack(run, packed)
    done = shieldwall("verify", run, packed, FIXTURES / "gaussian-0.5.tar.xz")
    assert done.code == 0, done
    assert done.out.splitlines() == [
        f"{run}: verified: 30 inputs, 5 votes, 11 digests",
        f"{packed}: verified: 30 inputs, 5 votes, 11 digests",
        f"{FIXTURES / 'gaussian-0.5.tar.xz'}: unverified: made without SHA256SUMS; 1000 inputs, 8 votes, "
        "as their counts give",
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
    for stage in [environment["certify"], *environment["history"]]:
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
