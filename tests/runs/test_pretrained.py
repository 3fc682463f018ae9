"""Members that come with the package: found by name, as they were published, and never half copied."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from torch import Tensor, nn
from typer.testing import CliRunner

import shieldwall as sw
from shieldwall import cli, recipes
from shieldwall.data import datasets
from shieldwall.errors import UserError
from shieldwall.files import load_tensors
from shieldwall.models.registry import build_members
from shieldwall.results.record import read_runs
from shieldwall.runs import environment, pretrained
from shieldwall.runs.certify import certify_run
from shieldwall.runs.folder import RunFolder
from shieldwall.runs.pretrained import resolve_run

ROOT = Path(__file__).parents[2]
SHIPPED = sorted(pretrained.checksums())
DIGITS = recipes.override(recipes.get("digits-gaussian-0.5"), ["members=2", "seed=3"])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for pretrained members, and an empty working directory."""
    for name in ("pretrained", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(pretrained, "PACKAGED", tmp_path / "pretrained")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "pretrained"


def members(seed: int) -> list[nn.Module]:
    return build_members("digits-cnn", 2, 10, (1, 8, 8), seed)


def trained(path: Path, seed: int) -> RunFolder:
    """A run folder with members nobody trained; they differ from those of another seed."""
    run = RunFolder.create(path, DIGITS)
    run.note_environment("train", {**environment.describe(torch.device("cpu")), "commit": "abcdef0123"})
    run.save_members(members(seed))
    return run


def keep(run: Path, name: str, precision: str = "float32") -> None:
    """benchmarks/keep.py, on certificates of one input where the run has none."""
    if RunFolder(run).is_trained() and not (run / "certificates").exists():
        certify_run(run, n=100, n0=10, alpha=0.05, limit=1, precision=precision)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        import keep

        keep.keep(run, name, rounded=precision != "float32")


@pytest.fixture
def kept(home: Path, tmp_path: Path) -> Path:
    keep(trained(tmp_path / "run", 8).path, "digits-0.5")
    return home


def images(count: int = 5) -> Tensor:
    return torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def test_nothing_is_pretrained_in_an_empty_place(home: Path) -> None:
    assert sorted(pretrained.checksums()) == []
    with pytest.raises(UserError, match=r"unknown pretrained ensemble 'digits-0\.5'"):
        sw.load("digits-0.5")


def test_what_is_kept_is_found(kept: Path, tmp_path: Path) -> None:
    keep(trained(tmp_path / "other", 9).path, "digits-0.25")
    assert sorted(pretrained.checksums()) == ["digits-0.25", "digits-0.5"]
    assert pretrained.packaged_run("digits-0.5") == kept / "digits-0.5"
    assert sorted(path.relative_to(kept).as_posix() for path in kept.rglob("*.*") if path.is_file()) == [
        "checksums.yaml",
        *(
            f"digits-{sigma}/{file}"
            for sigma in (0.25, 0.5)
            for file in (
                "MODEL.md",
                "environment.json",
                *(f"members/member-{k}.safetensors" for k in (1, 2)),
                "recipe.yaml",
            )
        ),
    ]


def test_keeping_again_replaces(kept: Path, tmp_path: Path) -> None:
    keep(trained(tmp_path / "other", 9).path, "digits-0.5")
    file = pretrained.packaged_run("digits-0.5") / "members" / "member-1.safetensors"
    assert file.read_bytes() == (tmp_path / "other" / "members" / "member-1.safetensors").read_bytes()


def test_votes_are_those_of_the_members(kept: Path) -> None:
    first, second = (member.eval() for member in members(8))
    with torch.inference_mode():
        confidences = torch.stack([first(images()).softmax(-1), second(images()).softmax(-1)])
        we, mme = sw.load("digits-0.5"), sw.load("digits-0.5", vote="mme")
        assert isinstance(we, sw.WeightedEnsemble)
        assert isinstance(mme, sw.MaxMarginEnsemble)
        assert not any(module.training for module in (*we.modules(), *mme.modules()))
        torch.testing.assert_close(we(images()), confidences.mean(0))
        top = confidences.topk(2, dim=-1).values
        surest = (top[..., 0] - top[..., 1]).argmax(0)
        torch.testing.assert_close(mme(images()), confidences[surest, torch.arange(5)])
        torch.testing.assert_close(sw.load("digits-0.5", "member-2")(images()), second(images()))
    with pytest.raises(UserError, match="unknown vote 'member-3'"):
        sw.load("digits-0.5", "member-3")


@pytest.mark.parametrize("vote", ["we", "mme", "member-1"])
def test_a_loaded_ensemble_warns_of_other_noise_than_its_own(kept: Path, vote: str) -> None:
    module = sw.load("digits-0.5", vote)
    assert module.trained_noise == sw.Gaussian(0.5)
    few = {"x": images(), "n": 100, "alpha": 0.05}
    for noise in (sw.Gaussian(0.5), sw.ExactGaussian(0.5)):  # its own: a warning would be an error
        few["x"] = (images() * 255).round() / 255
        sw.certify(module, noise=noise, n0=10, **few)
        sw.predict(module, noise=noise, **few)
    members = getattr(module, "members", [module])
    for noise, words in (
        (sw.Gaussian(0.25), "gaussian noise of sigma 0.25"),
        (sw.Uniform(0.5 * 3**0.5), "uniform noise of sigma 0.5"),
    ):
        for call in (
            lambda noise: sw.certify(module, noise=noise, n0=10, **few),
            lambda noise: sw.certify(nn.Sequential(module), noise=noise, n0=10, **few),
            lambda noise: sw.certify_members(members, noise=noise, n0=10, **few),
            lambda noise: sw.predict(module, noise=noise, **few),
        ):
            with pytest.warns(UserWarning, match="was trained with") as warned:
                call(noise)
            said = f"the classifier was trained with gaussian noise of sigma 0.5; given: {words}"
            assert [(str(warning.message), warning.filename) for warning in warned] == [(said, __file__)]


def test_nothing_is_warned_of_where_the_noise_of_training_is_not_known() -> None:
    sw.certify_members(members(8), images(), noise=sw.Gaussian(0.1), n0=10, n=100, alpha=0.05)


def test_rounded_weights_are_the_classifier_that_was_certified(home: Path, tmp_path: Path) -> None:
    run = trained(tmp_path / "run", 8)
    keep(run.path, "digits-0.5", "bfloat16")
    module = sw.load("digits-0.5")
    assert {weight.dtype for weight in module.members.parameters()} == {torch.bfloat16}
    assert module(images()).argmax(-1).shape == (5,)  # at float32 images
    test = datasets.load("digits").test.images([0])
    (record,) = read_runs([run.path])
    few = {"noise": sw.Gaussian(0.5), "n": 100, "n0": 10, "alpha": 0.05, "seed": 3}
    assert np.array_equal(sw.certify(module, test, **few).counts, record.certificates["we"].counts)
    with pytest.raises(UserError, match="the model's weights are bfloat16; pass precision='bfloat16'"):
        sw.certify(module, test, precision="float32", **few)
    text = (home / "digits-0.5" / "MODEL.md").read_text()
    assert "bfloat16, safetensors, 2 files of 69 kB" in text


def test_a_rounded_run_is_certified_itself_and_kept_as_it_is(home: Path, tmp_path: Path) -> None:
    run, rounded = trained(tmp_path / "run", 8), tmp_path / "rounded"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        import keep as tool

        tool.write_rounded_run(run.path, rounded)
    certify_run(rounded, n=100, n0=10, alpha=0.05, limit=1)
    keep(rounded, "digits-0.5")
    assert "float16, safetensors, 2 files of 69 kB" in (home / "digits-0.5" / "MODEL.md").read_text()
    module = sw.load("digits-0.5")
    for member, original in zip(module.members, members(8), strict=True):
        for weight, before in zip(member.parameters(), original.parameters(), strict=True):
            assert weight.dtype == torch.float32
            assert torch.equal(weight, before.half().float())
    (record,) = read_runs([rounded])
    few = {"noise": sw.Gaussian(0.5), "n": 100, "n0": 10, "alpha": 0.05, "seed": 3}
    test = datasets.load("digits").test.images([0])
    assert np.array_equal(sw.certify(module, test, **few).counts, record.certificates["we"].counts)


def test_loading_leaves_the_random_numbers_alone(kept: Path) -> None:
    torch.manual_seed(4)
    expected = torch.rand(3)
    torch.manual_seed(4)
    sw.load("digits-0.5")
    assert torch.equal(torch.rand(3), expected)


def test_any_trained_run_folder_loads(home: Path, tmp_path: Path) -> None:
    run = trained(tmp_path / "run", 8)
    first = members(8)[0].eval()
    for what in (run.path, str(run.path)):
        torch.testing.assert_close(sw.load(what, "member-1")(images()), first(images()))
    with pytest.raises(UserError, match="nowhere is not a run folder"):
        sw.load(tmp_path / "nowhere")
    run.member_paths()[0].unlink()
    with pytest.raises(UserError, match="is not trained yet"):
        sw.load(run.path)


def test_an_unknown_name_is_told_the_known_ones(kept: Path) -> None:
    with pytest.raises(UserError, match=r"unknown pretrained ensemble 'cats'; choose from digits-0\.5"):
        sw.load("cats")
    with pytest.raises(UserError, match=r"did you mean 'digits-0\.5'"):
        sw.load("digits-0.55")


@pytest.mark.parametrize("what", [None, 3, ["digits-0.5"]])
def test_what_is_no_name(what: object) -> None:
    with pytest.raises(UserError, match="the name of a pretrained ensemble or a run folder; given: "):
        sw.load(what)  # type: ignore[arg-type]


@pytest.mark.parametrize("file", ["members/member-2.safetensors", "recipe.yaml"])
def test_a_changed_or_missing_file_is_damage(kept: Path, file: str) -> None:
    path = kept / "digits-0.5" / file
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(
        UserError, match=rf"digits-0\.5 is damaged: {path} is not the file that was published"
    ):
        sw.load("digits-0.5")
    path.unlink()
    with pytest.raises(UserError, match=f"{path} is missing"):
        pretrained.packaged_run("digits-0.5")


def test_what_cannot_be_kept(home: Path, tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", DIGITS)
    with pytest.raises(UserError, match="is not trained yet"):
        keep(run.path, "digits")
    with pytest.raises(UserError, match=r"given: '\.\./digits'"):
        keep(trained(tmp_path / "run", 1).path, "../digits")
    assert list(home.iterdir()) == []


def test_a_name_is_read_in_the_package_and_written_in_a_copy(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert resolve_run("digits-0.5") == kept / "digits-0.5"
    assert not Path("runs").exists()
    run = RunFolder(resolve_run("digits-0.5", to_write=True))
    assert run.path == Path("runs/digits-0.5")
    assert run.is_trained()
    assert [path.name for path in Path("runs").iterdir()] == ["digits-0.5"]
    run.note_environment("certify", {"commit": "def"})
    run.save_weights("grid", [1.0, 0.0])
    (run.path / "MODEL.md").unlink()
    for to_write in (False, True):
        assert resolve_run(Path("digits-0.5"), to_write=to_write) == run.path
    assert pretrained.packaged_run("digits-0.5")
    assert capsys.readouterr() == ("", "")


def test_a_path_is_itself_and_a_constructor_copies_nothing(kept: Path) -> None:
    for path in ("nowhere", "digits-0.55", "runs/digits-0.5", str(kept / "digits-0.5")):
        assert resolve_run(path, to_write=True) == Path(path)
    with pytest.raises(UserError, match=r"digits-0\.5 is not a run folder: it does not exist"):
        RunFolder("digits-0.5")
    assert not Path("runs").exists()


def test_another_run_in_that_folder_is_not_taken_for_it(kept: Path) -> None:
    mine = trained(Path("runs/digits-0.5"), 9)
    for to_write in (False, True):
        with pytest.raises(UserError, match=r"runs/digits-0\.5 is a different run; pass runs/digits-0\.5"):
            resolve_run("digits-0.5", to_write=to_write)
    assert RunFolder(resolve_run("runs/digits-0.5")).weights_digest() == mine.weights_digest()
    torch.testing.assert_close(sw.load("digits-0.5", "member-1")(images()), members(8)[0].eval()(images()))


def test_a_folder_of_that_name_comes_first(kept: Path) -> None:
    trained(Path("digits-0.5"), 9)
    assert resolve_run("digits-0.5", to_write=True) == Path("digits-0.5")
    assert not Path("runs").exists()
    torch.testing.assert_close(sw.load("digits-0.5", "member-1")(images()), members(9)[0].eval()(images()))


def test_certify_and_predict_take_the_name(kept: Path) -> None:
    def shieldwall(*arguments: str) -> str:
        result = CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    assert "test input 0" in shieldwall("predict", "digits-0.5", "--index", "0", "--n", "10")
    assert not Path("runs").exists()
    said = shieldwall("certify", "digits-0.5", "--limit", "2", "--n", "100", "--n0", "10", "--alpha", "0.05")
    assert "next: shieldwall report runs/digits-0.5" in said
    assert len(Path("runs/digits-0.5/certificates/we.tsv").read_text().splitlines()) == 3


@pytest.mark.parametrize("how", [["--from", "digits-0.5"], ["--set", "init_from=digits-0.5"]])
def test_training_starts_from_the_name(kept: Path, how: list[str]) -> None:
    changes = ["members=2", "schedule.epochs=1", "sigma=0.5"]
    options = [word for change in changes for word in ("--set", change)]
    result = CliRunner().invoke(
        cli.app, ["train", "digits-gaussian", "--out", "new", *options, *how], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    assert RunFolder("new").recipe.init_from == "runs/digits-0.5"
    assert recipes.from_mapping(yaml.safe_load(Path("new/start.yaml").read_text())) == DIGITS


def test_the_card_says_what_the_run_says(kept: Path) -> None:
    text = (kept / "digits-0.5" / "MODEL.md").read_text()
    expected = [
        *("# digits-0.5", "34,458 parameters each, for images 1 x 8 x 8", "2 files of 138 kB", "seed 3"),
        *("gaussian noise of standard deviation 0.5", "commit abcdef0,", "CC BY 4.0", "MIT"),
        *("| digits-gaussian-0.5 WE |", "n = 100, alpha = 0.05"),
    ]
    assert [words for words in expected if words not in text] == []


def test_certificates_of_other_members_are_not_measured_of_these(kept: Path, tmp_path: Path) -> None:
    RunFolder(tmp_path / "run").save_members(members(9))
    with pytest.raises(UserError, match="are not of its members; certify it again"):
        keep(tmp_path / "run", "digits-0.5")
    assert sorted(pretrained.checksums()) == ["digits-0.5"]
    assert pretrained.packaged_run("digits-0.5")


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_ensemble_loads_and_is_as_published(name: str) -> None:
    folder = pretrained.packaged_run(name)
    run = RunFolder(folder)
    assert run.recipe.init_from is None or not Path(run.recipe.init_from).is_absolute()
    we = sw.load(name)
    assert isinstance(we, sw.WeightedEnsemble)
    assert len(we.members) == run.recipe.members
    state = load_tensors(folder / "members" / "member-1.safetensors")[0]
    assert all(torch.equal(state[key], value) for key, value in we.members[0].state_dict().items())
    shape, classes = datasets.dataset_spec(run.recipe.data)
    with torch.inference_mode():
        assert we(torch.zeros(1, *shape)).shape == (1, len(classes))


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_ensemble_has_its_card_in_the_docs(name: str) -> None:
    folder = pretrained.packaged_run(name)
    commit = json.loads((folder / "environment.json").read_text())["train"]["commit"]
    text = (folder / "MODEL.md").read_text()
    assert f"commit {commit[:7]}, " in text
    assert "changed" not in commit
    assert f"{folder.relative_to(ROOT)}/MODEL.md" in (ROOT / "docs" / "run-folder.md").read_text()
    assert sum(path.stat().st_size for path in folder.rglob("*.safetensors")) < 3_400_000


def test_the_tables_of_the_digits_are_what_their_runs_give() -> None:
    """Those of the README and of docs/papers.md, and the card's, whose members are the packed run's."""
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "digits.py", "--check"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    shown = (ROOT / "README.md").read_text().partition("<!-- digits:begin -->\n")[2]
    folder = pretrained.packaged_run("digits-gaussian-0.25")
    assert shown.partition("<!-- digits:end -->")[0] in (folder / "MODEL.md").read_text()
    (packed,) = read_runs([ROOT / "results" / "digits" / "gaussian-0.25.tar.xz"])
    assert packed.settings["members_sha256"] == RunFolder(folder).weights_digest()


def test_every_shipped_file_has_its_checksum() -> None:
    known = yaml.safe_load((pretrained.PACKAGED / "checksums.yaml").read_text())
    listed = {f"{name}/{file}" for name, files in known.items() for file in files}
    there = {
        path.relative_to(pretrained.PACKAGED).as_posix()
        for path in pretrained.PACKAGED.rglob("*")
        if path.is_file() and path.parent != pretrained.PACKAGED and "__pycache__" not in path.parts
    }
    assert there == listed
