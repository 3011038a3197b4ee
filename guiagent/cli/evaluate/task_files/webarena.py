"""Rows of `guiagent tasks check` for WebArena's task files: sites, evaluators, and what is not supported."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from guiagent.errors import DECODE_ERRORS, InfrastructureError, UsageError
from rewards.flaws import in_file
from rewards.tasksets.webarena import TaskFile, WebArenaTask

_MOST = 64 << 20  # bytes of a file


def is_one(path: Path) -> bool:
    """Whether the first JSON file of a path holds a task of WebArena's, by its keys."""
    first = next(iter(_paths(path)), None)
    if first is None:
        return False
    try:
        found = next(iter(_objects(first)), None)
    except UsageError:
        return False
    return isinstance(found, dict) and {"intent", "eval"} <= found.keys()


def rows(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """A row for each task, and a line for each task or file that cannot be loaded."""
    found, bad, seen = [], list[str](), dict[str, Path]()
    for file in _paths(path):
        try:
            objects = _objects(file)
        except UsageError as error:
            bad.append(str(error))
            continue
        for number, one in enumerate(objects):
            try:
                task = msgspec.convert(one, TaskFile)
            except msgspec.ValidationError as error:
                bad.append(f"{file}: task {number}: {error}")
                continue
            name = str(task.task_id)
            if name in seen:
                bad.append(f"{file}: task_id: {name} is also one of {seen[name]}")
                continue
            seen[name] = file
            found.append(_row(task))
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


def _row(task: TaskFile) -> dict[str, Any]:
    return {
        "id": str(task.task_id),
        "sites": list(task.sites),
        "evaluators": list(task.eval.eval_types),
        "references": sorted(task.eval.reference_answers or {}),
        "missing": WebArenaTask(task, 0).unsupported,
        "flaws": [flaw.name for flaw in in_file(task)],
    }


def _paths(path: Path) -> Iterator[Path]:
    yield from [path] if path.is_file() else sorted(path.rglob("*.json"))


def _objects(file: Path) -> list[Any]:
    """What a file holds: one object, or a list of them. Raises UsageError if it is no JSON."""
    try:
        if file.stat().st_size > _MOST:
            raise UsageError(f"{file}: a file of tasks has at most {_MOST >> 20} MiB")
        whole = msgspec.json.decode(file.read_bytes())
    except OSError as error:
        raise InfrastructureError(f"cannot read {file}: {error.strerror}") from error
    except (*DECODE_ERRORS, RecursionError) as error:
        raise UsageError(f"{file} is no file of tasks: {error}") from error
    return whole if isinstance(whole, list) else [whole]
