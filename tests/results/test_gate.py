"""A gate for pipelines: a lower bound on certified accuracy, and a paired comparison."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

import shieldwall as sw
from shieldwall.results.gate import gate

RUN = Path(__file__).parents[2] / "results/digits/gaussian-0.25.tar.xz"


def made(radii: list[float], start: int = 0) -> dict[str, sw.Certificates]:
    zeros = np.zeros(len(radii), dtype=np.int64)
    indices = np.arange(start, start + len(radii))
    return {"we": sw.Certificates(zeros, np.array(radii), truth=zeros, indices=indices)}


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_lower_bound_is_that_of_clopper_and_pearson(confidence: float) -> None:
    run = made([0.5] * 80 + [0.1] * 20)
    test = binomtest(80, 100, alternative="greater")
    bound = test.proportion_ci(confidence).low
    for at_least, passed in ((bound - 1e-9, True), (bound + 1e-9, False)):
        verdict = gate(run, 0.25, at_least, vote="we", confidence=confidence)
        assert verdict.lower_bound == pytest.approx(bound, rel=1e-9)
        assert (verdict.passed, verdict.certified_accuracy) == (passed, 0.8)


@pytest.mark.parametrize(("lost", "won"), [(12, 2), (5, 5), (6, 0), (2, 12), (4, 0)])
def test_worse_is_decided_by_the_exact_one_sided_test(lost: int, won: int) -> None:
    before = made([0.5] * (50 + lost) + [0.0] * won)
    after = made([0.5] * 50 + [0.0] * lost + [0.5] * won)
    verdict = gate(after, 0.25, 0.0, vote="we", not_worse_than=before, other="before")
    p_value = binomtest(lost, lost + won, alternative="greater").pvalue
    assert verdict.passed == (p_value > 0.05)
    assert verdict.p_value == (pytest.approx(p_value) if lost > won else 1.0)
    said = "worse than before" if p_value <= 0.05 else "not shown to be worse than before"
    assert said in str(verdict)


def test_other_inputs_are_not_compared() -> None:
    with pytest.raises(sw.UserError, match="the same inputs"):
        gate(made([0.5] * 5), 0.25, 0.5, vote="we", not_worse_than=made([0.5] * 5, start=1))
    with pytest.raises(sw.UserError, match="no certificates of 'mme'; choose from we"):
        gate(made([0.5]), 0.25, 0.5, vote="mme")
    for wrong in ({"confidence": 1.5}, {"at_least": 60}):
        with pytest.raises(sw.UserError, match="must lie between 0 and 1"):
            gate(made([0.5]), **{"radius": 0.25, "at_least": 0.5, "vote": "we", **wrong})


def test_the_command_line_exits_with_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    from typer.testing import CliRunner

    from shieldwall.cli import app

    expected = gate(sw.read(RUN), 0.25, 0.85, run=str(RUN), vote="we")
    passed = CliRunner().invoke(app, ["gate", str(RUN), "--at", "0.25", "--at-least", "0.85"])
    assert (passed.exit_code, passed.output.count("\n")) == (0, 1)
    assert passed.output.strip() == str(expected)
    assert "certified accuracy at 0.25 is 92.2%, at least 89.5%" in passed.output
    options = ["--at-least", "0.95", "--vote", "mme", "--not-worse-than", str(RUN), "--json"]
    failed = CliRunner().invoke(app, ["gate", str(RUN), "--at", "0.25", *options])
    assert failed.exit_code == 1
    said = json.loads(failed.output)
    assert (said["passed"], said["vote"], said["p_value"], said["other"]) == (False, "mme", 1.0, str(RUN))
