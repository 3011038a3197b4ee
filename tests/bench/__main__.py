"""`python -m tests.bench [--only SUBJECT] [--rounds N]`: a row a figure, also in runs/bench/results.json.

Exits with 1 where a goal was missed.
"""

import argparse
import sys
from pathlib import Path

import msgspec
from rich.console import Console

from tests.bench import (
    asynchrony,
    desktop,
    engine,
    freshness,
    gpu,
    leases,
    memory,
    pool,
    readiness,
    reset,
    startup,
    stepping,
    training,
    vm,
)
from tests.bench.rows import Row

SUBJECTS = {
    "startup": startup.rows,
    "freshness": freshness.rows,
    "reset": reset.rows,
    "stepping": stepping.rows,
    "pool": pool.rows,
    "leases": leases.rows,
    "readiness": readiness.rows,
    "memory": memory.rows,
    "desktop": desktop.rows,
    "vm": vm.rows,
    "engine": engine.rows,
    "training": training.rows,
    "gpu": gpu.rows,
    "asynchrony": asynchrony.rows,
}
RESULTS = Path("runs/bench/results.json")
_VERDICTS = {True: "[green]holds[/]", False: "[red]missed[/]", None: "[yellow]not measured[/]"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Benchmarks beside peers.")
    parser.add_argument("--only", action="append", choices=SUBJECTS, help="a subject; may be repeated")
    parser.add_argument("--rounds", type=int, default=5, help="how often each arm is measured (default 5)")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds is at least 1")
    console = Console(highlight=False)
    console.print(f"{'':54} {'ours':>10} {'peer':>10} {'ratio':>8}  {'goal':16} {'load':>5}", soft_wrap=True)
    done: list[Row] = []
    for subject in options.only or SUBJECTS:
        for row in SUBJECTS[subject](options.rounds):
            console.print(_line(row), soft_wrap=True)
            done.append(row)
            RESULTS.parent.mkdir(parents=True, exist_ok=True)
            RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(done), indent=2))
    verdicts = [row.holds for row in done]
    held, missed, unknown = (verdicts.count(verdict) for verdict in (True, False, None))
    console.print(f"goals: {held} hold, {missed} missed, {unknown} not measured (peer missing); {RESULTS}")
    return 1 if missed else 0


def _line(row: Row) -> str:
    peer = "" if row.peer is None else f"{row.peer:.4g}"
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
    figures = f"{row.ours:>10.4g} {peer:>10} {ratio:>8}  {row.goal:16} {row.load:>5.1f}"
    return f"{f'{row.name}, {row.unit}':54} {figures}  {_VERDICTS[row.holds]} {row.note}"


if __name__ == "__main__":
    sys.exit(main())
