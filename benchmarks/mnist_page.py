"""docs/results.md and the summary in README.md, from the files in results/mnist.

    python benchmarks/mnist_page.py             # writes both
    python benchmarks/mnist_page.py --check     # exits with 1 if they are not what the files give

    results/mnist/ROW-SIGMA.tar.xz   a packed run of the row's recipe, certified (benchmarks/mnist.py)
    results/mnist/step-seconds.json  device, date, commit, and milliseconds by row of one training step
    results/mnist/notes.yaml         why a row differs from the paper, by ROW, or by ROW-SIGMA for one table

A row without a file is shown as not yet measured, beside the paper's number.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import mnist_lines as lines
from mnist_files import ROWS, SIGMAS, Results
from mnist_lines import Line
from mnist_made import efficiency, made, protocol
from mnist_words import PAGE, SUMMARY

from shieldwall.errors import UserError
from shieldwall.files import write_atomic
from shieldwall.recipes import Recipe
from shieldwall.report.comparison import (
    DASH,
    Row,
    accuracy_table,
    acr_cells,
    best_accuracy,
    counted,
    markdown_table,
)
from shieldwall.results.metrics import average_certified_radius
from shieldwall.results.paper import counterpart, envelope_counterpart

BEGIN, END = "<!-- mnist:begin -->", "<!-- mnist:end -->"
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
        results = self.results
        page = PAGE.format(
            protocol=protocol(results),
            each_sigma="\n\n".join(f"### Sigma {sigma:.2f}\n\n{self.at_sigma(sigma)}" for sigma in SIGMAS),
            main=self.best(lines.MAIN),
            acr=self.acr(),
            terms=self.best(lines.TERMS),
            members=self.best(lines.MEMBERS),
            weights=self.best(lines.WEIGHTS),
            diversity=self.best(lines.DIVERSITY),
            others=self.best(lines.OTHERS),
            after_smoothing=self.best(lines.AFTER_SMOOTHING),
            other_rows="".join(f"\n### {row}\n\n{self.other(row)}\n" for row in results.other_rows),
            every_acr=self.every_acr(),
            efficiency=efficiency(results),
            made=made(results),
        )
        if self.notes:
            raise UserError(f"{results.folder}/notes.yaml: no table has a row called {', '.join(self.notes)}")
        return page

    def at_sigma(self, sigma: float) -> str:
        shown = [self.row_at(line, sigma) for line in lines.MAIN]
        radii = sorted({radius for row in shown for radius in row.paper or ()})
        return accuracy_table(shown, radii) + self.noted([f"{line.row}-{sigma}" for line in lines.MAIN])

    def row_at(self, line: Line, sigma: float) -> Row:
        log = self.results.log(line.row, sigma, line.vote)
        recipe = self.results.recipe(line.row, sigma)
        assert recipe is not None
        theirs = counterpart(recipe, line.vote)
        rho = _rho(recipe)
        label = line.label if rho is None else f"{line.label}, {_spoken(rho)}"
        ours = () if log is None else (log,)
        if theirs is None:
            return Row(label, ours, None)
        same = theirs.rho is None or theirs.rho == rho
        return Row(label, ours, theirs.accuracy, "paper" if same else f"paper, {_spoken(theirs.rho)}")

    def best(self, table: Sequence[Line]) -> str:
        keys = [key for line in table for key in (line.row, *(f"{line.row}-{sigma}" for sigma in SIGMAS))]
        return accuracy_table([self.best_row(line) for line in table], RADII) + self.noted(keys)

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
        shown = [
            [line.label, *(cell for sigma in SIGMAS for cell in self.acr_at(line, sigma))]
            for line in lines.ACR
        ]
        beyond = [cell.startswith("**") for row in shown for cell in row[3::3] if cell]
        best = [cell for acr in BEST_PUBLISHED_ACR for cell in ("", acr, "")]
        return markdown_table(head, [*shown, ["Best published single model", *best]]) + counted(beyond)

    def acr_at(self, line: Line, sigma: float) -> list[str]:
        recipe = self.results.recipe(line.row, sigma)
        theirs = None if recipe is None else counterpart(recipe, line.vote)
        log = self.results.log(line.row, sigma, line.vote)
        return acr_cells(log, None if theirs is None else theirs.acr)

    def other(self, row: str) -> str:
        return self.best(lines.beyond_the_paper(row))

    def every_acr(self) -> str:
        if not self.results.runs:
            return "No run is measured yet."
        shown = []
        for run in self.results.runs.values():
            logs = [run.log(vote) for vote in lines.VOTES]
            cells = [
                DASH if log is None else f"{average_certified_radius(log.certificates):.3f}" for log in logs
            ]
            shown.append([f"{run.row}, sigma {run.sigma:.2f}", *cells])
        return markdown_table(["", *lines.VOTES.values()], shown)

    def noted(self, keys: Sequence[str]) -> str:
        found = [key for key in dict.fromkeys(keys) if key in self.notes]
        return "".join(f"\n\n*{key}*: {self.notes.pop(key)}" for key in found)

    def summary(self) -> str:
        """The block of the README."""
        head = ["", *(f"ACR, sigma {sigma:g}" for sigma in SIGMAS), *(f"r = {r:g}" for r in SUMMARY_RADII)]
        shown = []
        for line in lines.SUMMARY:
            row = self.best_row(line)
            if not row.ours and row.paper is None:
                continue
            pairs = [self.acr_at(line, sigma)[:2] for sigma in SIGMAS]
            whole = row.ours and not row.missing
            ours = [f"{100 * one:.1f}" for one in best_accuracy(row.ours, SUMMARY_RADII)] if whole else None
            for k, radius in enumerate(SUMMARY_RADII):
                pairs.append([ours[k] if ours else DASH, f"{row.paper[radius]:.1f}" if row.paper else DASH])
            shown.append([line.label, *(" / ".join(pair) for pair in pairs)])
        wanted = {(row, sigma) for row in ROWS for sigma in SIGMAS}
        done = wanted & set(self.results.runs)
        count = "" if done == wanted else f"{len(done)} of {len(wanted)} runs are measured so far.\n"
        return SUMMARY.format(count=count, table=markdown_table(head, shown))


def _rho(recipe: Recipe) -> tuple[float, float] | None:
    """DRT's two weights, of a recipe of DRT."""
    if recipe.objective["name"] != "drt":
        return None
    return float(recipe.objective["rho_gd"]), float(recipe.objective["rho_cm"])


def _spoken(rho: tuple[float, float] | None) -> str:
    return "" if rho is None else f"rho {rho[0]:g}, {rho[1]:g}"


def with_summary(readme: str, summary: str) -> str:
    """The README with everything between the two markers replaced."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"README.md has no lines {BEGIN} and {END} to put the summary between")
    return f"{before}{begin}\n{summary}{end}{after}"


def rendered(root: Path) -> dict[Path, str]:
    """The two files as they should be."""
    results = Results(root / "results" / "mnist")
    readme = root / "README.md"
    return {
        root / "docs" / "results.md": Page(results).text(),
        readme: with_summary(readme.read_text(encoding="utf-8"), Page(results).summary()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, say what is out of date")
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1], help="the repository")
    options = parser.parse_args()
    try:
        files = rendered(options.root)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    stale = [
        path for path, text in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale:
        if options.check:
            print(f"{path} is not what results/mnist gives; run python benchmarks/mnist_page.py")
        else:
            write_atomic(path, files[path].encode())
            print(f"{path}: written")
    return int(options.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
