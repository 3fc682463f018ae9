"""What works on run folders: `train`, `tune-weights`, `certify`, `merge`, `predict` and `demo`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from rich.table import Table

from shieldwall.cli.options import DataDir, Device, On, Run, Seed, TrustCode, arg, console, opt, say
from shieldwall.cli.report import report_command
from shieldwall.errors import UserError
from shieldwall.runs.pretrained import resolve_run, resolve_sources
from shieldwall.texts import names, numbers

CERTIFICATES, HELD_OUT = "certificates", "held-out"


def train_command(
    recipe: Annotated[str, arg("A recipe's name (`shieldwall recipes`) or a YAML file.")],
    out: Annotated[Path | None, opt("The run folder; by default runs/RECIPE.")] = None,
    start: Annotated[list[str] | None, opt("--from", "Start from the members of this trained run or "
        "pretrained name, or from a file of weights; repeat it for members of several.",
        "new members, or what the recipe names")] = None,
    assignments: Annotated[list[str] | None, opt("--set", "Change a key of the recipe, such as "
        "schedule.epochs=10.", "the recipe as it is", metavar="KEY=VALUE")] = None,
    seed: Annotated[int | None, opt("Seed of weights, batches and noise; by default the recipe's.")] = None,
    tensorboard: Annotated[bool, opt("--tensorboard", "Write TensorBoard event files.")] = False,
    data_dir: DataDir = None, device: Device = None, trust_code: TrustCode = False,
) -> None:  # fmt: skip
    """Train a recipe's members into a run folder.

    An interrupted run resumes at its last checkpoint, one an epoch and every ten minutes, to the same losses.
    Example: `shieldwall train mnist-gaussian --set sigma=1.0 --out runs/mnist-1.0`; then, with diversity
    regularisation, `shieldwall train mnist-drt-1.0 --from runs/mnist-1.0`.
    """
    from shieldwall import recipes
    from shieldwall.models.registry import trust
    from shieldwall.runs.train import train_run

    resolved = recipes.override(recipes.get(recipe), assignments or [])
    if any(assignment.partition("=")[0].strip() == "model" for assignment in assignments or []):
        trust(resolved.model)  # who types a name means it
    if seed is not None:
        resolved = replace(resolved, seed=seed)
    if (init_from := ",".join(start) if start else resolved.init_from) is not None:
        sources = resolve_sources(init_from, to_write=True)
        resolved = replace(resolved, init_from=",".join(map(str, sources)))
    run = train_run(
        resolved, out or Path("runs") / resolved.name, data_dir=data_dir, device=device,
        tensorboard=tensorboard, console=console,
    )  # fmt: skip
    say(f"run folder: {run.path}")
    if tensorboard:
        say(f"curves: tensorboard --logdir {run.path}")
    say(f"next: shieldwall certify {run.path}")


def tune_weights_command(
    run: Run,
    method: Annotated[str, opt("sween (learned) or grid (searched in steps of 0.1).")] = "sween",
    objective: Annotated[str, opt("What the grid search maximises: accuracy (under noise) or certified "
        "(accuracy at --radius).")] = "accuracy",
    radius: Annotated[float | None, opt("Radius of certified accuracy.", "none; certified needs it")] = None,
    copies: Annotated[int | None, opt("Noisy copies of images; by default 10, or 100 for certified.")] = None,
    data_dir: DataDir = None, device: Device = None, trust_code: TrustCode = False,
) -> None:  # fmt: skip
    """Tune the weights of the weighted vote on images held out from training.

    The run must have been trained with `--set holdout_every=10` or similar. Certification then has one more
    vote: `we-sween`, `we-grid`, or `we-grid-0.5` for certified accuracy at radius 0.5.
    """
    from shieldwall.runs.tune_weights import tune_weights_run

    results = tune_weights_run(
        resolve_run(run, to_write=True), method, objective=objective, radius=radius, copies=copies,
        data_dir=data_dir, device=device,
    )  # fmt: skip
    table = Table("held-out images:", "weights", "accuracy under noise", box=None, header_style="bold")
    if radius is not None:
        table.add_column(f"certified at {radius:g} (estimate)")
    for tuned in results:
        shares = [tuned.accuracy, *([] if tuned.certified is None else [tuned.certified])]
        weights = " ".join(f"{weight:.3f}" for weight in tuned.weights)
        table.add_row(tuned.name, weights, *(f"{100 * share:.2f}%" for share in shares))
    console.print(table)


def certify_command(
    run: Annotated[Path | None, arg("A run folder made by `shieldwall train`, or a pretrained name.",
        "none; --model takes its place")] = None,
    files: Annotated[list[Path] | None, arg("Certify and print these image files.", "test inputs")] = None,
    model: Annotated[str | None, opt("Instead of RUN: your own model, module:function or hf:FOLDER, at "
        "--images and --sigma.", "none")] = None,
    images: Annotated[Path | None, opt("Folder of images, with class folders or labels.csv.", "none")] = None,
    labels: Annotated[Path | None, opt("CSV file with the columns file,label for --images.",
        "labels.csv in the folder, or its class folders")] = None,
    size: Annotated[int | None, opt("Resize and cut --images to this side, e.g. 224.", "as they are")] = None,
    sigma: Annotated[float | None, opt("Standard deviation of the noise for --model.", "none")] = None,
    out: Annotated[Path | None, opt("The run folder for --model; by default runs/FUNCTION.")] = None,
    n0: Annotated[int | None, opt("Number of noise samples that select the class, for example 100.",
        "the recipe's; with --model 100")] = None,
    n: Annotated[int | None, opt("--n", "-n", "Number of noise samples that bound its probability, for "
        "example 10000; with --radii the maximum.", "the recipe's; with --model 100,000")] = None,
    alpha: Annotated[float | None, opt("Failure probability of each certificate, for example 0.001.",
        "the recipe's; with --model 0.001")] = None,
    every: Annotated[int | None, opt("Certify only every K-th test input, for example 10.",
        "the recipe's; with --model all")] = None,
    limit: Annotated[int | None, opt("Certify at most N inputs, for example 100.", "the recipe's")] = None,
    seed: Seed = None,
    to: Annotated[str, opt("Folder to write, inside the run folder.")] = CERTIFICATES,
    held_out: Annotated[bool, opt("--held-out", "Certify the training images held out (holdout_every), into "
        "the folder held-out, for `report --choose-on held-out`.")] = False,
    votes: Annotated[str, opt("These votes only, such as we,mme,member-1,eas; by default all.")] = "",
    radii: Annotated[str, opt("Stop sampling an input once each of these radii is certified or ruled out, "
        "e.g. 0.25,0.5.", "the recipe's, mostly none: every input has n samples")] = "",
    correct_only: Annotated[bool, opt("--correct-only", "For tables: draw no samples to bound an input for "
        "which every vote selected a wrong class.")] = False,
    bound: Annotated[str | None, opt("Bound: one-sided or two-sided (runner-up).", "the recipe's")] = None,
    norm: Annotated[str | None, opt("Norm of radii: l1, l2 or linf; by default that of the noise.")] = None,
    exact_noise: Annotated[bool | None, opt("--exact-noise", "Exact integer noise (8-bit images).")] = None,
    precision: Annotated[str | None, opt("float32, tf32, float16 or bfloat16. Each precision is a different "
        "classifier.", "the recipe's")] = None,
    compile: Annotated[bool | None, opt("--compile/--no-compile",
        "Use torch.compile: faster for long runs.", "the recipe's")] = None,
    batch_size: Annotated[int | None, opt("Samples per forward pass. Affects speed only, up to rounding.",
        "one that suits the device")] = None,
    shard: Annotated[str | None, opt("Certify one part of the inputs, for example 3/16, or auto in a job "
        "array; then `merge`.", "all inputs")] = None,
    on: On = "local",
    jobs: Annotated[int | None, opt(
        "Number of processes, with one thread each; by default 1, on Ray one for each GPU or core.")] = None,
    data_dir: DataDir = None, device: Device = None, trust_code: TrustCode = False,
) -> None:  # fmt: skip
    """Certify test inputs for every member, WE and MME, and the ensemble after smoothing, in one pass.

    Your own model: `shieldwall certify --model my_module:my_model --images photos --sigma 0.25`, where the
    function returns a model, or several, of images in [0, 1]. Options left out are taken from the recipe. An
    interrupted run resumes at the next input and writes the same files, except for the time column. What each
    option does to the guarantee: docs/certification.md.
    """
    from shieldwall.runs.certify import certify_run

    decided = tuple(numbers("--radii", radii)) if radii else None
    if decided == ():
        raise UserError(f"--radii needs at least one radius, such as 0.25,0.5; given: {radii!r}")
    if (run is None) == (model is None):
        raise UserError("certify needs a run folder, or --model with --images and --sigma")
    if run is None:
        from shieldwall.models.registry import trust
        from shieldwall.runs.start import adopt_run

        assert model is not None
        trust(model)  # who types a name means it
        if images is None or sigma is None:
            raise UserError("--model needs --images FOLDER and --sigma, such as --sigma 0.25")
        named = model.rstrip("/").replace("/", ":").rpartition(":")[2]
        run = Path("runs") / named if out is None else out
        adopted, count = adopt_run(model, images, run, sigma=sigma, labels=labels, size=size)
        run, votes = adopted.path, votes or ("member-1" if count == 1 else "")
    how: dict[str, Any] = {
        "n0": n0, "n": n, "alpha": alpha, "radii": decided, "bound": bound, "norm": norm, "seed": seed,
        "exact_noise": exact_noise, "precision": precision, "device": device,
    }  # fmt: skip
    if files:
        from shieldwall.runs.predict import certify_files

        certificates, classes = certify_files(resolve_run(run), files, vote=votes or "we", **how)
        table = Table("image", "label", "radius", box=None, header_style="bold")
        for file, label, radius in zip(files, certificates.labels, certificates.radii, strict=True):
            table.add_row(str(file), "abstains" if label < 0 else classes[label], f"{radius:.3f}")
        console.print(table)
        return
    to = HELD_OUT if held_out and to == CERTIFICATES else to
    certified = certify_run(
        resolve_run(run, to_write=True), to=to, held_out=held_out, every=every, limit=limit,
        votes=names(votes), compile=compile, batch_size=batch_size, shard=shard, correct_only=correct_only,
        jobs=1 if jobs is None and on == "local" else jobs, on=on, data_dir=data_dir, console=console, **how,
    )  # fmt: skip
    if shard is not None:
        same = "" if to == CERTIFICATES else f" --to {to}"
        say(f"next, once all shards are done: shieldwall merge {certified.path}{same}")
    else:
        _say_report(certified.path, to)


def merge_command(run: Run, to: Annotated[str, opt("The same as for `certify`.")] = CERTIFICATES) -> None:
    """Put the shards of `certify --shard` together, to the files that one process writes."""
    from shieldwall.runs.shards import merge_run

    _say_report(merge_run(resolve_run(run, to_write=True), to=to, console=console).path, to)


def _say_report(run: Path, to: str) -> None:
    say(f"next: shieldwall report {run if to == CERTIFICATES else run / to}")


def predict_command(
    run: Run,
    images: Annotated[list[Path] | None, arg("Image files of the model's size.", "none")] = None,
    index: Annotated[str, opt("Test inputs by number, such as 0,7,12.", "none")] = "",
    vote: Annotated[str, opt("The vote that answers: we, mme, member-1, ...")] = "we",
    n: Annotated[int, opt("Number of noise samples per input.")] = 1_000,
    alpha: Annotated[float, opt("Failure probability of each answer.")] = 0.001,
    seed: Annotated[int | None, opt(
        "Noise seed, to get the same answers again; by default a fresh one that nobody knows.")] = None,
    precision: Annotated[str | None, opt("As for `certify`; by default the recipe's.")] = None,
    exact_noise: Annotated[bool | None, opt("--exact-noise/--no-exact-noise",
        "The same as for `certify`; by default the recipe's.")] = None,
    data_dir: DataDir = None, device: Device = None, trust_code: TrustCode = False,
) -> None:  # fmt: skip
    """Classify images with the smoothed ensemble. It abstains where the two leading classes are too close.

    Example: `shieldwall predict runs/demo --index 0,1,2 --vote mme`
    """
    from shieldwall.runs.predict import predict_run

    try:
        indices = [int(part) for part in names(index)]
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
    out: Annotated[Path, opt("The run folder.")] = Path("runs/demo"), device: Device = None
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
