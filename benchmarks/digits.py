"""The digits runs of this repository, and what shows them, by one command: in a minute or two on two cores.

    python benchmarks/digits.py             # trains, certifies and packs, then writes all of the below
    python benchmarks/digits.py --check     # trains nothing; exits with 1 if a page is not what the runs give

    results/digits/gaussian-SIGMA.tar.xz                   the recipe digits-gaussian at both sigmas, packed
    src/shieldwall/pretrained/digits-gaussian-0.25/        the members of the first, packaged (keep.py)
    README.md, docs/papers.md, docs/digits.png             tables and the picture

An interrupted run resumes where it stopped; delete `--work` to train again.
"""

import argparse
import re
import shlex
import sys
import tempfile
from pathlib import Path

from documents import markdown_report, report, with_block, write_or_check
from keep import keep
from rich.console import Console

from shieldwall import recipes
from shieldwall.errors import UserError
from shieldwall.results.archive import pack
from shieldwall.runs.certify import certify_run
from shieldwall.runs.train import train_run

ROOT = Path(__file__).parents[1]
SIGMAS = (0.25, 0.5)
PRETRAINED = "digits-gaussian-0.25"


def fill(work: Path, results: Path, console: Console) -> None:
    """Train and certify what is missing, and pack all runs."""
    results.mkdir(parents=True, exist_ok=True)
    for sigma in SIGMAS:
        folder = work / f"gaussian-{sigma}"
        train_run(recipes.get(f"digits-gaussian-{sigma}"), folder, device="cpu", console=console)
        certify_run(folder, device="cpu", console=console)
        pack(folder, results / f"gaussian-{sigma}.tar.xz")


def pages(root: Path) -> dict[Path, str]:
    """The pages that show the packed runs, as they should be."""
    readme, papers = root / "README.md", root / "docs" / "papers.md"
    first = root / "results" / "digits" / f"gaussian-{SIGMAS[0]}.tar.xz"
    return {
        readme: with_block(readme, "digits", markdown_report(first)),
        papers: with_block(papers, "digits.md", _table_of(papers)),
    }


def _table_of(page: Path) -> str:
    """What the first command of a page, called in the repository, writes to digits.md."""
    block = re.search(r"^```sh\nshieldwall report (.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    if block is None:
        raise UserError(f"{page} has no command `shieldwall report` to call")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "results").symlink_to(page.resolve().parents[1] / "results")
        report(shlex.split(block[1].replace("\\\n", " ")), Path(folder))
        return (Path(folder) / "digits.md").read_text(encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--work", type=Path, default=Path("runs/digits"), help="run folders, weights and all")
    options = parser.parse_args()
    results = ROOT / "results" / "digits"
    try:
        if not options.check:
            fill(options.work, results, Console(markup=False, highlight=False))
            keep(options.work / f"gaussian-{SIGMAS[0]}", PRETRAINED)
            runs = [results / f"gaussian-{sigma}.tar.xz" for sigma in SIGMAS]
            report([*runs, "--votes", "we,member-1", "--plot", ROOT / "docs" / "digits.png"], ROOT)
        stale = write_or_check(pages(ROOT), check=options.check, command="python benchmarks/digits.py")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return int(options.check and stale)


if __name__ == "__main__":
    sys.exit(main())
