"""Images, votes, radii and paths that cannot be: one line, exit code 2, nothing written."""

from pathlib import Path

import numpy as np
import pytest
from cli_tools import Shieldwall, refused, snapshot, unsealed
from PIL import Image


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "nothing to predict: give image files, or test inputs with --index"),
        (["--index", ","], "nothing to predict"),
        (["--index", "360"], "no test input 360; they are numbered from 0 to 359"),
        (["--index", "0,-1"], "no test input -1; they are numbered from 0 to 359"),
        (["--index", "a,b"], "--index takes whole numbers such as 0,7,12; given: 'a,b'"),
        (["--index", "1.5"], "--index takes whole numbers"),
        (["--index", "0", "--vote", "wee"], "unknown vote 'wee'; did you mean 'we'?"),
        (["--index", "0", "--vote", "member-3"], "unknown vote 'member-3'; did you mean 'member-"),
        (["--index", "0", "--n", "0"], "given: 0"),
        (["--index", "0", "--alpha", "0"], "alpha"),
        (["nowhere.png"], "nowhere.png cannot be read: No such file or directory"),
        (["."], ". is not a regular file"),
    ],
)
def test_predict_refuses(options: list[str], said: str, shieldwall: Shieldwall, run: Path):
    before = snapshot(run)
    refused(shieldwall("predict", run, *options), said)
    assert snapshot(run) == before


def test_predict_refuses_an_image_of_another_size(shieldwall: Shieldwall, run: Path):
    Image.fromarray(np.zeros((8, 9), dtype=np.uint8)).save("wide.png")
    refused(shieldwall("predict", run, "wide.png"), "wide.png is 9x8 pixels; the model takes 8x8")


def test_predict_refuses_a_file_that_is_no_image(shieldwall: Shieldwall, run: Path):
    Path("text.png").write_text("no image")
    refused(shieldwall("predict", run, "text.png"), "text.png: this is not an image that can be read")


def test_predict_refuses_half_an_image(shieldwall: Shieldwall, run: Path):
    pixels = np.random.default_rng(0).integers(256, size=(8, 8), dtype=np.uint8)
    Image.fromarray(pixels).save("whole.png")
    Path("half.png").write_bytes(Path("whole.png").read_bytes()[:-40])
    refused(shieldwall("predict", run, "half.png"), "half.png: the image is damaged")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--radii", "a"], "--radii takes numbers such as 0,0.25,0.5; given: 'a'"),
        (["--radii", "0,nan"], "radius"),
        (["--radii", "-1"], "radius"),
        (["--plot", "curve.gif"], "curve.gif"),
        (["--plot", "text/curve.png"], "text"),
    ],
)
def test_report_refuses(options: list[str], said: str, shieldwall: Shieldwall, run: Path):
    Path("text").write_text("no folder")
    before, here = snapshot(run), snapshot(Path())
    refused(shieldwall("report", run, *options), said)
    assert snapshot(run) == before
    assert snapshot(Path()) == here


def test_report_refuses_what_holds_no_certificates(shieldwall: Shieldwall, trained: Path):
    refused(shieldwall("report", "nowhere"), "nowhere", "no such file or folder")
    Path("plain").mkdir()
    refused(shieldwall("report", "plain"), "plain", "no certificates")
    before = snapshot(trained)
    refused(shieldwall("report", trained), "no certificates", f"shieldwall certify {trained}")
    assert snapshot(trained) == before


def test_report_shows_the_radii_asked_for(shieldwall: Shieldwall, run: Path):
    done = shieldwall("report", run, "--radii", "0.125,0.375", "--plot", "a.png", "--plot", "sub/b.pdf")
    assert done.code == 0
    assert "0.125" in done.out
    assert "0.375" in done.out
    assert sorted(snapshot(Path())) == ["a.png", "sub/b.pdf"]


def test_report_takes_a_run_that_is_being_certified(shieldwall: Shieldwall, run: Path):
    unsealed(run)
    for path in (run / "certificates").glob("*.tsv"):
        path.write_bytes(path.read_bytes()[:-20])
    done = shieldwall("report", run)
    assert done.code == 0
    assert " 29 " in done.out.replace("\n", " ")


@pytest.mark.parametrize(
    "command", [["tarin"], ["train"], ["train", "smoke", "--bogus", "1"], ["certify", "run", "--n", "many"]]
)
def test_usage_errors_exit_with_2_and_no_traceback(command: list[str], shieldwall: Shieldwall):
    outcome = shieldwall(*command)
    assert outcome.code == 2
    assert "Usage: " in outcome.err
    assert "Traceback" not in outcome.err


def test_names_that_look_like_markup_are_shown_as_they_are(shieldwall: Shieldwall, run: Path):
    odd = run.rename(run.parent / "run[bold] [")
    done = shieldwall("train", "smoke", "--out", odd)
    assert done.out == f"{odd} is trained already\nrun folder: {odd}\nnext: shieldwall certify {odd}\n"
    assert f"{odd}/certificates: all 30" in shieldwall("certify", odd).out
    Image.fromarray(np.zeros((8, 8), dtype=np.uint8)).save("[b]i.png")
    assert "[b]i.png" in shieldwall("predict", odd, "[b]i.png").out
    refused(shieldwall("certify", "no[bold]where"), "no[bold]where is not a run folder")
