"""`attack` on a trained run: its table against the attack and the answers called by hand, and the report."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from cli_tools import Shieldwall, refused, snapshot

import shieldwall as sw
from shieldwall import seeds
from shieldwall.models.attack import smoothed_pgd
from shieldwall.report.plots import accuracy_figure
from shieldwall.results.attacks import Attack
from shieldwall.results.record import read_runs
from shieldwall.results.rows import rows_of
from shieldwall.runs.attack import attack_run
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.verify import verify_run

QUICK = ["--lengths", "0.5,0.25", "--steps", "3", "--samples", "4", "--n", "100", "--every", "60"]


def test_the_table_is_what_the_attack_by_hand_finds(run: Path, shieldwall: Shieldwall) -> None:
    """The members, the loss of the mean confidences, the noise and the answers, one image at a time."""
    before = snapshot(run)
    done = shieldwall("attack", run, *QUICK)
    assert done.code == 0, done.err
    added = snapshot(run)
    text = added.pop("attack/we.tsv").decode()
    assert added == before
    assert text.splitlines()[0] == "idx\tlabel\tbroken\tlengths\tsteps\tsamples\tn\talpha\tseed"
    assert text.splitlines()[1].endswith("\t0,0.25,0.5\t3\t4\t100\t0.001\t0")
    found = Attack.parse(text, "")
    test, recipe = sw.load_data("digits").test, RunFolder(run).recipe
    assert found.indices.tolist() == list(range(0, len(test), 60))
    ensemble, noise = sw.load(run), sw.Gaussian(recipe.sigma)
    for index, truth, broken in zip(found.indices.tolist(), found.truth, found.broken, strict=True):
        x, y = test.images([index]), test.labels[[index]]
        assert y.tolist() == [truth]
        drawn = noise.sample((4, 1, 8, 8), seeds.generator("cpu", 0, "attack", index))[:, None]
        for length in (0.0, 0.25, 0.5):
            image = x
            if length:
                image = smoothed_pgd(lambda v: ensemble(v).log(), x, y, drawn, length, 3)
            assert float((image - x).norm()) <= length + 1e-5
            said = sw.predict(ensemble, image, noise=noise, n=100, seed=0, indices=[index]).labels[0]
            if said not in (truth, sw.ABSTAIN):
                assert broken == length
                break
        else:
            assert np.isinf(broken)
    shown = re.findall(r"^ *([\d.]+) +([\d.]+) *", done.out, re.MULTILINE)
    shares = [f"{100 * share:.1f}" for share in found.accuracy]
    assert shown == list(zip(["0", "0.25", "0.5"], shares, strict=True))
    assert verify_run(run).status == "verified"


def test_longer_attacks_break_more_and_members_can_be_attacked(run: Path) -> None:
    torch.set_num_threads(1)
    found = attack_run(run, vote="member-1", steps=5, samples=4, n=100, every=12)
    sigma = RunFolder(run).recipe.sigma
    assert found.lengths.tolist() == [0.0, sigma, 2 * sigma, 3 * sigma, 4 * sigma]
    assert (np.diff(found.accuracy) <= 0).all()
    assert found.accuracy[-1] < found.accuracy[0] - 0.2
    assert (run / "attack/member-1.tsv").is_file()


def test_certified_inputs_are_not_broken_and_the_report_draws_both(run: Path, shieldwall: Shieldwall) -> None:
    every = RunFolder(run).recipe.certification.every
    done = shieldwall("attack", run, "--lengths", "0.1,0.2", "--steps", "5", "--samples", "4")
    assert "warning" not in done.out
    (record,) = read_runs([run])
    found = record.attacks["we"]
    certificates = record.certificates["we"]
    assert found.indices.tolist() == certificates.indices.tolist()
    assert found.indices[1] == every
    assert (found.accuracy >= certificates.certified_accuracy(None, found.lengths)).all()
    row = next(row for row in rows_of([record]) if row.vote == "we")
    lines = {line.get_label(): line for line in accuracy_figure([row]).axes[0].get_lines()}
    assert len(lines) == 2
    drawn = lines["smoke WE under attack"]
    assert np.array_equal(drawn.get_xdata(), found.lengths)
    assert np.array_equal(drawn.get_ydata(), found.accuracy)
    assert shieldwall("report", run, "--plot", "curves.png").code == 0


def test_a_length_that_n_cannot_certify_has_a_dash(run: Path, shieldwall: Shieldwall) -> None:
    """n = 1,000 and alpha = 0.001 certify no radius above 0.25 * 2.462."""
    done = shieldwall("attack", run, "--lengths", "0.5,0.62", "--steps", "1", "--samples", "1", "--n", "100")
    assert done.code == 0, done.err
    cells = {line.split()[0]: line.split()[2] for line in done.out.splitlines() if line.strip()[:1] == "0"}
    assert cells["0.62"] == "-"
    assert float(cells["0.5"]) > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--lengths", "0.25,-1"], "must be positive"),
        (["--lengths", "nan"], "must be positive"),
        (["--lengths", "a"], "--lengths takes numbers"),
        (["--steps", "0"], "must be positive"),
        (["--vote", "eas"], "vote 'eas'"),
    ],
)
def test_impossible_attacks_are_refused(
    run: Path, shieldwall: Shieldwall, options: list[str], said: str
) -> None:
    before = snapshot(run)
    refused(shieldwall("attack", run, *options), said)
    assert snapshot(run) == before


def test_a_damaged_table_is_named_by_the_report_that_draws_it(run: Path, shieldwall: Shieldwall) -> None:
    (run / "attack").mkdir()
    (run / "attack/we.tsv").write_text("idx\tlabel\n")
    refused(shieldwall("report", run, "--plot", "curves.png"), "attack/we.tsv is damaged")
