"""Rows of `guiagent tasks check` for OSWorld's task files: their parts, and those that are not supported."""

from collections import Counter
from pathlib import Path
from typing import Any

from guiagent.errors import UsageError
from rewards.flaws import in_file
from rewards.tasksets.osworld.load import load, paths
from rewards.tasksets.osworld.schema import TaskFile
from rewards.tasksets.osworld.support import lacking


def rows(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """A row for each task file, and a line for each that cannot be loaded."""
    found, bad, seen = [], list[str](), dict[str, Path]()
    for file in paths(path):
        try:
            task = load(file)
        except UsageError as error:
            bad.append(str(error))
            continue
        if task.id in seen:
            bad.append(f"{file}: id: {task.id} is also that of {seen[task.id]}")
            continue
        seen[task.id] = file
        found.append(_row(task))
    return found, bad


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    steps = _counted([*row["steps"], *(f"post:{kind}" for kind in row["postconfig"])])
    verdict = f"missing: {'; '.join(row['missing'])}" if row["missing"] else "supported"
    if row["unknown_keys"]:
        verdict += f"; ignored keys: {', '.join(row['unknown_keys'])}"
    parts = (
        row["id"],
        "+".join(row["apps"]),
        steps,
        _counted(row["getters"]),
        _counted(row["metrics"]),
        verdict,
    )
    return "  ".join(part or "-" for part in parts)


def _row(task: TaskFile) -> dict[str, Any]:
    return {
        "id": task.id,
        "apps": list(task.apps),
        "steps": [step.kind for step in task.config],
        "postconfig": [step.kind for step in task.postconfig],
        "getters": [source.type for source in task.sources],
        "metrics": [check.func for check in task.checks],
        "unknown_keys": list(task.unknown),
        "missing": lacking(task),
        "flaws": [flaw.name for flaw in in_file(task)],
    }


def _counted(names: list[str]) -> str:
    """Return each name once, in order of appearance, with its count: `download,sleep*3`."""
    return ",".join(name if count == 1 else f"{name}*{count}" for name, count in Counter(names).items())
