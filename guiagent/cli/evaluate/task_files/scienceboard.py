"""Rows of `guiagent tasks check` for ScienceBoard's task files: all that each needs is missing here."""

from pathlib import Path
from typing import Any

from guiagent.errors import GuiAgentError, UsageError
from rewards.tasksets import scienceboard
from rewards.tasksets.osworld.load import paths
from rewards.tasksets.scienceboard import TaskFile


def is_one(path: Path) -> bool:
    """Whether the first JSON file of a path is a task of ScienceBoard's."""
    try:
        scienceboard.read(paths(path)[0])
    except GuiAgentError:
        return False
    return True


def rows(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """A row for each task file, named by its place below `path`; a line for each that cannot be loaded."""
    found, bad = [], list[str]()
    root = path if path.is_dir() else path.parent
    for file in paths(path):
        try:
            found.append(_row(str(file.relative_to(root).with_suffix("")), scienceboard.read(file)))
        except UsageError as error:
            bad.append(str(error))
    return found, bad


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    steps, checks = (",".join(dict.fromkeys(row[key])) or "-" for key in ("steps", "checks"))
    return "  ".join((row["id"], row["application"], steps, checks, f"missing: {'; '.join(row['missing'])}"))


def _row(name: str, task: TaskFile) -> dict[str, Any]:
    return {
        "id": name,
        "application": task.type,
        "sort": task.sort,
        "steps": list(task.functions),
        "checks": list(task.checks),
        "missing": task.lacking,
        "flaws": [],
    }
