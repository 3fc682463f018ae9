"""Both smoothing strategies on a trained run: the certificates of `certify`, and estimates from its draws."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from cli_tools import Shieldwall, refused, rows, snapshot
from numpy.typing import NDArray
from torch import Tensor
from typer.testing import CliRunner

from shieldwall import cli, data
from shieldwall.noise.distributions import Gaussian
from shieldwall.results.run import Run
from shieldwall.smoothing.certificates import Certificates
from shieldwall.smoothing.plan import Plan
from shieldwall.smoothing.sample import NoiseStream
from shieldwall.stages.common import load_members
from shieldwall.stages.strategies import compare_strategies

N0, N = 100, 1_000
STRATEGIES = {"EBS-WE": "we", "EBS-MME": "mme", "EAS": "eas"}
VERDICTS = ["EBS", "EAS", "open", "premises fail"]
Columns = dict[str, list[str]]


def columns(path: Path) -> Columns:
    """The cells of a tab-separated file by the names in its first line."""
    header, *body = ([cell.decode() for cell in line] for line in rows(path))
    return dict(zip(header, map(list, zip(*body, strict=True)), strict=True))


def wins(vote: str, run: Path) -> NDArray[np.int64]:
    """How often the vote returned the true class, by input."""
    lines = columns(run / "certificates" / f"{vote}.tsv")
    pairs = zip(lines["counts"], lines["label"], strict=True)
    return np.array([int(counts.split(",")[int(label)]) for counts, label in pairs])


def numbers(cells: list[str]) -> NDArray[np.float64]:
    return np.array([float(cell) for cell in cells])


@pytest.fixture(scope="module")
def compared(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certified smoke run, both strategies compared on it: not to be changed."""
    run = Path(shutil.copytree(finished, tmp_path_factory.mktemp("compared") / "run"))
    compare_strategies(run)
    return run


@pytest.fixture(scope="module")
def three_members(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three members, hardly trained: not to be changed."""
    run = tmp_path_factory.mktemp("three") / "run"
    options = ["--set", "members=3", "--set", "schedule.epochs=1", "--out", str(run)]
    result = CliRunner().invoke(cli.app, ["train", "smoke", *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return run


def assert_certificates_are_those_of(found: Columns, folder: Path) -> None:
    """To the last digit."""
    for strategy, vote in STRATEGIES.items():
        certified = columns(folder / f"{vote}.tsv")
        assert found["idx"] == certified["idx"]
        assert found["truth"] == certified["label"]
        assert found[f"{strategy}_predict"] == certified["predict"]
        assert found[f"{strategy}_radius"] == certified["radius"]
        for setting in ("n0", "n", "alpha", "noise", "norm", "precision", "seed"):
            assert found[setting] == certified[setting]


def test_certificates_are_those_of_certify(compared: Path):
    found = columns(compared / "strategies.tsv")
    assert len(found["idx"]) == 30
    assert_certificates_are_those_of(found, compared / "certificates")
    assert found["EBS-WE_radius"] != found["EBS-MME_radius"]


def test_so_they_are_with_other_draws(shieldwall: Shieldwall, trained: Path):
    options = ["--n0", "50", "--n", "300", "--alpha", "0.01", "--every", "40", "--limit", "7", "--seed", "5"]
    assert shieldwall("certify", trained, *options).code == 0
    assert shieldwall("strategies", trained, *options).code == 0
    found = columns(trained / "strategies.tsv")
    assert found["idx"] == [str(index) for index in range(0, 280, 40)]
    assert_certificates_are_those_of(found, trained / "certificates")


def test_two_members_are_a_pair(compared: Path):
    found = columns(compared / "strategies.tsv")
    for of_pair, of_all in (("EBS", "EBS-MME"), ("EAS", "EAS")):
        assert found[f"{of_pair}_predict_1-2"] == found[f"{of_all}_predict"]
        assert found[f"{of_pair}_radius_1-2"] == found[f"{of_all}_radius"]


def test_estimates_are_frequencies_of_the_certified_draws(compared: Path):
    """P(MME = y0) = p_ab + p (p_a + p_b - 2 p_ab), where only p and p_ab are not in the certificates."""
    found = columns(compared / "strategies.tsv")
    a, b, mme = (wins(vote, compared) for vote in ("member-1", "member-2", "mme"))
    p, p_ab, p_min, delta = (numbers(found[f"{name}_1-2"]) for name in ("p", "p_ab", "p_min", "delta"))
    np.testing.assert_array_equal(p_min, np.minimum(a, b) / N)
    np.testing.assert_array_equal(delta, np.abs(a - b) / N)
    only_one = a + b - np.rint(2 * N * p_ab)
    np.testing.assert_array_equal(np.isnan(p), only_one == 0)
    np.testing.assert_allclose(p_ab + np.nan_to_num(p) * only_one / N, mme / N, atol=1e-12)
    cases = {
        "premises fail": 2 * np.minimum(a, b) <= N,
        "EBS": mme > np.maximum(a, b),
        "EAS": (2 * mme <= a + b) & (only_one > 0),
    }
    expected = np.select(list(cases.values()), list(cases), "open").tolist()
    assert found["verdict_1-2"] == expected
    assert {"EBS", "open"} <= set(expected)


def test_agreement_is_that_of_the_members_on_the_draws(compared: Path):
    """p and p_ab by running two members on one input's noise by hand."""
    found = columns(compared / "strategies.tsv")
    row = int(np.argmin(numbers(found["p_ab_1-2"])))
    index, label = int(found["idx"][row]), int(found["truth"][row])
    dataset, noise, cpu = data.load("digits"), Gaussian(0.25), torch.device("cpu")
    draws = torch.cat(list(NoiseStream(noise, dataset.shape, cpu, 0, index).take(N0 + N)))[N0:]
    noisy = noise.perturb(dataset.test.images([index])[0], draws)
    with torch.no_grad():
        confidences = [one(noisy).softmax(-1) for one in load_members(Run(compared), dataset, cpu)]
    right = torch.stack([one.argmax(-1) == label for one in confidences])
    top = torch.stack([one.topk(2).values for one in confidences])
    second_is_surer = top[1, :, 0] - top[1, :, 1] > top[0, :, 0] - top[0, :, 1]
    of_mme = torch.where(second_is_surer, right[1], right[0])
    only_one = right[0] ^ right[1]
    assert int(only_one.sum()) > 100
    assert float(found["p_ab_1-2"][row]) == int(right.all(0).sum()) / N
    assert float(found["p_1-2"][row]) == int((of_mme & only_one).sum()) / int(only_one.sum())


def test_a_pair_of_three_members_is_a_run_of_two(three_members: Path, tmp_path: Path):
    options = {"n": 200, "every": 40}
    of_three = compare_strategies(shutil.copytree(three_members, tmp_path / "three"), **options)
    assert list(of_three.pairs) == ["1-2", "1-3", "2-3"]
    for name, pair in of_three.pairs.items():
        alone = Path(shutil.copytree(three_members, tmp_path / name))
        recipe = (alone / "recipe.yaml").read_text()
        (alone / "recipe.yaml").write_text(recipe.replace("members: 3", "members: 2"))
        for place, member in enumerate(name.split("-"), start=1):
            source = three_members / "members" / f"member-{member}.safetensors"
            shutil.copy(source, alone / "members" / f"member-{place}.safetensors")
        of_two = compare_strategies(alone, **options)
        for ours, theirs in ((pair.ebs, of_two.mme), (pair.eas, of_two.eas)):
            np.testing.assert_array_equal(ours.labels, theirs.labels)
            np.testing.assert_array_equal(ours.radii, theirs.radii)
        for quantity in ("p", "p_ab", "p_min", "delta", "threshold", "verdict"):
            found = (getattr(one, quantity) for one in (pair.estimates, of_two.pairs["1-2"].estimates))
            np.testing.assert_array_equal(*found)


def test_a_vote_that_may_elect_nobody_is_never_certified(trained: Path, monkeypatch: pytest.MonkeyPatch):
    certify = Plan.certificates
    seen: list[Tensor] = []

    def watched(self: Plan, index: int, selection: Tensor, counts: Tensor) -> Certificates:
        seen.append(counts.sum(-1))
        return certify(self, index, selection, counts)

    monkeypatch.setattr(Plan, "certificates", watched)
    compare_strategies(trained, n=200, limit=5)
    assert len(seen) == 5
    assert all(draws.tolist() == [200] * 5 for draws in seen)  # two members, WE, MME, MME of the pair


def test_what_is_shown_of_two_members(shieldwall: Shieldwall, trained: Path):
    done = shieldwall("strategies", trained)
    assert done.code == 0, done.err
    found = columns(trained / "strategies.tsv")
    lines = done.out.splitlines()
    assert lines[0].startswith("comparing at 30 inputs, 6 votes")
    assert lines[-1] == f"in full: {trained / 'strategies.tsv'}"
    assert max(len(line.rstrip()) for line in lines[:-1]) <= 80
    first = next(k for k, line in enumerate(lines) if line.split()[:1] == ["idx"])
    shown = [line.split()[0] for line in lines[first + 2 : first + 22]]
    assert shown == found["idx"][:20]
    assert lines[first + 22].strip() == "the first 20 of 30 inputs"
    assert "30 inputs, n = 1,000, alpha = 0.001, gaussian(0.25)" in done.out
    counts = [str(found["verdict_1-2"].count(verdict)) for verdict in VERDICTS]
    heading = next(k for k, line in enumerate(lines) if line.split()[:4] == ["pair", "EBS", "EAS", "open"])
    assert lines[heading + 2].split()[:5] == ["1-2", *counts]


def test_what_is_shown_of_three_members(shieldwall: Shieldwall, three_members: Path, tmp_path: Path):
    run = shutil.copytree(three_members, tmp_path / "three")
    done = shieldwall("strategies", run, "--n", "100", "--all")
    lines = [line.rstrip() for line in done.out.splitlines()]
    found = columns(run / "strategies.tsv")
    assert max(map(len, lines[:-1])) <= 80
    assert "the first" not in done.out
    heading = next(k for k, line in enumerate(lines) if line.endswith("1-2   1-3   2-3"))
    pairs = ("1-2", "1-3", "2-3")
    for k, line in enumerate(lines[heading + 2 : heading + 32]):
        verdicts = [found[f"verdict_{pair}"][k] for pair in pairs]
        expected = ["-" if verdict == "premises fail" else verdict for verdict in verdicts]
        assert [line.split()[0], *line.split()[-3:]] == [found["idx"][k], *expected]
    for pair in pairs:
        counts = [found[f"verdict_{pair}"].count(verdict) for verdict in VERDICTS]
        assert any(line.split()[:5] == [pair, *map(str, counts)] for line in lines)


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        ("96", "larger pair p p_ab p_min delta threshold verdict"),
        ("95", "larger pair p threshold verdict"),
        ("74", "larger p threshold verdict"),
        ("68", "p threshold verdict"),
        ("20", "p threshold verdict"),
    ],
)
def test_a_narrow_terminal_shows_less(
    width: str, shown: str, shieldwall: Shieldwall, trained: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", width)
    lines = shieldwall("strategies", trained, "--limit", "2").out.splitlines()
    heading = next(line.rstrip() for line in lines if line.startswith("idx"))
    assert heading.split() == ["idx", "truth", *STRATEGIES, *shown.split()]
    assert len(heading) <= int(width) or width == "20"


def test_mistakes(shieldwall: Shieldwall, trained: Path, tmp_path: Path):
    before = snapshot(trained)
    refused(shieldwall("strategies", trained, "--n", "9"), "n = 9 ", "smallest n that can is 10")
    refused(shieldwall("strategies", trained, "--limit", "0"), "limit must be at least 1; given: 0")
    refused(shieldwall("strategies", tmp_path / "none"), "is not a run folder")
    assert snapshot(trained) == before
    with Run(trained).lock():
        refused(shieldwall("strategies", trained), "another process is working on")
    shutil.rmtree(trained / "members")
    refused(shieldwall("strategies", trained), "is not trained yet")


def test_one_member_has_no_strategies(shieldwall: Shieldwall, trained: Path):
    recipe = (trained / "recipe.yaml").read_text()
    (trained / "recipe.yaml").write_text(recipe.replace("members: 2", "members: 1"))
    before = snapshot(trained)
    refused(shieldwall("strategies", trained), "two members or more", f"{trained} has 1")
    assert snapshot(trained) == before
