"""What shows results and checks them: `report`, `verify`, `gate`, `attack`, `serve` and `theory diagnose`."""

import json
import os
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer
from rich.table import Table

from shieldwall.cli.options import DataDir, Device, PlainGroup, Run, Seed, TrustCode, arg, console, opt, say
from shieldwall.errors import UserError, require
from shieldwall.runs.pretrained import PACKAGED, resolve_run
from shieldwall.texts import names, numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shieldwall.report.page.gallery import Thumbnails
    from shieldwall.results.rows import Row

_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")  # variables that are set where there is a screen
_HELP = "What the paper's theory says about a trained run."
theory_app = typer.Typer(cls=PlainGroup, help=_HELP, no_args_is_help=True)


def report_command(
    runs: Annotated[list[Path], arg("Runs, packed runs, pretrained names, certificates, other tools' logs.")],
    radii: Annotated[str, opt("Radii of the table, such as 0,0.25,0.5.", "round ones")] = "",
    votes: Annotated[str, opt("Show these votes only, such as we,mme; by default all.")] = "",
    intervals: Annotated[bool, opt("--intervals", "Show 95% confidence intervals.")] = False,
    envelope: Annotated[bool, opt("--envelope", "One row, the best, for all sigmas.")] = False,
    best_over: Annotated[str, opt("Show one row for the runs that differ in these keys, such as rho,sigma: "
        "the best.", "a row for each run")] = "",
    choose_on: Annotated[str, opt("Choose these best runs by other certificates: held-out, from `certify "
        "--held-out`; the numbers shown stay those of the test inputs.",
        "the certificates shown")] = "",
    table: Annotated[list[Path] | None, opt(
        "Write the table (.tex, .md or .csv); repeat it for more files.", "no file")] = None,
    plot: Annotated[list[Path] | None, opt(
        "Plot the curves (.png, .pdf or .svg); repeat it for more files.", "no file")] = None,
    html: Annotated[Path | None, opt("Write an interactive HTML page.", "no file")] = None,
    by_class: Annotated[bool, opt("--by-class", "Show p_A, and certified accuracy by class.")] = False,
    data_dir: DataDir = None,
) -> None:  # fmt: skip
    """Show certified accuracy by radius, clean accuracy, ACR and abstentions.

    Runs that differ only in their seed are averaged; the HTML page shows each run and every envelope.
    """
    from shieldwall.data.datasets import dataset_spec
    from shieldwall.report.comparison import Comparison
    from shieldwall.report.formats import check_table_path, to_terminal
    from shieldwall.report.plots import check_figure_path
    from shieldwall.report.tables import hidden_tables
    from shieldwall.results.record import held_out_records, read_runs
    from shieldwall.results.rows import rows_of, scale_key

    if plot or html:
        require("report", "--plot" if plot else "--html")
    if html and (best_over or choose_on):
        advice = "leave out --best-over and --choose-on, or --html"
        raise UserError(f"--html shows each run and its own envelopes; {advice}")
    chosen_radii, chosen_votes = numbers("--radii", radii) or None, names(votes)
    tables, plots = table or [], plot or []
    for path in tables:
        check_table_path(path)
    for path in plots:
        check_figure_path(path)
    records = read_runs(_certified(path) for path in runs)
    if is_board := len(records) > len(runs):
        unknown = [each for each in records if any(run.truth is None for run in each.certificates.values())]
        for record in unknown:
            say(f"left out, as it does not say the true classes: {record.name}")
        records = [record for record in records if record not in unknown]
    over = tuple(names(best_over)) or ("sigma",) * envelope
    if choose_on and not over:
        raise UserError("--choose-on says what chooses the best: give --envelope or --best-over too")
    held_out = held_out_records(records, choose_on) if choose_on else ()
    rows = rows_of(records, chosen_votes, best_over=over, held_out=held_out)
    for record in records:
        if record.is_run and chosen_votes and not set(chosen_votes) & record.certificates.keys():
            say(f"left out, as it has none of these votes: {record.name}")
    comparison = Comparison(rows, chosen_radii, intervals)
    for _, of_scale in groupby(sorted(rows, key=scale_key), scale_key) if is_board else [("", iter(rows))]:
        console.print(replace(comparison, rows=list(of_scale)), crop=False)
    for part in hidden_tables(rows, chosen_radii, dataset_spec) if by_class else ():
        console.print(to_terminal(part), crop=False)
    for path in (*tables, *plots):
        comparison.save(path)
    for path in tables:
        say(f"table: {path}")
    if plots:
        say(f"plot: {', '.join(map(str, plots))}")
    if html is not None:
        pages = rows_of(records, chosen_votes, average_seeds=False)
        write = write_board if is_board else write_page
        write(html, pages, chosen_radii, data_dir)
        say(f"page: {html}")


def write_page(
    path: Path, rows: "list[Row]", radii: list[float] | None, data_dir: Path | None, board: str = ""
) -> None:
    """Write the interactive page of these rows."""
    from shieldwall.data.datasets import dataset_spec
    from shieldwall.files import write_output
    from shieldwall.report.page.build import report_page

    write_output(path, report_page(rows, radii, thumbnails(data_dir), dataset_spec, board).encode())


def write_board(path: Path, rows: "list[Row]", radii: list[float] | None, data_dir: Path | None) -> None:
    """Write the board of these rows, and the page of each run into the folder NAME-runs beside NAME.html."""
    from shieldwall.data.datasets import split_sizes
    from shieldwall.files import write_output
    from shieldwall.report.page.board import board_page, page_names

    folder = path.with_name(f"{path.stem}-runs")
    names = page_names([row.run for row in rows])

    def num_test(data: str) -> int:
        with suppress(UserError):
            return split_sizes(data, data_dir)[1]
        return 0

    links = {run: quote(f"{folder.name}/{name}") for run, name in names.items()}
    write_output(path, board_page(rows, radii, links, num_test).encode())
    for run, name in names.items():
        own = [row for row in rows if row.run == run]
        write_page(folder / name, own, radii, data_dir, quote(f"../{path.name}"))


def thumbnails(data_dir: Path | None) -> "Callable[[str], Thumbnails | None]":
    """Pictures of a data set's test inputs, by its name; None for a set that is not on this machine."""
    from shieldwall.data.datasets import load, roots
    from shieldwall.report.page.gallery import Thumbnails

    roots(data_dir)  # a data folder that does not exist is an error, not a gallery without pictures

    def find(name: str) -> Thumbnails | None:
        try:
            dataset = load(name, data_dir)
        except UserError:
            return None

        def pixels(index: int) -> "NDArray[np.uint8]":
            return (255 * dataset.test.images([index])[0]).round().byte().numpy()

        return Thumbnails(dataset.test.labels.tolist(), dataset.classes, dataset.shape, pixels)

    return find


def _certified(path: Path) -> Path:
    """`path`; for a pretrained name its certified copy."""
    run = resolve_run(path)
    if run != path and run.parent == PACKAGED:
        raise UserError(f"{path} is pretrained and not certified yet; first run `shieldwall certify {path}`")
    return run


def verify_command(
    runs: Annotated[list[Path], arg("Runs, packed runs, certificate files, or pretrained names.")],
    redraw: Annotated[int, opt("Draw this many inputs of each run again; compare counts.", "0", min=0)] = 0,
    as_json: Annotated[bool, opt("--json", "Print one JSON object for each run.")] = False,
    data_dir: DataDir = None, device: Device = None, trust_code: TrustCode = False,
) -> None:  # fmt: skip
    """Check that certificates are what their counts give, and that no file of a run has changed.

    One line for each run: verified, interrupted, unverified (nothing to check against) or changed. The exit
    code is 1 if one has changed. Example: `shieldwall verify runs/* --redraw 10`
    """
    from shieldwall.runs.verify import CHANGED, verify_run

    failed = False
    for run in runs:
        said = verify_run(resolve_run(run), redraw, data_dir=data_dir, device=device)
        failed |= said.status == CHANGED
        say(json.dumps(asdict(said)) if as_json else f"{said.run}: {said.status}: {said.detail}")
    if failed:
        raise typer.Exit(1)


def gate_command(
    run: Annotated[Path, arg("A certified run folder, a packed run, or another tool's log.")],
    at: Annotated[float, opt("The radius.")],
    at_least: Annotated[float, opt("The certified accuracy wanted there, such as 0.6.")],
    confidence: Annotated[float, opt("Of the lower bound and of the comparison.")] = 0.95,
    not_worse_than: Annotated[Path | None, opt(
        "Another run on the same inputs, such as the last release's.", "no comparison")] = None,
    vote: Annotated[str, opt("The vote; by default we, or the only one that there is.")] = "",
    as_json: Annotated[bool, opt("--json", "Print one JSON object.")] = False,
) -> None:  # fmt: skip
    """Exit with 0 if certified accuracy is high enough, and with 1 if not: for pipelines.

    The lower bound on certified accuracy (Clopper-Pearson, over inputs) must be at least the accuracy wanted.
    Example: `shieldwall gate runs/mine --at 0.25 --at-least 0.60 --not-worse-than runs/before`
    """
    from shieldwall.results.gate import gate
    from shieldwall.results.record import read

    votes = read(_certified(run))
    before = None if not_worse_than is None else read(_certified(not_worse_than))
    chosen = vote or (next(iter(votes)) if len(votes) == 1 else "we")
    if before is not None and not vote and len(votes) == len(before) == 1:
        before = dict(zip(votes, before.values(), strict=True))
    verdict = gate(
        votes, at, at_least, run=str(run), vote=chosen, confidence=confidence, not_worse_than=before,
        other=str(not_worse_than or ""),
    )  # fmt: skip
    say(json.dumps(asdict(verdict)) if as_json else str(verdict))
    if not verdict.passed:
        raise typer.Exit(1)


def attack_command(
    run: Run,
    lengths: Annotated[str, opt("L2 lengths, such as 0.25,0.5; by default 1 to 4 times sigma.")] = "",
    vote: Annotated[str, opt("The vote that is attacked: we, mme, member-1, ...")] = "we",
    steps: Annotated[int, opt("PGD steps.")] = 20,
    samples: Annotated[int, opt("Noise samples of each gradient.")] = 32,
    n: Annotated[int, opt("Noise samples that judge each attacked image.")] = 1_000,
    every: Annotated[int | None, opt("Attack only every K-th test input.", "the recipe's", min=1)] = None,
    limit: Annotated[int | None, opt("Attack at most N inputs.", "the recipe's", min=1)] = None,
    seed: Seed = None,
    data_dir: DataDir = None, device: Device = None, trust_code: TrustCode = False,
) -> None:  # fmt: skip
    """Attack the smoothed classifier by PGD: robust accuracy is at most what no attack breaks.

    It writes `attack/VOTE.tsv` in the run folder, which `report --plot` draws above certified accuracy.
    Example: `shieldwall attack runs/demo --limit 100`
    """
    import numpy as np

    from shieldwall.results.metrics import largest_radius
    from shieldwall.results.record import FOLDER, read
    from shieldwall.runs.attack import attack_run

    path = resolve_run(run, to_write=True)
    attack = attack_run(
        path, vote=vote, lengths=numbers("--lengths", lengths), steps=steps, samples=samples, n=n,
        every=every, limit=limit, seed=seed, data_dir=data_dir, device=device, console=console,
    )  # fmt: skip
    columns = {"L2 length": [f"{length:g}" for length in attack.lengths], "not broken, %": attack.accuracy}
    certificates = (read(path) if (path / FOLDER).is_dir() else {}).get(vote)
    if certificates is not None and np.isin(attack.indices, np.asarray(certificates.indices)).all():
        same = certificates[np.isin(np.asarray(certificates.indices), attack.indices)]
        reached = attack.lengths <= largest_radius(certificates)
        columns["certified, %"] = np.where(reached, same.certified_accuracy(None, attack.lengths), np.nan)
        if count := int((same.correct & (attack.broken < same.radii)).sum()):
            console.print(f"warning: {count} inputs are broken within their certified radius")
    table = Table(*columns, box=None, header_style="bold")
    for cells in zip(*columns.values(), strict=True):
        table.add_row(cells[0], *("-" if np.isnan(share) else f"{100 * share:.1f}" for share in cells[1:]))
    console.print(table)


def serve_command(
    runs: Annotated[list[Path], arg("Runs or pretrained names on one data set, such as several sigmas.")],
    port: Annotated[int | None, opt("By default 8080 or the next free.", min=0, max=65_535)] = None,
    host: Annotated[str, opt("Address to listen on; 0.0.0.0 for other machines.")] = "127.0.0.1",
    data_dir: DataDir = None, device: Device = None,
    open_page: Annotated[bool, opt("--open/--no-open", "Open the page in a browser.")] = True,
    trust_code: TrustCode = False,
) -> None:  # fmt: skip
    """Show a local page: draw, choose or upload an image and watch its certificate grow.

    Example: `shieldwall serve runs/mnist-gaussian-0.25 runs/mnist-gaussian-0.5`. Ctrl-C ends it.
    """
    require("serve", "the live page")
    from shieldwall.serve.server import address_of, is_open_to_others, listen, server_for
    from shieldwall.serve.service import load_service

    with listen(host, port) as sock:
        service = load_service([resolve_run(run) for run in runs], data_dir, device)
        address = address_of(sock)
        if not len(service.test):
            advice = f"run `shieldwall data fetch {service.data}` to download them"
            say(f"{service.data} is not on this machine: no test images to choose; {advice}")
        if is_open_to_others(sock):
            say("warning: anyone who can reach this machine can use the page")
        say(f"serving {len(service.runs)} run{'s' * (len(runs) > 1)} at {address}  (Ctrl-C ends it)")
        if open_page and (sys.platform in ("darwin", "win32") or any(map(os.environ.get, _SCREENS))):
            threading.Timer(0.5, webbrowser.open, [address]).start()
        with suppress(KeyboardInterrupt):
            server_for(service, host).run(sockets=[sock])
        say("stopped")


@theory_app.callback()
def theory() -> None:
    """What the paper's theory says about a trained run."""


@theory_app.command("diagnose")
def diagnose_command(
    run: Run,
    radius: Annotated[float | None, opt("Radius r of the indicator ERI; by default sigma.")] = None,
    draws: Annotated[int, opt("Noise samples for the gradients at each input.")] = 200,
    n: Annotated[int | None, opt("Samples per certificate; by default the recipe's, at most 10,000.")] = None,
    every: Annotated[int | None, opt("Diagnose every N-th input; by default about 100, evenly.")] = None,
    limit: Annotated[int | None, opt("Diagnose at most N inputs.", "all of these")] = None,
    seed: Seed = None, data_dir: DataDir = None, device: Device = None, trust_code: TrustCode = False,
) -> None:  # fmt: skip
    """Measure margins, gradients, ERI, transferability, and what the paper's corollaries predict.

    All numbers are written to `theory/diagnosis.tsv` in the run folder, and the ROC curve beside them. Only
    for runs with Gaussian noise.
    """
    from shieldwall.files import write_output
    from shieldwall.report.diagnosis import FOLDER, diagnosis_files, diagnosis_tables
    from shieldwall.runs.diagnose import diagnose_run

    require("report", "theory diagnose")
    run = resolve_run(run, to_write=True)
    diagnosis = diagnose_run(
        run, r=radius, draws=draws, n=n, every=every, limit=limit, seed=seed,
        data_dir=data_dir, device=device, console=console,
    )  # fmt: skip
    files = {run / FOLDER / name: content for name, content in diagnosis_files(diagnosis).items()}
    for path, content in files.items():
        write_output(path, content)
    for part in diagnosis_tables(diagnosis):
        console.print(part, crop=False)
    say("\nwritten: " + ", ".join(map(str, files)))
