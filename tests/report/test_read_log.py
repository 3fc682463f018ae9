"""One file: ours, another tool's, one cut off, and every way to be wrong."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from worked_log import read_log

from shieldwall.errors import UserError
from shieldwall.results.certificates import Certificates
from shieldwall.results.record import Log

Write = Callable[..., Path]
SIX = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n"
FOREIGN = (
    SIX + "0\t3\t3\t0.852\t1\t0:00:21.514\n20\t8\t-1\t0.0\t0\t0:00:21.3\n40\t1\t8\t0.0171\t0\t0:00:21.4\n"
)


def read(folder: Path, text: str) -> Certificates:
    path = folder / "sigma_0.25"
    path.write_text(text)
    return read_log(path).certificates


def certificates_of(path: Path) -> Certificates:
    return read_log(path).certificates


def test_our_log(worked: Log) -> None:
    found = worked.certificates
    assert found.indices.tolist() == [0, 1, 2, 3, 4, 5]
    assert found.truth.tolist() == [0, 1, 2, 3, 4, 5]
    assert found.labels.tolist() == [0, 1, 2, 1, -1, 5]
    assert found.radii.tolist() == [0.5, 0.25, 0.1, 0.9, 0.0, 1.05]
    assert found.correct.tolist() == [True, True, True, False, False, True]
    assert (found.sigma, found.fixed_n, found.alpha) == (
        0.25,
        1000,
        0.001,
    )
    assert (found.noise, found.norm, found.precision) == (
        "gaussian(0.25)",
        "l2",
        "float32",
    )
    assert (found.bound_kind, found.max_n, found.mean_n) == (
        "one-sided",
        None,
        1000,
    )
    assert (worked.title, worked.run, worked.vote) == ("worked", "worked", "we")


def test_foreign_log_keeps_its_whole_name(tmp_path: Path) -> None:
    path = tmp_path / "sigma_0.25"
    path.write_text(FOREIGN)
    named = read_log(path)
    log = named.certificates
    assert log.indices.tolist() == [0, 20, 40]
    assert log.radii.tolist() == [0.852, 0.0, 0.0171]
    assert log.correct.tolist() == [True, False, False]
    assert (
        log.sigma,
        log.fixed_n,
        log.alpha,
        log.noise,
        log.precision,
    ) == (None,) * 5
    assert (
        log.norm,
        log.bound_kind,
        log.max_n,
        log.mean_n,
    ) == ("l2", None, None, None)
    assert (named.title, named.run, named.vote) == ("sigma_0.25",) * 3


def test_foreign_log_without_time_from_windows(tmp_path: Path) -> None:
    text = "idx\tlabel\tpredict\tradius\tcorrect\r\n0\t3\t3\t1.23e+02\t1\r\n"
    assert read(tmp_path, text).radii.tolist() == [123.0]


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    text = "idx\tlabel\tpredict\tbase\tradius\tcorrect\n0\t3\t3\t9\t0.5\t1\n"
    assert read(tmp_path, text).radii.tolist() == [0.5]


def test_parameters_that_vary_are_not_said(tmp_path: Path) -> None:
    text = SIX[:-1] + "\tn\talpha\tnoise\n"
    text += "0\t3\t3\t0.5\t1\t0\t100\t0.001\tgaussian(0.25)\n1\t3\t3\t0.5\t1\t0\t200\t0.001\tgaussian(0.5)\n"
    log = read(tmp_path, text)
    assert (
        log.sigma,
        log.fixed_n,
        log.alpha,
        log.noise,
    ) == (None, None, 0.001, None)
    assert log.mean_n == 150


@pytest.mark.parametrize(
    ("noise", "draw"),
    [
        ("gaussian(0.25)", lambda rng: rng.normal(0, 0.25, 100_000)),
        ("exact-gaussian(0.25)", lambda rng: rng.normal(0, 0.25, 100_000)),
        ("uniform(0.5)", lambda rng: rng.uniform(-0.5, 0.5, 100_000)),
        ("laplace(0.5)", lambda rng: rng.laplace(0, 0.5, 100_000)),
    ],
)
def test_sigma_is_the_deviation_of_the_noise(
    tmp_path: Path, write_ours: Write, noise: str, draw: Callable[[np.random.Generator], np.ndarray]
) -> None:
    """By simulation with a fixed seed: 100,000 draws tell 2% of a deviation."""
    log = certificates_of(write_ours(tmp_path / "we.tsv", noise=noise))
    assert log.noise == noise
    assert log.sigma == pytest.approx(draw(np.random.default_rng(0)).std(), rel=0.02)


def test_the_sigma_that_a_recipe_asked_for_comes_back(tmp_path: Path, write_ours: Write) -> None:
    for noise in (f"uniform({0.25 * 3**0.5!r})", f"laplace({0.25 / 2**0.5!r})"):
        assert certificates_of(write_ours(tmp_path / "we.tsv", noise=noise)).sigma == pytest.approx(
            0.25, rel=1e-12
        )


@pytest.mark.parametrize("noise", ["salt(0.5)", "", "gaussian"])
def test_other_noise_has_no_sigma(tmp_path: Path, write_ours: Write, noise: str) -> None:
    log = certificates_of(write_ours(tmp_path / "we.tsv", noise=noise))
    assert (log.noise, log.sigma) == (noise, None)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_norm_and_precision(tmp_path: Path, write_ours: Write, norm: str) -> None:
    log = certificates_of(write_ours(tmp_path / "we.tsv", norm=norm, precision="bfloat16"))
    assert (log.norm, log.precision) == (norm, "bfloat16")
    mixed = ["tf32", *["float32"] * 5]
    assert certificates_of(write_ours(tmp_path / "we.tsv", precision=mixed)).precision is None


@pytest.mark.parametrize(
    ("bounds", "kind"),
    [
        ("two-sided", "two-sided"),
        ([f"randomized(0.{k}71)" for k in range(6)], "randomized"),
        ("after-smoothing", "after-smoothing"),
        (["two-sided", *["one-sided"] * 5], None),
    ],
)
def test_the_kind_of_bound(
    tmp_path: Path, write_ours: Write, bounds: str | list[str], kind: str | None
) -> None:
    log = certificates_of(write_ours(tmp_path / "we.tsv", bound=bounds))
    assert (log.bound_kind, log.fixed_n, log.max_n) == (
        kind,
        1000,
        None,
    )


def test_sampling_that_stopped_early(tmp_path: Path, write_ours: Write) -> None:
    draws = ["48", "48", "100000", "1234", "48", "582"]
    log = certificates_of(write_ours(tmp_path / "we.tsv", n=draws, bound="sequential(100000)"))
    assert (log.bound_kind, log.fixed_n, log.max_n) == (
        "sequential",
        None,
        100_000,
    )
    assert log.mean_n == (3 * 48 + 100_000 + 1234 + 582) / 6
    same = certificates_of(write_ours(tmp_path / "we.tsv", n="48", bound="sequential(100000)"))
    assert (same.fixed_n, same.max_n, same.mean_n) == (48, 100_000, 48)
    two = ["sequential(100)", *["sequential(200)"] * 5]
    assert certificates_of(write_ours(tmp_path / "we.tsv", n="48", bound=two)).max_n is None


def test_counts_of_several_members(tmp_path: Path, write_ours: Write) -> None:
    path = write_ours(tmp_path / "eas.tsv", counts="990,10;980,20", counts0="99,1;98,2", vote="eas")
    assert certificates_of(path).radii.tolist() == [0.5, 0.25, 0.1, 0.9, 0.0, 1.05]


def test_the_files_that_we_write(tmp_path: Path) -> None:
    """Written by the code that writes them, not by hand."""
    import torch

    from shieldwall.noise.distributions import Uniform
    from shieldwall.results.certificate_writer import CertificateWriter
    from shieldwall.smoothing.certificates import certificates_from_counts
    from shieldwall.smoothing.count_bounds import Sequential

    noise = Uniform(0.5)
    with CertificateWriter(tmp_path / "certificates", ["we"], {"seed": 7}) as folder:
        for idx, wins in ((3, 60), (6, 100)):
            counts = torch.tensor([[100 - wins, wins]])
            found = certificates_from_counts(
                torch.tensor([[1, 9]]), counts, noise, 0.01,
                bound=Sequential(100), norm="linf", size=64, precision="tf32",
            )  # fmt: skip
            folder.append(idx, 1, {"we": found}, 0.25)
    log = certificates_of(tmp_path / "certificates" / "we.tsv")
    assert (log.indices.tolist(), log.radii[1], log.alpha) == (
        [3, 6],
        float(found.radii[0]),
        0.01,
    )
    assert (log.noise, log.sigma) == (str(noise), pytest.approx(noise.sigma))
    assert (log.norm, log.precision, log.bound_kind) == (
        "linf",
        "tf32",
        "sequential",
    )
    assert (log.fixed_n, log.max_n, log.mean_n) == (100, 100, 100)


@pytest.mark.parametrize("cut", range(1, len("40\t1\t8\t0.0171\t0\t0:00:21.4\n")))
def test_a_cut_last_line_is_left_out_or_whole_where_it_matters(tmp_path: Path, cut: int) -> None:
    """Cut in its time, the line still says all; cut before, it is left out."""
    log = read(tmp_path, FOREIGN[:-cut])
    kept = cut <= len("0:00:21.4")
    assert log.indices.tolist() == ([0, 20, 40] if kept else [0, 20])
    assert log.radii.tolist() == ([0.852, 0.0, 0.0171] if kept else [0.852, 0.0])


def test_a_last_number_without_newline_may_have_lost_digits(tmp_path: Path) -> None:
    text = "idx\tlabel\tpredict\tcorrect\tradius\n0\t3\t3\t1\t0.5\n1\t3\t3\t1\t1.5"
    assert read(tmp_path, text).radii.tolist() == [0.5]
    assert read(tmp_path, text + "e-05\n").radii.tolist() == [0.5, 1.5e-05]


@pytest.mark.parametrize("column", ["noise", "bound", "n", "alpha", "norm", "precision"])
def test_a_last_setting_without_newline_may_be_cut_too(tmp_path: Path, column: str) -> None:
    cell = {"noise": "gaussian(0.25)", "bound": "sequential(100)", "norm": "linf"}.get(column, "1")
    text = f"{SIX[:-1]}\t{column}\n" + "".join(f"{idx}\t3\t3\t0.1\t1\t0\t{cell}\n" for idx in range(2))
    assert read(tmp_path, text).indices.tolist() == [0, 1]
    assert read(tmp_path, text[:-1]).indices.tolist() == [0]


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
        (SIX + "0\t-2\t-1\t0.0\t0\t0\n", "line 2: label -2, predict -1; classes count from 0"),
        (SIX[:-1] + "\tn\n0\t3\t3\t0.1\t1\t0\tmany\n", "line 2: n is 'many', not a whole number"),
        (SIX[:-1] + "\tnoise\n0\t3\t3\t0.1\t1\t0\tgaussian(x)\n", "line 2: noise is 'x', not a number"),
        (SIX[:-1] + "\tnoise\n0\t3\t3\t0.1\t1\t0\tlaplace(-1)\n", "line 2: noise is -1; it must be finite"),
        (SIX[:-1] + "\tnorm\n0\t3\t3\t0.1\t1\t0\tl3\n", "line 2: norm is 'l3', not one of l1, l2, linf"),
        (SIX[:-1] + "\tnorm\n0\t3\t3\t0.1\t1\t0\t\n", "line 2: norm is '', not one of l1, l2, linf"),
        (
            SIX[:-1] + "\tnorm\n0\t3\t3\t0.1\t1\t0\tl2\n1\t3\t3\t0.1\t1\t0\tl1\n",
            "line 3: norm is l1, but that of line 2 is l2",
        ),
        (
            SIX[:-1] + "\tbound\n0\t3\t3\t0.1\t1\t0\tsequential(many)\n",
            "line 2: bound is 'many', not a whole number",
        ),
    ],
)
def test_bad_log(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UserError, match=f"sigma_0.25.*{says}"):
        read(tmp_path, text)


def test_not_text(tmp_path: Path) -> None:
    path = tmp_path / "weights.bin"
    path.write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(UserError, match=r"weights\.bin: this is not text"):
        certificates_of(path)
