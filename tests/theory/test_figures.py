"""The figures of the numerical experiments: what is drawn, that it is the same each time, what is refused."""

import os
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.collections import PathCollection

from shieldwall.errors import UserError
from shieldwall.theory.figures import (
    draw_relation,
    draw_transferability,
    relation_figure,
    transferability_figure,
)
from shieldwall.theory.simulate import Relation, Transferability, relation, transferability


@pytest.fixture(scope="module")
def drawn() -> Transferability:
    return transferability(members=[3, 10], instances=300, n=1_000)


@pytest.fixture(scope="module")
def plotted() -> Relation:
    return relation(most_members=50)


def test_same_bytes_each_time_and_no_global_state(
    tmp_path: Path, drawn: Transferability, plotted: Relation
) -> None:
    before = dict(mpl.rcParams)
    for folder in "ab":
        draw_transferability(drawn, tmp_path / folder / "t.png")
        draw_relation(plotted, str(tmp_path / folder / "r.PDF"))
    for name, magic in (("t.png", b"\x89PNG"), ("r.PDF", b"%PDF")):
        content = (tmp_path / "a" / name).read_bytes()
        assert content == (tmp_path / "b" / name).read_bytes()
        assert content.startswith(magic)
        assert b"Date" not in content
    assert dict(mpl.rcParams) == before


def test_a_point_for_each_instance_of_unlike_radii(drawn: Transferability) -> None:
    figure = transferability_figure(drawn)
    for axes, panel in zip(figure.axes, drawn.panels, strict=True):
        assert axes.get_title() == f"N = {panel.members}"
        red, blue = (one for one in axes.collections if isinstance(one, PathCollection))
        for points, chosen in ((red, panel.difference > 0), (blue, panel.difference < 0)):
            expected = np.stack([panel.ratio[chosen], panel.difference[chosen]], axis=-1)
            np.testing.assert_array_equal(points.get_offsets(), expected)
        legend = axes.get_legend()
        assert legend is not None
        counts = [int(text.get_text().split(": ")[1]) for text in legend.get_texts()[:3]]
        assert sum(counts) == 300
        assert counts[0] == (panel.difference > 0).sum()
    assert red.get_facecolor()[0, 0] > 0.8 > 0.2 > blue.get_facecolor()[0, 0]


def test_the_line_is_the_mean_of_the_points(drawn: Transferability) -> None:
    panel = drawn.panels[0]
    (line,) = (one for one in transferability_figure(drawn).axes[0].get_lines() if one.get_color() == "black")
    told_apart = panel.difference != 0
    width = (panel.ratio.max() - panel.ratio.min()) / 10
    assert len(line.get_xdata()) == 10
    for centre, mean in zip(line.get_xdata(), line.get_ydata(), strict=True):
        near = told_apart & (np.abs(panel.ratio - centre) <= width / 2)
        assert mean == pytest.approx(panel.difference[near].mean())


def test_the_curves_are_the_radii(plotted: Relation) -> None:
    figure = relation_figure(plotted)
    for axes, panel in zip(figure.axes, plotted.panels, strict=True):
        lines = {str(line.get_label()): line for line in axes.get_lines()}
        for label, radii in (
            ("MME", panel.r_mme),
            ("WE", panel.r_we),
            ("WE, bound as printed", panel.r_we_printed),
        ):
            np.testing.assert_array_equal(lines[label].get_xdata(), np.arange(1, 51))
            np.testing.assert_array_equal(lines[label].get_ydata(), radii)
        assert set(lines["single model"].get_ydata()) == {panel.r_single}
        assert f"[{panel.setting.a}, {panel.setting.b}]" in axes.get_title()
    assert figure.axes[0].get_ylabel() == "certified radius (L2)"


def test_a_draw_without_differences_is_an_empty_panel(tmp_path: Path) -> None:
    alike = transferability(members=[3], instances=1, n=100, seed=1)
    assert not alike.panels[0].difference.any()
    draw_transferability(alike, tmp_path / "t.png")
    assert (tmp_path / "t.png").exists()


def test_what_cannot_be_written_is_said_in_one_line(
    tmp_path: Path, plotted: Relation, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"r\.gif: a figure is written as \.png, \.pdf or \.svg"):
        draw_relation(plotted, tmp_path / "r.gif")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write .*r\.png: "):
        draw_relation(plotted, tmp_path / "file" / "r.png")

    draw_relation(plotted, tmp_path / "r.png")
    before = (tmp_path / "r.png").read_bytes()

    def refuse(_: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(UserError, match="the disk is full"):
        draw_relation(relation(most_members=10), tmp_path / "r.png")
    assert (tmp_path / "r.png").read_bytes() == before
