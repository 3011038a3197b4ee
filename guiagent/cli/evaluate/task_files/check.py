"""What `guiagent tasks check` says of task files: a row per task, their flaws, and a summary."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guiagent.cli.evaluate.task_files import harbor, osworld, scienceboard, webarena
from rewards import flaws
from rewards.flaws import Flaw
from rewards.tasksets.harbor.folder import is_one

Row = dict[str, Any]


@dataclass(frozen=True)
class _Format:
    rows: Callable[[Path], tuple[list[Row], list[str]]]
    line: Callable[[Row], str]
    flaws: Iterable[Flaw]


_HARBOR = _Format(harbor.rows, harbor.line, flaws.HARBOR)
_WEBARENA = _Format(webarena.rows, webarena.line, (*flaws.WEBARENA, *flaws.VERIFIED))
_SCIENCEBOARD = _Format(scienceboard.rows, scienceboard.line, ())
_OSWORLD = _Format(osworld.rows, osworld.line, flaws.OSWORLD)


@dataclass(frozen=True)
class Checked:
    """The tasks below a path: a row for each that was loaded, and a line for each that cannot be.

    `flaws` are those that some task has, each with its number of `tasks`, the most frequent first.
    """

    rows: Sequence[Row]
    bad: Sequence[str]
    flaws: Sequence[Row]
    summary: Row
    lines: Sequence[str]


def check(path: Path) -> Checked:
    """Read the task files below a path, whose format it finds by itself.

    Raises:
        UsageError: there is none.
        InfrastructureError: one cannot be read.
    """
    kind = _format(path)
    rows, bad = kind.rows(path)
    counts = Counter(name for row in rows for name in row["flaws"])
    known = sorted((one for one in kind.flaws if counts[one.name]), key=lambda one: -counts[one.name])
    told = [
        {"name": one.name, "tasks": counts[one.name], "why": one.why, "source": one.source} for one in known
    ]
    lines = [
        *(kind.line(row) + (f"; flaws: {', '.join(row['flaws'])}" if row["flaws"] else "") for row in rows),
        *(f"{one['name']} {one['tasks']}: {one['why']} ({one['source']})" for one in told),
    ]
    return Checked(rows, bad, told, _summary(rows, len(bad)), lines)


def _format(path: Path) -> _Format:
    if is_one(path):
        return _HARBOR
    if webarena.is_one(path):
        return _WEBARENA
    return _SCIENCEBOARD if scienceboard.is_one(path) else _OSWORLD


def in_words(summary: Row) -> str:
    """A summary as one line."""
    bad = f", {summary['bad']} cannot be loaded" if summary["bad"] else ""
    missing = ", ".join(f"{part} {count}" for part, count in summary["missing"].items())
    lacks = f"; missing: {missing}" if missing else ""
    flawed = f", {summary['flawed']} with flaws" if summary["flawed"] else ""
    return f"{summary['loaded']} loaded{bad}, {summary['supported']} supported{flawed}{lacks}"


def _summary(rows: Sequence[Row], bad: int) -> Row:
    missing = Counter(part for row in rows for part in row["missing"])
    return {
        "loaded": len(rows),
        "bad": bad,
        "supported": sum(not row["missing"] for row in rows),
        "flawed": sum(bool(row["flaws"]) for row in rows),
        "missing": dict(sorted(missing.items(), key=lambda item: (-item[1], item[0]))),
    }
