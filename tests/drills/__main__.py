"""Runs one drill and prints its counts: `python -m tests.drills kills --store postgres`.

Each run is kept as a line of runs/drills/drills.jsonl; `--publish FILE` puts the last run of every drill into
a page, as tables. `all` runs every drill, on every store it has. Exits with 1 where something went wrong,
with 3 where PostgreSQL or strace is missing.
"""

import contextlib
import os
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from guiagent.errors import UsageError
from tests.drills import mutants, record
from tests.drills.catalogue import DRILLS, POSTGRES, REPLICAS, Setting
from tests.drills.tally import Tally, bound
from tests.support import postgres

_LOST, _MISSING = 1, 3


def main() -> int:
    parser = ArgumentParser(prog="python -m tests.drills", description="Counted drills.")
    parser.add_argument("name", nargs="?", choices=[*DRILLS, "all"])
    parser.add_argument("--n", type=int, help="how often: " + "; ".join(_sizes()))
    parser.add_argument("--store", choices=("sqlite", "postgres"), help="of the farm's drills")
    parser.add_argument("--night", action="store_true", help="as often as fits into a night")
    parser.add_argument("--mutant", choices=mutants.MUTANTS, help="with this defect; its run is not kept")
    parser.add_argument("--brief", action="store_true", help="print the problems only, and keep nothing")
    parser.add_argument("--publish", type=Path, metavar="FILE", help="no drill: put the last runs there")
    asked = parser.parse_args()
    try:
        if asked.publish:
            record.publish(record.read(), asked.publish)
            return 0
    except UsageError as error:
        parser.error(str(error))
    if asked.name is None:
        parser.error("which drill?")
    if asked.mutant:
        mutants.name(asked.mutant)
    mutants.seed()
    if asked.name != "all":
        stores = DRILLS[asked.name].stores
        if asked.store and asked.store not in stores:
            parser.error(f"{asked.name} runs on: {', '.join(filter(None, stores)) or 'no store'}")
        return _run(asked.name, asked.store or stores[0], asked)
    codes = [_run(name, store, asked) for name, drill in DRILLS.items() for store in drill.stores]
    Console().print(_summary(record.read()))
    if _LOST in codes:
        return _LOST
    return _MISSING if _MISSING in codes and os.environ.get("CI") == "true" else 0


def _sizes() -> list[str]:
    return [f"{name} {drill.n} {drill.what}, {drill.night} in a night" for name, drill in DRILLS.items()]


def _run(name: str, store: str, asked: Namespace) -> int:
    drill = DRILLS[name]
    n = asked.n or (drill.night if asked.night else drill.n)
    with contextlib.ExitStack() as stack:
        try:
            setting = _setting(n, store, stack)
            began = time.monotonic()
            tally = drill.work(setting)
        except pytest.skip.Exception as missing:
            print(f"{name}: {missing}", file=sys.stderr)
            return _MISSING
        seconds = time.monotonic() - began
    if asked.brief:
        print("; ".join(f"{count} {what}" for what, count in tally.problems.items()))
    else:
        made = record.entry(name, store, tally, seconds)
        if not asked.mutant:
            record.keep(made)
        Console().print(
            _table(made.title + (f", with {asked.mutant}" if asked.mutant else ""), tally, seconds)
        )
    return _LOST if tally.problems or not tally.trials else 0


def _setting(n: int, store: str, stack: contextlib.ExitStack) -> Setting:
    """A folder, and the store. Skips where there is no PostgreSQL."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    if store == POSTGRES:
        server = stack.enter_context(postgres.server())
        if server is None:
            pytest.skip(postgres.MISSING)
        return Setting(folder, n, stack.enter_context(server.database()), server)
    if store == REPLICAS:
        from tests.drills import replicas

        pair = stack.enter_context(replicas.pair())
        if pair is None:
            pytest.skip(postgres.MISSING)
        return Setting(folder, n, stack.enter_context(pair.database()), pair=pair)
    return Setting(folder, n)


def _summary(entries: Sequence[record.Entry]) -> Table:
    """The last run of every drill, a line each."""
    table = Table("drill", "tried", "", "lost", "at most, at 95 %", "seconds", "date", "commit")
    for one in entries:
        lost = sum(one.lost.values())
        trials = one.tried.get(one.unit, 0)
        most = f"{bound(lost, trials):.2g}" if one.held else ""
        figures = (f"{trials:,}", one.unit, str(lost), most, f"{one.seconds:.0f}", one.date, one.commit)
        table.add_row(one.title, *figures, style="" if one.held else "red")
    return table


def _table(title: str, tally: Tally, seconds: float) -> Table:
    table = Table("count", "", title=f"{title}: {seconds:.0f} s")
    for what, count in tally.tried.items():
        table.add_row(what, f"{count:,}")
    table.add_section()
    for what, figure in tally.figures.items():
        table.add_row(what, f"{figure:,.3g}")
    table.add_section()
    for what, count in tally.lost.items():
        table.add_row(f"[{'red' if count else 'green'}]{what}[/]", f"{count:,}")
    for words in tally.said:
        table.add_row("", words.replace("[", r"\["))
    return table


if __name__ == "__main__":
    sys.exit(main())
