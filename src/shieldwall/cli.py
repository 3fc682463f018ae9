"""The command line: verbs over the library, no science."""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from shieldwall import theory_cli
from shieldwall.errors import UserError

CERTIFICATES = "certificates"
STOPPED = 130
"""The exit code after Ctrl-C, as shells give it."""

app = typer.Typer(
    help="Certifiably robust ensembles: train them, certify them by randomized smoothing, show the result."
    "\n\n"
    "First steps: `shieldwall demo`, or `shieldwall train digits-gaussian`, then `shieldwall certify` and "
    "`shieldwall report` on the run folder it names.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(
    help="See which data sets are here, and fetch those that are not.", no_args_is_help=True
)
app.add_typer(data_app, name="data")
app.add_typer(theory_cli.app, name="theory")

console = Console(markup=False, highlight=False)  # a path may hold what would be markup

DataDir = Annotated[
    Path | None,
    typer.Option(help="Where to look for data first; then $SHIELDWALL_DATA, then the cache folder."),
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ...; by default a GPU if there is one.")]
RunFolder = Annotated[Path, typer.Argument(help="A run folder made by `shieldwall train`.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a recipe's key, such as schedule.epochs=10."),
]
Seed = Annotated[int | None, typer.Option(help="Fixes initial weights, batches and noise.")]


@app.command("train")
def train_command(
    recipe: Annotated[str, typer.Argument(help="A recipe's name (`shieldwall recipes`) or a YAML file.")],
    out: Annotated[Path | None, typer.Option(help="The run folder; by default runs/RECIPE.")] = None,
    start: Annotated[
        Path | None, typer.Option("--from", help="Start from the trained members of this run folder.")
    ] = None,
    assignments: Set = None,
    seed: Seed = None,
    data_dir: DataDir = None,
    device: Device = None,
) -> None:
    """Train a recipe's members into a run folder.

    Called again after an interruption, it goes on from the last epoch, to the same losses.
    Example: `shieldwall train mnist-gaussian --set sigma=1.0 --out runs/mnist-1.0`; then, with diversity
    regularisation, `shieldwall train mnist-drt-1.0 --from runs/mnist-1.0`.
    """
    from shieldwall import recipes
    from shieldwall.stages import train_run

    resolved = recipes.override(recipes.get(recipe), assignments or [])
    if seed is not None:
        resolved = replace(resolved, seed=seed)
    if start is not None:
        resolved = replace(resolved, start=str(start))
    folder = out if out is not None else Path("runs") / resolved.name
    run = train_run(resolved, folder, data_dir=data_dir, device=device, console=console)
    console.print(f"run folder: {run.path}", soft_wrap=True)
    console.print(f"next: shieldwall certify {run.path}", soft_wrap=True)


@app.command("certify")
def certify_command(
    run: RunFolder,
    n0: Annotated[int | None, typer.Option(help="Draws that choose the class.")] = None,
    n: Annotated[  # torchrun takes --n for an option of its own, wherever it stands
        int | None, typer.Option("--n", "-n", help="Draws that bound its probability, at most.")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Probability, per input, of a wrong certificate.")
    ] = None,
    every: Annotated[int | None, typer.Option(help="Certify every so many test inputs.")] = None,
    limit: Annotated[int | None, typer.Option(help="Certify at most so many inputs.")] = None,
    seed: Annotated[int | None, typer.Option(help="Fixes the noise; by default the recipe's.")] = None,
    to: Annotated[str, typer.Option(help="Folder inside the run folder.")] = CERTIFICATES,
    votes: Annotated[
        str, typer.Option(help="Certify these only: member-1, ..., we, mme, eas; by default all.")
    ] = "",
    radii: Annotated[
        str, typer.Option(help="Stop an input once these radii are decided, such as 0.25,0.5.")
    ] = "",
    tolerance: Annotated[
        float | None, typer.Option(help="Stop an input once its radius cannot change by more.")
    ] = None,
    bound: Annotated[str, typer.Option(help="one-sided, two-sided or randomized.")] = "one-sided",
    norm: Annotated[
        str | None, typer.Option(help="Norm of the radii: l1, l2 or linf; by default the noise's own.")
    ] = None,
    exact_noise: Annotated[
        bool, typer.Option("--exact-noise", help="Integer noise on the 1/255 grid.")
    ] = False,
    precision: Annotated[
        str, typer.Option(help="float32, tf32, float16 or bfloat16: another one is another classifier.")
    ] = "float32",
    compile: Annotated[
        bool, typer.Option("--compile", help="Use torch.compile, which pays on a GPU in long runs.")
    ] = False,
    batch_size: Annotated[
        int | None, typer.Option(help="Noisy copies at a time; changes the speed, up to rounding.")
    ] = None,
    data_dir: DataDir = None,
    device: Device = None,
) -> None:
    """Certify test inputs for every member, WE and MME, and the ensemble after smoothing, in one pass.

    What is not given comes from the recipe. Called again after an interruption, it goes on with the
    next input and gives the same bytes as an uninterrupted run, but for the time column. What each
    option does to the guarantee: docs/certification.md.
    """
    from shieldwall.stages import certify_run

    done = certify_run(
        run, n0=n0, n=n, alpha=alpha, every=every, limit=limit, seed=seed, to=to,
        votes=[name.strip() for name in votes.split(",") if name.strip()],
        radii=numbers("--radii", radii) if radii else None, tolerance=tolerance, bound=bound, norm=norm,
        exact_noise=exact_noise, precision=precision, compile=compile,
        batch_size=batch_size, data_dir=data_dir, device=device, console=console,
    )  # fmt: skip
    folder = done.path if to == CERTIFICATES else done.path / to
    console.print(f"next: shieldwall report {folder}", soft_wrap=True)


@app.command("weigh")
def weigh_command(
    run: RunFolder,
    method: Annotated[str, typer.Option(help="sween (learned) or grid (searched, step 0.1).")] = "sween",
    copies: Annotated[int, typer.Option(help="Noisy copies of each held-out image.")] = 10,
    data_dir: DataDir = None,
    device: Device = None,
) -> None:
    """Tune the weights of the weighted vote on images kept from training.

    The run must have been trained with `--set hold_out=10` or so. Members run once; certification then
    has one more vote, `we-sween` or `we-grid`.
    """
    from shieldwall.stages import weigh_run

    table = Table("weights", "", "held-out accuracy under noise", box=None, header_style="bold")
    found = weigh_run(run, method, copies=copies, data_dir=data_dir, device=device)
    for name, (weights, accuracy) in found.items():
        table.add_row(name, " ".join(f"{weight:.3f}" for weight in weights), f"{100 * accuracy:.2f}%")
    console.print(table)


@app.command("predict")
def predict_command(
    run: RunFolder,
    images: Annotated[list[Path] | None, typer.Argument(help="Image files of the model's size.")] = None,
    index: Annotated[str, typer.Option(help="Test inputs by number, such as 0,7,12.")] = "",
    vote: Annotated[str, typer.Option(help="we, mme, member-1, ...")] = "we",
    n: Annotated[int, typer.Option(help="Draws per input.")] = 1_000,
    alpha: Annotated[float, typer.Option(help="Probability, per input, of a wrong answer.")] = 0.001,
    seed: Annotated[
        int | None, typer.Option(help="Names the draws; keep it from those who choose the images.")
    ] = None,
    precision: Annotated[str, typer.Option(help="As given to `certify`.")] = "float32",
    exact_noise: Annotated[bool, typer.Option("--exact-noise", help="As given to `certify`.")] = False,
    data_dir: DataDir = None,
    device: Device = None,
) -> None:
    """Classify images with the smoothed ensemble, which abstains when it cannot tell.

    Example: `shieldwall predict runs/demo --index 0,1,2 --vote mme`
    """
    from shieldwall.stages import predict_run

    try:
        indices = [int(part) for part in index.split(",") if part.strip()]
    except ValueError as error:
        raise UserError(f"--index takes whole numbers such as 0,7,12; given: {index!r}") from error
    answers = predict_run(
        run, images or [], indices=indices, vote=vote, n=n, alpha=alpha, seed=seed, precision=precision,
        exact_noise=exact_noise, data_dir=data_dir, device=device,
    )  # fmt: skip
    table = Table("input", "answer", "truth", f"votes of {n}", box=None, header_style="bold")
    for answer in answers:
        votes = ", ".join(f"{label}: {count}" for label, count in answer.votes)
        table.add_row(answer.source, answer.label or "abstains", answer.truth or "", votes)
    console.print(table)


@app.command("strategies")
def strategies_command(
    run: RunFolder,
    n0: Annotated[int | None, typer.Option(help="Draws that choose the class.")] = None,
    n: Annotated[int | None, typer.Option(help="Draws that bound its probability.")] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Probability, per input, of a wrong certificate.")
    ] = None,
    every: Annotated[int | None, typer.Option(help="Compare at every so many test inputs.")] = None,
    limit: Annotated[int | None, typer.Option(help="Compare at most so many inputs.")] = None,
    seed: Annotated[int | None, typer.Option(help="Fixes the noise; by default the recipe's.")] = None,
    all_rows: Annotated[
        bool, typer.Option("--all", help="Show every input in the table, not the first 20.")
    ] = False,
    data_dir: DataDir = None,
    device: Device = None,
) -> None:
    """Compare smoothing an ensemble (EBS) with an ensemble of smoothed members (EAS), input by input.

    What is not given comes from the recipe; the draws are those of `shieldwall certify`. For two members,
    the paper's corollary says from frequencies which strategy has the larger radius. Every number goes to
    `strategies.tsv` in the run folder, written at the end.
    """
    from shieldwall.report.strategies import summary_tables, table
    from shieldwall.stages.strategies import FILE, compare_strategies

    found = compare_strategies(
        run, n0=n0, n=n, alpha=alpha, every=every, limit=limit, seed=seed,
        data_dir=data_dir, device=device, console=console,
    )  # fmt: skip
    for shown in (table(found, all_rows=all_rows, width=console.width), *summary_tables(found)):
        console.print(shown, crop=False)
        console.print()
    console.print(f"in full: {run / FILE}", soft_wrap=True)


@app.command("report")
def report_command(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Run folders, certificate folders, or tab-separated logs of other tools."),
    ],
    radii: Annotated[str, typer.Option(help="Radii of the table, such as 0,0.25,0.5.")] = "",
    plot: Annotated[
        list[Path] | None,
        typer.Option(
            help="Where to draw the curves (.png or .pdf), once per file; by default in the first folder."
        ),
    ] = None,
) -> None:
    """Show certified accuracy by radius, clean accuracy, ACR and abstentions, and draw the curves."""
    from shieldwall.report import plot_certified_accuracy, table
    from shieldwall.results.logs import read_logs

    logs = read_logs(runs)
    console.print(table(logs, numbers("--radii", radii) or None), crop=False)
    home = runs[0] if runs[0].is_dir() else runs[0].parent
    plots = plot or [home / "certified-accuracy.png", home / "certified-accuracy.pdf"]
    plot_certified_accuracy(logs, plots)
    console.print(f"plot: {', '.join(map(str, plots))}", soft_wrap=True)


@app.command("recipes")
def recipes_command(
    name: Annotated[
        str | None, typer.Argument(help="Show this recipe in full, or list those with this in their name.")
    ] = None,
) -> None:
    """List the recipes, or show one in full.

    A name may carry a sigma: `mnist-gaussian-1.0`. Those called drt go on from trained members: give
    `shieldwall train` a run of the method they wrap, with `--from`. Example: `shieldwall recipes cifar10`
    """
    from itertools import groupby

    from shieldwall import recipes

    listed = {known: family for known, family in recipes.FAMILIES.items() if name is None or name in known}
    if name is not None and (name in listed or not listed):
        console.print(recipes.get(name).to_yaml(), end="", soft_wrap=True)
        return
    table = Table("recipe", "sigma", "what it does", box=None, header_style="bold")
    for _, group in groupby(listed.items(), key=lambda item: item[1].usual().data):
        if table.row_count:
            table.add_row()
        for known, family in group:
            table.add_row(known, " ".join(map(str, family.sigmas)), family.usual().summary)
    console.print(table)


@app.command("demo")
def demo_command(
    out: Annotated[Path, typer.Option(help="The run folder.")] = Path("runs/demo"), device: Device = None
) -> None:
    """Train, certify and report three members on handwritten digits, with no download.

    It takes a minute or two on two cores. Called again, it goes on from what the folder holds.
    """
    from shieldwall import recipes
    from shieldwall.stages import certify_run, train_run

    train_run(recipes.get("digits-gaussian"), out, device=device, console=console)
    certify_run(out, device=device, console=console)
    report_command([out])


@data_app.command("list")
def data_list(data_dir: DataDir = None) -> None:
    """List the data sets and where each was found."""
    from shieldwall.data import status

    table = Table("data set", "found in", "what it is", box=None, header_style="bold")
    for found in status(data_dir):
        table.add_row(found.name, str(found.place or "not found"), found.description)
    console.print(table)


@data_app.command("fetch")
def data_fetch(
    name: Annotated[str, typer.Argument(help="mnist, fashion-mnist or cifar10.")],
    data_dir: Annotated[
        Path | None, typer.Option(help="Where to put it; by default where it will be found.")
    ] = None,
    from_url: Annotated[str | None, typer.Option(help="Another source of the same files.")] = None,
) -> None:
    """Download a data set, checked against its published checksums; called again, it resumes."""
    from shieldwall.data import fetch
    from shieldwall.progress import file_bars

    with file_bars(console) as show:
        folder = fetch(name, data_dir, from_url, show)
    console.print(f"{name}: complete in {folder}", soft_wrap=True)


def numbers(option: str, text: str) -> list[float]:
    """The numbers in a list such as 0,0.25,0.5."""
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise UserError(f"{option} takes numbers such as 0,0.25,0.5; given: {text!r}") from error


def main() -> None:
    """Run the command line: a user's mistake is one line and exit code 2, never a traceback."""
    try:
        app()
    except UserError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (KeyboardInterrupt, SystemExit) as end:
        if isinstance(end, SystemExit) and end.code != STOPPED:  # typer turns Ctrl-C into an exit
            raise
        if os.environ.get("RANK", "0") == "0":
            Console(stderr=True).print("stopped; run the same command to go on from here")
        sys.exit(STOPPED)


def _fail(message: str) -> NoReturn:
    if os.environ.get("RANK", "0") != "0":  # a mistake seen by all processes is told by the first alone:
        time.sleep(10)  # when that one ends, torchrun ends the others
    line = " ".join(message.splitlines())
    Console(stderr=True).print(f"error: {line}", style="red", highlight=False, markup=False, soft_wrap=True)
    sys.exit(2)
