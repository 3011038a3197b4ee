"""Drill of the drills: each seeded defect is noticed by one of them, which finds nothing without it."""

import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.drills.farm import ROOT
from tests.drills.mutants import MUTANTS, NAMED, Mutant
from tests.drills.tally import Tally

_LIMIT_S = 1800.0
_NOTICED, _SOUND = 1, 0  # exit codes of a drill


def mutants(folder: Path, n: int) -> Tally:
    """The first `n` defects, and the same drills of the same size without any."""
    tally = Tally.looking_for("defects", "not noticed", "false alarms")
    table = Table("defect", "what", "drill", "noticed as")
    for name, mutant in list(MUTANTS.items())[:n]:
        tally.did("defects")
        code, said = drilled(mutant, name)
        noticed = said if code == _NOTICED else ""
        if not noticed:
            tally.fail("not noticed", f"{name}: {mutant.drill} ended with {code}")
        table.add_row(name, mutant.what, f"{mutant.drill} --n {mutant.n}", noticed or "NOT NOTICED")
    for drill, size in sorted({(one.drill, one.n) for one in list(MUTANTS.values())[:n]}):
        tally.did("drills without a defect")
        code, said = drilled(Mutant("", lambda: None, drill, size), "")
        if code != _SOUND:
            tally.fail("false alarms", f"{drill} --n {size} ended with {code}: {said}")
    Console().print(table)
    return tally


def drilled(mutant: Mutant, name: str) -> tuple[int, str]:
    """The exit code of a drill with a defect, and the problems that it counted."""
    command = [sys.executable, "-m", "tests.drills", mutant.drill, "--n", str(mutant.n), "--brief"]
    environment = {**os.environ, NAMED: name}
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S
    )
    if done.returncode and not done.stdout.strip():  # it broke, which is no notice
        print(done.stderr[-2000:], file=sys.stderr)
    return done.returncode, done.stdout.strip()
