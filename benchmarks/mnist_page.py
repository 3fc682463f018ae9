"""docs/results.md and the summary in README.md, from the files in results/mnist.

    python benchmarks/mnist_page.py             # writes both
    python benchmarks/mnist_page.py --check     # exits with 1 if they are not what the files give

    results/mnist/ROW-SIGMA.tar.xz   a packed run of the row's recipe, certified (benchmarks/mnist.py)
    results/mnist/step-seconds.json  device, date, commit, and milliseconds by row of one training step
    results/mnist/notes.yaml         why a row differs from the paper, by ROW, or by ROW-SIGMA for one table

Rows without a file stand in a list of their own, with their cost and the command that measures them.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import mnist_lines as lines
import mnist_words as words
from documents import with_block, write_or_check
from mnist_files import ROWS, SIGMAS, Results
from mnist_lines import Line
from mnist_made import efficiency, made, not_measured, protocol
from paper_comparison import (
    DASH,
    Row,
    accuracy_table,
    acr_cells,
    best_accuracy,
    counted,
    markdown_table,
)

from shieldwall.errors import UserError
from shieldwall.recipes import Recipe
from shieldwall.results.metrics import average_certified_radius
from shieldwall.results.paper import counterpart, envelope_counterpart

RADII = tuple(0.25 * k for k in range(11))
SUMMARY_RADII = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5)
BEST_PUBLISHED_ACR = ("0.933", "1.700", "1.831")
"""Of a single model in the literature, at SIGMAS."""


class Page:
    """The page's parts.

    A note is shown once, below the first table of its row: the best over sigma, or the sigma in its key.
    """

    def __init__(self, results: Results) -> None:
        self.results = results
        self.notes = results.notes

    def text(self) -> str:
        """Its sections in their order: a note goes to the first table that takes it."""
        results = self.results
        if not results.runs:
            return words.TITLE + "\n" + words.NOTHING + section("Not measured yet", not_measured(results))
        ablations = [
            ("DRT's two terms (the paper's Table 12)", lines.TERMS),
            ("Members of DRT's ensembles (the paper's Table 14)", lines.MEMBERS),
            ("Equal and tuned weights (the paper's Table 16)", lines.WEIGHTS),
            ("Other ways to diverse ensembles (the paper's Table 18)", lines.DIVERSITY),
        ]
        return "".join(
            [
                f"{words.TITLE}\n{words.READING}{words.MISSING if results.missing else ''}",
                section("Protocol", words.PROTOCOL.format(protocol=protocol(results))),
                section("Each sigma", self.each_sigma(), words.EACH_SIGMA),
                section("The best over sigma", self.best(lines.MAIN), words.BEST),
                section("Average certified radius", self.acr(), words.ACR),
                section(
                    "Ablations",
                    "".join(section(title, self.best(table), level=3) for title, table in ablations),
                    words.ABLATIONS,
                ),
                section("Other methods", self.best(lines.OTHERS), words.OTHERS),
                section("Beyond the paper", self.beyond()),
                section("What a training step costs", efficiency(results)),
                section("Not measured yet", not_measured(results)),
                section("How each was made", made(results)),
            ]
        )

    def beyond(self) -> str:
        rows = self.results.other_rows
        return "".join(
            [
                section(
                    "Ensembles after smoothing", self.best(lines.AFTER_SMOOTHING), words.AFTER_SMOOTHING, 3
                ),
                *(section(row, self.best(lines.beyond_the_paper(row)), level=3) for row in rows),
                section("The ACR of every vote", self.every_acr(), level=3),
            ]
        )

    def each_sigma(self) -> str:
        return "".join(section(f"Sigma {sigma:.2f}", self.at_sigma(sigma), level=3) for sigma in SIGMAS)

    def at_sigma(self, sigma: float) -> str:
        measured = [line for line in lines.MAIN if self.results.log(line.row, sigma, line.vote) is not None]
        if not measured:
            return ""
        rows = [self.row_at(line, sigma) for line in measured]
        radii = sorted({radius for row in rows for radius in row.paper or ()})
        return accuracy_table(rows, radii) + self.noted([f"{line.row}-{sigma}" for line in measured])

    def row_at(self, line: Line, sigma: float) -> Row:
        log = self.results.log(line.row, sigma, line.vote)
        recipe = self.results.recipe(line.row, sigma)
        assert recipe is not None
        theirs = counterpart(recipe, line.vote)
        rho = _rho(recipe)
        label = line.label if rho is None else f"{line.label}, {_spoken(rho)}"
        assert log is not None
        if theirs is None:
            return Row(label, (log,), None)
        same = theirs.rho is None or theirs.rho == rho
        return Row(label, (log,), theirs.accuracy, "paper" if same else f"paper, {_spoken(theirs.rho)}")

    def best(self, table: Sequence[Line]) -> str:
        measured = self.measured(table)
        if not measured:
            return ""
        keys = [key for line in measured for key in (line.row, *(f"{line.row}-{sigma}" for sigma in SIGMAS))]
        return accuracy_table([self.best_row(line) for line in measured], RADII) + self.noted(keys)

    def measured(self, table: Sequence[Line]) -> list[Line]:
        """The rows that are measured at one sigma or more."""
        logs = self.results.log
        return [
            line for line in table if any(logs(line.row, sigma, line.vote) is not None for sigma in SIGMAS)
        ]

    def best_row(self, line: Line) -> Row:
        found = {sigma: self.results.log(line.row, sigma, line.vote) for sigma in SIGMAS}
        recipe = self.results.recipe(line.row, SIGMAS[0])
        theirs = None if recipe is None else envelope_counterpart(recipe, line.vote)
        logs = tuple(log for log in found.values() if log is not None)
        without = [f"{sigma:g}" for sigma, log in found.items() if log is None]
        return Row(
            line.label,
            logs,
            None if theirs is None else theirs.accuracy,
            missing=f"sigma {' and '.join(without)}" if logs and without else "",
        )

    def acr(self) -> str:
        head = ["", *(cell for sigma in SIGMAS for cell in (f"sigma {sigma:.2f}", "paper", "difference"))]
        rows = [
            [line.label, *(cell for sigma in SIGMAS for cell in self.acr_at(line, sigma))]
            for line in self.measured(lines.ACR)
        ]
        if not rows:
            return ""
        beyond = [cell.startswith("**") for row in rows for cell in row[3::3] if cell]
        best = [cell for acr in BEST_PUBLISHED_ACR for cell in ("", acr, "")]
        return markdown_table(head, [*rows, ["Best published single model", *best]]) + counted(beyond)

    def acr_at(self, line: Line, sigma: float) -> list[str]:
        recipe = self.results.recipe(line.row, sigma)
        theirs = None if recipe is None else counterpart(recipe, line.vote)
        log = self.results.log(line.row, sigma, line.vote)
        return acr_cells(log, None if theirs is None else theirs.acr)

    def every_acr(self) -> str:
        rows = []
        for run in self.results.runs.values():
            logs = [run.log(vote) for vote in lines.VOTES]
            radii = [None if log is None else average_certified_radius(log.certificates) for log in logs]
            cells = [DASH if radius is None else f"{radius:.3f}" for radius in radii]
            rows.append([f"{run.row}, sigma {run.sigma:.2f}", *cells])
        return markdown_table(["", *lines.VOTES.values()], rows)

    def noted(self, keys: Sequence[str]) -> str:
        found = [key for key in dict.fromkeys(keys) if key in self.notes]
        return "".join(f"\n\n*{key}*: {self.notes.pop(key)}" for key in found)

    def summary(self) -> str:
        """The block of the README."""
        wanted = len(ROWS) * len(SIGMAS)
        done = wanted - sum(map(len, self.results.missing.values()))
        measured = self.measured(lines.SUMMARY)
        if not measured:
            return words.NO_SUMMARY.format(count=wanted)
        head = ["", *(f"ACR, sigma {sigma:g}" for sigma in SIGMAS), *(f"r = {r:g}" for r in SUMMARY_RADII)]
        rows = []
        for line in measured:
            row = self.best_row(line)
            pairs = [self.acr_at(line, sigma)[:2] for sigma in SIGMAS]
            ours = [DASH] * len(SUMMARY_RADII)
            if not row.missing:
                ours = [f"{100 * share:.1f}" for share in best_accuracy(row.ours, SUMMARY_RADII)]
            for radius, cell in zip(SUMMARY_RADII, ours, strict=True):
                pairs.append([cell, f"{row.paper[radius]:.1f}" if row.paper else DASH])
            rows.append([line.label, *(" / ".join(pair) for pair in pairs)])
        count = "" if done == wanted else f"{done} of {wanted} runs are measured so far.\n"
        return words.SUMMARY.format(count=count, table=markdown_table(head, rows))


def section(title: str, body: str, words: str = "", level: int = 2) -> str:
    """A heading, what is said of all of it, and its content; nothing where there is no content."""
    if not body:
        return ""
    parts = [f"{'#' * level} {title}", *([words] if words else []), body.strip("\n")]
    return "\n" + "\n\n".join(parts) + "\n"


def _rho(recipe: Recipe) -> tuple[float, float] | None:
    """DRT's two weights, of a recipe of DRT."""
    if recipe.objective["name"] != "drt":
        return None
    return float(recipe.objective["rho_gd"]), float(recipe.objective["rho_cm"])


def _spoken(rho: tuple[float, float] | None) -> str:
    return "" if rho is None else f"rho {rho[0]:g}, {rho[1]:g}"


def rendered(root: Path) -> dict[Path, str]:
    """The two files as they should be."""
    results = Results(root / "results" / "mnist")
    readme = root / "README.md"
    return {
        root / "docs" / "results.md": Page(results).text(),
        readme: with_block(readme, "mnist", Page(results).summary()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, say what is out of date")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1], help="the repository")
    options = parser.parse_args()
    try:
        pages = rendered(options.root)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    stale = write_or_check(pages, check=options.check, command="python benchmarks/mnist_page.py")
    return int(options.check and stale)


if __name__ == "__main__":
    sys.exit(main())
