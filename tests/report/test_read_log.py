"""One file: ours, another tool's, one cut off, and every way to be wrong."""

from pathlib import Path

import pytest

from shieldwall.errors import UserError
from shieldwall.results.logs import Log, read_log

SIX = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n"
FOREIGN = (
    SIX + "0\t3\t3\t0.852\t1\t0:00:21.514\n20\t8\t-1\t0.0\t0\t0:00:21.3\n40\t1\t8\t0.0171\t0\t0:00:21.4\n"
)


def read(folder: Path, text: str) -> Log:
    path = folder / "sigma_0.25"
    path.write_text(text)
    return read_log(path)


def test_our_log(worked: Log) -> None:
    assert worked.idx.tolist() == [0, 1, 2, 3, 4, 5]
    assert worked.label.tolist() == [0, 1, 2, 3, 4, 5]
    assert worked.predict.tolist() == [0, 1, 2, 1, -1, 5]
    assert worked.radius.tolist() == [0.5, 0.25, 0.1, 0.9, 0.0, 1.05]
    assert worked.correct.tolist() == [True, True, True, False, False, True]
    assert (worked.sigma, worked.n, worked.alpha) == (0.25, 1000, 0.001)
    assert (worked.title, worked.run, worked.vote) == ("worked", "worked", "we")


def test_foreign_log_keeps_its_whole_name(tmp_path: Path) -> None:
    log = read(tmp_path, FOREIGN)
    assert log.idx.tolist() == [0, 20, 40]
    assert log.radius.tolist() == [0.852, 0.0, 0.0171]
    assert log.correct.tolist() == [True, False, False]
    assert (log.sigma, log.n, log.alpha) == (None, None, None)
    assert (log.title, log.run, log.vote) == ("sigma_0.25",) * 3


def test_foreign_log_without_time_from_windows(tmp_path: Path) -> None:
    text = "idx\tlabel\tpredict\tradius\tcorrect\r\n0\t3\t3\t1.23e+02\t1\r\n"
    assert read(tmp_path, text).radius.tolist() == [123.0]


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    text = "idx\tlabel\tpredict\tbase\tradius\tcorrect\n0\t3\t3\t9\t0.5\t1\n"
    assert read(tmp_path, text).radius.tolist() == [0.5]


def test_parameters_that_vary_are_not_said(tmp_path: Path) -> None:
    text = SIX[:-1] + "\tn\talpha\tnoise\n"
    text += "0\t3\t3\t0.5\t1\t0\t100\t0.001\tgaussian(0.25)\n1\t3\t3\t0.5\t1\t0\t200\t0.001\tgaussian(0.5)\n"
    log = read(tmp_path, text)
    assert (log.sigma, log.n, log.alpha) == (None, None, 0.001)


def test_noise_that_is_not_gaussian_has_no_sigma(tmp_path: Path) -> None:
    assert read(tmp_path, SIX[:-1] + "\tnoise\n0\t3\t3\t0.5\t1\t0\tuniform(0.5)\n").sigma is None


@pytest.mark.parametrize("cut", range(1, len("40\t1\t8\t0.0171\t0\t0:00:21.4\n")))
def test_a_cut_last_line_is_left_out_or_whole_where_it_matters(tmp_path: Path, cut: int) -> None:
    """Cut in its time, the line still says all; cut before, it is left out."""
    log = read(tmp_path, FOREIGN[:-cut])
    kept = cut <= len("0:00:21.4")
    assert log.idx.tolist() == ([0, 20, 40] if kept else [0, 20])
    assert log.radius.tolist() == ([0.852, 0.0, 0.0171] if kept else [0.852, 0.0])


def test_a_last_number_without_newline_may_have_lost_digits(tmp_path: Path) -> None:
    text = "idx\tlabel\tpredict\tcorrect\tradius\n0\t3\t3\t1\t0.5\n1\t3\t3\t1\t1.5"
    assert read(tmp_path, text).radius.tolist() == [0.5]
    assert read(tmp_path, text + "e-05\n").radius.tolist() == [0.5, 1.5e-05]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the file is empty"),
        (SIX, "no input is certified in this file yet"),
        (SIX + "0\t3\t3", "no input is certified in this file yet"),
        ("idx\tlabel\tpredict\ttime\n0\t3\t3\t0\n", "line 1: no column radius, correct;"),
        ("idx,label,predict,radius,correct\n0,3,3,0.1,1\n", "line 1: no column idx, .*tab-separated"),
        (SIX + "0\t3\t3\t0.1\t1\n1\t3\t3\t0.1\t1\t0\n", "line 2: the header has 6 columns, this line has 5"),
        (SIX + "0\t3\t3\t0.1\t1\t0\n\n", "line 3: the header has 6 columns, this line has 1"),
        (SIX + "0\tcat\t3\t0.1\t1\t0\n", "line 2: label is 'cat', not a whole number"),
        (SIX + "0\t3\t3\tfar\t1\t0\n", "line 2: radius is 'far', not a number"),
        (SIX + "0\t3\t3\t-0.1\t1\t0\n", "line 2: radius is -0.1; it must be finite and not negative"),
        (SIX + "0\t3\t3\tnan\t1\t0\n", "line 2: radius is nan; it must be finite"),
        (SIX + "0\t3\t3\tinf\t1\t0\n", "line 2: radius is inf; it must be finite"),
        (SIX + "0\t3\t3\t0.1\t1\t0\n0\t3\t3\t0.1\t1\t0\n", "line 3: idx 0 is already on line 2"),
        (SIX + "0\t3\t3\t0.1\t0\t0\n", "line 2: correct is 0, but predict is 3 and label is 3"),
        (SIX + "0\t3\t-1\t0.0\t1\t0\n", "line 2: correct is 1, but predict is -1 and label is 3"),
        (SIX + "0\t3\t3\t0.1\t2\t0\n", "line 2: correct is 2"),
        (SIX + "0\t3\t-1\t0.5\t0\t0\n", "line 2: radius is 0.5, but an abstention certifies nothing"),
        (SIX + "0\t-1\t-1\t0.0\t1\t0\n", "line 2: label -1, predict -1; classes count from 0"),
        (SIX[:-1] + "\tn\n0\t3\t3\t0.1\t1\t0\tmany\n", "line 2: n is 'many', not a whole number"),
        (SIX[:-1] + "\tnoise\n0\t3\t3\t0.1\t1\t0\tgaussian(x)\n", "line 2: noise is 'x', not a number"),
    ],
)
def test_bad_log(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UserError, match=f"sigma_0.25.*{says}"):
        read(tmp_path, text)


def test_not_text(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(UserError, match=r"weights\.bin: this is not text"):
        read_log(path)
