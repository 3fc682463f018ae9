"""`report`: what was certified, shown."""

from pathlib import Path
from typing import Annotated

import typer

from shieldwall.cli.options import DataDir, console, numbers


def report_command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Run folders, packed runs, pretrained names, certificate folders, or other tools' logs."
        ),
    ],
    radii: Annotated[str, typer.Option(help="Radii of the table, such as 0,0.25,0.5.")] = "",
    votes: Annotated[str, typer.Option(help="Show these only, such as we,mme; by default all.")] = "",
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Show 95% confidence intervals, in tables and plots.")
    ] = False,
    envelope: Annotated[
        bool,
        typer.Option("--envelope", help="Show one row for all sigmas of a method: the best at each radius."),
    ] = False,
    table: Annotated[
        list[Path] | None, typer.Option(help="Write the table (.tex, .md or .csv), once per file.")
    ] = None,
    plot: Annotated[
        list[Path] | None, typer.Option(help="Draw the curves (.png, .pdf or .svg), once per file.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to explore in a browser.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Show certified accuracy by radius, clean accuracy, ACR and abstentions.

    Runs whose recipes differ only by seed are averaged, but on a page, which has every run and envelope.
    Unless a file to write is named, the curves are drawn into the run folder, where all of one run is shown,
    and else into this one.
    """
    from shieldwall.report.chosen import of_votes
    from shieldwall.report.envelopes import envelopes
    from shieldwall.report.figure_files import check_figure_path
    from shieldwall.report.plots import plot_certified_accuracy
    from shieldwall.report.seeds import average_over_seeds
    from shieldwall.report.table_files import check_table_path, write_table
    from shieldwall.report.tables import table as drawn
    from shieldwall.results.record import read_logs

    at = numbers("--radii", radii) or None
    for path in table or ():
        check_table_path(path)
    for path in plot or ():
        check_figure_path(path)
    wanted = [name.strip() for name in votes.split(",") if name.strip()]
    runs = [_at_hand(path) for path in runs]
    logs = of_votes(read_logs(runs), wanted)
    rows = average_over_seeds(logs)
    shown = envelopes(rows) if envelope else rows
    console.print(drawn(shown, at, intervals=intervals), crop=False)
    for path in table or ():
        write_table(shown, path, at, intervals=intervals)
        console.print(f"table: {path}", soft_wrap=True)
    plots = plot or []
    if not (table or plot or html):
        home = runs[0] if len(runs) == 1 and runs[0].is_dir() and not (wanted or envelope) else Path()
        plots = [home / "certified-accuracy.png", home / "certified-accuracy.pdf"]
    if plots:
        plot_certified_accuracy(shown, plots, intervals=intervals)
        console.print(f"plot: {', '.join(map(str, plots))}", soft_wrap=True)
    if html is not None:
        from shieldwall.report.page import write_page

        write_page(logs, html, data_dir=data_dir, radii=at)
        console.print(f"page: {html}", soft_wrap=True)


def _at_hand(path: Path) -> Path:
    """`path`, or the copy of what is pretrained under this name: certificates come with none."""
    from shieldwall import pretrained
    from shieldwall.errors import UserError

    if path.exists() or str(path) not in pretrained.names():
        return path
    if not (pretrained.COPIES / path).exists():
        raise UserError(f"{path} is pretrained and not certified yet; first run `shieldwall certify {path}`")
    return pretrained.at_hand(path)
