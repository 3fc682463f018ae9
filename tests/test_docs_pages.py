"""The guides and the README: their Python runs, page by page, and their commands exist as they are written.

The blocks of a page are one program. What a reader is asked to bring, such as `model`, is `brought`.
"""

import copy
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from typer.main import get_group

import shieldwall as sw
from shieldwall import cli, recipes

ROOT = Path(__file__).parents[1]
OWN_TEST = {"certification.md", "results.md"}
PAGES = [ROOT / "README.md", *(page for page in sorted(ROOT.glob("docs/*.md")) if page.name not in OWN_TEST)]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


@pytest.fixture(scope="module")
def brought() -> dict[str, Any]:
    """Three members that have seen a little noise, and some digits."""
    torch.set_num_threads(1)
    digits = sw.load_data("digits")
    members = sw.build_members("digits-cnn", 3, 10, digits.shape, seed=0)
    schedule = sw.Schedule(epochs=2, batch_size=64, lr=0.1)
    sw.train(members, digits.train, sw.GaussianAugmentation(sw.Gaussian(0.25)), schedule=schedule)
    images = digits.test.images(range(4))
    names = dict(zip(("first", "second", "third"), members, strict=True))
    return {"sw": sw, "model": members[0], "images": images, "labels": digits.test.labels[:4], **names}


def program(page: Path) -> str:
    """A page's Python blocks one after the other, at their own line numbers."""
    text = page.read_text()
    lines = [""] * text.count("\n")
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        first = text[: block.start(1)].count("\n")
        for offset, line in enumerate(block[1].splitlines()):
            is_left_open = re.match(r"\w+ = \.\.\.", line)
            lines[first + offset] = "" if is_left_open else line
    return "\n".join(lines)


@each_page
def test_the_python_of_a_page_runs(
    page: Path,
    brought: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    names = dict(brought)
    if page.stem == "own-training":
        digits = sw.load_data("digits").train
        pixels = (digits.images(range(300)) * 255).round().byte()
        names |= {"pixels": pixels, "labels": digits.labels[:300]}
        for k in range(20):
            folder = Path("photos/train") / str(int(digits.labels[k]))
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels[k, 0].numpy()).save(folder / f"{k}.png")
    if page.stem == "denoised":
        # The classifier's own copy, for its weights are held fixed; a model that sees no noise.
        alphas_cumprod = (1 - torch.linspace(1e-4, 0.02, 1_000)).cumprod(0)
        names |= {"classifier": copy.deepcopy(brought["model"]), "alphas_cumprod": alphas_cumprod}
        names |= {"unet": lambda x_t, t: torch.zeros_like(x_t)}
    if page.stem == "run-folder":
        Path("runs/mine").mkdir(parents=True)
        Path("runs/mine/recipe.yaml").write_text(recipes.get("smoke").to_yaml())
    exec(compile(program(page), str(page), "exec"), names)
    printed = capsys.readouterr().out
    for block in re.findall(r"^```text\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        assert block in printed
    if page.stem == "denoised":
        assert names["denoised"].denoiser.sigma == 0.25
        assert list(names["votes"]) == ["member-1", "we"]
    if page.stem == "own-training":
        assert names["records"][-1]["loss"] < names["records"][0]["loss"]
        assert Path("ensemble.pt").is_file()


def test_the_guides_hold_programs() -> None:
    for stem in ("own-model", "own-training", "add-a-method", "troubleshooting", "README"):
        (page,) = (page for page in PAGES if page.stem == stem)
        assert program(page).strip(), stem


def commands(page: Path) -> list[list[str]]:
    """The arguments of every shieldwall that stands on a line of its own."""
    text = page.read_text().replace("\\\n", "")
    found = re.findall(r"^(?:    |\$ )?(?:torchrun .*-m )?(shieldwall [^\n]*)$", text, re.MULTILINE)
    return [shlex.split(line.partition(" > ")[0], comments=True)[1:] for line in found]


@each_page
def test_the_commands_of_a_page_exist(page: Path) -> None:
    for words in commands(page):
        command = get_group(cli.app)
        while words and hasattr(command, "commands"):
            assert words[0] in command.commands, words
            command, words = command.commands[words[0]], words[1:]
        context = command.make_context(command.name, list(words))
        if command.name != "train":
            continue
        named = context.params["recipe"]
        if not named.endswith(".yaml"):
            recipes.override(recipes.get(named), context.params["assignments"] or [])


def test_there_are_commands_to_check() -> None:
    counted = {page.stem: len(commands(page)) for page in PAGES}
    assert counted["README"] >= 4
    assert counted["methods"] > 8
    assert counted["tutorial"] > 8
    assert counted["own-training"] == 4
    assert counted["own-model"] == 6
    assert counted["troubleshooting"] == 3
    assert counted["papers"] == 8
    assert counted["board"] == 1


def test_the_messages_quoted_are_those_of_the_code() -> None:
    text = (ROOT / "docs/troubleshooting.md").read_text()
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    quoted = re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
    assert len(quoted) == 8
    for message in quoted:
        start, _, _ = message.partition(" epoch ")
        assert start in source, message


def test_the_methods_of_imagenet_are_those_that_have_recipes() -> None:
    named = re.findall(r"`(imagenet-[\w-]+)`", (ROOT / "docs/methods.md").read_text())
    assert sorted(named) == sorted(name for name in recipes.FAMILIES if name.startswith("imagenet"))


@each_page
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        headings = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE) if anchor else []
        anchors = {re.sub(r"[^\w\- ]", "", one).lower().replace(" ", "-") for one in headings}
        assert not anchor or anchor in anchors, link


@each_page
def test_names_of_modules_in_a_page_exist(page: Path) -> None:
    for path in re.findall(r"`((?:src|tests|benchmarks|docs|examples)/[\w./-]+)`", page.read_text()):
        assert (ROOT / path).exists(), path
    for path in re.findall(r"`((?:training|recipes|ensembles|smoothing)/[\w./]*)`", page.read_text()):
        assert (ROOT / "src/shieldwall" / path).exists() or (ROOT / "tests" / path).exists(), path
