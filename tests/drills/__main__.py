"""Runs one drill and prints its counts: `python -m tests.drills kills --store postgres`."""

import asyncio
import contextlib
import sys
import tempfile
import time
from argparse import ArgumentParser
from dataclasses import fields
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from tests import postgres
from tests.drills import run
from tests.drills.evidence import Counts
from tests.drills.mutants import MUTANTS

DRILLS = {"kills": (run.kills, 50), "late": (run.late, 1000), "pauses": (run.pauses, 5)}


def main() -> int:
    """0 where nothing went wrong, 1 where something did, 3 where PostgreSQL is missing."""
    parser = ArgumentParser(prog="python -m tests.drills")
    parser.add_argument("name", choices=DRILLS)
    parser.add_argument("--n", type=int, help="how many kills, late actions or pauses")
    parser.add_argument("--store", choices=("sqlite", "postgres"))
    parser.add_argument("--mutant", choices=MUTANTS, default="")
    asked = parser.parse_args()
    drill, n = DRILLS[asked.name]
    store = asked.store or ("postgres" if asked.name == "pauses" else "sqlite")
    options = {} if asked.name == "pauses" else {"mutant": asked.mutant}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if store == "postgres":
            server = stack.enter_context(postgres.server())
            if server is None:
                print(postgres.MISSING, file=sys.stderr)
                return 3
            options["database"] = stack.enter_context(server.database())
        began = time.monotonic()
        counts = asyncio.run(drill(folder, asked.n or n, **options))
        seconds = time.monotonic() - began
    title = f"{asked.name}, {store}" + (f", mutant {asked.mutant}" if asked.mutant else "")
    Console().print(_table(title, counts, seconds))
    return 1 if counts.problems else 0


def _table(title: str, counts: Counts, seconds: float) -> Table:
    table = Table("count", "", title=f"{title}: {seconds:.0f} s")
    for one in fields(counts):
        value = getattr(counts, one.name)
        if one.name == "recovery_s":
            shown = f"median {median(value):.2f}, worst {max(value):.2f}" if value else "none"
            table.add_row("recovery (s)", shown)
            table.add_section()
        else:
            table.add_row(one.name.replace("_", " "), str(value))
    return table


if __name__ == "__main__":
    sys.exit(main())
