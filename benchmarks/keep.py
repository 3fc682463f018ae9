"""A maintainer's tool: puts a trained and certified run into the package, in place of an older one.

    python benchmarks/keep.py RUN NAME [--round]
    python benchmarks/keep.py RUN FOLDER --rounded-run

The members and recipe.yaml are the run's own bytes; of environment.json, what training was made with. With
--round the weights are rounded to the half precision that the run was certified in, where they are the same
classifier. MODEL.md is the model card, with the run's certified table; checksums.yaml has the SHA-256 of
every file.

Members with batch norm are another classifier once they are rounded. --rounded-run writes FOLDER, a run with
the weights in float16, to be certified itself and then kept.
"""

import argparse
import json
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import safetensors.torch as safetensors
import torch
import yaml
from documents import markdown_report

from shieldwall.data import datasets
from shieldwall.errors import UserError
from shieldwall.files import disk_errors, write_atomic
from shieldwall.models.registry import build_members
from shieldwall.results.archive import is_archive
from shieldwall.results.certificate_writer import read_settings
from shieldwall.results.checks import SUMS, Sums, sha256
from shieldwall.runs import pretrained
from shieldwall.runs.folder import RunFolder

ORIGINS = ("recipe.yaml", "start.yaml", "training.jsonl")
NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
DATA = {
    "digits": (
        "the 1,797 handwritten digits of 8 x 8 pixels that scikit-learn distributes: the test part of "
        '"Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak, UCI Machine Learning '
        "Repository, licensed CC BY 4.0. Every fifth is a test image, 360 in all, which no member has seen"
    ),
    "mnist": (
        "MNIST by Y. LeCun, C. Cortes and C. Burges: 28 x 28 handwritten digits, from NIST's databases. The "
        "members have seen the 60,000 training images, and none of the 10,000 test images"
    ),
    "cifar10": (
        "CIFAR-10 by A. Krizhevsky: 32 x 32 colour photographs of 10 classes. The members have seen training "
        "images only, and none of the 10,000 test images"
    ),
}
"""What the model card says of a data set: what it is, whose, and its licence."""
CARD = """\
# {name}

An ensemble of {members} members, {parameters:,} parameters each, for images {shape} with pixels in
[0, 1], to be smoothed with {noise} noise of standard deviation {sigma:g}.

| | |
| :-- | :-- |
| data | {data} |
| training | recipe `{recipe}`, {summary}; {epochs} epochs, seed {seed}: `recipe.yaml` has every number |
| made with | commit {commit}, torch {torch}, {device}, {date} |
| weights | {precision}, safetensors, {files} |
| licence | MIT, as the package |

Measured on {inputs:,} test images, in {certified_precision}, with noise seed {certified_seed}, at commit
{certified_commit}:

{table}

It is meant for trying this package out. On images unlike those of its data set, its answers mean nothing,
though they have certificates: these say that an answer is stable, not that it is right.
"""


def keep(run_folder: Path, name: str, *, rounded: bool = False) -> None:
    """Add the trained and certified run to the package as `name`."""
    if not NAME.fullmatch(name):
        raise UserError(f"a pretrained name is of a-z, 0-9, dots and hyphens; given: {name!r}")
    if is_archive(run_folder):
        raise UserError(f"{run_folder} is a packed run, which has no weights to keep; give its run folder")
    run = RunFolder(run_folder)
    run.check_trained()
    environment = json.loads((run.path / "environment.json").read_text())
    weights = {path.relative_to(run.path).as_posix(): path.read_bytes() for path in run.member_paths()}
    precision = _stored_precision(weights["members/member-1.safetensors"])
    if rounded:
        precision = str(read_settings(run.path / "certificates" / "settings.yaml")["precision"])
        if precision not in ("float16", "bfloat16"):
            raise UserError(f"{run.path} is certified in {precision}; --round needs float16 or bfloat16")
        weights = {file: round_weights(content, precision) for file, content in weights.items()}
    files = {
        "MODEL.md": card(
            run, name, environment, precision, [len(content) for content in weights.values()]
        ).encode(),
        "recipe.yaml": (run.path / "recipe.yaml").read_bytes(),
        "environment.json": (json.dumps({"train": environment["train"]}, indent=2) + "\n").encode(),
        **weights,
    }
    target = pretrained.PACKAGED / name
    _write_checksums({other: sums for other, sums in pretrained.checksums().items() if other != name})
    with disk_errors(target):
        shutil.rmtree(target, ignore_errors=True)
        (target / "members").mkdir(parents=True)
    for file, content in files.items():
        write_atomic(target / file, content)
    _write_checksums({**pretrained.checksums(), name: {f: sha256((target / f).read_bytes()) for f in files}})


def write_rounded_run(run_folder: Path, target: Path) -> None:
    """A run folder with the weights of another one in float16, not certified yet."""
    run = RunFolder(run_folder)
    run.check_trained()
    environment = json.loads((run.path / "environment.json").read_text())
    environment.pop("certify", None)
    names = (*ORIGINS, *(path.relative_to(run.path).as_posix() for path in run.member_paths()))
    files = {name: (run.path / name).read_bytes() for name in names if (run.path / name).is_file()}
    for name in files:
        if name.startswith("members/"):
            files[name] = round_weights(files[name], "float16")
            if not all(torch.isfinite(value).all() for value in safetensors.load(files[name]).values()):
                raise UserError(f"{run.path / name} has weights that float16 cannot hold")
    files["environment.json"] = (json.dumps(environment, indent=2) + "\n").encode()
    sums = Sums(target, {name: sha256(content) for name, content in files.items()})
    with disk_errors(target):
        (target / "members").mkdir(parents=True)
    for name, content in {**files, SUMS: str(sums).encode()}.items():
        write_atomic(target / name, content)


def _stored_precision(content: bytes) -> str:
    """The widest type of a safetensors file's numbers."""
    types = {value.dtype for value in safetensors.load(content).values() if value.is_floating_point()}
    return str(max(types, key=lambda dtype: dtype.itemsize)).removeprefix("torch.")


def round_weights(content: bytes, precision: str) -> bytes:
    """A safetensors file with its weights in a half precision."""
    dtype = getattr(torch, precision)
    rounded = {k: v.to(dtype) if v.is_floating_point() else v for k, v in safetensors.load(content).items()}
    return safetensors.save(rounded)


def card(run: RunFolder, name: str, environment: dict[str, Any], precision: str, sizes: Sequence[int]) -> str:
    """The model card: what the run folder says, and its certified table."""
    recipe = run.recipe
    settings = run.path / "certificates" / "settings.yaml"
    if not settings.is_file():
        raise UserError(f"{run.path} is not certified yet; run `shieldwall certify {run.path}`")
    certified = read_settings(settings)
    if certified["members_sha256"] != run.weights_digest():
        raise UserError(f"the certificates of {run.path} are not of its members; certify it again")
    if recipe.data not in DATA:
        raise UserError(f"benchmarks/keep.py does not know what to say of the data set {recipe.data!r} yet")
    shape, classes = datasets.dataset_spec(recipe.data)
    (member,) = build_members(recipe.model, 1, len(classes), shape, seed=0)
    made = environment["train"]
    return CARD.format(
        name=name,
        members=recipe.members,
        parameters=sum(parameter.numel() for parameter in member.parameters()),
        shape=" x ".join(map(str, shape)),
        noise=recipe.noise,
        sigma=recipe.sigma,
        data=DATA[recipe.data],
        recipe=recipe.name,
        summary=recipe.summary,
        epochs=recipe.schedule.epochs,
        seed=recipe.seed,
        commit=str(made["commit"])[:7],
        torch=made["torch"],
        device=made["device"],
        date=str(made["date"])[:10],
        precision=precision,
        files=f"{len(sizes)} files of {max(sizes) / 1000:.0f} kB",
        inputs=certified["inputs"],
        certified_precision=certified["precision"],
        certified_seed=certified["seed"],
        certified_commit=str(environment["certify"]["commit"])[:7],
        table=markdown_report(run.path).strip(),
    )


def _write_checksums(known: dict[str, dict[str, str]]) -> None:
    with disk_errors(pretrained.PACKAGED):
        pretrained.PACKAGED.mkdir(exist_ok=True)
    content = yaml.safe_dump(known, sort_keys=True, width=110)
    write_atomic(pretrained.PACKAGED / pretrained.CHECKSUMS, content.encode())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    parser.add_argument("--round", action="store_true", dest="rounded")
    parser.add_argument("--rounded-run", action="store_true")
    options = parser.parse_args()
    try:
        if options.rounded_run:
            write_rounded_run(options.run, Path(options.name))
            print(f"{options.name}: written; certify it, then keep it")
            return 0
        keep(options.run, options.name, rounded=options.rounded)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"{pretrained.PACKAGED / options.name}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
