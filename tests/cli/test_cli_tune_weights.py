"""Tuned weights: held-out images, one more vote, equal weights beside it."""

from pathlib import Path

import pytest
import torch
import yaml
from cli_tools import Outcome, Shieldwall, refused

from shieldwall import certificates_from_counts, load_data, recipes
from shieldwall.ensembles.votes import weighted
from shieldwall.ensembles.weights import certified_accuracy, grid_search_weights
from shieldwall.noise.distributions import Gaussian, Laplace, Noise, Uniform
from shieldwall.recipes import Certification
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.trained import held_out_part, load_members, training_part
from shieldwall.runs.tune_weights import copies_needed
from shieldwall.runs.verify import verify_run
from shieldwall.smoothing.certify import noisy_confidences


@pytest.fixture
def held_out_run(shieldwall: Shieldwall, tmp_path: Path) -> Path:
    folder = tmp_path / "held-out"
    done = shieldwall(
        "train", "smoke", "--set", "holdout_every=5", "--set", "schedule.epochs=1", "--out", folder
    )
    assert done.code == 0, done.err
    return folder


def test_held_out_images_are_those_that_training_does_not_see() -> None:
    recipe = recipes.override(recipes.get("smoke"), ["holdout_every=5"])
    dataset = load_data("digits")
    seen, unseen = training_part(recipe, dataset), held_out_part(recipe, dataset)
    assert len(seen) + len(unseen) == len(dataset.train)
    assert unseen.images([1]).equal(dataset.train.images([5]))
    assert seen.images([4]).equal(dataset.train.images([6]))
    assert unseen.labels.equal(dataset.train.labels[::5])


@pytest.mark.parametrize("method", ["sween", "grid"])
def test_weights_are_kept_and_certified_as_one_more_vote(
    shieldwall: Shieldwall, held_out_run: Path, method: str
) -> None:
    done = shieldwall("tune-weights", held_out_run, "--method", method, "--copies", "3")
    assert done.code == 0, done.err
    names = [line.split()[0] for line in done.out.splitlines()[1:]]
    assert names == ["equal", f"we-{method}"]
    weights = yaml.safe_load((held_out_run / "weights.yaml").read_text())[method]
    assert len(weights) == 2
    assert sum(weights) == pytest.approx(1.0)
    assert verify_run(held_out_run).status == "verified"
    done = shieldwall("certify", held_out_run, "--limit", "2", "--n", "100", "--to", f"with-{method}")
    assert done.code == 0, done.err
    lines = (held_out_run / f"with-{method}" / f"we-{method}.tsv").read_text().splitlines()
    assert len(lines) == 3
    assert lines[1].endswith(f"we-{method}")


def test_weights_for_certified_accuracy_are_another_vote(
    shieldwall: Shieldwall, held_out_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the library called by hand, and certificates from counts."""
    monkeypatch.setenv("COLUMNS", "100")
    options = ["--method", "grid", "--objective", "certified", "--radius", "0.25", "--copies", "20"]
    assert shieldwall("tune-weights", held_out_run, "--method", "grid", "--copies", "3").code == 0
    done = shieldwall("tune-weights", held_out_run, *options)
    assert done.code == 0, done.err
    kept = yaml.safe_load((held_out_run / "weights.yaml").read_text())
    assert list(kept) == ["grid", "grid-0.25"]

    run, dataset = RunFolder(held_out_run), load_data("digits")
    noise, certification = Gaussian(0.25), run.recipe.certification
    images = held_out_part(run.recipe, dataset)
    members = load_members(run, dataset, torch.device("cpu"))
    confidences = noisy_confidences(members, images, noise, copies=20, seed=run.recipe.seed)
    needed = copies_needed(noise, 0.25, 20, certification)
    expected = grid_search_weights(confidences, images.labels, score=certified_accuracy(needed))
    assert kept["grid-0.25"] == pytest.approx(expected.tolist())

    lines = [line.split() for line in done.out.splitlines()[1:]]
    for cells, weights in zip(lines, ([0.5, 0.5], kept["grid-0.25"]), strict=True):
        combined = weighted(confidences.flatten(1, 2), torch.tensor(weights)).reshape(len(images), 20, -1)
        correct = (combined.argmax(-1) == images.labels[:, None]).sum(-1)
        assert cells[-1] == f"{100 * (correct >= needed).double().mean():.2f}%"
    assert float(lines[1][-1][:-1]) >= float(lines[0][-1][:-1])

    done = shieldwall("certify", held_out_run, "--limit", "2", "--n", "100", "--votes", "we-grid-0.25")
    assert done.code == 0, done.err
    assert (held_out_run / "certificates" / "we-grid-0.25.tsv").is_file()


@pytest.mark.parametrize("noise", [Gaussian(0.5), Uniform(0.5), Laplace(0.5)])
@pytest.mark.parametrize("radius", [0.0, 0.2, 0.35])
def test_copies_needed_are_those_of_certificates(noise: Noise, radius: float) -> None:
    n, copies = 200, 30
    plan = Certification(n0=10, n=n, alpha=0.01)
    counts = torch.tensor([[k, n - k] for k in range(n + 1)])
    certificates = certificates_from_counts(counts, counts, noise, 0.01)
    is_certified = (certificates.labels == 0) & (certificates.radii >= radius)
    fewest = min(k for k in range(n + 1) if is_certified[k])
    expected = min(k for k in range(copies + 1) if k * n >= fewest * copies)
    assert copies_needed(noise, radius, copies, plan) == expected


def test_mistakes(shieldwall: Shieldwall, held_out_run: Path, trained: Path, tmp_path: Path) -> None:
    def tune(*options: str) -> Outcome:
        return shieldwall("tune-weights", held_out_run, *options)

    refused(tune("--method", "swen"), "did you mean 'sween'")
    refused(tune("--method", "grid", "--objective", "certifed", "--radius", "1"), "did you mean 'certified'")
    refused(tune("--objective", "certified", "--radius", "1"), "use --method grid")
    refused(tune("--method", "grid", "--objective", "certified"), "--radius go together")
    refused(tune("--method", "grid", "--radius", "0.5"), "--radius go together")
    certified = ["--method", "grid", "--objective", "certified", "--radius"]
    refused(tune(*certified, "-1"), "0 or a positive number; given: -1")
    refused(tune(*certified, "9"), "no image can be certified at radius 9 with gaussian(0.25) and n = 1,000")
    refused(tune(*certified, "0.1", "--copies", "0"), "--copies must be at least 1; given: 0")
    assert not (held_out_run / "weights.yaml").exists()
    refused(shieldwall("tune-weights", trained), "--set holdout_every=10")
    RunFolder(held_out_run).note_environment("train", {"data_sha256": 64 * "f"})
    refused(tune(), "was trained on other images than those of digits that are found now")
    refused(shieldwall("train", "smoke", "--set", "holdout_every=1", "--out", tmp_path / "bad"), "at least 2")
