"""benchmarks/drt_search.py on a handful of images."""

import json
import subprocess
import sys
from pathlib import Path

from shieldwall import recipes
from shieldwall.runs.train import train_run

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "data"))
from tiny_sets import write_mnist  # noqa: E402


def test_a_search_uses_held_out_images_alone(tmp_path: Path) -> None:
    write_mnist(tmp_path / "data" / "mnist", extra=34)
    small = ["schedule.epochs=1", "holdout_every=20"]
    recipe = recipes.override(recipes.get("mnist-gaussian"), small)
    train_run(recipe, tmp_path / "run", data_dir=tmp_path / "data")
    done = subprocess.run(
        [
            *(sys.executable, str(ROOT / "benchmarks" / "drt_search.py"), "run", "--epochs", "1"),
            *("--n", "100", "--images", "2", "--try", "0.1,0.1,0.001,warmup=2,clip=1"),
            *("--out", "tries.jsonl", "--data-dir", "data"),
        ],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    tries = ["none", "0.1,0.1,0.001,warmup=2,clip=1"]
    assert [line.split(" | ")[0] for line in done.stdout.splitlines()][1:] == tries
    none, tried = map(json.loads, (tmp_path / "tries.jsonl").read_text().splitlines())
    assert none["radii"] == tried["radii"] == [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]
    assert tried["last"]["epoch"] == 1
