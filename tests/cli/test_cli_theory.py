"""The theory on a trained run: what is printed and written, against the library called by hand."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from cli_tools import Outcome, Shieldwall, refused, rows, snapshot
from typer.testing import CliRunner

from shieldwall import cli
from shieldwall.data import datasets
from shieldwall.noise.distributions import Gaussian
from shieldwall.runs.diagnose import diagnose_run
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.trained import load_members
from shieldwall.smoothing.certify import noisy_confidences
from shieldwall.theory.conditions import max_margin_conditions, single_conditions, weighted_conditions
from shieldwall.theory.first_order import first_order, jackknife, smoothed_first_order, weighted_estimate
from shieldwall.theory.statistical import proxies
from shieldwall.theory.strategies import VERDICTS, pair_wins

OPTIONS = ["--every", "12", "--draws", "60"]
Columns = dict[str, list[str]]


def columns(run: Path) -> Columns:
    header, *body = ([cell.decode() for cell in line] for line in rows(run / "theory/diagnosis.tsv"))
    return dict(zip(header, map(list, zip(*body, strict=True)), strict=True))


def numbers(cells: list[str]) -> list[float]:
    return [float(cell) for cell in cells]


@pytest.fixture(scope="module")
def diagnosed(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """The certified smoke run, diagnosed at its 30 certified inputs: not to be changed."""
    run = Path(shutil.copytree(finished, tmp_path_factory.mktemp("diagnosed") / "run"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        patch.setattr(cli.console, "_width", None)
        result = CliRunner().invoke(
            cli.app, ["theory", "diagnose", str(run), *OPTIONS], catch_exceptions=False
        )
    return run, Outcome(result.exit_code, result.stdout, result.stderr)


def members_and_inputs(run: Path, indices: list[int]):
    dataset, cpu = datasets.load("digits"), torch.device("cpu")
    x, y = dataset.test.images(indices), dataset.test.labels[indices]
    return load_members(RunFolder(run), dataset, cpu), x, y


def test_certificates_are_those_of_certify(diagnosed: tuple[Path, Outcome]):
    run, _ = diagnosed
    found = columns(run)
    for vote in ("member-1", "member-2", "we", "mme"):
        header, *body = rows(run / "certificates" / f"{vote}.tsv")
        certified = dict(zip(header, zip(*body, strict=True), strict=True))
        for ours, theirs in (("idx", b"idx"), ("truth", b"label")):
            assert found[ours] == [cell.decode() for cell in certified[theirs]]
        assert found[f"{vote}_predict"] == [cell.decode() for cell in certified[b"predict"]]
        assert found[f"{vote}_radius"] == [cell.decode() for cell in certified[b"radius"]]


def test_indicators_are_those_of_the_members(diagnosed: tuple[Path, Outcome]):
    run, _ = diagnosed
    found = columns(run)
    indices = [int(cell) for cell in found["idx"]]
    members, x, y = members_and_inputs(run, indices)
    plain = first_order(members, x, y)
    single = single_conditions(plain.margins, plain.gradients, beta=0.0).eri(0.25).max(-1)
    for k in range(2):
        np.testing.assert_allclose(
            numbers(found[f"member-{k + 1}_plain_eri"]), single[k], rtol=1e-4, atol=1e-4
        )
    we = weighted_conditions(plain.margins, plain.gradients, beta=0.0).eri(0.25)
    np.testing.assert_allclose(numbers(found["we_plain_eri"]), we.max(-1), rtol=1e-4, atol=1e-4)
    rivals = plain.rivals[np.arange(len(we)), we.argmax(-1)]
    assert found["we_plain_rival"] == [str(rival) for rival in rivals]
    mme = max_margin_conditions(plain.margins, plain.gradients, beta=0.0).eri(0.25).max(-1)
    np.testing.assert_allclose(numbers(found["mme_plain_eri"]), mme, rtol=1e-4, atol=1e-4)
    soft = smoothed_first_order(members, x[3:4], y[3:4], Gaussian(0.25), draws=60, indices=indices[3:4])

    def eri(margins: np.ndarray, gradients: np.ndarray) -> np.ndarray:
        return weighted_estimate(margins, gradients, beta=0.0).eri(0.25)

    estimate = jackknife(eri, soft.margins, soft.gradients)
    worst = int(estimate.value[0].argmax())
    assert float(found["we_soft_eri"][3]) == pytest.approx(estimate.value[0, worst], abs=1e-4)
    assert float(found["we_soft_eri_error"][3]) == pytest.approx(estimate.error[0, worst], abs=1e-4)


def confidences_at(run: Path, index: int):
    """What `--draws 60` draws around one input: confidences (N, 300, K), and its class."""
    members, x, y = members_and_inputs(run, [index])
    drawn = noisy_confidences(
        members, x, Gaussian(0.25), copies=300, stream="proxies", indices=[index], dtype=torch.float64
    )
    return drawn[:, 0], int(y)


def test_proxies_are_those_of_the_members(diagnosed: tuple[Path, Outcome]):
    run, _ = diagnosed
    found = columns(run)
    expected = proxies(*confidences_at(run, int(found["idx"][2])))
    for name in ("lambda_1", "lambda_2", "mu", "s", "s_f", "threshold", "x"):
        assert float(found[name][2]) == pytest.approx(getattr(expected, name), rel=1e-4), name


def test_pairs_are_those_of_the_members(diagnosed: tuple[Path, Outcome]):
    run, done = diagnosed
    found = columns(run)
    pairs = [pair_wins(*confidences_at(run, int(index))) for index in found["idx"]]
    for name, values in (
        ("p_1", [pair.p_a for pair in pairs]),
        ("p_2", [pair.p_b for pair in pairs]),
        ("p_ab_1-2", [pair.p_ab for pair in pairs]),
        ("p_1-2", [pair.p for pair in pairs]),
    ):
        np.testing.assert_array_equal(numbers(found[name]), values)
    verdicts = [pair.verdict for pair in pairs]
    assert found["verdict_1-2"] == verdicts
    assert len(set(verdicts)) > 1
    lines = done.out.splitlines()
    heading = next(
        k for k, line in enumerate(lines) if line.split()[:6] == ["pair", "p_a", "p_b", "p_ab", "p", "EBS"]
    )
    cells = lines[heading + 2].split()
    assert cells[0] == "1-2"
    assert cells[3] == f"{np.mean(numbers(found['p_ab_1-2'])):.3f}"
    assert cells[4] == f"{np.nanmean(numbers(found['p_1-2'])):.3f}"
    assert cells[5:] == [str(verdicts.count(verdict)) for verdict in VERDICTS]


def test_what_is_shown(diagnosed: tuple[Path, Outcome]):
    run, done = diagnosed
    assert done.code == 0
    found = columns(run)
    lines = [line.rstrip() for line in done.out.splitlines()]
    assert lines[0].startswith("diagnosing at 30 inputs")
    assert max(len(line) for line in lines if str(run) not in line) <= 80
    text = done.out
    assert "unsmoothed members: ERI = slope - margin / r, r = 0.25; means over 30 inputs" in text
    we = next(line.split() for line in lines if line.startswith("WE "))
    assert we[4] == f"{np.mean(numbers(found['we_plain_eri'])):.3f}"
    measured = next(line.split() for line in lines if line.startswith("measured "))
    assert measured[1:] == [str(found["measured_winner"].count(name)) for name in ("we", "mme", "equal")]
    predicted = next(line.split() for line in lines if line.startswith("the corollary predicts"))
    x_values = np.array(numbers(found["x"]))
    assert predicted[3:] == [
        str(found["predicted_winner"].count(name)) for name in ("we", "mme", "premises fail")
    ]
    assert predicted[3:] == [
        str(int(n)) for n in ((x_values <= 0).sum(), (x_values > 0).sum(), np.isnan(x_values).sum())
    ]
    around_truth = [
        float(radius) if label == truth else 0.0
        for radius, label, truth in zip(found["we_radius"], found["we_predict"], found["truth"], strict=True)
    ]
    assert f"mean certified radius around the true class: WE {np.mean(around_truth):.3f}, MME " in text


def test_numbers_and_the_roc_curve_are_written(diagnosed: tuple[Path, Outcome]):
    run, done = diagnosed
    written = {path.name for path in (run / "theory").iterdir()}
    has_curve = "area under the ROC curve" in done.out
    assert written == {"diagnosis.tsv", *(["roc.png"] if has_curve else [])}
    if has_curve:
        assert (run / "theory/roc.png").read_bytes().startswith(b"\x89PNG")
    assert f"written: {run / 'theory/diagnosis.tsv'}" in done.out
    assert '"diagnose"' in (run / "environment.json").read_text()


def test_three_members_the_same_numbers_again(tmp_path: Path, shieldwall: Shieldwall):
    made = shieldwall("train", "smoke", "--set", "members=3", "--set", "schedule.epochs=1", "--out", "three")
    assert made.code == 0
    options = ["--limit", "3", "--draws", "30", "--n", "50", "--radius", "0.1"]
    first = shieldwall("theory", "diagnose", "three", *options)
    content = Path("three/theory/diagnosis.tsv").read_bytes()
    again = shieldwall("theory", "diagnose", "three", *options)
    assert first.code == again.code == 0
    assert Path("three/theory/diagnosis.tsv").read_bytes() == content
    found = columns(Path("three"))
    assert found["idx"] == ["0", "1", "2"]
    assert set(found["mme_soft_eri"]) == {"nan"}  # no more than two members have one
    assert all(float(cell) >= 0 for cell in found["mme_soft_certified_radius"])
    assert {"cosine_1-2", "cosine_1-3", "soft_cosine_2-3", "p_3", "p_ab_1-3", "p_2-3"} <= set(found)
    assert diagnose_run("three", limit=2, draws=30, n=50).r == 0.25


def test_mistakes(shieldwall: Shieldwall, trained: Path, tmp_path: Path):
    before = snapshot(trained)
    refused(shieldwall("theory", "diagnose", tmp_path / "none"), "is not a run folder")
    refused(shieldwall("theory", "diagnose", trained, "--radius", "0"), "positive number; given: 0.0")
    refused(shieldwall("theory", "diagnose", trained, "--draws", "10"), "3 groups or more needs a draw")
    refused(shieldwall("theory", "diagnose", trained, "--limit", "0"), "at least 1; given: 0")
    refused(shieldwall("theory", "diagnose", trained, "--n", "5"), "n = 5 ")
    assert set(snapshot(trained)) - set(before) <= {".lock"}
    with RunFolder(trained).lock():
        refused(shieldwall("theory", "diagnose", trained, "--limit", "1"), "another process")
    (trained / "SHA256SUMS").unlink()
    recipe = trained / "recipe.yaml"
    text = recipe.read_text()
    recipe.write_text(text.replace("noise: gaussian", "noise: laplace"))
    refused(shieldwall("theory", "diagnose", trained), "Gaussian noise", "laplace")
    recipe.write_text(text.replace("members: 2", "members: 1"))
    refused(shieldwall("theory", "diagnose", trained), "two members or more", "has 1")


def test_the_verb_has_help():
    result = CliRunner().invoke(cli.app, ["theory", "diagnose", "--help"])
    assert result.exit_code == 0
    assert " theory diagnose [OPTIONS]" in result.output


def test_stages_and_theory_do_not_see_the_report():
    code = """
import sys, shieldwall.runs.diagnose
print(*(name for name in sys.modules if name.startswith('shieldwall.report')))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
