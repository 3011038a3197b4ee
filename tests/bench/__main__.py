"""`python -m tests.bench [--only SUBJECT] [--rounds N] [--resume]`: a row a figure, in runs/bench.

Every subject runs in a process of its own: one that fails, hangs or dies is a row that says so, and the rest
goes on. A run of all of them writes runs/bench/results.json and figures.md subject by subject; `--resume`
goes on where it was interrupted, `--publish FILE` puts its tables into a page. With `--only` the files are
only.json and only.md. Exits with 1 where a goal was missed or a subject failed. A GPU is measured by
`python -m tests.bench.gpu`.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from guiagent.errors import UsageError
from tests.bench import results
from tests.bench.processes import measured
from tests.bench.results import Results, Subject, shown, spread
from tests.bench.rows import Row, current_commit

SUBJECTS = (
    *("startup", "freshness", "reset", "stepping", "pool", "leases", "readiness", "memory", "desktop", "vm"),
    *("pages", "runner", "sites", "lab", "engine", "loop"),
    *("training", "resume", "checkpoints", "asynchrony", "judge"),
)
_LIMIT_S = 1800.0  # for one subject, its peers' installation and a VM's first boot included


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Benchmarks beside peers.")
    parser.add_argument("--only", action="append", choices=SUBJECTS, help="a subject; may be repeated")
    parser.add_argument("--rounds", type=int, default=3, help="how often each arm is measured (default 3)")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run of this commit")
    parser.add_argument(
        "--publish", type=Path, metavar="FILE", help="no run: put the last one's tables there"
    )
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds is at least 1")
    if options.resume and options.only:
        parser.error("--resume goes on with a run of all subjects")
    console = Console(highlight=False)
    try:
        if options.publish:
            results.publish(results.read(results.WHOLE), options.publish)
            return 0
        kept = _kept(options.rounds) if options.resume else []
        files = results.ONLY if options.only else results.WHOLE
        return _run(options.only or SUBJECTS, options.rounds, kept, files, console)
    except UsageError as error:
        parser.error(str(error))


def _kept(rounds: int) -> list[Subject]:
    """What an interrupted run of this commit has done already."""
    if not results.WHOLE.json.exists():
        return []
    found = results.read(results.WHOLE).subjects
    return [subject for subject in found if (subject.rounds, subject.commit) == (rounds, current_commit())]


def _run(
    subjects: Sequence[str], rounds: int, kept: list[Subject], files: results.Files, console: Console
) -> int:
    found = Results(results.machine(), kept)
    done = {subject.name for subject in kept}
    heads = f"{'ours':>8} {'peer':>8} {'ratio':>7} {'over rounds':>14} {'limit':>8}  {'goal':20} load"
    console.print(f"{'':76} {heads}", soft_wrap=True)
    for name in subjects:
        if name in done:
            continue
        subject = Subject(name, rounds, current_commit())
        found.subjects.append(subject)
        began = time.monotonic()
        failure = _measure(subject, console)
        subject.seconds = time.monotonic() - began
        if failure:
            subject.rows.append(Row(name=name, unit="", goal="runs", holds=False, note=failure))
            console.print(_line(subject.rows[-1]), soft_wrap=True)
        results.write(found, files)
    verdicts = [row.holds for row in found.rows]
    slack = sum(row.verdict.startswith("yes,") for row in found.rows)
    console.print(
        f"goals: {verdicts.count(True)} hold ({slack} with more than 1.5x slack), {verdicts.count(False)} "
        f"missed, {verdicts.count(None)} not measured; {files.json}, {files.markdown}",
        soft_wrap=True,
    )
    return 1 if False in verdicts else 0


def _measure(subject: Subject, console: Console) -> str:
    """Fill in the subject's rows as its process finds them; why it came to no good end, or ""."""

    def keep(row: Row) -> None:
        subject.rows.append(row)
        console.print(_line(row), soft_wrap=True)

    command = [sys.executable, "-m", "tests.bench.subject", subject.name, str(subject.rounds)]
    return measured(command, [], _LIMIT_S, keep)


def _line(row: Row) -> str:
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
    figures = f"{shown(row.ours):>8} {shown(row.peer):>8} {ratio:>7} {spread(row):>14} {shown(row.limit):>8}"
    colour = {"yes": "green", "no": "red", "failed": "red"}.get(row.verdict.split(",")[0], "yellow")
    what = f"{row.name}, {row.unit}" if row.unit else row.name
    return f"{what:76} {figures}  {row.goal:20} {row.load:>4.1f}  [{colour}]{row.verdict}[/] {row.note}"


if __name__ == "__main__":
    sys.exit(main())
