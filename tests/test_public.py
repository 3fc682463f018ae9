"""The public names, and what importing them costs."""

import ast
import inspect
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import shieldwall as sw
import shieldwall.data

METHODS = (
    "GaussianAugmentation",
    "SmoothAdv",
    "MACER",
    "Stability",
    "Consistency",
    "ADP",
    "GAL",
    "Denoising",
)
NAMES = [
    *("ABSTAIN", "ADP", "Certificates", "Consistency", "DRT"),
    *("GAL", "Gaussian", "GaussianAugmentation", "MACER", "MaxMarginEnsemble"),
    *("Normalize", "Objective", "Predictions", "Schedule", "SmoothAdv"),
    *("Split", "Stability", "UserError", "Vote", "WeightedEnsemble", "build_members"),
    *("certify", "certify_members", "certificates_from_counts", "dataset_spec", "grid_search_weights"),
    *("load", "load_data", "noisy_confidences", "predict", "sween_weights", "train", "eas_from_counts"),
    *("Classifier", "Comparison", "compare", "read", "Denoised", "Denoiser", "Denoising", "OneStepDiffusion"),
    *("ExactGaussian", "Laplace", "Uniform", "Loss", "MemberObjective", "NoisyBatch"),
]


def test_public_names_are_pinned() -> None:
    assert sorted(sw.__all__) == sorted(NAMES) == dir(sw)
    assert all(getattr(sw, name) is not None for name in NAMES)


def test_type_checkers_see_every_public_name() -> None:
    stub = ast.parse(Path(sw.__file__).with_suffix(".pyi").read_text())
    imported = {
        alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assigned = {
        target.id
        for node in stub.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert {name for name in imported | assigned if name and not name.startswith("_")} == set(NAMES)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(sw, "certifie")


def test_the_version_is_that_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sw.__version__ == metadata.version("shieldwall")

    def not_installed(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", not_installed)
    assert sw.__version__ == "0+unknown"


@pytest.mark.parametrize("name", [*METHODS])
def test_help_on_a_method_begins_with_its_loss(name: str) -> None:
    paragraph = (inspect.getdoc(getattr(sw, name)) or "").partition("\n\n")[0]
    assert "L = sum_i " in paragraph
    assert len(paragraph.splitlines()) == 1


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, shieldwall; print(*{'torch', 'scipy', 'sklearn', 'matplotlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_report_with_tables_loads_no_torch(tmp_path: Path) -> None:
    """The verb itself is run: what it imports on the way counts, not what its modules do alone."""
    header = "idx\tlabel\tpredict\tradius\tcorrect\n"
    (tmp_path / "sigma_0.25").write_text(header + "0\t3\t3\t0.5\t1\n1\t3\t2\t0.25\t0\n")
    code = (
        "import sys\n"
        "from shieldwall.cli import main\n"
        "sys.argv = ['shieldwall', 'report', 'sigma_0.25', '--intervals', "
        "'--table', 'x.csv', '--table', 'x.md', '--table', 'x.tex']\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print(*{'torch', 'matplotlib', 'shieldwall.smoothing'} & set(sys.modules), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stderr.split() == []
    assert {path.name for path in tmp_path.iterdir()} == {"sigma_0.25", "x.csv", "x.md", "x.tex"}


@pytest.mark.parametrize("arguments", [["recipes"], ["data", "list"], ["--help"], ["certify", "--help"]])
def test_verbs_that_compute_nothing_do_not_load_torch(arguments: list[str]) -> None:
    code = (
        "import sys; from shieldwall.cli import main\n"
        f"sys.argv = ['shieldwall', *{arguments!r}]\n"
        "try: main()\n"
        "finally: print('loaded:', *{'torch', 'scipy', 'sklearn', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *text, loaded = done.stdout.splitlines()
    assert len(text) > 5
    assert loaded.split() == ["loaded:"]
