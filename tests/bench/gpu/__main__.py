"""`python -m tests.bench.gpu [--minutes N] [--only STAGE] [--rehearse]`: what `make gpu` runs.

Each stage runs in a process of its own and ends when its time is over, or that of the whole call: what was
measured by then stands in runs/bench/gpu.json and gpu.md, which are written after every row. `--publish FILE`
puts the last run's tables into a page. Without a GPU it says so in one line; `--rehearse` runs the same call
at tiny sizes on the CPU. Exits with 1 where a stage failed or was cut off.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console

from guiagent.errors import UsageError
from tests.bench import results
from tests.bench.gpu.stages import STAGES
from tests.bench.processes import measured
from tests.bench.results import Files, Results, Subject
from tests.bench.rows import Row, current_commit

FILES = Files(Path("runs/bench/gpu.json"), Path("runs/bench/gpu.md"))
REHEARSAL = Files(Path("runs/bench/gpu-rehearsal.json"), Path("runs/bench/gpu-rehearsal.md"))
PLACE = "gpu figures"  # in the page
_MARGIN_S = 15.0  # of the call, for what comes before and after the stages


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.gpu", description="Measures on one GPU.")
    parser.add_argument("--minutes", type=float, default=10.0, help="of the whole call (default 10)")
    parser.add_argument("--only", action="append", choices=STAGES, help="a stage; may be repeated")
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes, on the CPU")
    parser.add_argument(
        "--publish", type=Path, metavar="FILE", help="no run: put the last one's tables there"
    )
    options = parser.parse_args()
    try:
        if options.publish:
            results.publish(results.read(FILES), options.publish, PLACE)
            return 0
    except UsageError as error:
        parser.error(str(error))
    if not options.rehearse and not torch.cuda.is_available():
        print(
            f"no GPU here: PyTorch {torch.__version__} sees no CUDA device; run this on a machine that has "
            "one, or rehearse it on the CPU with `python -m tests.bench.gpu --rehearse`",
            file=sys.stderr,
        )
        return 2
    files = REHEARSAL if options.rehearse else FILES
    deadline = time.monotonic() + 60 * options.minutes - _MARGIN_S
    return carry_out(
        options.only or list(STAGES), files, deadline, Console(highlight=False), options.rehearse
    )


def carry_out(stages: Sequence[str], files: Files, deadline: float, console: Console, rehearsed: bool) -> int:
    """Run the stages until `deadline`, of the monotonic clock; 0 if all came to their end and hold."""
    device = "rehearsed on the CPU" if rehearsed else torch.cuda.get_device_name(0)
    found = Results(f"{device}; PyTorch {torch.__version__}; {results.machine()}")
    complete = True
    for name in stages:
        subject = Subject(f"gpu: {name}", 1, current_commit())
        found.subjects.append(subject)
        began = time.monotonic()

        def keep(row: Row, subject: Subject = subject, began: float = began) -> None:
            subject.rows.append(row)
            subject.seconds = time.monotonic() - began
            results.write(found, files)
            console.print(f"{row.name}, {row.unit}: {results.shown(row.ours)} {row.note}", soft_wrap=True)

        left = deadline - began
        command = [sys.executable, "-m", "tests.bench.gpu.stages", name]
        failure = (
            measured(command, ["--rehearse"] if rehearsed else [], min(STAGES[name].seconds, left), keep)
            if left > 0
            else "the time of the call was over"
        )
        if failure:
            complete = False
            keep(Row(name=subject.name, unit="", goal="runs", holds=False, note=failure))
    results.write(found, files)
    console.print(f"{files.json}, {files.markdown}", soft_wrap=True)
    return 0 if complete and all(row.holds is not False for row in found.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
