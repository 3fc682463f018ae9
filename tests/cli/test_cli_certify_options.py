"""What each option of `shieldwall certify` does to the files, and what it refuses."""

import io
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from cli_tools import Shieldwall, counts, lines, refused, snapshot, timeless, unsealed
from rich.console import Console
from scipy.stats import beta, norm
from torch import Tensor, nn

from shieldwall import UserError
from shieldwall.console import progress_bar
from shieldwall.results.record import read_runs
from shieldwall.runs.certify import certify_share
from shieldwall.runs.verify import verify_run
from shieldwall.smoothing.certificates import Counts
from shieldwall.smoothing.sampler import Sampler
from shieldwall.smoothing.trial import Build

SIGMA, N, ALPHA, PIXELS = 0.25, 1_000, 0.001, 64
EAS = "eas"

OPTIONS = {
    "two-sided": ["--bound", "two-sided"],
    "linf": ["--norm", "linf"],
    "l1": ["--norm", "l1"],
    "tf32": ["--precision", "tf32"],
    "float16": ["--precision", "float16", "--limit", "10"],
    "bfloat16": ["--precision", "bfloat16", "--limit", "10"],
    "exact": ["--exact-noise"],
    "radii": ["--radii", "0.25,0.5"],
    "radii-linf": ["--radii", "0.03,0.06", "--norm", "linf"],
    "correct-only": ["--correct-only"],
    "correct-only-radii": ["--correct-only", "--radii", "0.25,0.5"],
}
PLAIN = {"bound": "one-sided", "noise": "gaussian(0.25)", "norm": "l2", "precision": "float32"}
RECORDED = {
    "two-sided": {"bound": "two-sided(0.05)"},
    "linf": {"norm": "linf"},
    "l1": {"norm": "l1"},
    "tf32": {"precision": "tf32"},
    "float16": {"precision": "float16"},
    "bfloat16": {"precision": "bfloat16"},
    "exact": {"noise": "exact-gaussian(0.25)"},
    "radii": {"bound": "sequential(1000,0.35,0.25)"},
    "radii-linf": {"bound": "sequential(1000,0.35,0.25)", "norm": "linf"},
    "correct-only": {},
    "correct-only-radii": {"bound": "sequential(1000,0.35,0.25)"},
}
"""What is written in place of the plain cells."""
BOUND_AFTER_SMOOTHING = {
    "one-sided": "after-smoothing",
    "two-sided(0.05)": "after-smoothing-two-sided(0.05)",
    "sequential(1000,0.35,0.25)": "after-smoothing-sequential(1000,0.35,0.25)",
}


@pytest.fixture(scope="module")
def certified(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The smoke run, with a folder of 30 certified inputs for each of the options."""
    from typer.testing import CliRunner

    from shieldwall import cli

    torch.set_num_threads(1)
    run = Path(shutil.copytree(finished, tmp_path_factory.mktemp("options") / "run"))
    for name, options in OPTIONS.items():
        result = CliRunner().invoke(cli.app, ["certify", str(run), "--to", name, *options])
        assert result.exit_code == 0, result.output
    return run


def chosen(line: dict[str, str]) -> int:
    return int(np.argmax(counts(line["counts0"])))


def wins(line: dict[str, str]) -> int:
    return counts(line["counts"])[chosen(line)]


def votes_of(run: Path, folder: str = "certificates") -> dict[str, list[dict[str, str]]]:
    """Without EAS, whose counts are the members'."""
    return {vote: found for vote, found in lines(run, folder).items() if vote != EAS}


def every_line(run: Path, folder: str = "certificates") -> list[dict[str, str]]:
    return [line for found in votes_of(run, folder).values() for line in found]


def beside_plain(run: Path, folder: str) -> list[tuple[dict[str, str], dict[str, str]]]:
    """The folder's lines, each with that of the plain run for the same vote and input."""
    plain = votes_of(run)
    return [
        (ours, theirs)
        for vote, found in votes_of(run, folder).items()
        for ours, theirs in zip(found, plain[vote], strict=False)
    ]


def column(run: Path, folder: str, name: str) -> list[str]:
    return [line[name] for found in lines(run, folder).values() for line in found]


@pytest.mark.parametrize("name", OPTIONS)
def test_every_line_of_every_file_says_what_it_was_made_with(name: str, certified: Path):
    expected = {**PLAIN, **RECORDED[name]}
    for vote, found in lines(certified, name).items():
        assert [line["idx"] for line in found] == [str(12 * place) for place in range(len(found))]
        for line in found:
            cells = {column: line[column] for column in PLAIN}
            bound = BOUND_AFTER_SMOOTHING[expected["bound"]] if vote == EAS else expected["bound"]
            bound = bound if int(line["n"]) else "not bounded"
            assert cells == {**expected, "bound": bound}
            assert (line["alpha"], line["seed"], line["vote"]) == ("0.001", "0", vote)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("two-sided", {"bound": "two-sided(0.05)"}),
        ("linf", {"norm": "linf"}),
        ("bfloat16", {"precision": "bfloat16", "inputs": 10}),
        ("exact", {"noise": "exact-gaussian(0.25)"}),
        ("radii-linf", {"radii": [0.03, 0.06], "norm": "linf", "n": 1_000}),
        ("correct-only", {"correct_only": True}),
    ],
)
def test_the_settings_say_it_too(name: str, said: dict[str, object], certified: Path):
    plain, settings = (
        yaml.safe_load((certified / folder / "settings.yaml").read_text())
        for folder in ("certificates", name)
    )
    assert settings == {**plain, **said}


@pytest.mark.parametrize("name", ["two-sided", "linf", "l1"])
def test_bound_and_norm_change_no_draw(name: str, certified: Path):
    for cell in ("counts", "counts0", "n", "n0", "label"):
        assert column(certified, name, cell) == column(certified, "certificates", cell)


def test_two_sided_bounds_follow_from_the_counts(certified: Path):
    for line in every_line(certified, "two-sided"):
        k = wins(line)
        runner_up = max(count for label, count in enumerate(counts(line["counts"])) if label != chosen(line))
        p_lower = beta.ppf(0.95 * ALPHA, k, N - k + 1)
        p_upper = min(1 - p_lower, beta.ppf(1 - 0.05 * ALPHA, runner_up + 1, N - runner_up))
        assert float(line["p_lower"]) == pytest.approx(p_lower, rel=1e-9)
        assert float(line["p_upper"]) == pytest.approx(p_upper, rel=1e-9)
        radius = max(0.0, SIGMA / 2 * (norm.ppf(p_lower) - norm.ppf(p_upper)))
        assert float(line["radius"]) == pytest.approx(radius, rel=1e-9, abs=1e-12)
        assert int(line["predict"]) == (chosen(line) if radius > 0 else -1)
    uses_the_runner_up = [
        float(line["p_upper"]) < 1 - float(line["p_lower"]) for line in every_line(certified, "two-sided")
    ]
    assert 0 < sum(uses_the_runner_up) < len(uses_the_runner_up)


def test_radii_in_another_norm_are_those_of_the_largest_ball_inside(certified: Path):
    plain = [float(cell) for cell in column(certified, "certificates", "radius")]
    assert sum(radius > 0 for radius in plain) > 100
    linf = [float(cell) for cell in column(certified, "linf", "radius")]
    assert linf == pytest.approx([radius / np.sqrt(PIXELS) for radius in plain], rel=1e-12)
    assert column(certified, "l1", "radius") == column(certified, "certificates", "radius")
    assert column(certified, "linf", "predict") == column(certified, "certificates", "predict")


@pytest.mark.parametrize("name", ["radii", "radii-linf"])
def test_stopping_early_takes_the_first_of_the_same_draws(name: str, certified: Path):
    for ours, plain in beside_plain(certified, name):
        assert ours["counts0"] == plain["counts0"]
        assert sum(counts(ours["counts"])) == int(ours["n"]) <= N
        assert (np.array(counts(ours["counts"])) <= counts(plain["counts"])).all()
    draws = [tuple(line["n"] for line in found) for found in lines(certified, name).values()]
    assert len(set(draws)) == 1, "all votes of an input stop together"
    assert 40 <= min(map(int, draws[0])) < N
    assert len(set(draws[0])) > 3


@pytest.mark.parametrize(("name", "radii"), [("radii", (0.0, 0.25, 0.5)), ("radii-linf", (0.0, 0.03, 0.06))])
def test_what_is_certified_at_the_radii_is_nearly_what_all_draws_certify(
    name: str, radii: tuple[float, ...], certified: Path
):
    scale = np.sqrt(PIXELS) if name == "radii-linf" else 1.0
    pairs = [(float(a["radius"]), float(b["radius"]) / scale) for a, b in beside_plain(certified, name)]
    ours, plain = (np.array(side) for side in zip(*pairs, strict=True))
    for radius in radii:
        here, there = ((side > 0) & (side >= radius) for side in (ours, plain))
        assert 0 < there.sum() < len(pairs)
        assert (here != there).mean() <= 0.05
        assert (np.abs(plain - radius)[here != there] < 0.05 / scale).all()


@pytest.mark.parametrize(
    ("name", "plain"), [("correct-only", "certificates"), ("correct-only-radii", "radii")]
)
def test_correct_only_leaves_out_the_bounds_of_inputs_that_count_nowhere(
    name: str, plain: str, certified: Path, shieldwall: Shieldwall, tmp_path: Path
):
    ours, theirs = votes_of(certified, name), votes_of(certified, plain)
    wrong = [
        all(chosen(found[row]) != int(found[row]["label"]) for found in theirs.values()) for row in range(30)
    ]
    assert 0 < sum(wrong) < 30
    for vote, found in lines(certified, name).items():
        for row, (line, full) in enumerate(zip(found, lines(certified, plain)[vote], strict=True)):
            if wrong[row]:
                given = [line[cell] for cell in ("predict", "radius", "correct", "n", "bound", "counts0")]
                assert given == ["-1", "0.0", "0", "0", "not bounded", full["counts0"]]
            else:
                assert {**line, "time": ""} == {**full, "time": ""}
    tables = []
    for folder in (name, plain):
        assert shieldwall("report", certified / folder, "--table", tmp_path / f"{folder}.md").code == 0
        tables.append((tmp_path / f"{folder}.md").read_text().splitlines())
    rows, full_rows = ([line.split("|") for line in table if line.startswith("| smoke")] for table in tables)
    assert [row[2:-3] for row in rows] == [row[2:-4] for row in full_rows]  # all but abst. and inputs
    assert "wrong classes not bounded" in "\n".join(tables[0])
    assert ours.keys() == theirs.keys()


def test_only_wrong_classes_may_lack_a_bound(certified: Path, tmp_path: Path):
    run = Path(shutil.copytree(certified, tmp_path / "run"))
    unsealed(run, "correct-only")
    settings = run / "correct-only/settings.yaml"
    settings.write_text(settings.read_text().replace("correct_only: true\n", ""))
    with pytest.raises(UserError, match="no samples for a bound"):
        read_runs([run / "correct-only"])


def test_exact_noise_draws_other_noise_and_buys_the_same_radii(certified: Path):
    assert column(certified, "exact", "counts") != column(certified, "certificates", "counts")
    for line in every_line(certified, "exact"):
        radius = max(0.0, SIGMA * norm.ppf(beta.ppf(ALPHA, wins(line), N - wins(line) + 1)))
        assert radius * (1 - 1e-9) <= float(line["radius"]) <= radius
    agreeing = [ours["predict"] == plain["predict"] for ours, plain in beside_plain(certified, "exact")]
    assert np.mean(agreeing) > 0.9


@pytest.mark.parametrize(("name", "most"), [("float16", 5), ("bfloat16", 40)])
def test_a_smaller_precision_is_another_classifier_close_to_the_first(name: str, most: int, certified: Path):
    moved = [
        np.abs(np.subtract(counts(ours["counts"]), counts(plain["counts"]))).sum() / 2
        for ours, plain in beside_plain(certified, name)
    ]
    assert 0 < max(moved) <= most


def test_what_any_options_made_is_verified(certified: Path):
    assert verify_run(certified).status == "verified"


@pytest.mark.parametrize("name", OPTIONS)
def test_going_on_gives_the_same_bytes(name: str, shieldwall: Shieldwall, certified: Path, trained: Path):
    assert shieldwall("certify", trained, *OPTIONS[name], "--limit", 2).code == 0
    unsealed(trained)
    with (trained / "certificates/we.tsv").open("ab") as file:
        file.write(b"24\t5\t5\t0.1")
    assert shieldwall("certify", trained, *OPTIONS[name], "--limit", 4).code == 0
    assert timeless(trained) == timeless(certified, 4, folder=name)


@pytest.mark.parametrize("size", [400, 7])
@pytest.mark.parametrize("name", ["radii", "exact", "correct-only"])
def test_the_batch_size_changes_the_time_alone(
    name: str, size: int, shieldwall: Shieldwall, certified: Path, trained: Path
):
    assert shieldwall("certify", trained, *OPTIONS[name], "--limit", 3, "--batch-size", size).code == 0
    assert timeless(trained) == timeless(certified, 3, folder=name)


MIXED = [
    ("certificates", "two-sided", "bound: 'one-sided', not 'two-sided(0.05)'"),
    ("certificates", "linf", "norm: 'l2', not 'linf'"),
    ("certificates", "float16", "precision: 'float32', not 'float16'"),
    ("certificates", "tf32", "precision: 'float32', not 'tf32'"),
    ("float16", "bfloat16", "precision: 'float16', not 'bfloat16'"),
    ("certificates", "exact", "noise: 'gaussian(0.25)', not 'exact-gaussian(0.25)'"),
    ("certificates", "radii", "radii: None, not [0.25, 0.5]"),
    ("radii", "radii-linf", "norm: 'l2', not 'linf'; radii: [0.25, 0.5], not [0.03, 0.06]"),
]


@pytest.mark.parametrize(("there", "name", "said"), MIXED)
def test_other_options_do_not_go_into_the_same_folder(
    there: str, name: str, said: str, shieldwall: Shieldwall, certified: Path
):
    before = snapshot(certified)
    refused(
        shieldwall("certify", certified, "--to", there, *OPTIONS[name]),
        f"other settings ({said})",
        "--to NAME",
    )
    assert snapshot(certified) == before


def test_a_folder_of_another_precision_is_not_taken_up_without_it(shieldwall: Shieldwall, certified: Path):
    refused(shieldwall("certify", certified, "--to", "float16"), "precision: 'float16', not 'float32'")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--bound", "twosided"], ["unknown bound 'twosided'", "did you mean 'two-sided'?"]),
        (["--bound", ""], ["unknown bound ''", "one-sided, two-sided"]),
        (["--norm", "l3"], ["norm", "'l3'", "l1"]),
        (["--norm", "euclidean"], ["norm", "'euclidean'", "l1, l2, linf"]),
        (["--precision", "fp16"], ["unknown precision 'fp16'", "float16"]),
        (["--precision", "double"], ["unknown precision 'double'", "bfloat16, float16, float32, tf32"]),
        (["--radii", "a"], ["--radii takes numbers such as 0,0.25,0.5; given: 'a'"]),
        (["--radii", "0.5,-0.25"], ["radii must be finite numbers from 0 up; given: -0.25"]),
        (["--radii", ","], ["needs at least one radius"]),
        (["--radii", "nan"], ["radii must be finite numbers from 0 up; given: nan"]),
        (["--radii", "inf"], ["radii must be finite numbers from 0 up; given: inf"]),
        (
            ["--radii", "0.5", "--bound", "two-sided"],
            ["bound='two-sided' needs a fixed number of samples; remove radii"],
        ),
        (["--radii", "0.5", "--n", "10"], ["n = 10 ", "alpha = 0.001", "use n >= 12"]),
    ],
)
def test_values_that_cannot_be_are_refused_before_any_work(
    options: list[str], said: list[str], shieldwall: Shieldwall, run: Path
):
    before = snapshot(run)
    outcome = shieldwall("certify", run, "--to", "new", *options)
    refused(outcome, *said)
    assert outcome.out == ""
    assert snapshot(run) == before
    assert not (run / "new").exists()


@pytest.fixture(scope="module")
def laplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run trained with noise of its own kind."""
    from typer.testing import CliRunner

    from shieldwall import cli

    folder = tmp_path_factory.mktemp("laplace") / "run"
    command = ["train", "smoke", "--out", folder, "--set", "noise=laplace", "--set", "schedule.epochs=1"]
    assert CliRunner().invoke(cli.app, [str(part) for part in command]).exit_code == 0
    return folder


def test_exact_noise_is_for_runs_trained_with_gaussian_noise(shieldwall: Shieldwall, laplace: Path):
    before = snapshot(laplace)
    refused(
        shieldwall("certify", laplace, "--exact-noise"), "--exact-noise is Gaussian", "trained with laplace"
    )
    assert snapshot(laplace) == before
    assert not (laplace / "certificates").exists()


def test_other_noise_has_a_norm_of_its_own(shieldwall: Shieldwall, laplace: Path):
    assert shieldwall("certify", laplace, "--limit", 5, "--to", "own").code == 0
    assert shieldwall("certify", laplace, "--limit", 5, "--to", "l2", "--norm", "l2").code == 0
    assert set(column(laplace, "own", "norm")) == {"l1"}
    assert set(column(laplace, "l2", "norm")) == {"l2"}
    assert column(laplace, "own", "counts") == column(laplace, "l2", "counts")
    own = [float(cell) for cell in column(laplace, "own", "radius")]
    assert max(own) > 0
    assert [float(cell) for cell in column(laplace, "l2", "radius")] == pytest.approx(
        [radius / np.sqrt(PIXELS) for radius in own], rel=1e-12
    )


def test_compiled_members_are_not_mixed_with_others(
    shieldwall: Shieldwall, run: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[nn.Module] = []

    def not_compiled(member: nn.Module, **options: object) -> nn.Module:  # compiling takes long
        asked.append(member)
        return member

    monkeypatch.setattr(torch, "compile", not_compiled)
    assert shieldwall("certify", run, "--compile", "--limit", 2, "--to", "compiled").code == 0
    assert len(asked) == 2
    assert yaml.safe_load((run / "compiled/settings.yaml").read_text())["compiled"] is True
    refused(
        shieldwall("certify", run, "--no-compile", "--to", "compiled"),
        "other settings (compiled: True, not False)",
    )
    refused(shieldwall("certify", run, "--compile"), "other settings (compiled: False, not True)")
    assert shieldwall("certify", run, "--limit", 3, "--to", "compiled").code == 0
    assert len(asked) == 6, "what was begun compiled goes on compiled"


def test_what_is_not_said_again_stays_as_it_was_begun(shieldwall: Shieldwall, trained: Path):
    assert shieldwall("certify", trained, "--limit", 2, "--batch-size", 300).code == 0
    settings = trained / "certificates/settings.yaml"
    before = yaml.safe_load(settings.read_text())
    assert (before["batch_size"], before["threads"], before["compiled"]) == (300, 1, False)
    (trained / "SHA256SUMS").unlink()  # as in a run of an older version
    settings.write_text(settings.read_text().replace("threads: 1", "threads: 2"))
    seen: list[int] = []

    def counts(self: Sampler, inputs: Iterator[object], first_place: int) -> Iterator[Counts]:
        seen.extend((self.batch_size, torch.get_num_threads(), len(list(inputs))))
        yield from ()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sampler, "counts", counts)
        assert shieldwall("certify", trained, "--limit", 3).code == 0
    assert seen == [300, 2, 1]
    assert torch.get_num_threads() == 1
    refused(shieldwall("certify", trained, "--batch-size", 7), "other settings (batch_size: 300, not 7)")


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """A trial that is worth it for any work, and chooses batches of 123; its options."""
    asked: list[dict[str, object]] = []

    def chosen(build: Build, draws: int, threads: Sequence[int], **options: object) -> Sampler:
        asked.append({"draws": draws, "threads": threads, **options})
        return build(batch_size=123, compile=False)

    monkeypatch.setattr("shieldwall.runs.certify.LEAST_FORWARDS", 1)
    monkeypatch.setattr("shieldwall.runs.certify.fastest", chosen)
    return asked


def batch_size(run: Path, folder: str = "certificates") -> int:
    size: int = yaml.safe_load((run / folder / "settings.yaml").read_text())["batch_size"]
    return size


def test_the_trial_is_made_once_and_its_choice_is_kept(
    shieldwall: Shieldwall, trained: Path, trial: list[dict[str, object]]
):
    assert shieldwall("certify", trained, "--limit", 2).code == 0
    assert trial == [{"draws": 2 * 1_100, "threads": [1], "batch_size": None, "compile": None}]
    assert shieldwall("certify", trained, "--limit", 3).code == 0
    assert len(trial) == 1
    assert batch_size(trained) == 123
    assert len(timeless(trained)["we"]) == 4


def test_of_those_that_share_the_inputs_the_first_tries_and_the_others_follow(
    shieldwall: Shieldwall, trained: Path, trial: list[dict[str, object]]
):
    task = {"path": str(trained), "to": "certificates", "device": None, "limit": 4, "compile": False}
    for number, places in ((1, [0, 1]), (2, [2, 3])):
        certify_share({**task, "shard": f"{number}/2"}, 0, iter(places))
    assert trial == [{"draws": 4 * 1_100, "threads": [1], "batch_size": None, "compile": False}]
    assert shieldwall("merge", trained).code == 0
    assert batch_size(trained) == 123
    assert len(timeless(trained)["we"]) == 5


def test_shards_by_hand_try_nothing_and_follow_the_first(
    shieldwall: Shieldwall, trained: Path, trial: list[dict[str, object]]
):
    options = ["--limit", 4, "--shard"]
    assert shieldwall("certify", trained, *options, "2/2", "--batch-size", 77).code == 0
    assert shieldwall("certify", trained, *options, "1/2").code == 0
    assert shieldwall("merge", trained).code == 0
    assert batch_size(trained) == 77
    assert trial == []


def test_other_data_of_the_same_name_are_refused(shieldwall: Shieldwall, trained: Path):
    assert shieldwall("certify", trained, "--limit", 2).code == 0
    path = trained / "certificates/settings.yaml"
    digest = yaml.safe_load(path.read_text())["data_sha256"]
    path.write_text(path.read_text().replace(digest, 64 * "f"))
    (trained / "SHA256SUMS").unlink()
    refused(shieldwall("certify", trained), f"other settings (data_sha256: '{64 * 'f'}', not '{digest}')")


def test_the_recipe_may_say_how_to_certify(shieldwall: Shieldwall, trained: Path, certified: Path):
    recipe = trained / "recipe.yaml"
    (trained / "SHA256SUMS").unlink()
    recipe.write_text(recipe.read_text().replace("radii: []", "radii: [0.25, 0.5]"))
    assert shieldwall("certify", trained, "--limit", 3).code == 0
    assert timeless(trained) == timeless(certified, 3, folder="radii")


def test_where_compiling_fails_one_line_says_so_and_nothing_is_left_behind(
    shieldwall: Shieldwall, run: Path, monkeypatch: pytest.MonkeyPatch
):
    def failing(member: nn.Module, **options: object) -> Callable[[Tensor], Tensor]:
        def compiled(x: Tensor) -> Tensor:
            raise RuntimeError("no C++ compiler found\nmany more lines")

        return compiled

    monkeypatch.setattr(torch, "compile", failing)
    outcome = shieldwall("certify", run, "--compile", "--to", "new")
    refused(outcome, "torch.compile does not work here: no C++ compiler found;")
    assert "many more lines" not in outcome.err
    assert not (run / "new").exists()


def test_progress_shows_the_speed_and_what_stopping_early_saves(shieldwall: Shieldwall, trained: Path):
    plain = shieldwall("certify", trained, "--limit", 4).out.splitlines()
    saving = shieldwall("certify", trained, "--limit", 4, *OPTIONS["radii"], "--to", "radii").out.splitlines()
    speed = r"  \d[\d.e+]* inputs/s"
    for out, note in ((plain, speed), (saving, speed + r", (\d+)% of the samples saved")):
        assert len(out) == 3 + (out is saving)
        assert re.fullmatch(r"certifying 4 inputs, 4 votes: 25%" + note, out[0]), out
        assert re.fullmatch(r"certifying 4 inputs, 4 votes: 100%, done in \d+\.\d s" + note, out[1]), out
    draws = sum(int(line["n"]) for line in lines(trained, "radii")["we"])
    assert saving[1].endswith(f", {1 - draws / (4 * N):.0%} of the samples saved")
    fewest = np.ceil(np.log(ALPHA) / norm.logcdf(0.5 / SIGMA))
    assert saving[2] == (
        f"samples that bound: {draws / 4:,.0f} per input on average; radius 0.5 takes 346 if all agree, "
        f"and {fewest:.0f} in any test"
    )
    far = shieldwall("certify", trained, "--limit", 1, "--radii", 5, "--to", "far").out.splitlines()
    assert far[-2].endswith(f"per input on average; {N:,} samples cannot certify radius 5")


def test_a_terminal_of_80_columns_has_room_for_all_of_it():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system=None, width=80)
    note = "12.3 inputs/s, 45% of the samples saved"
    with progress_bar(console, "certifying 500 inputs, 5 votes", total=500) as show:
        show(100, note)
    shown = out.getvalue().split("\x1b[2K")[-1].splitlines()
    assert re.fullmatch(r"certifying 500 inputs, 5 votes .* 20% \d:\d\d:\d\d left \S+ *", shown[0]), shown
    assert shown[1].rstrip() == note
