"""Members that come with the package: found by name, as they were published, and never half copied."""

from pathlib import Path

import pytest
import torch
import yaml
from torch import Tensor, nn
from typer.testing import CliRunner

import shieldwall as sw
from shieldwall import cli, data, pretrained, recipes
from shieldwall.errors import UserError
from shieldwall.files import load_tensors
from shieldwall.models.registry import build_members
from shieldwall.results.run import Run

SHIPPED = pretrained.names()
DIGITS = recipes.override(recipes.get("digits-gaussian-0.5"), ["members=2", "seed=3"])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for pretrained members, and an empty working directory."""
    for name in ("pretrained", "here"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(pretrained, "HERE", tmp_path / "pretrained")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "pretrained"


def members(seed: int) -> list[nn.Module]:
    return build_members("digits-cnn", 2, 10, (1, 8, 8), seed)


def trained(path: Path, seed: int) -> Run:
    """A run folder with members nobody trained; they differ from those of another seed."""
    run = Run.create(path, DIGITS)
    run.note_environment("train", {"commit": "abc"})
    run.save_members(members(seed))
    return run


@pytest.fixture
def kept(home: Path, tmp_path: Path) -> Path:
    pretrained.keep(trained(tmp_path / "run", 8).path, "digits-0.5")
    return home


def images(count: int = 5) -> Tensor:
    return torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def test_nothing_is_pretrained_in_an_empty_place(home: Path) -> None:
    assert pretrained.names() == []
    with pytest.raises(UserError, match=r"'mnist-drt-0\.5': this copy of shieldwall comes without any"):
        sw.load("mnist-drt-0.5")


def test_what_is_kept_is_found(kept: Path, tmp_path: Path) -> None:
    pretrained.keep(trained(tmp_path / "other", 9).path, "digits-0.25")
    assert pretrained.names() == ["digits-0.25", "digits-0.5"]
    assert pretrained.folder("digits-0.5") == kept / "digits-0.5"
    assert sorted(path.relative_to(kept).as_posix() for path in kept.rglob("*.*") if path.is_file()) == [
        "checksums.yaml",
        *(
            f"digits-{sigma}/{file}"
            for sigma in (0.25, 0.5)
            for file in (
                "environment.json",
                *(f"members/member-{k}.safetensors" for k in (1, 2)),
                "recipe.yaml",
            )
        ),
    ]


def test_keeping_again_replaces(kept: Path, tmp_path: Path) -> None:
    pretrained.keep(trained(tmp_path / "other", 9).path, "digits-0.5")
    file = pretrained.folder("digits-0.5") / "members" / "member-1.safetensors"
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
    with pytest.raises(UserError, match="no vote called 'member-3'"):
        sw.load("digits-0.5", "member-3")


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
    with pytest.raises(UserError, match=r"no pretrained ensemble called 'cats'; there are: digits-0\.5"):
        sw.load("cats")
    with pytest.raises(UserError, match=r"did you mean 'digits-0\.5'"):
        sw.load("digits-0.55")


def test_a_name_that_is_nearly_right_is_told_the_right_one(kept: Path) -> None:
    for slip in ("digits-0.55", "digits_0.5", "digit-0.5"):
        with pytest.raises(UserError, match=rf"{slip} is not a run folder.* did you mean 'digits-0\.5'\?"):
            Run(slip)
    with pytest.raises(UserError, match="is not a run folder: it does not exist; make one"):
        Run("mnist-gaussian")
    trained(Path("runs/mine"), 9)
    with pytest.raises(UserError, match=r"mine is not a run folder.* did you mean 'runs/mine'"):
        Run("mine")


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
        pretrained.folder("digits-0.5")


def test_what_cannot_be_kept(home: Path, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", DIGITS)
    with pytest.raises(UserError, match="no trained members"):
        pretrained.keep(run.path, "digits")
    with pytest.raises(UserError, match=r"given: '\.\./digits'"):
        pretrained.keep(trained(tmp_path / "run", 1).path, "../digits")
    assert list(home.iterdir()) == []


def test_a_run_by_name_is_a_copy_that_says_so(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run("digits-0.5")
    assert run.path == Path("runs/digits-0.5")
    assert run.is_trained()
    assert capsys.readouterr().err == "digits-0.5 is pretrained: copied to runs/digits-0.5\n"
    assert [path.name for path in Path("runs").iterdir()] == ["digits-0.5"]
    run.note_environment("certify", {"commit": "def"})
    assert Run("digits-0.5").path == run.path
    assert "going on with its copy" in capsys.readouterr().err
    assert pretrained.folder("digits-0.5")


def test_another_run_in_that_folder_is_not_taken_for_it(kept: Path) -> None:
    mine = trained(Path("runs/digits-0.5"), 9)
    before = mine.weights_digest()
    with pytest.raises(UserError, match=r"runs/digits-0\.5 holds another run"):
        Run("digits-0.5")
    assert Run("runs/digits-0.5").weights_digest() == before


def test_a_folder_of_that_name_comes_first(kept: Path) -> None:
    trained(Path("digits-0.5"), 9)
    assert Run("digits-0.5").path == Path("digits-0.5")
    assert not Path("runs").exists()
    torch.testing.assert_close(sw.load("digits-0.5", "member-1")(images()), members(9)[0].eval()(images()))


def test_certify_and_predict_take_the_name(kept: Path) -> None:
    def shieldwall(*arguments: str) -> str:
        result = CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    said = shieldwall("certify", "digits-0.5", "--limit", "2", "--n", "100", "--n0", "10", "--alpha", "0.05")
    assert "digits-0.5 is pretrained: copied to runs/digits-0.5" in said
    assert "next: shieldwall report runs/digits-0.5" in said
    assert len(Path("runs/digits-0.5/certificates/we.tsv").read_text().splitlines()) == 3
    assert "test input 0" in shieldwall("predict", "digits-0.5", "--index", "0", "--n", "10")


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_ensemble_loads_and_is_as_published(name: str) -> None:
    folder = pretrained.folder(name)
    run = Run(folder)
    assert run.recipe.start is None or not Path(run.recipe.start).is_absolute()
    we = sw.load(name)
    assert isinstance(we, sw.WeightedEnsemble)
    assert len(we.members) == run.recipe.members
    state = load_tensors(folder / "members" / "member-1.safetensors")[0]
    assert all(torch.equal(state[key], value) for key, value in we.members[0].state_dict().items())
    shape, classes = data.outline(run.recipe.data)
    with torch.inference_mode():
        assert we(torch.zeros(1, *shape)).shape == (1, len(classes))


def test_every_shipped_file_has_its_checksum() -> None:
    known = yaml.safe_load((pretrained.HERE / "checksums.yaml").read_text())
    listed = {f"{name}/{file}" for name, files in known.items() for file in files}
    there = {
        path.relative_to(pretrained.HERE).as_posix()
        for path in pretrained.HERE.rglob("*")
        if path.is_file() and path.parent != pretrained.HERE and "__pycache__" not in path.parts
    }
    assert there == listed
