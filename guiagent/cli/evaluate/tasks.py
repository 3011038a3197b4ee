"""`guiagent tasks`: checks which task files can be run, and proves their checks."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from guiagent.cli.common import place

app = typer.Typer(
    help="Show which task files can be run, and prove the checks of suites.", no_args_is_help=True
)


@app.command()
def check(
    path: Annotated[
        Path,
        typer.Argument(
            exists=True,
            help="Task files of OSWorld's or WebArena's, or task folders of Harbor's: one, or several.",
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document instead of a table.")
    ] = False,
) -> None:
    """Load task files and print a row per task: its parts, those that are not supported, and its flaws.

    What the flaws are and how many tasks have each comes after the rows. Exits with 2 if a file cannot be
    loaded, after all others were shown.
    """
    from guiagent.cli.evaluate.task_files.check import check as checked
    from guiagent.cli.evaluate.task_files.check import in_words
    from guiagent.errors import UsageError

    found = checked(path)
    if as_json:
        whole = {"tasks": found.rows, "bad": found.bad, "flaws": found.flaws, "summary": found.summary}
        print(json.dumps(whole, indent=2))
    else:
        print("\n".join([*found.lines, in_words(found.summary)]))
    for line in found.bad:
        print(f"guiagent: {line}", file=sys.stderr)
    if found.bad:
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
    exploits: Annotated[bool, typer.Option(help="Also play the agents that try to cheat.")] = True,
    run: Annotated[
        Path | None, typer.Option(help="Folder that keeps the proofs; the same command goes on from them.")
    ] = None,
    device: place.OnDevice = None,
    config: place.OfConfig = None,
    pool: place.OnPool = None,
) -> None:
    """Prove tasks' checks on real devices: the oracle scores 1, mutants, null agents and exploits do not.

    Tasks of others' files have no mutants, and an oracle only where we or you have a solution; all are tried
    by null agents and exploits, and the flaws of their files are named. Exits with 1 if a check is not sound.
    """
    from guiagent.cli.evaluate.audit import audit_suite

    sound = audit_suite(
        suite,
        task or [],
        seeds,
        devices,
        run,
        oracle_alone=oracle_alone,
        exploits=exploits,
        place=place.Place(device, config, pool),
    )
    if not sound:
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
