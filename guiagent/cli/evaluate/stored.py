"""`guiagent eval --verify` and `guiagent compare A B`: what to do with evaluations that are there."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import typer

from eval.conditions import differences
from eval.report.changes import changes
from eval.report.page import RunSummary, write_report, write_summary
from eval.report.table import print_table
from eval.report.viewer import frames_of, select
from eval.results import Comparison, read_result
from eval.run import Agent, Benchmark, Claim, run_suite
from eval.suites import find_suite
from eval.suites.suite import Suite
from eval.verification import RecordedPolicy, Verification, read_recorded, verified
from guiagent.cli.common.farm import suite_farm
from guiagent.cli.common.memory import PeakMemory
from guiagent.cli.common.place import HERE
from guiagent.cli.common.policy import SCRIPTED
from guiagent.cli.common.progress import StageLine
from guiagent.cli.common.provenance import commit
from guiagent.cli.common.terminal import terminal
from guiagent.cli.evaluate.command import guarded
from guiagent.errors import DECODE_ERRORS, InfrastructureError, UsageError
from guiagent.storage.trajectories import TrajectoryStore
from rewards.catalogue import find_taskset
from rewards.tasksets.webarena import with_words

_PART = re.compile(
    r"(?P<suite>.+) \((?P<tasks>.+)\)"
)  # name of the suite of some tasks, as `Suite.only` says
_MOST_NAMED = 20


def verify(
    run: Path,
    devices: int,
    guardrails: Path | None = None,
    sites: Sequence[str] = (),
    judge: Path | None = None,
) -> None:
    """Compute an evaluation's results again, play its recorded actions on fresh devices, say what differs.

    `sites` and `judge` are as `chosen` takes them. Ends with exit code 1 where its figures do not hold.
    Raises UsageError unless `guardrails` are the rules that it was played behind, if any.
    """
    console = terminal()
    folder, suite = evaluation_of(run, sites, judge)
    recorded = read_recorded(folder, suite)
    label = recorded.stated.label
    where, rules = (HERE, None) if guardrails is None else guarded(guardrails, suite, HERE)
    if rules != (behind := recorded.stated.ran.agent.get("guardrails")):
        word = f"behind other guardrails ({behind}): name them with" if behind else "without"
        raise UsageError(f"{folder} was played {word} --guardrails")
    seeds = {episode.seed for episode in recorded.stated.episodes}
    out = folder / "verified"
    if out.exists():
        raise UsageError(f"{out} is there from an earlier verification: remove it to verify again")

    async def play() -> Verification:
        async with suite_farm(suite, devices, where) as farm:
            turns = recorded.stated.ran.max_steps
            benchmark = Benchmark(suite, find_taskset(suite.taskset), len(seeds), turns)
            with StageLine(console, "1/1", "verify") as line:
                again = await run_suite(
                    benchmark,
                    Agent(RecordedPolicy(recorded.episodes), f"recorded {label}"),
                    farm.client if farm else None,
                    out,
                    concurrency=devices,
                    on_progress=lambda p: line.update(f"{label}: {p.done} of {p.total} episodes"),
                )
        return verified(recorded, again)

    found = asyncio.run(play())
    total = len(recorded.stated.episodes)
    console.out(
        f"totals    {'follow from the trajectories' if not found.wrong else 'DIFFER'}", highlight=False
    )
    console.out(f"verdicts  {found.same} of {total} came out again", highlight=False)
    for name, ones in (("succeeded, fails now", found.lost), ("failed, succeeds now", found.won)):
        for one in ones[:_MOST_NAMED]:
            console.out(f"  {one.task} seed {one.seed}: {name}", highlight=False)
    for name in found.wrong[:_MOST_NAMED]:
        console.out(f"  {name}: the stated result is not that of its trajectory", highlight=False)
    if found.unknown:
        console.out(f"  {found.unknown} without a verdict, then or now", highlight=False)
    console.out("the figure holds" if found.holds else "the figure does not hold", highlight=False)
    if not found.holds:
        raise typer.Exit(1)


def compare_results(before: Path, after: Path, out: Path) -> None:
    """Compare two evaluations of one suite: paired differences, tasks that flipped, episodes side by side.

    Raises UsageError if they are of different suites.
    """
    console = terminal()
    (was, suite), (now, other) = evaluation_of(before), evaluation_of(after)
    if suite.digest != other.digest:
        raise UsageError(
            f"{before} is of the suite {suite.name}, {after} of {other.name}: nothing to compare"
        )
    comparison = Comparison(
        after=read_result(now / "results.json", suite), before=read_result(was / "results.json", suite)
    )
    first, second = comparison.before, comparison.after
    assert first is not None
    print_table([first, second], console)
    for line in changes(comparison):
        console.out(line, highlight=False)
    for line in differences(first.ran, second.ran):
        console.out(f"not the same  {line}", highlight=False)
    for line in _flips(comparison):
        console.out(f"  {line}", highlight=False)
    with (
        PeakMemory() as memory,
        TrajectoryStore(was / "trajectories", readonly=True) as one,
        TrajectoryStore(now / "trajectories", readonly=True) as two,
    ):
        earlier, later = list(one), list(two)
        both = [*earlier, *later]
        summary = RunSummary(
            title=f"{first.label} and {second.label} on {suite.name}",
            commit=commit(),
            wall_seconds=sum(t.seconds for t in both),
            episodes=len(first.episodes) + len(second.episodes),
            env_steps=sum(len(t.steps) for t in both),
            peak_memory_mb=memory.megabytes,
            config={"before": str(before), "after": str(after)},
        )
        write_report(
            out / "compare.html", summary, comparison, [], select(earlier, later, 12), frames_of([one, two])
        )
    write_summary(out / "compare.json", summary, comparison)
    console.print(f"report    {out / 'compare.html'}", soft_wrap=True)


def evaluation_of(run: Path, sites: Sequence[str] = (), judge: Path | None = None) -> tuple[Path, Suite]:
    """Find the evaluation of a policy in a folder that `guiagent eval` wrote, and the suite that it is of.

    `run` is that folder, or the policy's within it. Raises UsageError if there is none, there are several, or
    the suite is no longer what it was.
    """
    found = [run] if (run / "results.json").is_file() else _policies(run)
    if len(found) != 1:
        names = ", ".join(path.name for path in found)
        raise UsageError(
            f"{run} has several evaluations, name one: {names}"
            if found
            else f"{run} has no results.json: name a folder of `guiagent eval`"
        )
    folder = found[0]
    try:
        claim = msgspec.json.decode((folder / "suite.json").read_bytes(), type=Claim)
    except (OSError, *DECODE_ERRORS) as error:
        raise InfrastructureError(f"cannot read {folder / 'suite.json'}: {error}") from error
    part = _PART.fullmatch(claim.suite)
    suite = find_suite(with_words(part["suite"] if part else claim.suite, sites, judge))
    suite = suite.only(part["tasks"].split(", ")) if part else suite
    if suite.digest != claim.digest:
        raise UsageError(
            f"{folder} is of the suite {claim.suite} as it was ({claim.digest[:8]}); it has changed since "
            f"({suite.digest[:8]}): evaluate again, or use the version of guiagent that made it"
        )
    return folder, suite


def _policies(run: Path) -> list[Path]:
    """Folders of results in a run; those of baselines only where there is nothing else."""
    found = sorted(path.parent for path in run.glob("*/results.json"))
    return [path for path in found if path.name not in SCRIPTED] or found


def _flips(comparison: Comparison) -> list[str]:
    """A line for each task with seeds that flipped: how many were gained, how many lost."""
    assert comparison.before is not None
    was = {(e.task, e.seed): e.outcome for e in comparison.before.episodes}
    lines = []
    for task in comparison.after.suite.tasks:
        changes = [
            (was.get((e.task, e.seed)), e.outcome) for e in comparison.after.episodes if e.task == task
        ]
        gained, lost = changes.count(("failure", "success")), changes.count(("success", "failure"))
        if gained or lost:
            lines.append(f"{task}: {gained} gained, {lost} lost")
    return lines
