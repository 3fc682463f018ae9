"""Your own model and your own images from the command line: run folders like any other."""

from pathlib import Path

import numpy as np
import pytest
import torch
from cli_tools import Shieldwall, refused
from PIL import Image

import shieldwall as sw

CODE = """
import shieldwall as sw
from sklearn.linear_model import LogisticRegression

def one():
    return sw.load("digits-gaussian-0.25")

def three(num_classes):
    return list(sw.load("digits-gaussian-0.25").members)

def fitted():
    split, rows = sw.load_data("digits").train, range(200)
    return LogisticRegression(max_iter=300).fit(split.images(rows).flatten(1).numpy(), split.labels[:200])
"""


def save(images: torch.Tensor, names: list[str], folder: Path) -> None:
    for image, name in zip(images, names, strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((255 * image[0]).round().byte().numpy()).save(folder / name)


@pytest.fixture
def digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> sw.Split:
    """Beside my_module.py: flat/, labels.csv for it, and own/ in class folders for training."""
    module = f"own_{tmp_path.name}".replace("-", "_")
    Path(f"{module}.py").write_text(CODE)
    Path("module").write_text(module)
    data = sw.load_data("digits")
    save(data.test.images(range(5)), [f"{k}.png" for k in range(5)], Path("flat"))
    table = "".join(f"{k}.png,{int(label)}\n" for k, label in enumerate(data.test.labels[:5]))
    Path("labels.csv").write_text("file,label\n" + table)
    for part, split, count in (("train", data.train, 60), ("val", data.test, 20)):
        names = [f"{part}/{int(label)}/{k:03}.png" for k, label in enumerate(split.labels[:count])]
        save(split.images(range(count)), names, Path("own"))
    return data.test


def model(name: str) -> str:
    return f"{Path('module').read_text()}:{name}"


def test_a_model_of_mine_gets_a_run_folder_like_any_other(shieldwall: Shieldwall, digits: sw.Split) -> None:
    """The certificates are those of sw.certify_members on the same pixels, which are whole 255ths."""
    command = ("certify", "--model", model("three"), "--images", "flat", "--labels", "labels.csv")
    done = shieldwall(*command, "--sigma", "0.25", "-n", "200", "--out", "runs/mine")
    assert done.code == 0, done.err
    images = (255 * digits.images(range(5))).round() / 255
    members = sw.load("digits-gaussian-0.25").members
    expected = sw.certify_members(list(members), images, noise=0.25, n=200)
    certified = sw.read("runs/mine")
    for vote, certificates in expected.items():
        assert certified[vote].truth.tolist() == digits.labels[:5].tolist()
        assert (certified[vote].counts == certificates.counts).all(), vote
        assert (certified[vote].radii == certificates.radii).all(), vote
    assert shieldwall("verify", "runs/mine", "--redraw", "2").out.startswith("runs/mine: verified")
    assert shieldwall("report", "runs/mine", "--html", "mine.html").code == 0
    assert (
        "all 5 inputs are certified already"
        in shieldwall(*command, "--sigma", "0.25", "-n", "200", "--out", "runs/mine").out
    )
    refused(shieldwall(*command, "--sigma", "0.5", "--out", "runs/mine"), "sigma: 0.25, not 0.5", "--out")


def test_what_is_no_module_and_has_no_labels(shieldwall: Shieldwall, digits: sw.Split) -> None:
    done = shieldwall(
        "certify", "--model", model("fitted"), "--images", "flat", "--sigma", "0.1", "-n", "100"
    )
    assert done.code == 0, done.err
    assert list(sw.read("runs/fitted")) == ["member-1"]
    certified = sw.read("runs/fitted")["member-1"]
    assert certified.truth is None
    assert certified.radii.max() > 0
    assert shieldwall("verify", "runs/fitted", "--redraw", "1").code == 0
    refused(shieldwall("report", "runs/fitted"), "the true classes are not known", "--labels")


def test_a_hugging_face_checkpoint(shieldwall: Shieldwall, digits: sw.Split) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    transformers.logging.set_verbosity_error()
    config = transformers.ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, image_size=16,
        patch_size=8, num_labels=10,
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.ViTForImageClassification(config).save_pretrained("vit")
    transformers.ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained("vit")
    done = shieldwall(
        "certify",
        "--model",
        "hf:vit",
        "--images",
        "flat",
        "--labels",
        "labels.csv",
        "--sigma",
        "0.25",
        "-n",
        "50",
    )
    assert done.code == 0, done.err
    images = (255 * digits.images(range(5))).round() / 255
    expected = sw.certify(sw.Classifier.from_pretrained("vit"), images, noise=0.25, n=50)
    assert (sw.read("runs/vit")["member-1"].counts == expected.counts).all()
    assert shieldwall("verify", "runs/vit", "--redraw", "1").code == 0
    assert shieldwall("predict", "runs/vit", "--index", "0").code == 0


def test_single_images(shieldwall: Shieldwall, digits: sw.Split) -> None:
    done = shieldwall(
        "certify", "digits-gaussian-0.25", "flat/0.png", "flat/1.png", "-n", "200", "--seed", "3"
    )
    assert done.code == 0, done.err
    images = (255 * digits.images(range(2))).round() / 255
    expected = sw.certify(sw.load("digits-gaussian-0.25"), images, noise=0.25, n=200, seed=3)
    lines = [line.split() for line in done.out.splitlines()[1:]]
    assert lines == [[f"flat/{k}.png", str(expected.labels[k]), f"{expected.radii[k]:.3f}"] for k in range(2)]
    assert not Path("runs").exists()


def test_training_on_class_folders(shieldwall: Shieldwall, digits: sw.Split) -> None:
    options = ["--set", "schedule.epochs=1", "--set", "members=1"]
    done = shieldwall("train", "digits-gaussian", "--set", "data=folder:own", *options, "--out", "runs/own")
    assert done.code == 0, done.err
    assert shieldwall("certify", "runs/own", "-n", "50", "--limit", "3").code == 0
    assert sorted(sw.read("runs/own")["we"].truth.tolist()) == sorted(
        int(path.parent.name) for path in sorted(Path("own/val").glob("*/*"))[:3]
    )
    refused(
        shieldwall("train", "digits-gaussian", "--set", "data=folder:flat", "--out", "runs/x"),
        "no images to train on", "train/ and test/",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "certify needs a run folder, or --model with --images and --sigma"),
        (["--model", "a:b"], "--model needs --images FOLDER and --sigma"),
        (["--model", "none:b", "--images", "flat", "--sigma", "1"], "cannot import 'none'"),
        (
            ["--model", "hf:none", "--images", "flat", "--sigma", "1"],
            "none is not the folder of a checkpoint",
        ),
        (["--model", "a:b", "--images", "nowhere", "--sigma", "1"], "nowhere is not a folder of images"),
    ],
)
def test_what_is_missing_is_said(
    arguments: list[str], said: str, shieldwall: Shieldwall, digits: sw.Split
) -> None:
    refused(shieldwall("certify", *arguments), said)


def test_splits_of_image_files(digits: sw.Split, tmp_path: Path) -> None:
    split = sw.Split.from_folder("own/val")
    names = sorted(Path("own/val").glob("*/*.png"))
    assert split.labels.tolist() == [int(name.parent.name) for name in names]
    assert (split.images([0])[0, 0].numpy() == np.asarray(Image.open(names[0])) / np.float32(255)).all()
    assert sw.Split.from_folder("flat").labels.tolist() == [-1] * 5
    labelled = sw.Split.from_folder("flat", labels="labels.csv")
    assert labelled.labels.tolist() == digits.labels[:5].tolist()
    Image.new("RGB", (40, 20), "red").save("flat/9.png")
    with pytest.raises(sw.UserError, match="give a size for all"):
        sw.Split.from_folder("flat")
    assert sw.Split.from_folder("flat", size=16).images([0]).shape == (1, 3, 16, 16)
    with pytest.raises(sw.UserError, match=r"labels.csv has no label for 9\.png"):
        sw.Split.from_folder("flat", labels="labels.csv")
    with pytest.raises(sw.UserError, match="the images have no labels"):
        sw.train(
            sw.build_members("digits-cnn", 1, 10, (1, 8, 8), seed=0),
            _unlabelled(),
            sw.GaussianAugmentation(sw.Gaussian(0.25)),
        )


def _unlabelled() -> sw.Split:
    Path("flat/9.png").unlink()
    return sw.Split.from_folder("flat")


def test_a_model_of_mine_is_attacked_if_it_has_gradients_and_labels(
    shieldwall: Shieldwall, digits: sw.Split
) -> None:
    command = ("certify", "--images", "flat", "--sigma", "0.25", "-n", "100", "--model")
    labels = ("--labels", "labels.csv")
    assert shieldwall(*command, model("three"), *labels, "--out", "runs/mine").code == 0
    done = shieldwall("attack", "runs/mine", "--steps", "2", "--samples", "4", "--lengths", "0.25")
    assert "certified, %" in done.out
    assert shieldwall(*command, model("fitted"), *labels, "--out", "runs/fitted").code == 0
    refused(shieldwall("attack", "runs/fitted", "--vote", "member-1"), "the model fails at inputs", "grad")
    assert shieldwall(*command, model("three"), "--out", "runs/unlabelled").code == 0
    refused(shieldwall("attack", "runs/unlabelled"), "has no labels, without which no answer is wrong")
