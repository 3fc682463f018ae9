"""What works on run folders: `train`, `tune-weights`, `certify`, `merge`, `predict` and `demo`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from shieldwall.cli.options import DataDir, Device, NoiseSeed, On, RunFolder, TrustCode, console, numbers
from shieldwall.cli.report import report_command
from shieldwall.errors import UserError

CERTIFICATES, HELD_OUT = "certificates", "held-out"
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change a key of the recipe, such as schedule.epochs=10."
    ),
]
Seed = Annotated[
    int | None, typer.Option(help="Seed of the initial weights, batches and noise; by default the recipe's.")
]


def train_command(
    recipe: Annotated[str, typer.Argument(help="A recipe's name (`shieldwall recipes`) or a YAML file.")],
    out: Annotated[Path | None, typer.Option(help="The run folder; by default runs/RECIPE.")] = None,
    start: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            help="Start from the members of this trained run or pretrained name, or from a file of weights; "
            "repeat it for members of several.",
        ),
    ] = None,
    assignments: Set = None,
    seed: Seed = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write TensorBoard event files into the run folder.")
    ] = False,
    data_dir: DataDir = None,
    device: Device = None,
    trust_code: TrustCode = False,
) -> None:
    """Train a recipe's members into a run folder.

    An interrupted run resumes at its last checkpoint, one an epoch and every ten minutes, to the same losses.
    Example: `shieldwall train mnist-gaussian --set sigma=1.0 --out runs/mnist-1.0`; then, with diversity
    regularisation, `shieldwall train mnist-drt-1.0 --from runs/mnist-1.0`.
    """
    from shieldwall import recipes
    from shieldwall.models.registry import trust
    from shieldwall.runs.pretrained import resolve_run
    from shieldwall.runs.start import sources_of
    from shieldwall.runs.train import train_run

    resolved = recipes.override(recipes.get(recipe), assignments or [])
    if any(assignment.partition("=")[0].strip() == "model" for assignment in assignments or []):
        trust(resolved.model)  # who types a name means it
    if seed is not None:
        resolved = replace(resolved, seed=seed)
    if start:
        resolved = replace(resolved, init_from=",".join(start))
    if resolved.init_from is not None:
        found = [str(resolve_run(source, to_write=True)) for source in sources_of(resolved.init_from)]
        resolved = replace(resolved, init_from=",".join(found))
    folder = out if out is not None else Path("runs") / resolved.name
    run = train_run(
        resolved, folder, data_dir=data_dir, device=device, tensorboard=tensorboard, console=console
    )
    console.print(f"run folder: {run.path}", soft_wrap=True)
    if tensorboard:
        console.print(f"curves: tensorboard --logdir {run.path}", soft_wrap=True)
    console.print(f"next: shieldwall certify {run.path}", soft_wrap=True)


def tune_weights_command(
    run: RunFolder,
    method: Annotated[
        str, typer.Option(help="sween (learned) or grid (searched in steps of 0.1).")
    ] = "sween",
    objective: Annotated[
        str,
        typer.Option(
            help="What the grid search maximises: accuracy (under noise) or certified (accuracy at --radius)."
        ),
    ] = "accuracy",
    radius: Annotated[
        float | None, typer.Option(help="The radius at which to maximise certified accuracy.")
    ] = None,
    copies: Annotated[
        int | None,
        typer.Option(help="Noisy copies of each held-out image; by default 10, or 100 for certified."),
    ] = None,
    data_dir: DataDir = None,
    device: Device = None,
    trust_code: TrustCode = False,
) -> None:
    """Tune the weights of the weighted vote on images held out from training.

    The run must have been trained with `--set holdout_every=10` or similar. Certification then has one more
    vote: `we-sween`, `we-grid`, or `we-grid-0.5` for certified accuracy at radius 0.5.
    """
    from shieldwall.runs.pretrained import resolve_run
    from shieldwall.runs.tune_weights import tune_weights_run

    run = resolve_run(run, to_write=True)
    results = tune_weights_run(
        run, method, objective=objective, radius=radius, copies=copies, data_dir=data_dir, device=device
    )
    table = Table("held-out images:", "weights", "accuracy under noise", box=None, header_style="bold")
    if radius is not None:
        table.add_column(f"certified at {radius:g} (estimate)")
    for tuned in results:
        shares = [tuned.accuracy, *([] if tuned.certified is None else [tuned.certified])]
        weights = " ".join(f"{weight:.3f}" for weight in tuned.weights)
        table.add_row(tuned.name, weights, *(f"{100 * share:.2f}%" for share in shares))
    console.print(table)


ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}


def weigh_command(context: typer.Context) -> None:
    """The former name of `tune-weights`."""
    command = " ".join(["shieldwall tune-weights", *context.args])
    raise UserError(f"`weigh` is now called `tune-weights`; run: {command}")


def certify_command(
    run: Annotated[
        Path | None, typer.Argument(help="A run folder made by `shieldwall train`, or a pretrained name.")
    ] = None,
    files: Annotated[
        list[Path] | None, typer.Argument(help="Certify these image files only, and print the answers.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Instead of RUN: your own model, module:function or hf:FOLDER, at --images and --sigma."
        ),
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Folder of images, with a folder for each class or labels.csv.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="CSV file with the columns file,label for --images.")
    ] = None,
    size: Annotated[
        int | None, typer.Option(help="Resize and cut --images to squares of this side, such as 224.")
    ] = None,
    sigma: Annotated[float | None, typer.Option(help="Standard deviation of the noise for --model.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The run folder for --model; by default runs/FUNCTION."),
    ] = None,
    n0: Annotated[
        int | None, typer.Option(help="Number of noise samples that select the class, for example 100.")
    ] = None,
    n: Annotated[
        int | None,
        typer.Option(
            "--n",
            "-n",
            help="Number of noise samples that bound its probability, for example 10000; "
            "with --radii the maximum.",
        ),
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Failure probability of each certificate, for example 0.001.")
    ] = None,
    every: Annotated[
        int | None, typer.Option(help="Certify only every K-th test input, for example 10.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Certify at most N inputs, for example 100.")] = None,
    seed: NoiseSeed = None,
    to: Annotated[str, typer.Option(help="Folder to write, inside the run folder.")] = CERTIFICATES,
    held_out: Annotated[
        bool,
        typer.Option(
            "--held-out",
            help="Certify the training images held out (holdout_every), into the folder held-out, "
            "for `report --choose-on held-out`.",
        ),
    ] = False,
    votes: Annotated[
        str,
        typer.Option(
            help="Certify these votes only, for example we,mme; by default all: member-1, ..., we, mme, eas."
        ),
    ] = "",
    radii: Annotated[
        str,
        typer.Option(
            help="Stop sampling an input once each of these radii is certified or ruled out, e.g. 0.25,0.5."
        ),
    ] = "",
    correct_only: Annotated[
        bool,
        typer.Option(
            "--correct-only",
            help="For tables: draw no samples to bound an input for which every vote selected a wrong class.",
        ),
    ] = False,
    bound: Annotated[
        str | None, typer.Option(help="Confidence bound: one-sided, or two-sided (with the runner-up).")
    ] = None,
    norm: Annotated[
        str | None, typer.Option(help="Norm of the radii: l1, l2 or linf; by default the norm of the noise.")
    ] = None,
    exact_noise: Annotated[
        bool | None, typer.Option("--exact-noise", help="Use exact integer noise, for 8-bit images.")
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            help="float32, tf32, float16 or bfloat16. Each precision is a different classifier.",
        ),
    ] = None,
    compile: Annotated[
        bool | None, typer.Option("--compile/--no-compile", help="Use torch.compile: faster for long runs.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Samples per forward pass. Affects speed only, up to rounding.")
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(
            help="Certify one part of the inputs, for example 3/16, or auto in a job array; then `merge`."
        ),
    ] = None,
    on: On = "local",
    jobs: Annotated[
        int | None,
        typer.Option(
            help="Number of processes, with one thread each; by default 1, on Ray one for each GPU or core."
        ),
    ] = None,
    data_dir: DataDir = None,
    device: Device = None,
    trust_code: TrustCode = False,
) -> None:
    """Certify test inputs for every member, WE and MME, and the ensemble after smoothing, in one pass.

    Your own model: `shieldwall certify --model my_module:my_model --images photos --sigma 0.25`, where the
    function returns a model, or several, of images in [0, 1]. Options left out are taken from the recipe. An
    interrupted run resumes at the next input and writes the same files, except for the time column. What each
    option does to the guarantee: docs/certification.md.
    """
    from shieldwall.runs.certify import certify_run
    from shieldwall.runs.pretrained import resolve_run

    decided = tuple(numbers("--radii", radii)) if radii else None
    if decided == ():
        raise UserError(f"--radii needs at least one radius, such as 0.25,0.5; given: {radii!r}")
    if (run is None) == (model is None):
        raise UserError("certify needs a run folder, or --model with --images and --sigma")
    if run is None:
        from shieldwall.models.registry import trust
        from shieldwall.runs.adopt import adopt_run

        assert model is not None
        trust(model)  # who types a name means it
        if images is None or sigma is None:
            raise UserError("--model needs --images FOLDER and --sigma, such as --sigma 0.25")
        named = model.rstrip("/").replace("/", ":").rpartition(":")[2]
        run = Path("runs") / named if out is None else out
        adopted, count = adopt_run(model, images, run, sigma=sigma, labels=labels, size=size)
        run, votes = adopted.path, votes or ("member-1" if count == 1 else "")
    if files:
        from shieldwall.runs.predict import certify_files

        vote = votes or "we"
        certificates, classes = certify_files(
            resolve_run(run), files, vote=vote, seed=seed, n0=n0, n=n, alpha=alpha, radii=decided,
            bound=bound, norm=norm, precision=precision, exact_noise=exact_noise, device=device,
        )  # fmt: skip
        table = Table("image", "label", "radius", box=None, header_style="bold")
        for file, label, radius in zip(files, certificates.labels, certificates.radii, strict=True):
            table.add_row(str(file), "abstains" if label < 0 else classes[label], f"{radius:.3f}")
        console.print(table)
        return
    to = HELD_OUT if held_out and to == CERTIFICATES else to
    certified = certify_run(
        resolve_run(run, to_write=True), n0=n0, n=n, alpha=alpha, every=every, limit=limit, seed=seed, to=to,
        held_out=held_out,
        votes=[name.strip() for name in votes.split(",") if name.strip()],
        radii=decided, bound=bound, norm=norm,
        exact_noise=exact_noise, precision=precision, compile=compile, batch_size=batch_size,
        shard=shard, jobs=1 if jobs is None and on == "local" else jobs, on=on, correct_only=correct_only,
        data_dir=data_dir, device=device, console=console,
    )  # fmt: skip
    folder = certified.path if to == CERTIFICATES else certified.path / to
    if shard is not None:
        console.print(f"next, once all shards are done: shieldwall merge {certified.path}", soft_wrap=True)
        return
    console.print(f"next: shieldwall report {folder}", soft_wrap=True)


def merge_command(
    run: RunFolder,
    to: Annotated[str, typer.Option(help="The same as for `certify`.")] = CERTIFICATES,
) -> None:
    """Put the shards of `certify --shard` together, once all of them are done.

    The files are those that one process writes, except for the time column.
    """
    from shieldwall.runs.shards import merge_run

    merged = merge_run(run, to=to, console=console)
    folder = merged.path if to == CERTIFICATES else merged.path / to
    console.print(f"next: shieldwall report {folder}", soft_wrap=True)


def predict_command(
    run: RunFolder,
    images: Annotated[list[Path] | None, typer.Argument(help="Image files of the model's size.")] = None,
    index: Annotated[str, typer.Option(help="Test inputs by number, such as 0,7,12.")] = "",
    vote: Annotated[str, typer.Option(help="The vote that answers: we, mme, member-1, ...")] = "we",
    n: Annotated[int, typer.Option(help="Number of noise samples per input.")] = 1_000,
    alpha: Annotated[float, typer.Option(help="Failure probability of each answer.")] = 0.001,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Noise seed, to get the same answers again; by default a fresh one that nobody knows."
        ),
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="The same as for `certify`; by default the recipe's.")
    ] = None,
    exact_noise: Annotated[
        bool | None,
        typer.Option(
            "--exact-noise/--no-exact-noise", help="The same as for `certify`; by default the recipe's."
        ),
    ] = None,
    data_dir: DataDir = None,
    device: Device = None,
    trust_code: TrustCode = False,
) -> None:
    """Classify images with the smoothed ensemble. It abstains where the two leading classes are too close.

    Example: `shieldwall predict runs/demo --index 0,1,2 --vote mme`
    """
    from shieldwall.runs.predict import predict_run
    from shieldwall.runs.pretrained import resolve_run

    try:
        indices = [int(part) for part in index.split(",") if part.strip()]
    except ValueError as error:
        raise UserError(f"--index takes whole numbers such as 0,7,12; given: {index!r}") from error
    answers = predict_run(
        resolve_run(run), images or [], indices=indices, vote=vote, n=n, alpha=alpha, seed=seed,
        precision=precision, exact_noise=exact_noise, data_dir=data_dir, device=device,
    )  # fmt: skip
    table = Table("input", "answer", "truth", f"votes of {n}", box=None, header_style="bold")
    for answer in answers:
        votes = ", ".join(f"{label}: {count}" for label, count in answer.votes)
        table.add_row(answer.source, answer.label or "abstains", answer.truth or "", votes)
    console.print(table)


def demo_command(
    out: Annotated[Path, typer.Option(help="The run folder.")] = Path("runs/demo"), device: Device = None
) -> None:
    """Train, certify and report three members on handwritten digits, with no download.

    It takes a minute or two on two cores. An interrupted demo resumes.
    """
    from shieldwall import recipes
    from shieldwall.errors import missing
    from shieldwall.runs.certify import certify_run
    from shieldwall.runs.train import train_run

    train_run(recipes.get("digits-gaussian"), out, device=device, console=console)
    certify_run(out, device=device, console=console)
    plot = None if missing("report") else [out / "certified-accuracy.png"]
    report_command([out], plot=plot)
