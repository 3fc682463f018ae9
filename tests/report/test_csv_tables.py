"""CSV: every row of the table at every radius, once, at full precision, with intervals."""

import csv
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from shown import as_csv, averaged, write_table
from worked_log import WORKED, changed, read_logs

from shieldwall.errors import UserError
from shieldwall.report.formats import COLUMNS
from shieldwall.results.intervals import of_proportion
from shieldwall.results.record import Log
from shieldwall.results.rows import envelope_rows

Write = Callable[..., Path]


def read(text: str) -> list[dict[str, str]]:
    assert "\r" not in text
    return list(csv.DictReader(StringIO(text)))


def test_one_log(worked: Log) -> None:
    lines = read(as_csv([changed(worked, run='a, "b"')], [0.25]))
    assert [line["radius"] for line in lines] == ["0.0", "0.25"]
    assert list(lines[0]) == list(COLUMNS)
    last = lines[1]
    low, high = of_proportion([3], 6)
    assert (last["certified_accuracy"], last["low"], last["high"]) == (
        "0.5",
        repr(float(low[0])),
        repr(float(high[0])),
    )
    assert float(last["acr"]) == pytest.approx(1.9 / 6)
    assert {name: last[name] for name in COLUMNS[:13]} == {
        "kind": "log", "run": 'a, "b"', "vote": "we", "sigma": "0.25", "sigmas": "0.25",
        "noise": "gaussian(0.25)", "norm": "l2", "n": "1000", "alpha": "0.001", "precision": "float32",
        "bound": "one-sided", "inputs": "6", "seeds": "1",
    }  # fmt: skip
    assert (last["interval"], last["deviation"], last["acr_deviation"]) == ("clopper-pearson", "", "")
    assert float(last["abstained"]) == 1 / 6


def test_what_a_log_does_not_say_is_empty(worked: Log) -> None:
    foreign = changed(worked, n=None, alpha=None, noise=None, precision=None, bound=None)
    line = read(as_csv([foreign]))[0]
    assert [line[name] for name in ("sigma", "noise", "n", "alpha", "precision", "bound")] == [""] * 6


def test_what_is_shown_as_one_is_there_once(tmp_path: Path, write_run: Write) -> None:
    for sigma in (0.25, 0.5):
        for seed in range(2):
            lines = WORKED if seed else [(0, 0, 0, "0.75"), *WORKED[1:]]
            folder = tmp_path / f"{sigma}-{seed}"
            write_run(folder, f"digits-{sigma}", ["we"], lines, sigma=sigma, seed=seed)
    rows = averaged(read_logs(sorted(tmp_path.iterdir())))
    lines = read(as_csv(rows, [0.75]))
    assert [line["kind"] for line in lines] == ["seeds"] * 4
    seeds = lines[1]
    assert (seeds["run"], seeds["seeds"], seeds["interval"]) == (
        "digits-0.25",
        "2",
        "clopper-pearson and student-t",
    )
    assert float(seeds["certified_accuracy"]) == pytest.approx(3 / 12)
    assert float(seeds["deviation"]) == pytest.approx(1 / 6 / 2**0.5)

    best = read(as_csv(envelope_rows(rows), [0.75]))
    assert [line["kind"] for line in best] == ["envelope"] * 2
    assert (best[-1]["sigma"], best[-1]["sigmas"]) == ("", "0.25 0.5")
    assert best[-1]["interval"] == "clopper-pearson and student-t all sigmas at once"
    assert (best[-1]["acr"], best[-1]["abstained"], best[-1]["noise"]) == ("", "", "")


def test_a_row_beside_an_envelope_keeps_sigma_a_number(tmp_path: Path, write_run: Write) -> None:
    for name, sigma in (("digits-0.25", 0.25), ("digits-0.5", 0.5), ("letters-0.5", 0.5)):
        write_run(tmp_path / name, name, ["we"], sigma=sigma)
    lines = read(as_csv(envelope_rows(averaged(read_logs(sorted(tmp_path.iterdir())))), [0.5]))
    assert [(line["kind"], line["run"], line["sigma"], line["sigmas"]) for line in lines[::2]] == [
        ("envelope", "digits", "", "0.25 0.5"),
        ("log", "letters-0.5", "0.5", "0.5"),
    ]


@pytest.mark.parametrize("name", ["t.tex", "t.md", "t.csv", "T.CSV"])
def test_files_by_suffix_the_same_each_time(tmp_path: Path, worked: Log, name: str) -> None:
    for folder in ("a", "b"):
        write_table([worked], tmp_path / folder / name, [0.25], intervals=True)
    content = (tmp_path / "a" / name).read_bytes()
    assert content == (tmp_path / "b" / name).read_bytes()
    assert content.endswith(b"\n")
    assert {"t.tex": b"% needs", "t.md": b"certified accuracy", "t.csv": b"kind,", "T.CSV": b"kind,"}[
        name
    ] in content


def test_other_suffixes_are_refused(tmp_path: Path, worked: Log) -> None:
    with pytest.raises(UserError, match=r"t\.xlsx: a table is written as \.tex, \.md or \.csv"):
        write_table([worked], tmp_path / "t.xlsx")
    assert list(tmp_path.glob("t.*")) == []
