"""`report`: tables, plots and pages of certified runs."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shieldwall.cli.options import DataDir, console, numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shieldwall.report.page.gallery import Thumbnails


def report_command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Run folders, packed runs, pretrained names, certificate folders, or other tools' logs."
        ),
    ],
    radii: Annotated[str, typer.Option(help="Radii of the table, such as 0,0.25,0.5.")] = "",
    votes: Annotated[str, typer.Option(help="Show these votes only, such as we,mme; by default all.")] = "",
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Show 95% confidence intervals, in tables and plots.")
    ] = False,
    envelope: Annotated[
        bool,
        typer.Option("--envelope", help="Show one row for all sigmas of a method: the best at each radius."),
    ] = False,
    table: Annotated[
        list[Path] | None, typer.Option(help="Write the table (.tex, .md or .csv); repeat it for more files.")
    ] = None,
    plot: Annotated[
        list[Path] | None,
        typer.Option(help="Plot the curves (.png, .pdf or .svg); repeat it for more files."),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write an interactive HTML page.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Show certified accuracy by radius, clean accuracy, ACR and abstentions.

    Runs that differ only in their seed are averaged; the HTML page shows each run and every envelope.
    """
    from shieldwall.extras import require
    from shieldwall.files import write_output
    from shieldwall.report.formats import check_table_path, table_text, to_terminal
    from shieldwall.report.plots import accuracy_figure, check_figure_path, describe_figure, figure_bytes
    from shieldwall.report.tables import accuracy_table
    from shieldwall.results.record import read_runs
    from shieldwall.results.rows import rows_of

    if plot or html:
        require("report", "--plot" if plot else "--html")
    chosen_radii = numbers("--radii", radii) or None
    for path in table or ():
        check_table_path(path)
    for path in plot or ():
        check_figure_path(path)
    chosen_votes = [name.strip() for name in votes.split(",") if name.strip()]
    records = read_runs(_certified(path) for path in runs)
    rows = rows_of(records, chosen_votes, envelope=envelope)
    console.print(to_terminal(accuracy_table(rows, chosen_radii, intervals=intervals)), crop=False)
    for path in table or ():
        write_output(path, table_text(rows, path, chosen_radii, intervals=intervals).encode())
        console.print(f"table: {path}", soft_wrap=True)
    if plot:
        figure, about = accuracy_figure(rows, intervals=intervals), describe_figure(rows, intervals=intervals)
        for path in plot:
            write_output(path, figure_bytes(figure, path, about))
        console.print(f"plot: {', '.join(map(str, plot))}", soft_wrap=True)
    if html is not None:
        from shieldwall.report.page.build import report_page

        rows = rows_of(records, chosen_votes, average_seeds=False)
        write_output(html, report_page(rows, chosen_radii, thumbnails(data_dir)).encode())
        console.print(f"page: {html}", soft_wrap=True)


def thumbnails(data_dir: Path | None) -> "Callable[[str], Thumbnails | None]":
    """Pictures of a data set's test inputs, by its name; None for a set that is not on this machine."""
    from shieldwall.data.datasets import load, roots
    from shieldwall.errors import UserError
    from shieldwall.report.page.gallery import Thumbnails

    if data_dir is not None:
        roots(data_dir)  # a data folder that does not exist is an error, not a gallery without pictures

    def find(name: str) -> Thumbnails | None:
        try:
            dataset = load(name, data_dir)
        except UserError:
            return None
        test = dataset.test

        def pixels(index: int) -> "NDArray[np.uint8]":
            return (255 * test.images([index])[0]).round().byte().numpy()

        return Thumbnails(test.labels.tolist(), dataset.classes, dataset.shape, pixels)

    return find


def _certified(path: Path) -> Path:
    """`path`; for a pretrained name its certified copy."""
    from shieldwall.errors import UserError
    from shieldwall.runs.pretrained import PACKAGED, resolve_run

    run = resolve_run(path)
    if run != path and run.parent == PACKAGED:
        raise UserError(f"{path} is pretrained and not certified yet; first run `shieldwall certify {path}`")
    return run
