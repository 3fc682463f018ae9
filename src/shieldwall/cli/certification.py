"""`certify`, `predict` and `strategies`: what is said of inputs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from shieldwall.cli.options import DataDir, Device, NoiseSeed, RunFolder, console, numbers
from shieldwall.errors import UserError

CERTIFICATES = "certificates"


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
    seed: NoiseSeed = None,
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
    from shieldwall.stages.certify import certify_run

    done = certify_run(
        run, n0=n0, n=n, alpha=alpha, every=every, limit=limit, seed=seed, to=to,
        votes=[name.strip() for name in votes.split(",") if name.strip()],
        radii=numbers("--radii", radii) if radii else None, tolerance=tolerance, bound=bound, norm=norm,
        exact_noise=exact_noise, precision=precision, compile=compile,
        batch_size=batch_size, data_dir=data_dir, device=device, console=console,
    )  # fmt: skip
    folder = done.path if to == CERTIFICATES else done.path / to
    console.print(f"next: shieldwall report {folder}", soft_wrap=True)


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
    from shieldwall.stages.predict import predict_run

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


def strategies_command(
    run: RunFolder,
    n0: Annotated[int | None, typer.Option(help="Draws that choose the class.")] = None,
    n: Annotated[int | None, typer.Option(help="Draws that bound its probability.")] = None,
    alpha: Annotated[
        float | None, typer.Option(help="Probability, per input, of a wrong certificate.")
    ] = None,
    every: Annotated[int | None, typer.Option(help="Compare at every so many test inputs.")] = None,
    limit: Annotated[int | None, typer.Option(help="Compare at most so many inputs.")] = None,
    seed: NoiseSeed = None,
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
    from shieldwall.pretrained import at_hand
    from shieldwall.report.strategies import summary_tables, table
    from shieldwall.stages.strategies import FILE, compare_strategies

    run = at_hand(run)
    found = compare_strategies(
        run, n0=n0, n=n, alpha=alpha, every=every, limit=limit, seed=seed,
        data_dir=data_dir, device=device, console=console,
    )  # fmt: skip
    for shown in (table(found, all_rows=all_rows, width=console.width), *summary_tables(found)):
        console.print(shown, crop=False)
        console.print()
    console.print(f"in full: {run / FILE}", soft_wrap=True)
