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

CERTIFIED_OTHERWISE: list[dict[str, object]] = [
    {"certified": {"n": "2000"}},
    {"certified": {"alpha": "0.01"}},
    {"certified": {"norm": "linf"}},
    {"certified": {"bound": "two-sided"}},
    {"certified": {"precision": "float16"}},
    {"lines": WORKED[:5]},
    {"lines": [(0, 1, 0, "0.5"), *WORKED[1:]]},
]
"""What `write_run` takes for a log that does not compare with the worked one: other draws, other inputs."""
