"""Any model as a classifier of images in [0, 1]: forms of input, of output, and of pixels."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

import shieldwall as sw

N = {"n0": 20, "n": 200}
GENERATOR = torch.Generator().manual_seed(0)
IMAGES = torch.rand(6, 1, 4, 4, generator=GENERATOR)
torch.manual_seed(1)
LINEAR = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))


class Gives(nn.Module):
    """A module whose output is the scores in another form."""

    def __init__(self, form: Any) -> None:
        super().__init__()
        self.inner, self.form = LINEAR, form

    def forward(self, x: Tensor) -> Any:
        return self.form(self.inner(x))


FORMS = {
    "logits": lambda scores: SimpleNamespace(logits=scores, hidden=scores[:, :2]),
    "dictionary": lambda scores: {"features": scores[:, :, None], "out": scores},
    "dictionary with logits": lambda scores: {"features": scores[:, :2], "logits": scores},
    "tuple": lambda scores: (scores, scores.sum()),
    "array": lambda scores: scores.detach().numpy(),
}
each_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())


@each_form
def test_an_output_in_any_form_has_the_same_certificates(form: Any) -> None:
    expected = sw.certify(LINEAR, IMAGES, noise=0.5, **N)
    assert len(set(expected.labels.tolist())) > 1
    assert sw.certify(Gives(form), IMAGES, noise=0.5, **N) == expected
    assert sw.certify(lambda x: form(LINEAR(x)), IMAGES, noise=sw.Gaussian(0.5), **N) == expected
    votes = sw.certify_members([Gives(form), LINEAR], IMAGES, noise=0.5, **N)
    assert votes["member-1"] == votes["member-2"] == expected
    scores = sw.MaxMarginEnsemble([Gives(form), LINEAR])(IMAGES)
    torch.testing.assert_close(scores, LINEAR(IMAGES).softmax(-1))
    predicted = sw.predict(Gives(form), IMAGES, noise=0.5, seed=0)
    assert (predicted.counts == sw.predict(LINEAR, IMAGES, noise=0.5, seed=0).counts).all()


def test_outputs_that_could_be_two_things_are_refused() -> None:
    with pytest.raises(sw.UserError, match=r"2 values of shapes \(\d+, 3\), \(\d+, 2\).*lambda x"):
        sw.certify(Gives(lambda scores: (scores, scores[:, :2])), IMAGES, noise=0.5, **N)


def test_functions_of_numpy_arrays() -> None:
    weight, bias = (p.detach().numpy() for p in LINEAR[1].parameters())

    def of_images(x: np.ndarray) -> np.ndarray:
        return np.einsum("bchw,khw->bk", np.asarray(x, order="C"), weight.reshape(3, 4, 4)) + np.add(bias, 0)

    def of_rows(x: np.ndarray) -> np.ndarray:
        assert type(x) is np.ndarray
        return x @ weight.T + bias

    expected = sw.certify(LINEAR, IMAGES, noise=0.5, **N)
    for function in (of_images, of_rows):
        for images in (IMAGES, IMAGES.numpy(), IMAGES.double().numpy()):
            assert sw.certify(function, images, noise=0.5, **N) == expected
    assert sw.certify_members([of_rows, LINEAR], IMAGES.numpy(), noise=0.5, **N)["member-1"] == expected
    assert sw.MaxMarginEnsemble([of_rows, LINEAR])(IMAGES).argmax(-1).equal(LINEAR(IMAGES).argmax(-1))


def test_scikit_learn_classifiers() -> None:
    digits = sw.load_data("digits")
    images = digits.train.images(range(300))
    fitted = LogisticRegression(max_iter=500).fit(images.flatten(1).numpy(), digits.train.labels[:300])
    for model in (fitted, fitted.predict_proba):
        certificates = sw.certify(model, images[:4].numpy(), noise=0.1, **N)
        clean = fitted.predict(images[:4].flatten(1).numpy())
        assert ((certificates.labels == clean) | (certificates.labels == sw.ABSTAIN)).all()
        assert certificates.radii.max() > 0
    with pytest.raises(sw.UserError, match="the model fails at inputs of shape"):
        sw.certify(fitted, IMAGES, noise=0.1, **N)


def test_a_function_that_fails_on_tensors_and_arrays_says_so_as_before() -> None:
    with pytest.raises(sw.UserError, match=r"the model fails at inputs of shape .*wrong here"):
        sw.certify(lambda x: (_ for _ in ()).throw(ValueError("wrong here")), IMAGES, noise=0.5, **N)


@pytest.mark.parametrize("value_range", [(-1.0, 1.0), (0.0, 256.0)])
def test_other_pixels_have_the_same_certificates_in_their_own_units(value_range: tuple[float, float]) -> None:
    """Powers of two, so that no rounding differs. The model of the other pixels is LINEAR after scaling."""
    low, high = value_range
    width = high - low
    expected = sw.certify(LINEAR, IMAGES, noise=0.5, **N)

    def of_other_pixels(x: Tensor) -> Tensor:
        return LINEAR((x - low) / width)

    other = low + width * IMAGES
    made = sw.certify(of_other_pixels, other, noise=0.5 * width, value_range=value_range, **N)
    assert (made.value_range, made.sigma) == (value_range, 0.5 * width)
    assert (np.abs(made.counts - expected.counts) <= 1).all()
    np.testing.assert_allclose(made.radii, width * expected.radii, rtol=0.1)
    np.testing.assert_array_equal(made.in_unit_range().radii, made.radii / width)
    in_unit = sw.certify(sw.Classifier(of_other_pixels, value_range=value_range), IMAGES, noise=0.5, **N)
    assert (np.abs(in_unit.counts - expected.counts) <= 1).all()
    np.testing.assert_allclose(in_unit.radii, expected.radii, rtol=0.1)


def test_whole_pixels_need_their_range() -> None:
    pixels = (255 * IMAGES).byte()
    with pytest.raises(sw.UserError, match=r"divide by 255 first, or pass value_range=\(0, 255\)"):
        sw.certify(LINEAR, pixels, noise=0.5, **N)
    certificates = sw.certify(lambda x: LINEAR(x / 255), pixels.numpy(), noise=64, value_range=(0, 255), **N)
    assert certificates.noise == "gaussian(64.0)"


class Estimators(nn.Module):
    """The contract of torch-uncertainty's ensembles: logits (M B, K), member by member."""

    def __init__(self, members: list[nn.Module]) -> None:
        super().__init__()
        self.core_models = nn.ModuleList(members)
        self.num_estimators = len(members)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([member(x) for member in self.core_models])


@pytest.fixture(scope="module")
def members() -> list[nn.Module]:
    torch.manual_seed(0)
    return [
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3))
        for _ in range(3)
    ]


def test_an_ensemble_in_one_module_has_every_vote(members: list[nn.Module]) -> None:
    expected = sw.certify_members(members, IMAGES, noise=0.5, **N)
    assert sw.certify_members(Estimators(members), IMAGES, noise=0.5, **N) == expected
    both = sw.certify_members([Estimators(members[:2]), members[2]], IMAGES, noise=0.5, **N)
    assert both == expected
    weights = [0.2, 0.3, 0.5]
    joint, apart = (sw.WeightedEnsemble(these, weights) for these in ([Estimators(members)], members))
    assert joint.eval()(IMAGES).equal(apart.eval()(IMAGES))
    with pytest.raises(sw.UserError, match=r"goes to sw\.certify_members"):
        sw.certify(Estimators(members), IMAGES, noise=0.5, **N)


def test_torch_uncertainty_itself(members: list[nn.Module]) -> None:
    methods = pytest.importorskip("torch_uncertainty.methods", reason="torch-uncertainty is not installed")
    ensemble = methods.deep_ensembles(members, task="classification", reset_model_parameters=False)
    expected = sw.certify_members(members, IMAGES, noise=0.5, **N)
    assert sw.certify_members(ensemble, IMAGES, noise=0.5, **N) == expected


def test_an_ensemble_of_the_wrong_shape_is_refused() -> None:
    class Averaged(Estimators):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x)[: len(x)]

    with pytest.raises(sw.UserError, match=r"num_estimators = 2 must return scores"):
        sw.certify_members(Averaged([LINEAR, LINEAR]), IMAGES, noise=0.5, **N)


def test_members_that_return_more_than_scores_are_trained() -> None:
    split = sw.Split.from_tensors(torch.rand(64, 1, 4, 4, generator=GENERATOR), torch.arange(64) % 3)
    torch.manual_seed(0)
    plain, more = (nn.Sequential(nn.Flatten(), nn.Linear(16, 3)) for _ in range(2))
    more.load_state_dict(plain.state_dict())

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = more

        def forward(self, x: Tensor) -> Any:
            return SimpleNamespace(logits=self.inner(x))

    for member in (plain, Wrapped()):
        sw.train(
            [member], split, sw.GaussianAugmentation(sw.Gaussian(0.25)),
            schedule=sw.Schedule(epochs=2, batch_size=16, lr=0.1),
        )  # fmt: skip
    assert all(a.equal(b) for a, b in zip(plain.parameters(), more.parameters(), strict=True))


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=16,
        patch_size=8, num_channels=3, num_labels=4,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("vit")
    transformers.ViTForImageClassification(config).save_pretrained(folder)
    mean, std = [0.4, 0.5, 0.6], [0.2, 0.3, 0.4]
    size = {"height": 16, "width": 16}
    transformers.ViTImageProcessor(size=size, image_mean=mean, image_std=std).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("shape", [(3, 16, 16), (3, 24, 20)])
def test_a_hugging_face_model_sees_what_its_processor_gives(vit: Path, shape: tuple[int, ...]) -> None:
    """Pillow rounds to 8 bits after resizing, so equal up to 1 / 255 over the standard deviation there."""
    import transformers

    classifier = sw.Classifier.from_pretrained(vit)
    pixels = torch.randint(0, 256, (2, *shape), generator=GENERATOR, dtype=torch.uint8)
    processor = transformers.AutoImageProcessor.from_pretrained(vit)
    expected = processor(list(pixels.numpy()), return_tensors="pt", input_data_format="channels_first")
    seen: list[Tensor] = []
    classifier.model.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    scores = classifier(pixels.float() / 255)
    atol = 1e-5 if shape == (3, 16, 16) else 1.01 / 255 / 0.2
    torch.testing.assert_close(seen[0], expected["pixel_values"], rtol=0, atol=atol)
    if shape == (3, 16, 16):
        torch.testing.assert_close(scores, classifier.model(expected["pixel_values"]).logits)


def test_a_hugging_face_model_is_certified_with_its_processor_only(vit: Path) -> None:
    import transformers

    model = transformers.AutoModelForImageClassification.from_pretrained(vit)
    images = torch.rand(2, 3, 16, 16, generator=GENERATOR)
    with pytest.raises(sw.UserError, match=r"sw\.Classifier\(model, processor=processor\)"):
        sw.certify(model, images, noise=0.25, **N)
    processor = transformers.AutoImageProcessor.from_pretrained(vit)
    mean, std = (torch.tensor(values)[:, None, None] for values in ([0.4, 0.5, 0.6], [0.2, 0.3, 0.4]))
    expected = sw.certify(lambda x: model((x - mean) / std).logits, images, noise=0.25, **N)
    assert sw.certify(sw.Classifier(model, processor=processor), images, noise=0.25, **N) == expected
    assert len(sw.certify(sw.Classifier.from_pretrained(vit), images[:, :1], noise=0.25, **N)) == 2  # grey
    with pytest.raises(sw.UserError, match="no config"):
        sw.Classifier.from_pretrained(vit / "none")


def test_an_ensemble_is_saved_and_loaded(members: list[nn.Module], tmp_path: Path) -> None:
    digits = sw.load_data("digits")
    built = sw.build_members("digits-cnn", 2, 10, digits.shape, seed=0)
    ensemble = sw.WeightedEnsemble(built, [0.25, 0.75]).eval()
    images, labels = digits.test.images(range(3)), digits.test.labels[:3]
    table = sw.compare(sw.certify_members(built, images, noise=0.25, **N), labels)
    ensemble.save_pretrained(tmp_path / "mine", model="digits-cnn", num_classes=10, table=table)
    loaded = sw.WeightedEnsemble.from_pretrained(tmp_path / "mine")
    assert loaded(images).equal(ensemble(images))
    assert table.to_markdown() in (tmp_path / "mine/README.md").read_text()
    mme = sw.MaxMarginEnsemble(members).eval()
    mme.save_pretrained(tmp_path / "own", model="unused:function", num_classes=3)
    own = [torch.nn.Sequential(*map(type_of, member)) for member in members]
    assert sw.MaxMarginEnsemble.from_pretrained(tmp_path / "own", members=own)(IMAGES).equal(mme(IMAGES))
    with pytest.raises(sw.UserError, match="of an ensemble of shieldwall"):
        sw.MaxMarginEnsemble.from_pretrained(tmp_path)


def type_of(layer: nn.Module) -> nn.Module:
    """A new layer of the same shape."""
    import copy

    fresh = copy.deepcopy(layer)
    for parameter in fresh.parameters():
        nn.init.zeros_(parameter)
    return fresh
