"""Rows of `guiagent tasks check` for WebArena's task files: sites, evaluators, and what is not supported."""

from pathlib import Path
from typing import Any

from guiagent.errors import UsageError
from rewards.flaws import in_file
from rewards.tasksets.webarena import TaskFile, VerifiedFile, VerifiedTask, WebArenaTask
from rewards.tasksets.webarena.files import paths, read


def is_one(path: Path) -> bool:
    """Whether the first JSON file of a path begins with a task of WebArena's or of WebArena-Verified's."""
    try:
        return next(read(paths(path)[0]), None) is not None
    except UsageError:
        return False


def rows(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """A row for each task; a line for each that is there twice, or at which reading a file ends."""
    found, bad, seen = [], list[str](), dict[str, Path]()
    for file in paths(path):
        try:
            for task in read(file):
                name = str(task.task_id)
                if name in seen:
                    bad.append(f"{file}: task_id: {name} is also one of {seen[name]}")
                else:
                    seen[name] = file
                    found.append(_row(task))
        except UsageError as error:
            bad.append(str(error))
    return found, bad


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    parts = (
        row["id"],
        "+".join(row["sites"]),
        ",".join(row["evaluators"]),
        ",".join(row["references"]),
        f"missing: {'; '.join(row['missing'])}" if row["missing"] else "supported",
    )
    return "  ".join(part or "-" for part in parts)


def _row(file: TaskFile | VerifiedFile) -> dict[str, Any]:
    if isinstance(file, VerifiedFile):
        evaluators, references = [one.evaluator for one in file.eval], list[str]()
        missing = VerifiedTask(file, 0, {}).unsupported
    else:
        evaluators, references = list(file.eval.eval_types), sorted(file.eval.reference_answers or {})
        missing = WebArenaTask(file, 0).unsupported
    return {
        "id": str(file.task_id),
        "sites": list(file.sites),
        "evaluators": evaluators,
        "references": references,
        "missing": missing,
        "flaws": [flaw.name for flaw in in_file(file)],
    }
