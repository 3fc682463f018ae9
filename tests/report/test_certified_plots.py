"""Figures: what is drawn, that it is the same each time, and what is refused."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from shieldwall.errors import UserError
from shieldwall.report import curve, plot_certified_accuracy
from shieldwall.report.legends import legend_place
from shieldwall.report.plots import draw
from shieldwall.report.styles import styles
from shieldwall.results.logs import Log


def family(log: Log, run: str, members: int = 3) -> list[Log]:
    votes = [*(f"member-{k + 1}" for k in range(members)), "we", "mme"]
    return [replace(log, run=run, vote=vote, title=f"{run} {vote}") for vote in votes]


def test_same_bytes_each_time_and_no_global_state(tmp_path: Path, worked: Log) -> None:
    before = dict(mpl.rcParams)
    for folder in ("a", "b"):
        plot_certified_accuracy(
            family(worked, "r"), [tmp_path / folder / "f.png", tmp_path / folder / "f.pdf"]
        )
    for name, magic in (("f.png", b"\x89PNG"), ("f.pdf", b"%PDF")):
        content = (tmp_path / "a" / name).read_bytes()
        assert content.startswith(magic)
        assert content == (tmp_path / "b" / name).read_bytes()
        assert b"Date" not in content
        assert b"Matplotlib" not in content
    assert dict(mpl.rcParams) == before


def test_pdf_text_is_truetype(tmp_path: Path, worked: Log) -> None:
    plot_certified_accuracy([worked], tmp_path / "f.pdf")
    content = (tmp_path / "f.pdf").read_bytes()
    assert b"/FontFile2" in content
    assert b"/Type3" not in content


def test_the_same_pdf_at_another_time(tmp_path: Path, worked: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, epoch in (("a.pdf", "1000000000"), ("b.pdf", "1500000000")):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
        plot_certified_accuracy([worked], tmp_path / name)
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()


def test_a_full_disk_leaves_the_old_figure(
    tmp_path: Path, worked: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    plot_certified_accuracy([worked], tmp_path / "f.png")
    before = (tmp_path / "f.png").read_bytes()

    def refuse(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(UserError, match=r"f\.png: the disk is full"):
        plot_certified_accuracy(family(worked, "r"), tmp_path / "f.png")
    assert (tmp_path / "f.png").read_bytes() == before
    assert [item.name for item in tmp_path.iterdir() if "part" in item.name] == []


def test_a_folder_that_cannot_be_made_is_said_in_one_line(tmp_path: Path, worked: Log) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write .*f\.png: "):
        plot_certified_accuracy([worked], tmp_path / "file" / "f.png")


@pytest.mark.parametrize(
    ("norm", "label"), [("l1", "radius (L1)"), ("l2", "radius (L2)"), ("linf", "radius (L-infinity)")]
)
def test_the_axis_says_the_norm(worked: Log, norm: str, label: str) -> None:
    assert draw([replace(worked, norm=norm)]).axes[0].get_xlabel() == label


def test_different_norms_are_refused(tmp_path: Path, worked: Log) -> None:
    other = replace(worked, title="other", norm="l1")
    with pytest.raises(UserError, match="worked has L2 radii, other has L1 radii"):
        plot_certified_accuracy([worked, other], tmp_path / "f.png")
    assert not (tmp_path / "f.png").exists()


def test_one_path_and_any_case(tmp_path: Path, worked: Log) -> None:
    plot_certified_accuracy([worked], str(tmp_path / "f.PNG"))
    assert (tmp_path / "f.PNG").read_bytes().startswith(b"\x89PNG")


def test_the_lines_are_the_curves(worked: Log) -> None:
    axes = draw(family(worked, "r")).axes[0]
    r, accuracy = curve(worked)
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
    two = draw([*family(worked, "digits"), *family(worked, "letters")]).axes[0].get_legend()
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


@pytest.mark.parametrize(
    ("radii", "place"),
    [([0.1, 0.2, 0.3, 1.0], "upper right"), ([1.0] * 4, "lower left"), ([0.1, 0.9, 0.95, 1.0], "lower left")],
)
def test_the_legend_takes_a_free_corner(worked: Log, radii: list[float], place: str) -> None:
    log = replace(
        worked, idx=np.arange(4), correct=np.ones(4, dtype=bool), radius=np.array(radii), predict=np.zeros(4)
    )
    assert legend_place([log], ["WE"] * 5, 1.0, 1.0)["loc"] == place
    assert "bbox_to_anchor" in legend_place([log], ["WE"] * 40, 1.0, 1.0)


def test_nothing_certified_still_draws(tmp_path: Path, worked: Log) -> None:
    nothing = replace(worked, correct=np.zeros(6, dtype=bool), radius=np.zeros(6))
    plot_certified_accuracy([nothing], tmp_path / "f.png")
    assert (tmp_path / "f.png").is_file()


@pytest.mark.parametrize("name", ["f.svg", "f", "f.tsv"])
def test_other_suffixes_are_refused_before_anything_is_written(
    tmp_path: Path, worked: Log, name: str
) -> None:
    with pytest.raises(UserError, match=f"{name}: a figure is written as .png or .pdf"):
        plot_certified_accuracy([worked], [tmp_path / "f.png", tmp_path / name])
    assert not (tmp_path / "f.png").exists()


def test_no_logs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no logs"):
        plot_certified_accuracy([], tmp_path / "f.png")
