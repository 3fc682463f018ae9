"""The colours of curves, a pair each: on the white page, and on the dark one.

After those of Okabe and Ito, moved until each stands out from its ground by 3:1; the colour-blind tell the
first seven apart on both grounds.
"""

COLOURS: tuple[tuple[str, str], ...] = (
    ("#225EB5", "#6187CC"), ("#E26D10", "#F5731A"), ("#2A8866", "#3DB283"), ("#B878A3", "#F291C0"),
    ("#8E6410", "#E3C52E"), ("#3698D6", "#64C2FF"), ("#1B1D1F", "#E6E8EA"), ("#6A4FB0", "#A992EE"),
    ("#7A8B00", "#A9BE3F"), ("#A3238E", "#D95FC4"), ("#B02418", "#FF8078"), ("#007A91", "#2FCBC6"),
)  # fmt: skip
DISTINCT = 7


def on_page(turn: int) -> str:
    """A colour by its name in `rules`, which is right on both grounds."""
    return f"var(--curve-{turn % len(COLOURS)})"


def on_white(turn: int) -> str:
    return COLOURS[turn % len(COLOURS)][0]


def rules() -> str:
    """The colours as CSS."""
    light, dark = (
        "".join(f"--curve-{turn}:{pair[ground]};" for turn, pair in enumerate(COLOURS)) for ground in (0, 1)
    )
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}\n"
