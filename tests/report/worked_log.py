"""A log small enough to work out by hand."""

Lines = list[tuple[int, int, int, str]]
"""(idx, label, predict, radius) of each input."""

WORKED: Lines = [
    (0, 0, 0, "0.5"),
    (1, 1, 1, "0.25"),
    (2, 2, 2, "0.1"),
    (3, 3, 1, "0.9"),
    (4, 4, -1, "0.0"),
    (5, 5, 5, "1.05"),
]
