"""Figures: what is drawn, that it is the same each time, and what is refused."""

import errno
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image
from scipy.stats import norm
from shown import as_rows, draw, plot, styles
from worked_log import changed, curve

from shieldwall.errors import UserError
from shieldwall.report import plots
from shieldwall.report.plots import band, label_places
from shieldwall.results.record import Log
from shieldwall.results.rows import Row

KINDS = ("png", "pdf", "svg")


def family(log: Log, run: str, members: int = 3) -> list[Log]:
    votes = [*(f"member-{k + 1}" for k in range(members)), "we", "mme"]
    return [changed(log, run=run, vote=vote, title=f"{run} {vote}") for vote in votes]


def title(figure: Figure) -> str:
    return figure.axes[0].get_legend().get_title().get_text()


def test_same_bytes_each_time_and_no_global_state(tmp_path: Path, worked: Log) -> None:
    before = dict(mpl.rcParams)
    for folder in ("a", "b"):
        plot(family(worked, "r"), [tmp_path / folder / f"f.{kind}" for kind in KINDS])
    for name, magic in (("f.png", b"\x89PNG"), ("f.pdf", b"%PDF"), ("f.svg", b"<?xml")):
        content = (tmp_path / "a" / name).read_bytes()
        assert content.startswith(magic)
        assert content == (tmp_path / "b" / name).read_bytes()
        assert b"Date" not in content
        assert b"Matplotlib" not in content
    assert dict(mpl.rcParams) == before


def test_pdf_text_is_truetype(tmp_path: Path, worked: Log) -> None:
    plot([worked], [tmp_path / "f.pdf"])
    content = (tmp_path / "f.pdf").read_bytes()
    assert b"/FontFile2" in content
    assert b"/Type3" not in content


def test_the_same_pdf_at_another_time(tmp_path: Path, worked: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, epoch in (("a.pdf", "1000000000"), ("b.pdf", "1500000000")):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
        plot([worked], [tmp_path / name])
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()


@pytest.mark.slow
def test_the_same_bytes_from_another_process(tmp_path: Path, worked: Log) -> None:
    """Another process has other hashes, and here another date."""
    code = (
        "import sys; from pathlib import Path; from worked_log import read_logs; "
        "from shown import plot; plot(read_logs([sys.argv[1]]), map(Path, sys.argv[2:]), intervals=True)"
    )
    ours, theirs = ([str(tmp_path / who / f"f.{kind}") for kind in KINDS] for who in ("ours", "theirs"))
    plot([worked], map(Path, ours), intervals=True)
    environment = {**os.environ, "PYTHONHASHSEED": "1", "SOURCE_DATE_EPOCH": "1000000000"}
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "worked.tsv"), *theirs],
        env=environment,
        check=True,
        cwd=Path(__file__).parent,
    )
    for one, other in zip(ours, theirs, strict=True):
        assert Path(one).read_bytes() == Path(other).read_bytes()


def test_svg_text_is_text(tmp_path: Path, worked: Log) -> None:
    plot([changed(worked, title="digits <WE>")], [tmp_path / "f.svg"])
    drawn = ElementTree.parse(tmp_path / "f.svg").iter("{http://www.w3.org/2000/svg}text")
    said = ["".join(one.itertext()) for one in drawn]
    assert {"digits <WE>", "radius (L2)", "certified accuracy"} <= set(said)


def test_seeds_have_a_band_of_their_deviation(worked: Log) -> None:
    """At 0 two runs have 4 and 3 of 6: 3.5 / 6 -+ (1 / 6) / sqrt(2)."""
    other = changed(worked, correct=worked.certificates.correct & (worked.certificates.radii != 0.1))
    row = Row("digits WE", "digits", ((worked, other),))
    ends = band(row, np.array([0.0]), intervals=False)
    assert ends is not None
    assert [float(end[0]) for end in ends] == pytest.approx([3.5 / 6 - 2**-0.5 / 6, 3.5 / 6 + 2**-0.5 / 6])
    axes = draw([row, worked]).axes[0]
    assert len(axes.collections) == 1
    labels = [text.get_text() for text in axes.texts]
    assert [text for text in labels if "digits" in text or "worked" in text] == [
        "digits WE (2 seeds)",
        "worked",
    ]


def test_a_band_of_intervals_holds_the_curve(worked: Log) -> None:
    assert list(draw([worked]).axes[0].collections) == []
    (shaded,) = draw([worked], intervals=True).axes[0].collections
    (row,) = as_rows([worked])
    r, accuracy = curve(worked.certificates)
    low, high = band(row, r, intervals=True) or pytest.fail("no band")
    assert (low <= accuracy).all()
    assert (accuracy <= high).all()
    assert shaded.get_paths()[0].vertices[:, 1].max() == high.max()


def test_every_curve_of_one_run_has_its_band(worked: Log) -> None:
    assert len(draw(family(worked, "r"), intervals=True).axes[0].collections) == 5
    assert title(draw(family(worked, "r"), intervals=True)) == "r\nbands: 95% intervals"
    assert title(draw(family(worked, "r"))) == "r"


def test_of_several_runs_only_the_ensembles_have_one_and_the_legend_says_so(worked: Log) -> None:
    logs = [*family(worked, "a", 2), *family(worked, "b", 2)]
    figure = draw(logs, intervals=True)
    assert len(figure.axes[0].collections) == 4
    assert title(figure) == "bands: 95% intervals, not of members"
    members = [log for log in logs if log.is_member]
    assert len(draw(members, intervals=True).axes[0].collections) == 4
    assert title(draw(members, intervals=True)) == "bands: 95% intervals"


def test_the_more_bands_the_fainter(worked: Log) -> None:
    def alpha(runs: str) -> float:
        logs = [log for run in runs for log in family(worked, run, members=0)]
        return float(draw(logs, intervals=True).axes[0].collections[0].get_alpha())

    assert alpha("a") > alpha("ab") > alpha("abc") >= alpha("abcd") > 0.05


def test_what_all_curves_combine_is_said_once(worked: Log) -> None:
    rows = [Row(f"digits {vote}", "digits", ((worked, worked),)) for vote in ("WE", "MME")]
    legend = draw(rows).axes[0].get_legend()
    assert title(draw(rows)) == "digits (2 seeds)\nbands: ± standard deviation over seeds"
    assert title(draw(rows, intervals=True)) == "digits (2 seeds)\nbands: 95% intervals"
    assert [text.get_text() for text in legend.get_texts()] == ["WE", "MME"]


def test_a_full_disk_leaves_the_old_figure(
    tmp_path: Path, worked: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    plot([worked], [tmp_path / "f.png"])
    before = (tmp_path / "f.png").read_bytes()

    def refuse(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(UserError, match=r"f\.png: the disk is full"):
        plot(family(worked, "r"), [tmp_path / "f.png"])
    assert (tmp_path / "f.png").read_bytes() == before
    assert [item.name for item in tmp_path.iterdir() if "part" in item.name] == []


def test_a_folder_that_cannot_be_made_is_said_in_one_line(tmp_path: Path, worked: Log) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write .*f\.png: "):
        plot([worked], [tmp_path / "file" / "f.png"])


@pytest.mark.parametrize(
    ("norm", "label"), [("l1", "radius (L1)"), ("l2", "radius (L2)"), ("linf", "radius (L-infinity)")]
)
def test_the_axis_says_the_norm(worked: Log, norm: str, label: str) -> None:
    assert draw([changed(worked, norm=norm)]).axes[0].get_xlabel() == label


def test_different_norms_are_refused(tmp_path: Path, worked: Log) -> None:
    other = changed(worked, title="other", norm="l1")
    with pytest.raises(UserError, match="worked has L2 radii, other has L1 radii"):
        plot([worked, other], [tmp_path / "f.png"])
    assert not (tmp_path / "f.png").exists()


def test_one_path_and_any_case(tmp_path: Path, worked: Log) -> None:
    plot([worked], [tmp_path / "f.PNG"])
    assert (tmp_path / "f.PNG").read_bytes().startswith(b"\x89PNG")


def test_the_lines_are_the_curves(worked: Log) -> None:
    axes = draw(family(worked, "r")).axes[0]
    r, accuracy = curve(worked.certificates)
    for line in axes.get_lines():
        assert line.get_drawstyle() == "steps-pre"
        assert np.array_equal(line.get_xdata(), [*r, r[-1]])
        assert np.array_equal(line.get_ydata(), [*accuracy, 0.0])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("radius (L2)", "certified accuracy")
    assert (axes.get_xlim()[0], axes.get_ylim()[0]) == (0, 0)


def test_radii_are_the_ticks(worked: Log) -> None:
    axes = draw([worked], [2.0, 0.0, 1.0]).axes[0]
    assert axes.get_xticks().tolist() == [0.0, 1.0, 2.0]
    assert axes.get_xlim()[1] > 2


def test_one_run_names_itself_once(worked: Log) -> None:
    legend = draw(family(worked, "digits")).axes[0].get_legend()
    assert legend is not None
    assert legend.get_title().get_text() == "digits"
    assert [text.get_text() for text in legend.get_texts()][-2:] == ["we", "mme"]
    two = draw([*family(worked, "digits", 2), *family(worked, "letters", 2)]).axes[0].get_legend()
    assert two is not None
    assert two.get_texts()[-1].get_text() == "letters mme"


@pytest.mark.parametrize(
    ("runs", "members"), [("a", 3), ("a", 8), ("ab", 3), ("abcdefg", 4), ("abcdefghi", 0)]
)
def test_no_two_lines_look_the_same(worked: Log, runs: str, members: int) -> None:
    logs = [log for run in runs for log in family(worked, run, members)]
    looks = styles(logs)
    assert len({str(look) for look in looks}) == len(logs)
    assert [look["linewidth"] < 1 for look in looks] == [log.is_member for log in logs]


def test_several_runs_have_a_colour_each(worked: Log) -> None:
    looks = styles([*family(worked, "a"), *family(worked, "b")])
    first, second = ({look["color"] for look in half} for half in (looks[:5], looks[5:]))
    assert len(first) == len(second) == 1
    assert first != second


@pytest.mark.parametrize("runs", ["a", "ab", "abcd"])
def test_votes_with_one_curve_are_both_seen(worked: Log, runs: str) -> None:
    """WE and MME of each run lie on each other, each run further out than the one before."""
    logs = [
        changed(log, radii=worked.certificates.radii + k)
        for k, run in enumerate(runs)
        for log in family(worked, run, 0)
    ]
    figure = draw(logs)
    for shown in (*filter(None, [figure.axes[0].get_legend()]), *figure.axes[0].texts):
        shown.remove()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3].reshape(-1, 3)
    for look in styles(logs):
        alpha = look.get("alpha", 1.0)
        colour = [255 * (alpha * part + 1 - alpha) for part in to_rgb(look["color"])]
        assert (np.abs(pixels - colour).max(axis=1) <= 2).sum() > 50


def description(path: Path) -> str:
    with Image.open(path) as image:
        return str(image.info["Description"])


def test_the_file_says_how_it_was_made(tmp_path: Path, worked: Log) -> None:
    said = "certified accuracy in %, by L2 radius; 6 inputs, n = 1,000, alpha = 0.001, sigma = 0.25"
    paths = [tmp_path / f"f.{kind}" for kind in KINDS]
    plot([worked], paths)
    assert description(paths[0]) == said
    assert f"/Subject ({said})".encode() in paths[1].read_bytes()
    assert f"<dc:description>{said}</dc:description>" in paths[2].read_text()
    plot([worked], paths[:1], intervals=True)
    assert description(paths[0]).startswith(f"{said}; bands: the 95% interval over inputs")


def boxes_of_labels(curves: list[np.ndarray], sizes: list[tuple[float, float]]) -> list[Any] | None:
    places = label_places(curves, sizes)
    for k, (x, y, width, height) in enumerate(places or []):
        assert 0 <= x <= x + width <= 1
        assert 0 <= y <= y + height <= 1
        for points in curves:
            inside = (points > (x, y)) & (points < (x + width, y + height))
            assert not inside.all(axis=1).any(), "a label covers a curve"
        for left, low, w, h in places[:k]:
            assert x + width < left or left + w < x or y + height < low or low + h < y
        far = [
            float(np.hypot(*(points - np.clip(points, (x, y), (x + width, y + height))).T).min())
            for points in curves
        ]
        assert far[k] == min(far), "another curve is nearer"
    return places


def test_a_label_covers_nothing_and_its_own_curve_is_the_nearest() -> None:
    x = np.linspace(0, 1, 200)
    falling = [np.column_stack([x, np.clip(1 - x / end, 0, 1)]) for end in (0.3, 0.6, 0.95)]
    assert boxes_of_labels(falling, [(0.15, 0.05)] * 3) is not None
    assert label_places(falling, [(0.15, 0.05)] * 3, [(0.0, 0.0, 1.0, 1.0)]) is None
    assert label_places([falling[0]] * 2, [(0.15, 0.05)] * 2) is None, "no place says which of two equal ones"
    assert label_places(falling, [(0.97, 0.05)] * 3) is None


def of_method(log: Log, name: str, sigma: float) -> Row:
    """A row of a run of this objective."""
    recipe = json.dumps({"name": f"mnist-{name}-{sigma}", "sigma": sigma, "objective": {"name": name}})
    title = f"mnist-{name}-{sigma}"
    record = replace(log.record, files={"recipe.yaml": recipe}, is_run=True)
    one = replace(changed(log, run=title, title=f"{title} WE", noise=f"gaussian({sigma})"), record=record)
    return Row(one.title, title, ((one,),))


def test_colour_is_sigma_and_drt_is_solid_beside_a_dashed_baseline(worked: Log) -> None:
    names = [(name, sigma) for name in ("gaussian", "drt") for sigma in (0.25, 0.5, 1.0)]
    looks = dict(zip(names, plots.styles([of_method(worked, *name) for name in names]), strict=True))
    assert len({look["color"] for look in looks.values()}) == 3
    for sigma in (0.25, 0.5, 1.0):
        assert looks["gaussian", sigma]["color"] == looks["drt", sigma]["color"]
    for (name, _), look in looks.items():
        assert (look["linestyle"] == "-") == (name == "drt")
    (alone,) = plots.styles([of_method(worked, "gaussian", 0.25)])
    assert alone["linestyle"] == "-"
    of_one_sigma = plots.styles([of_method(worked, name, 0.5) for name in ("gaussian", "drt")])
    assert of_one_sigma[0]["color"] != of_one_sigma[1]["color"]
    assert [look["linestyle"] == "-" for look in of_one_sigma] == [False, True]


def test_labels_stand_at_the_curves_without_what_all_share(worked: Log) -> None:
    rows = []
    for name, sigma in (("gaussian", 0.25), ("gaussian", 0.5), ("drt", 1.0)):
        row = of_method(worked, name, sigma)
        (log,) = row.logs
        moved = replace(
            log, certificates=replace(log.certificates, radii=log.certificates.radii * (1 + 4 * sigma))
        )
        rows.append(Row(row.title, row.run, ((moved,),)))
    axes = plots.accuracy_figure(rows).axes[0]
    assert axes.get_legend() is None
    assert [text.get_text() for text in axes.texts if "-" in text.get_text()] == [
        "gaussian-0.25", "gaussian-0.5", "drt-1.0"
    ]  # fmt: skip
    assert axes.get_title("left") == "mnist WE"


@pytest.mark.parametrize(("runs", "members", "panels"), [("ab", 2, 1), ("ab", 3, 5), ("abcdefghi", 0, 9)])
def test_more_than_eight_curves_are_small_panels(worked: Log, runs: str, members: int, panels: int) -> None:
    figure = draw([log for run in runs for log in family(worked, run, members)])
    assert len(figure.axes) == panels
    assert all(len(axes.get_lines()) <= 8 for axes in figure.axes)
    assert sum(len(axes.get_lines()) for axes in figure.axes) == len(runs) * (members + 2)
    FigureCanvasAgg(figure).draw()
    for axes in figure.axes:
        legend = axes.get_legend()
        drawn = [axes.get_window_extent(), *([legend.get_window_extent()] if legend else [])]
        assert all(box.y0 >= 0 and box.y1 <= figure.bbox.height for box in drawn)
        assert drawn[0].height > 0.15 * figure.bbox.height


def test_the_limit_of_n_is_marked_where_the_axis_reaches_it(worked: Log) -> None:
    """sigma Phi^-1(alpha^(1/n)) with n = 1,000 and alpha = 0.001 is 0.25 * 2.462."""
    small = changed(worked, radii=np.minimum(worked.certificates.radii, 0.5))
    assert [text.get_text() for text in draw([small]).axes[0].texts if "limit" in text.get_text()] == []
    (mark,) = [text for text in draw([small], [0.0, 1.0]).axes[0].texts if "limit" in text.get_text()]
    assert mark.get_text() == "limit of n = 1,000"
    assert mark.xy[0] == pytest.approx(0.25 * norm.ppf(0.001 ** (1 / 1000)), abs=1e-4)


def test_nothing_certified_still_draws(tmp_path: Path, worked: Log) -> None:
    nothing = changed(worked, correct=np.zeros(6, dtype=bool), radii=np.zeros(6))
    plot([nothing], [tmp_path / "f.png"])
    assert (tmp_path / "f.png").is_file()


@pytest.mark.parametrize("name", ["f.jpg", "f", "f.tsv"])
def test_other_suffixes_are_refused_before_anything_is_written(
    tmp_path: Path, worked: Log, name: str
) -> None:
    with pytest.raises(UserError, match=f"{name}: a figure is written as .png, .pdf or .svg"):
        plot([worked], [tmp_path / "f.png", tmp_path / name])
    assert not (tmp_path / "f.png").exists()


def test_no_logs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no logs"):
        plot([], [tmp_path / "f.png"])
