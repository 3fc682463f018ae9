"""Texts for readers use plain words: these phrases may not come back."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]

PLAIN = {
    r"\bgoes on\b|\bgo on\b": "resumes, continues",
    r"\btold apart\b|\btells? (\w+ )*apart\b": "differ, distinguish",
    r"\bso many\b": "this number of",
    r"\balike\b": "the same, equal",
    r"\bat hand\b": "the present",
    r"\bis had\b": "is computed, is obtained",
    r"\bmend\b": "fix, repair",
    r"\bsuch as it\b": "leave it out",
    r"\bthere are: ": "choose from",
    r"^no [\w ]+ called\b": "unknown X",
    r"\bnames (the|its|their) draws\b": "noise seed",
    r"\bas many seeds\b": "the same number of seeds",
    r"\bdo not compare\b": "cannot be compared",
    r"\bmakes? another classifier\b": "each precision is a different classifier",
    r"\bsaid to be joint\b|\(joint\)": "collective",
    r"\brun folder it names\b": "the run folder that it prints",
}
"""Phrases by pattern, each with what to write instead."""


def texts(path: Path) -> Iterator[str]:
    """Every string of a source file, docstrings among them, in one line each; a page as a whole."""
    content = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield " ".join(content.split())
        return
    for node in ast.walk(ast.parse(content)):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
            yield " ".join("".join(map(str, parts)).split())
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield " ".join(node.value.split())


def offences(path: Path) -> list[str]:
    return [
        f"{path.name}: {match[0]!r} in {text[:80]!r}; write: {instead}"
        for text in texts(path)
        for phrase, instead in PLAIN.items()
        if (match := re.search(phrase, text, re.IGNORECASE))
    ]


@pytest.mark.parametrize("path", [*SOURCES, *PAGES], ids=lambda path: str(path.relative_to(ROOT)))
def test_no_phrase_that_readers_stumble_over(path: Path) -> None:
    assert offences(path) == []


def test_a_phrase_is_seen_across_lines_and_in_formatted_strings(tmp_path: Path) -> None:
    source = tmp_path / "some.py"
    source.write_text('"""A run that goes\non."""\nname = 1\nf"no {name} called x"\n')
    assert [text.split(" in ")[0] for text in offences(source)] == [
        "some.py: 'goes on'",
        "some.py: 'no X called'",
    ]
