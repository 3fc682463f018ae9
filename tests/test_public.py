"""The public names, and what importing them costs."""

import subprocess
import sys

import shieldwall as sw

NAMES = [
    *("ABSTAIN", "ADP", "Certificates", "Consistency", "DRT"),
    *("GAL", "Gaussian", "GaussianAugmentation", "MACER", "MaxMarginEnsemble"),
    *("Normalize", "Objective", "Predictions", "Schedule", "SmoothAdv"),
    *("Split", "Stability", "UserError", "Vote", "WeightedEnsemble", "build_members"),
    *("cache_confidences", "certify", "certify_members", "from_counts", "grid_search_weights"),
    *("load", "load_data", "predict", "sween_weights", "train", "after_smoothing"),
    *("ExactGaussian", "Laplace", "Uniform"),
]


def test_public_names_are_pinned() -> None:
    assert sorted(sw.__all__) == sorted(NAMES) == dir(sw)
    assert all(getattr(sw, name) is not None for name in NAMES)


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(sw, "certifie")


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, shieldwall; print(*{'torch', 'scipy', 'sklearn', 'matplotlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_reports_do_not_import_torch() -> None:
    code = "import sys, shieldwall.report, shieldwall.results.logs; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
