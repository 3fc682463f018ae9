"""`report`: what was certified, shown."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shieldwall.cli.options import DataDir, console, numbers

if TYPE_CHECKING:
    from shieldwall.results.logs import Log


def report_command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Run folders, packed runs, certificate folders, or tab-separated logs of other tools."
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

    Runs whose recipes differ only by seed are averaged. The curves are drawn into the first run folder, or
    into this one where a file was given, unless a file to write is named.
    """
    from shieldwall.report.envelopes import envelopes
    from shieldwall.report.figure_files import check_figure_path
    from shieldwall.report.plots import plot_certified_accuracy
    from shieldwall.report.seeds import average_over_seeds
    from shieldwall.report.table_files import check_table_path, write_table
    from shieldwall.report.tables import table as drawn
    from shieldwall.results.logs import read_logs

    at = numbers("--radii", radii) or None
    for path in table or ():
        check_table_path(path)
    for path in plot or ():
        check_figure_path(path)
    rows = average_over_seeds(_of_votes(read_logs(runs), votes))
    shown = envelopes(rows) if envelope else rows
    console.print(drawn(shown, at, intervals=intervals), crop=False)
    for path in table or ():
        write_table(shown, path, at, intervals=intervals)
        console.print(f"table: {path}", soft_wrap=True)
    plots = plot or []
    if not (table or plot or html):
        home = runs[0] if runs[0].is_dir() else Path()
        plots = [home / "certified-accuracy.png", home / "certified-accuracy.pdf"]
    if plots:
        plot_certified_accuracy(shown, plots, intervals=intervals)
        console.print(f"plot: {', '.join(map(str, plots))}", soft_wrap=True)
    if html is not None:
        from shieldwall.report.page import write_page

        write_page(runs, html, data_dir=data_dir, radii=at)
        console.print(f"page: {html}", soft_wrap=True)


def _of_votes(logs: "list[Log]", votes: str) -> "list[Log]":
    """The logs of these votes, in the order of the table."""
    from shieldwall.errors import unknown

    wanted = {name.strip() for name in votes.split(",") if name.strip()}
    known = {log.vote for log in logs}
    for name in sorted(wanted - known):
        raise unknown("vote", name, known)
    return [log for log in logs if not wanted or log.vote in wanted]
