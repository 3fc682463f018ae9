"""The table, to the letter."""

from collections.abc import Callable
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console
from shown import as_markdown, table
from worked_log import changed

from shieldwall.errors import UserError
from shieldwall.results.record import Log


@pytest.fixture
def pair(worked: Log) -> list[Log]:
    """The worked log, and one that is 0.25 better on its correct inputs but wrong on the fifth."""
    first = changed(worked, title="digits WE")
    better = changed(
        worked,
        title="digits [MME]",
        labels=np.array([0, 1, 2, 1, 0, 0]),
        radii=np.array([0.75, 0.5, 0.35, 0.9, 0.1, 0.0]),
    )
    return [first, better]


def rendered(logs: list[Log], radii: list[float] | None = None, width: int = 80, colour: bool = False) -> str:
    console = Console(
        file=StringIO(), width=width, color_system="standard" if colour else None, force_terminal=colour
    )
    console.print(table(logs, radii), crop=False)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())


def test_terminal(pair: list[Log]) -> None:
    assert rendered(pair) == (
        "certified accuracy in %, by L2 radius\n"
        "              clean                                 abst.\n"
        "               0.00  0.25  0.50  0.75  1.00    ACR      %  inputs\n"
        "─────────────────────────────────────────────────────────────────\n"
        "digits WE      66.7  50.0  33.3  16.7  16.7  0.317   16.7       6\n"
        "digits [MME]   50.0  50.0  33.3  16.7     -  0.267    0.0       6\n"
        "6 inputs, n = 1,000, alpha = 0.001, sigma = 0.25"
    )


def test_markdown(pair: list[Log]) -> None:
    pair[0] = changed(pair[0], title="a|b $c$")
    assert as_markdown(pair, [0.3, 0.03125]) == (
        "certified accuracy in %, by L2 radius\n\n"
        "|  | clean 0.00 | 0.0312 | 0.30 | ACR | abst. % | inputs |\n"
        "| :-- | --: | --: | --: | --: | --: | --: |\n"
        "| a\\|b \\$c\\$ | **66.7** | **66.7** | 33.3 | **0.317** | 16.7 | 6 |\n"
        "| digits [MME] | 50.0 | 50.0 | **50.0** | 0.267 | 0.0 | 6 |\n\n"
        "6 inputs, n = 1,000, alpha = 0.001, sigma = 0.25\n"
    )


def test_the_best_is_bold_unless_all_are_equal(pair: list[Log]) -> None:
    first, second = rendered(pair, colour=True).splitlines()[4:6]
    assert "\x1b[1m 66.7\x1b[0m" in first
    assert "\x1b[1m0.317\x1b[0m" in first
    assert first.count("\x1b[1m") == 3
    assert "\x1b[1m" not in second


def test_a_lone_log_has_nothing_bold(worked: Log) -> None:
    assert "**" not in as_markdown([worked])


def test_what_differs_is_not_said_for_all(pair: list[Log]) -> None:
    pair[1] = changed(pair[1], sigma=0.5, n=None)
    assert as_markdown(pair).endswith("6 inputs, alpha = 0.001\n")


@pytest.mark.parametrize(
    ("norm", "title"), [("l1", "by L1 radius"), ("l2", "by L2 radius"), ("linf", "by L-infinity radius")]
)
def test_the_title_says_the_norm(pair: list[Log], norm: str, title: str) -> None:
    logs = [changed(log, norm=norm) for log in pair]
    assert as_markdown(logs).startswith(f"certified accuracy in %, {title}\n")
    assert rendered(logs).startswith(f"certified accuracy in %, {title}\n")


@pytest.mark.parametrize("show", [table, as_markdown])
def test_different_norms_are_refused(pair: list[Log], show: Callable[[list[Log]], object]) -> None:
    other = changed(pair[1], title="digits (linf) MME", norm="linf")
    with pytest.raises(UserError) as refusal:
        show([pair[0], pair[1], other])
    assert str(refusal.value) == (
        "radii of different norms cannot be compared: digits WE has L2 radii, "
        "digits (linf) MME has L-infinity radii; show one norm at a time"
    )


def test_small_radii_keep_their_digits(pair: list[Log]) -> None:
    logs = [changed(log, radii=log.certificates.radii / 1000, norm="linf") for log in pair]
    assert as_markdown(logs).splitlines()[2:6] == [
        "|  | clean 0.00 | 0.00025 | 0.0005 | 0.00075 | 0.001 | ACR | abst. % | inputs |",
        "| :-- | --: | --: | --: | --: | --: | --: | --: | --: |",
        "| digits WE | **66.7** | 50.0 | 33.3 | 16.7 | **16.7** | **0.000317** | 16.7 | 6 |",
        "| digits [MME] | 50.0 | 50.0 | 33.3 | 16.7 | 0.0 | 0.000267 | 0.0 | 6 |",
    ]
    assert "| 0.00392 | 0.0157 |" in as_markdown(logs, [1 / 255, 4 / 255])


def test_nothing_certified_has_a_table(worked: Log) -> None:
    nothing = changed(worked, radii=np.zeros(6), norm="linf")
    assert "| 0.000 |" in as_markdown([nothing])


@pytest.mark.parametrize("field", ["indices", "truth"])
def test_other_inputs_are_warned_of(pair: list[Log], field: str) -> None:
    """Other numbers are other inputs, and so are other labels under the same numbers."""
    pair[1] = changed(pair[1], **{field: getattr(pair[1].certificates, field) + 1})
    assert "warning: the rows differ in the inputs and cannot be compared" in " ".join(rendered(pair).split())
    assert "warning: the rows differ in the inputs and cannot be compared" in as_markdown(pair)


def test_the_order_of_inputs_does_not_matter(pair: list[Log]) -> None:
    pair[1] = replace(pair[1], certificates=pair[1].certificates[::-1])
    assert "warning" not in as_markdown(pair)


def test_a_narrow_terminal_wraps_titles_and_cuts_no_number(pair: list[Log]) -> None:
    pair[0] = changed(pair[0], title="digits-gaussian-2-members member 1")
    shown = rendered(pair, [0.1 * k for k in range(11)], width=40)
    assert "…" not in shown
    assert "\ndigits-gaussian-2-" in shown
    assert "member 1" in shown
    first = next(line for line in shown.splitlines() if line.startswith("digits-gaussian-2-"))
    assert first.split()[1:] == (
        "66.7 66.7 50.0 33.3 33.3 33.3 16.7 16.7 16.7 16.7 16.7 0.317 16.7 6".split()  # noqa: SIM905
    )


def test_no_logs() -> None:
    with pytest.raises(UserError, match="no logs"):
        table([])


def test_bad_radii(worked: Log) -> None:
    with pytest.raises(UserError, match="not negative"):
        table([worked], [-1.0])
