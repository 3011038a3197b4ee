"""`guiagent tasks`: checks which task files can be run, and proves their checks."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from guiagent.cli.common import place

if TYPE_CHECKING:
    from rewards.tasksets.osworld import TaskFile

app = typer.Typer(
    help="Show which task files can be run, and prove the checks of suites.", no_args_is_help=True
)


@app.command()
def check(
    path: Annotated[
        Path,
        typer.Argument(exists=True, help="Task file of OSWorld's or task folder of Harbor's, or several."),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of a table.")
    ] = False,
) -> None:
    """Load task files and print a row per task: its parts, and those that are not supported.

    Exits with 2 if a file cannot be loaded, after all others were shown.
    """
    from guiagent.cli.evaluate import harbor_folders
    from guiagent.errors import UsageError
    from rewards.tasksets.harbor.folder import is_one

    rows, bad, shown = (
        (*harbor_folders.rows(path), harbor_folders.line) if is_one(path) else (*_rows(path), _line)
    )
    summary = _summary(rows, len(bad))
    if as_json:
        print(json.dumps({"tasks": rows, "bad": bad, "summary": summary}, indent=2))
    else:
        for row in rows:
            print(shown(row))
        print(_in_words(summary))
    for line in bad:
        print(f"guiagent: {line}", file=sys.stderr)
    if bad:
        raise typer.Exit(UsageError.exit_code)


@app.command()
def audit(
    suite: Annotated[str, typer.Argument(help="Suite, such as miniwob-demo, phone or phone-unseen-apps.")],
    task: Annotated[list[str] | None, typer.Option(help="Prove only this task; may be repeated.")] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Number of the suite's seeds per task; by default 3, if it has.")
    ] = None,
    devices: Annotated[int, typer.Option(min=1, help="Number of devices.")] = 2,
    oracle_alone: Annotated[
        bool, typer.Option("--oracle-alone", help="Only see whether every task can be done.")
    ] = False,
) -> None:
    """Prove every task's check on real devices: the oracle scores 1, mutants and null agents do not.

    Exits with 1 if a check is not sound.
    """
    from guiagent.cli.evaluate.audit import audit_suite

    if not audit_suite(suite, task or [], seeds, devices, oracle_alone=oracle_alone):
        raise typer.Exit(1)


@app.command()
def preflight(
    path: Annotated[str, typer.Argument(help="Task files of OSWorld's (a file or folder), or a suite.")],
    task: Annotated[list[str] | None, typer.Option(help="Only this task, or a pattern; repeatable.")] = None,
    devices: Annotated[int, typer.Option(min=1, help="Number of devices.")] = 2,
    device: place.OnDevice = None,
    config: place.OfConfig = None,
    pool: place.OnPool = None,
) -> None:
    """Try every task's set-up, and an agent that does nothing, on real devices; no solution is needed.

    Exits with 1 unless all are right: a set-up that fails, or lacks something, is a fault; a task that pays
    for doing nothing is unsound.
    """
    from guiagent.cli.evaluate.preflight import preflight as fly

    name = f"osworld:{path}" if Path(path).exists() else path
    if not fly(name, task or [], devices, place.Place(device, config, pool)):
        raise typer.Exit(1)


def _rows(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """A row for each of OSWorld's task files, and a line for each that cannot be loaded."""
    from guiagent.errors import UsageError
    from rewards.tasksets.osworld.load import load, paths

    rows, bad, seen = [], list[str](), dict[str, Path]()
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
        rows.append(_row(task))
    return rows, bad


def _row(task: "TaskFile") -> dict[str, Any]:
    from rewards.tasksets.osworld.support import lacking

    return {
        "id": task.id,
        "apps": list(task.apps),
        "steps": [step.kind for step in task.config],
        "postconfig": [step.kind for step in task.postconfig],
        "getters": [source.type for source in task.sources],
        "metrics": [check.func for check in task.checks],
        "unknown_keys": list(task.unknown),
        "missing": lacking(task),
    }


def _summary(rows: list[dict[str, Any]], bad: int) -> dict[str, Any]:
    missing = Counter(part for row in rows for part in row["missing"])
    return {
        "loaded": len(rows),
        "bad": bad,
        "supported": sum(not row["missing"] for row in rows),
        "missing": dict(sorted(missing.items(), key=lambda item: (-item[1], item[0]))),
    }


def _line(row: dict[str, Any]) -> str:
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


def _counted(names: list[str]) -> str:
    """Return each name once, in order of appearance, with its count: `download,sleep*3`."""
    return ",".join(name if count == 1 else f"{name}*{count}" for name, count in Counter(names).items())


def _in_words(summary: dict[str, Any]) -> str:
    bad = f", {summary['bad']} cannot be loaded" if summary["bad"] else ""
    missing = ", ".join(f"{part} {count}" for part, count in summary["missing"].items())
    lacks = f"; missing: {missing}" if missing else ""
    return f"{summary['loaded']} loaded{bad}, {summary['supported']} supported{lacks}"
