"""What a certification log holds beside its answers: vote counts, draws of the selection, seed and time."""

from dataclasses import dataclass

from shieldwall.results.logs import Log


@dataclass(frozen=True)
class Extras:
    """What is not in the file is empty or None."""

    counts: dict[int, list[int]]
    """By input, how often each class won; of several members, the sum of theirs."""
    n0: str | None
    seed: str | None
    seconds: float | None
    """On an input, on average."""


def read_extras(log: Log) -> Extras:
    """Read a log once more, for its other columns; what other tools have there instead is left out."""
    header, *lines = log.path.read_text(encoding="utf-8-sig").split("\n")
    names = header.split("\t")
    rows = [dict(zip(names, line.split("\t"), strict=False)) for line in lines]
    known = set(log.idx.tolist())
    whole = [row for row in rows if len(row) == len(names) and int(row["idx"]) in known]
    times = [seconds for row in whole if (seconds := _seconds(row.get("time", ""))) is not None]
    return Extras(
        counts={int(row["idx"]): found for row in whole if (found := _counts(row.get("counts", "")))},
        n0=_only([row["n0"] for row in whole if "n0" in row]),
        seed=_only([row["seed"] for row in whole if "seed" in row]),
        seconds=sum(times) / len(times) if times else None,
    )


def _counts(cell: str) -> list[int]:
    """Counts of classes by commas; of several members, these by semicolons, to be added up."""
    try:
        members = [[int(count) for count in member.split(",")] for member in cell.split(";")]
    except ValueError:
        return []
    return [sum(of_class) for of_class in zip(*members, strict=False)]


def _seconds(cell: str) -> float | None:
    """As Python writes a timedelta: [D day[s], ]H:MM:SS[.ffffff]."""
    days, _, clock = cell.rpartition(", ")
    try:
        hours, minutes, seconds = clock.split(":")
        whole_days = int(days.split(" ")[0]) if days else 0
        return 86400 * whole_days + 3600 * int(hours) + 60 * int(minutes) + float(seconds)
    except ValueError:
        return None


def _only(values: list[str]) -> str | None:
    return values[0] if len(set(values)) == 1 else None
