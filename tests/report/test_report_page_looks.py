"""How the curves of a page are told apart, and at which radii their values can be read."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from test_report_page_content import SIGMA, curves_of, data_of, write_run, written

from shieldwall.report.page import curves as page_curves
from shieldwall.report.page.charts import Axis, accuracy_chart, path, radius_grid
from shieldwall.report.page.curves import SOLID, CurveStyles, envelope_curves

VOTES = ("we", "mme", "eas", "we-grid", "we-sween", "member-1", "member-2", "member-3")
GROUNDS = {"light": "#ffffff", "dark": "#14171a"}
MINUS = "\N{MINUS SIGN}"
STYLE = (Path(page_curves.__file__).parent / "page.css").read_text()

# How a colour looks without the cones for long or for middle wavelengths: Machado et al. 2009, linear RGB.
NO_LONG = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
NO_MIDDLE = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
# OKLab: distances are about those that an eye sees, 1 from black to white.
CONES = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
LAB = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
]


def colours(ground: int) -> list[str]:
    """Those of the curves on the white page, or on the dark one."""
    rules = re.findall(r"--curve-(\d+): (#\w{6});", STYLE)
    half = len(rules) // 2
    assert [int(number) for number, _ in rules] == [*range(half)] * 2
    return [colour for _, colour in rules[half * ground :][:half]]


def linear(colour: str) -> np.ndarray:
    part = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    dark, light = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Two methods at three sigmas, eight votes each."""
    return [
        write_run(
            tmp_path / f"{name}-{sigma}", f"mnist-{name}-{sigma}", {vote: [float(sigma)] for vote in VOTES}
        )
        for name in ("gaussian", "drt")
        for sigma in ("0.25", "0.5", "1.0")
    ]


@pytest.mark.parametrize("methods", [1, 2])
def test_no_two_curves_look_alike(runs: list[Path], methods: int) -> None:
    found = curves_of(runs[: 3 * methods])
    looks = CurveStyles(found)
    every = [looks.curve(one) for one in [*found, *envelope_curves(found)]]
    assert len(every) == methods * 8 * 4
    assert len(set(every)) == len(every)


def test_samples_beside_toggles_are_those_of_the_curves(runs: list[Path]) -> None:
    found = curves_of(runs)
    looks = CurveStyles(found)
    for entry in found:
        curve = looks.curve(entry)
        by = {name: looks.sample(name, getattr(entry, name)) for name in ("method", "protocol", "sigma")}
        method, protocol, sigma = (sample for sample in by.values() if sample is not None)
        assert (curve.color_index, curve.dash) == (sigma.color_index, method.dash)
        assert (curve.shape, curve.width, curve.number) == (protocol.shape, protocol.width, protocol.number)
        assert (curve.dash == SOLID) == (entry.method == "mnist-drt")
    members = {looks.sample("protocol", name) for name in looks.members}
    assert {one.number for one in members if one} == {"1", "2", "3"}


def test_symbols_of_curves_that_lie_on_each_other_do_not(tmp_path: Path) -> None:
    radii = [0.01 * k for k in range(1, 101)]
    run = write_run(tmp_path / "run", "mnist-gaussian-1.0", dict.fromkeys(VOTES, radii))
    found = curves_of([run])
    looks = CurveStyles(found)
    drawn = accuracy_chart(found, [looks.curve(one) for one in found], radius_grid(found), "L2", set())
    marks = [mark for line in drawn.lines for mark in line.marks]
    numbered = [line for line in drawn.lines if line.look.number]
    assert len(marks) == len(set(marks)) == 3 * len(numbered) == 3 * 3


def test_the_caption_says_what_looks_mean(runs: list[Path], tmp_path: Path) -> None:
    def key(some: list[Path]) -> str:
        return CurveStyles(curves_of(some)).key

    dotted = "members are dotted, with their number."
    assert key(runs) == (
        f"Colours show {SIGMA}; DRT is solid, other methods are dashed; symbols show the protocol; "
        "members are thin, with their number."
    )
    assert key(runs[:3]) == f"Colours show {SIGMA}; dashes show the protocol; {dotted}"
    assert key(runs[:1]) == f"Colours and dashes show the protocol; {dotted}"
    assert key([run / "certificates" / "we.tsv" for run in runs[:1]]) == ""


@pytest.mark.parametrize("ground", GROUNDS)
def test_colours_stand_out_from_the_page(ground: str) -> None:
    own = colours(list(GROUNDS).index(ground))
    assert len(own) == page_curves.NUM_COLOURS
    assert [colour for colour in own if contrast(colour, GROUNDS[ground]) < 3] == []
    assert f"--paper: {'#fff' if ground == 'light' else GROUNDS[ground]};" in STYLE


@pytest.mark.parametrize("ground", [0, 1])
@pytest.mark.parametrize("eye", [NO_LONG, NO_MIDDLE])
def test_the_colour_blind_tell_the_first_colours_apart(ground: int, eye: list[list[float]]) -> None:
    """Okabe and Ito's own colours are 0.076 apart at least by this measure."""
    seen = [np.clip(np.array(eye) @ linear(colour), 0, 1) for colour in colours(ground)[:7]]
    labs = [np.array(LAB) @ np.cbrt(np.array(CONES) @ colour) for colour in seen]
    assert min(np.linalg.norm(one - other) for one, other in itertools.combinations(labs, 2)) > 0.076


@pytest.mark.parametrize("largest", [0.31, 0.61, 0.95, 1.9, 2.51, 3.84, 5.3, 9.9])
def test_multiples_of_a_quarter_can_be_read_under_the_pointer(largest: float, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "mnist-gaussian-1.0", {"we": [largest]})
    at = radius_grid(curves_of([run]))
    read = {at.radii[place] for place in at.hovered}
    assert {0.25 * k for k in range(int(largest / 0.25) + 1)} <= read
    assert len(read) <= 105
    assert at.hover_step in read
    assert at.radii[-1] > largest


def test_radii_asked_for_can_be_read_under_the_pointer(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "mnist-gaussian-1.0", {"we": [0.5, 1.9, 3.8]})
    page, _ = written([run], radii=[0.123456, 1.77, 40.0])
    data = data_of(page)
    assert {0.0, 0.123456, 1.77} <= set(data["radii"])
    assert data["radii"] == sorted(set(data["radii"]))
    assert data["radii"][-1] < 4


def test_an_envelope_says_of_which_sigmas_it_is(runs: list[Path], tmp_path: Path) -> None:
    page, _ = written(runs)
    assert f"Best over {SIGMA}, also of those not checked" in page
    assert re.search(rf"</svg> best of {SIGMA} = 0\.25, 0\.5, 1</label>", page)
    page, _ = written(runs[:-1])
    assert re.search(rf"</svg> best of the {SIGMA} that were run</label>", page)


def test_a_symbol_that_comes_first_is_not_capitalised(tmp_path: Path) -> None:
    runs = [
        write_run(tmp_path / str(count), "digits-gaussian-0.25", {"we": [0.1] * count}, seed=count)
        for count in (2, 3)
    ]
    page, _ = written(runs)
    assert '<p class="lead">n = 1,000, alpha' in page
    page, _ = written(runs[:1])
    assert '<p class="lead">2 inputs, n = 1,000' in page


def test_the_last_epoch_has_a_minus_sign_as_other_tables_do(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "digits-gaussian", {"we": [0.1]})
    (run / "training.jsonl").write_text(json.dumps({"epoch": 1, "loss": -28.45, "cm": 1e-5}) + "\n")
    _, rows = written([run])
    assert rows["training"][-1] == ["digits-gaussian", f"{MINUS}28.45", f"1e{MINUS}05"]


def test_every_chart_describes_itself(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "digits-gaussian", {"we": [0.1]})
    (run / "training.jsonl").write_text(json.dumps({"epoch": 1, "loss": 2.0}) + "\n")
    page, _ = written([run])
    said = re.findall(r'<div class="chart" id="[^"]*" role="img" aria-label="([^"]*)">', page)
    assert [text.split(",")[0] for text in said] == [
        "Certified accuracy against L2 radius", "total loss by epoch"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("low", "high", "most", "labels"),
    [
        (0.0, 1.9, 8, ["0.00", "0.25", "0.50", "0.75", "1.00", "1.25", "1.50", "1.75"]),
        (0.0, 100.0, 8, ["0", "20", "40", "60", "80", "100"]),
        (0.0, 3.84, 8, ["0.0", "0.5", "1.0", "1.5", "2.0", "2.5", "3.0", "3.5"]),
        (1, 2, 8, ["1.0", "1.2", "1.4", "1.6", "1.8", "2.0"]),
        (-28.6, -4.2, 5, [f"{MINUS}25", f"{MINUS}20", f"{MINUS}15", f"{MINUS}10", f"{MINUS}5"]),
        (0.00001, 0.000045, 5, ["0.00001", "0.00002", "0.00003", "0.00004"]),
    ],
)
def test_ticks_are_round_and_few(low: float, high: float, most: int, labels: list[str]) -> None:
    axis = Axis("", low, high, most)
    assert [text for text, _ in axis.ticks] == labels
    for text, place in axis.ticks:
        value = float(text.replace(MINUS, "-"))
        assert place == pytest.approx(100 * (value - low) / (high - low), abs=1e-3)


def test_a_line_is_broken_where_there_is_no_value() -> None:
    x, y = Axis("", 0, 10), Axis("", 0, 4)
    assert path(x, y, [0, 2, 4, 6, 8, 10], [4, 2, None, 1, 1, 0]) == "M0,0L200,500M600,750L800,750L1000,1000"
    assert path(x, y, [0, 2, 4, 6, 8, 10], [4, 4, 4, 4, 1, None]) == "M0,0L600,0L800,750"
