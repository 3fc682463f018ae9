"""What the HTML report says, without a browser: numbers, names, sizes, bytes."""

import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm
from worked_log import read_logs

from shieldwall import recipes
from shieldwall.cli.report import thumbnails
from shieldwall.errors import UserError
from shieldwall.report.page.build import report_page
from shieldwall.report.page.charts import panels
from shieldwall.report.page.curves import Curve, choices, envelope_curves, log_curves, starts_hidden
from shieldwall.report.page.gallery import Thumbnails
from shieldwall.results.intervals import accuracy
from shieldwall.results.paper import counterpart
from shieldwall.results.record import RunRecord, read_runs
from shieldwall.results.rows import rows_of

SIGMA = "\N{GREEK SMALL LETTER SIGMA}"
MOST_BYTES = 3_000_000
COLUMNS = "idx label predict radius correct time counts n0 n alpha bound noise norm precision seed vote"


def certificates(radii: list[float], sigma: float, vote: str, counts: str = "990,10") -> str:
    """A log in which every second wrong answer abstains; inputs with radius 0 are wrong."""
    lines = [COLUMNS.split()]
    for k, radius in enumerate(radii):
        label = k % 10
        predict = label if radius else (label + 1) % 10 if k % 2 else -1
        lines.append(
            [str(k), str(label), str(predict), repr(radius), str(int(label == predict)), "0:00:00.250000",
             counts, "100", "1000", "0.001", "one-sided", f"gaussian({sigma})", "l2", "float32", "3", vote]
        )  # fmt: skip
    return "".join("\t".join(line) + "\n" for line in lines)


def write_run(folder: Path, name: str, logs: dict[str, list[float]], **changes: Any) -> Path:
    recipe = recipes.override(recipes.get(name), [f"{key}={value}" for key, value in changes.items()])
    (folder / "certificates").mkdir(parents=True)
    (folder / "recipe.yaml").write_text(recipe.to_yaml())
    for vote, radii in logs.items():
        (folder / "certificates" / f"{vote}.tsv").write_text(certificates(radii, recipe.sigma, vote))
    return folder


class Texts(HTMLParser):
    """The cells of every table, row by row, by the id of the section that it stands in."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: dict[str, list[list[str]]] = {}
        self._section, self._in_cell = "", False
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "section":
            self._section = dict(attributes)["id"] or ""
        rows = self.rows.setdefault(self._section, [])
        if tag == "tr":
            rows.append([])
        elif tag in ("th", "td"):
            rows[-1].append("")
        self._in_cell = tag in ("th", "td") or (self._in_cell and tag in ("small", "span", "div"))

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = self._in_cell and tag not in ("th", "td")

    def handle_data(self, text: str) -> None:
        if self._in_cell:
            self.rows[self._section][-1][-1] += text


def written(
    runs: list[Path],
    votes: Sequence[str] = (),
    radii: Sequence[float] | None = None,
    data_dir: Path | None = None,
) -> tuple[str, dict[str, list[list[str]]]]:
    """The page of these runs, and its tables by section."""
    text = report_page(rows_of(read_runs(runs), votes, average_seeds=False), radii, thumbnails(data_dir))
    return text, Texts(text).rows


def curves_of(paths: list[Path]) -> list[Curve]:
    """The curves of a page of these runs, without its envelopes."""
    return log_curves(rows_of(read_runs(paths), average_seeds=False))


def data_of(page: str, name: str = "data") -> Any:
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.fixture
def mnist(tmp_path: Path) -> list[Path]:
    """Two sigmas of a method that the paper has rows for, 20 inputs."""
    radii = {"0.25": [0.05 * k for k in range(20)], "1.0": [0.0] * 8 + [0.2 * k for k in range(1, 13)]}
    return [
        write_run(tmp_path / sigma, f"mnist-gaussian-{sigma}", {"we": of, "member-1": of[::-1]})
        for sigma, of in radii.items()
    ]


def test_the_papers_numbers_stand_beside_ours_with_the_difference(mnist: list[Path], tmp_path: Path) -> None:
    """tab:bigtablemnist0.25, WE (Gaussian): 99.2 at radius 0 and 98.4 at 0.25.

    Ours at sigma 0.25: 19 of 20 inputs at radius 0, and 15 with radius k/20 >= 0.25. The best over sigma at
    radius 1.0 is 8 of 20, all of them certified at sigma 1.
    """
    middle = write_run(tmp_path / "0.5", "mnist-gaussian-0.5", {"we": [0.0] * 20})
    _, rows = written([*mnist, middle])
    heading, *beside = rows["paper"]
    at = {text.split()[-1]: place for place, text in enumerate(heading)}
    titles = [row[0] for row in beside]

    def column(title: str, radius: str) -> list[str]:
        start = next(k for k, text in enumerate(titles) if text.startswith(title))
        assert titles[start + 1 : start + 4] == ["ours", "paper", "difference"]
        return [beside[start + k][at[radius]] for k in (1, 2, 3)]

    at_sigma = f"mnist-gaussian-0.25 WE beside WE (Gaussian); {SIGMA} 0.25; Table 4"
    assert column(at_sigma, "0.00") == ["95.0", "99.2", "\N{MINUS SIGN}4.2"]
    assert column(at_sigma, "0.25") == ["75.0", "98.4", "\N{MINUS SIGN}23.4"]
    assert column(at_sigma, "0.50")[0] == "50.0"
    assert column(at_sigma, "2.50") == ["\N{EN DASH}"] * 3, "1,000 samples cannot certify it"
    assert column(at_sigma, "ACR")[0] == "0.475"

    best = f"mnist-gaussian WE, best of {SIGMA} 0.25, 0.5, 1 beside WE (Gaussian); Table 1"
    theirs = counterpart(recipes.get("mnist-gaussian-0.25"), "we", None)
    assert theirs is not None
    assert column(best, "1.00")[:2] == ["40.0", f"{theirs.accuracy[1.0]:.1f}"]
    assert column(best, "ACR") == ["\N{EN DASH}"] * 3


def test_a_recipe_without_a_counterpart_has_no_such_table(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "digits-gaussian", {"we": [0.1, 0.2, 0.3]})
    page, rows = written([run])
    assert "paper" not in rows
    assert 'href="#paper"' not in page


def test_radii_are_the_papers_or_those_asked_for(mnist: list[Path], tmp_path: Path) -> None:
    _, rows = written(mnist)
    assert [text.split()[-1] for text in rows["table"][0][1:]] == [f"{0.25 * k:.2f}" for k in range(11)]
    _, rows = written(mnist, radii=[0.3, 0.1])
    assert [text.split()[-1] for text in rows["table"][0][1:]] == ["0.00", "0.10", "0.30"]
    assert rows["table"][1] == ["mnist-gaussian member 1", "95.0", "90.0", "70.0"]


def test_envelopes_are_the_largest_curve_at_every_radius(mnist: list[Path]) -> None:
    found = curves_of(mnist)
    for envelope in envelope_curves(found):
        radii = np.linspace(0, 3, 301)
        brute = [
            max(
                np.mean(e.row.certificates[0].correct & (e.row.certificates[0].radii >= r))
                for e in found
                if e.protocol == envelope.protocol
            )
            for r in radii
        ]
        assert accuracy(envelope.row, radii).tolist() == pytest.approx(brute)
        assert envelope.sigma == "0.25, 1"


def test_no_envelope_where_inputs_differ(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / sigma, f"mnist-gaussian-{sigma}", {"we": [0.1] * count})
        for sigma, count in (("0.25", 3), ("0.5", 4))
    ]
    assert envelope_curves(curves_of(runs)) == []


def test_no_envelope_where_alpha_differs(mnist: list[Path]) -> None:
    we = mnist[0] / "certificates" / "we.tsv"
    we.write_text(we.read_text().replace("\t0.001\t", "\t0.01\t"))
    assert [envelope.protocol for envelope in envelope_curves(curves_of(mnist))] == ["member 1"]


def test_methods_are_recipes_without_sigma_told_apart_by_seed_or_folder(tmp_path: Path) -> None:
    def methods(*runs: Path) -> list[str]:
        return choices(curves_of(runs), "method")

    def run(folder: str, sigma: str, seed: int = 0) -> Path:
        return write_run(tmp_path / folder, f"digits-drt-{sigma}", {"we": [0.1]}, seed=seed)

    small, large = run("small", "0.25"), run("large", "1.0")
    assert methods(small, large) == ["digits-drt"]
    other = run("other", "0.25", seed=1)
    assert methods(small, large, other) == ["digits-drt, seed 0", "digits-drt, seed 1"]
    again = run("again", "0.25")
    twins = ["digits-drt-0.25 (small)", "digits-drt-0.25 (again)"]
    assert methods(small, again) == twins
    assert methods(small, again, large, run("larger", "0.5")) == [*twins, "digits-drt"]


def test_a_page_opens_with_we_alone_where_every_run_has_it(tmp_path: Path) -> None:
    votes = {vote: [0.1] for vote in ("member-1", "member-2", "we-grid", "we", "mme", "eas")}
    runs = [write_run(tmp_path / str(k), "digits-drt", votes, seed=k) for k in range(3)]
    others = {"member 1", "member 2", "we-grid", "MME", "EAS"}
    assert starts_hidden(curves_of(runs[:1])) == starts_hidden(curves_of(runs)) == others
    one = write_run(tmp_path / "one", "digits-drt", {"mme": [0.1], "member-1": [0.1]}, seed=4)
    assert starts_hidden(curves_of([*runs, one])) == others - {"MME", "member 1"}
    members = [path for run in runs for path in run.glob("certificates/member-*.tsv")]
    assert starts_hidden(curves_of(members * 2)) == set()
    page, _ = written(runs)
    unchecked = re.findall(r'<input type="checkbox" name="protocol" value="(\d)" autocomplete', page)
    assert unchecked == ["1", "2", "3", "4", "5"]


def test_the_pointer_is_told_exact_accuracies_at_round_radii(mnist: list[Path]) -> None:
    page, _ = written(mnist)
    data = data_of(page)
    logs = read_logs(mnist)
    radii = data["radii"]
    assert (radii[0], 40 < len(radii) <= 120, radii[-1] > 2.35) == (0, True, True)
    for curve, log in zip(data["curves"], logs, strict=False):
        exact = [
            100 * np.mean(log.certificates.correct & (log.certificates.radii >= r))
            for r in radii[: len(curve["accuracy"])]
        ]
        assert curve["accuracy"] == pytest.approx(exact)
        rest = radii[len(curve["accuracy"]) :]
        assert [r for r in rest if r <= log.certificates.radii[log.certificates.correct].max()] == []


def test_lines_go_through_the_values_and_down_to_zero(mnist: list[Path]) -> None:
    page, _ = written(mnist)
    paths = dict(re.findall(r'<path class="line" id="chart-curve-(\d+)"[^>]* d="([^"]+)"', page))
    data, log = data_of(page), read_logs(mnist)[0]
    largest, top = data["charts"][0]["axes"]["x"][1], data["charts"][0]["axes"]["y"][1]
    assert len(paths) == len(data["curves"])
    points = [tuple(map(float, point.split(","))) for point in re.split("[ML]", paths["0"])[1:]]
    assert points[0][0] == 0
    assert points[-1][1] == 1000
    for x, y in points:
        radius = x / 1000 * largest
        near = [
            100 * np.mean(log.certificates.correct & (log.certificates.radii >= radius + shift))
            for shift in (-0.002 * largest, 0.002 * largest)
        ]
        assert near[1] - 0.1 <= (1000 - y) / 1000 * top <= near[0] + 0.1


def test_the_same_input_gives_the_same_page(mnist: list[Path]) -> None:
    assert written(mnist) == written(mnist)


def test_the_page_forbids_requests_and_names_no_other_place(mnist: list[Path], tmp_path: Path) -> None:
    page, _ = written(mnist)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "unsafe-eval" not in policy[1]
    assert re.findall(r"script-src[^;]*unsafe-inline", policy[1]) == []
    outside = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', outside) == []
    assert str(tmp_path) not in page


def test_what_the_numbers_were_made_with(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "digits-drt", {"we": [0.1, 0.2]}, seed=5)
    stages = {
        "train": {"commit": "a" * 40, "device": "one"},
        "certify": {"commit": "b" * 40 + " (changed)", "device": "two"},
    }
    (run / "environment.json").write_text(json.dumps(stages))
    page, _ = written([run])
    facts = dict(re.findall(r"<div><dt>(.*?)</dt><dd>(.*?)</dd></div>", page))
    assert facts == {
        "run": "digits-drt", "votes": "WE", "recipe": "digits-drt", "data": "digits", "model": "digits-cnn",
        SIGMA: "0.25", "members": "3", "training seed": "5",
        "trained at commit": "a" * 10, "trained on": "one", "noise": "gaussian(0.25)", "n0": "100",
        "n": "1,000", "alpha": "0.001", "bound": "one-sided", "precision": "float32",
        "certification seed": "3", "certified at commit": "b" * 10 + " (changed)", "certified on": "two",
        "inputs": "2", "seconds per input": "0.25",
    }  # fmt: skip
    assert "rho_gd" in page


def test_votes_of_members_add_up_and_what_is_no_count_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "we.tsv").write_text(certificates([0.1, 0.2], 0.25, "we", counts="5,3,0;4,0,4"))
    (tmp_path / "mme.tsv").write_text(certificates([0.1], 0.25, "mme", counts="many"))
    page, _ = written([tmp_path / "we.tsv", tmp_path / "mme.tsv"])
    logs = data_of(page, "gallery-data")["logs"]
    assert [log["counts"] for log in logs] == [[[0, 9, 2, 4, 1, 3]] * 2, None]


def test_training_panels_are_grouped_and_fractions_become_percent(tmp_path: Path) -> None:
    records = [
        {"epoch": 1, "lr": 0.1, "loss": 2.0, "cm": 0.5, "gd": 0.25, "accuracy": 0.5, "seconds": 1.0},
        {"epoch": 2, "lr": 0.1, "loss": float("nan"), "cm": 0.4, "gd": 0.2, "accuracy": 0.75, "seconds": 1.0},
    ]
    log = "".join(json.dumps(record) + "\n" for record in records) + '{"epoch": 3, "lo'
    found = panels([[], RunRecord("run", tmp_path, {}, {"training.jsonl": log}).training])
    assert [(panel.group, len(panel.lines)) for panel in found] == [
        ("Accuracy", 1), ("Gradient diversity", 1), ("Loss terms", 1), ("Loss terms", 1)
    ]  # fmt: skip
    accuracy, _, loss, _ = (panel.lines[0] for panel in found)
    assert (accuracy.run, accuracy.epochs, accuracy.values) == (1, [1, 2], [50.0, 75.0])
    assert loss.values == [2.0, None]

    damaged = RunRecord("run", tmp_path, {}, {"training.jsonl": '{"epoch": 1}\nnothing\n{"epoch": 2}\n'})
    with pytest.raises(UserError, match=r"training\.jsonl, line 2 is damaged"):
        _ = damaged.training


def test_training_logs_are_whole(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "digits-gaussian", {"we": [0.1]})
    lines = "".join(json.dumps({"epoch": k, "loss": 1 / k}) + "\n" for k in range(1, 1001))
    (run / "training.jsonl").write_text(lines)
    page, rows = written([run])
    line = data_of(page)["panels"][0]["lines"][0]
    assert line["epochs"] == [*range(1, 1001)]
    assert rows["training"][-1] == ["digits-gaussian", "0.001"]


def test_nothing_certified_is_shown_as_such(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "digits-gaussian", {"we": [0.0, 0.0]})
    _, rows = written([run])
    assert rows["table"][1][1:3] == ["0.0", "0.0"]


def test_a_data_set_that_is_not_there_leaves_the_pictures_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SHIELDWALL_DATA", raising=False)
    run = write_run(tmp_path / "run", "cifar10-gaussian", {"we": [0.1, 0.2]})
    page, _ = written([run])
    assert "The pictures are left out: cifar10 was not found" in page
    assert "pictures" not in data_of(page, "gallery-data")["sets"][0]
    with pytest.raises(UserError, match="nowhere does not exist"):
        written([run], data_dir=tmp_path / "nowhere")


def test_labels_that_are_not_the_data_sets_leave_the_pictures_out(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "digits-gaussian", {"we": [0.1] * 20})
    page, _ = written([run])
    assert "the labels are not those of digits&#39;s test images" in page
    assert "pictures" not in data_of(page, "gallery-data")["sets"][0]


def test_radii_are_rounded_down_in_the_gallery(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "digits-gaussian", {"we": [0.12999999, 0.5]})
    page, _ = written([run])
    assert data_of(page, "gallery-data")["logs"][0]["radius"] == [0.1299, 0.5]


@pytest.mark.parametrize(("runs", "votes"), [(1, 3), pytest.param(12, 8, marks=pytest.mark.slow)])
def test_a_page_of_1000_colour_inputs_is_small(runs: int, votes: int, tmp_path: Path) -> None:
    """Pictures of pure noise, which no picture is harder to pack than, and counts of many digits."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (1000, 3, 32, 32), dtype=np.uint8)
    noise = Thumbnails([k % 10 for k in range(1000)], "abcdefghij", (3, 32, 32), pixels.__getitem__)
    radii = np.abs(norm.ppf(rng.uniform(size=1000))).tolist()
    text = certificates(radii, 0.25, "VOTE", counts=",".join(["12345"] * 10))
    folders = []
    for k in range(runs):
        folders.append(write_run(tmp_path / str(k), "cifar10-gaussian", {}, seed=k))
        for vote in range(votes):
            file = folders[-1] / "certificates" / f"member-{vote + 1}.tsv"
            file.write_text(text.replace("VOTE", f"member-{vote + 1}"))
        epochs = "".join(json.dumps({"epoch": e, "loss": 1 / e, "gd": 2 / e}) + "\n" for e in range(1, 151))
        (folders[-1] / "training.jsonl").write_text(epochs)
    rows = rows_of(read_runs(folders), average_seeds=False)
    page = report_page(rows, thumbnails=lambda data: noise)
    assert len(page.encode()) < MOST_BYTES
    shown = data_of(page, "gallery-data")["sets"][0]["idx"]
    assert len(shown) == min(1000, 24_000 // (runs * votes))
    assert (len(shown) == 1000) or f"holds {len(shown)} of 1,000 inputs, evenly spaced" in page
