"""Rows of `guiagent tasks check` for Harbor's task folders: what a task needs that a desktop lacks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from guiagent.errors import UsageError
from rewards.flaws import in_file
from rewards.tasksets.harbor.folder import TaskFolder, below, load


def rows(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """A row for each task folder, and a line for each that cannot be loaded."""
    found, bad = [], []
    for folder in below(path):
        try:
            found.append(_row(load(folder)))
        except UsageError as error:
            bad.append(str(error))
    return found, bad


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    missing: Sequence[str] = row["missing"]
    parts = (
        row["id"],
        row["ours"] or row["image"],
        f"{len(row['files'])} files",
        "solution" if row["solution"] else "no solution",
        f"missing: {'; '.join(missing)}" if missing else "supported",
    )
    return "  ".join(part or "-" for part in parts)


def _row(folder: TaskFolder) -> dict[str, Any]:
    ours = folder.ours
    return {
        "id": folder.name,
        "ours": "" if ours is None else f"{ours.task} of {ours.suite}",
        "instruction": folder.instruction,
        "image": folder.image.base,
        "files": sorted(folder.files),
        "solution": folder.solvable,
        "agent_s": folder.agent_s,
        "verifier_s": folder.verifier_s,
        "missing": [] if ours is not None else list(folder.lacks),
        "flaws": [] if ours is not None else [flaw.name for flaw in in_file(folder)],
    }
