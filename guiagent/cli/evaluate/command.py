"""`guiagent eval`: benchmarks a policy on a suite beside the baselines; continues an interrupted run."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import xxhash

from eval.breakdown import breakdown_json
from eval.repetitions import Prices, Repetitions, repetitions_json
from eval.report.breakdown import breakdown_section, print_results
from eval.report.card import write_card
from eval.report.changes import changes
from eval.report.page import RunSummary, write_report, write_summary
from eval.report.repetitions import print_repetitions, repetitions_section
from eval.report.viewer import select
from eval.results import Comparison, SuiteResult, read_result
from eval.suites import find_suite
from eval.suites.suite import Suite
from guiagent.cli.common.farm import suite_farm
from guiagent.cli.common.memory import PeakMemory
from guiagent.cli.common.place import HERE, Place
from guiagent.cli.common.policy import SCRIPTED, PolicySettings
from guiagent.cli.common.progress import StageLine
from guiagent.cli.common.provenance import commit, versions
from guiagent.cli.common.stopping import cancelled_by_signals
from guiagent.cli.common.terminal import terminal
from guiagent.cli.evaluate.evaluator import Evaluator
from guiagent.cli.evaluate.grounding import render
from guiagent.client.still import STILL
from guiagent.dialects import find_dialect
from guiagent.errors import StoppedError, UsageError
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Trajectory
from rewards.tasksets.grounding import GROUNDING
from rewards.tasksets.webarena import with_words
from training.config import checkpoint_folder

_EPISODES = 50  # per task, unless the user says how many or the suite has fewer
_SOLVING = ("obedient", "oracle")  # baselines that are also measured behind guardrails
GUARDED = "guarded"  # folder in a run's, of results behind guardrails
_Planned = tuple[
    str, int, float | None
]  # a policy, the repetition, and the share of the picture to zoom into


def label_of(name: str, settings: PolicySettings) -> str:
    """Return a label for the results of a policy, so that those of different policies are never mixed.

    It is a baseline's name, or changes with a checkpoint's weights and the experiences in its prompts.
    """
    zoomed = f"-zoom{settings.zoom:g}" if settings.zoom else ""
    if name in SCRIPTED:
        return name + zoomed
    model = name.replace("/", "_") if "://" in name else _digest_of(name)
    experiences = settings.experiences
    return (model if experiences is None else f"{model}-told-{experiences.digest[:8]}") + zoomed


def _digest_of(name: str) -> str:
    digest = xxhash.xxh3_64()
    for weights in sorted(checkpoint_folder(name).glob("*.safetensors")):  # a large model has several
        with weights.open("rb") as file:
            while chunk := file.read(1 << 24):
                digest.update(chunk)
    return f"policy-{digest.hexdigest()[:8]}"


def chosen(suite: str, tasks: str | None, sites: Sequence[str] = (), judge: Path | None = None) -> Suite:
    """Find a suite, or the one of its `tasks` alone: names or patterns, with commas. Raises UsageError.

    `sites` (SITE=ADDRESS) and `judge` are for WebArena's files.
    """
    if suite == GROUNDING:
        render()
    found = find_suite(with_words(suite, sites, judge))
    return found if tasks is None else found.only([one.strip() for one in tasks.split(",") if one.strip()])


def measured(baselines: str, suite: Suite, policy: str) -> tuple[list[str], list[SuiteResult]]:
    """Return the baselines that are still to be played beside a policy, and the results that are there.

    `baselines` is "all", "none", or the folder of an earlier evaluation on the same suite.

    Raises UsageError if that folder has no results of baselines on the suite.
    """
    beside = [name for name in suite.baselines if name != policy and (name != "oracle" or suite.oracle)]
    if baselines in ("all", "none"):
        return (beside if baselines == "all" else []), []
    folder = Path(baselines)
    there = [name for name in beside if (folder / name / "results.json").is_file()]
    if not there:
        raise UsageError(f"{folder} has no results of baselines: say --baselines all, none, or such a folder")
    return [], [read_result(folder / name / "results.json", suite) for name in there]


def guarded(file: Path, suite: Suite, place: Place) -> tuple[Place, str]:
    """The place whose pool holds the rules of a file, and their digest.

    The name "suite" stands for the file of those that come with the suite. Raises UsageError if there are
    none.
    """
    if str(file) == "suite":
        if not suite.guardrails:
            raise UsageError(f"no guardrails come with the suite {suite.name}: name a file")
        file = Path(suite.guardrails)
    where = replace(place, guardrails=file)
    where.of(suite)
    return where, xxhash.xxh3_64_hexdigest(file.read_bytes())


@dataclass(frozen=True)
class Asked:
    """How much is played, on how many devices, beside what, and at which prices tokens are counted."""

    episodes: int | None = None  # per task; None: 50, or all that the suite has
    devices: int = 8
    baselines: str = "all"  # as `measured` takes it
    runs: int = 1
    max_steps: int | None = None
    zoom: float | None = None  # also measure the policy with this share of the picture to point again in
    price_in: float | None = None  # of a million tokens of prompts
    price_out: float | None = None  # and of replies
    place: Place = HERE
    guardrails: Path | None = None  # also measure the policy, and those that read the solution, behind these

    @property
    def prices(self) -> Prices | None:
        """None if neither was given."""
        if self.price_in is None and self.price_out is None:
            return None
        return Prices(self.price_in or 0.0, self.price_out or 0.0)


def evaluate(policy: str, suite: Suite, run: Path, settings: PolicySettings, asked: Asked) -> None:
    """Measure a policy and the baselines, print the tables, and write `report.html`, `summary.json` and
    `card.md`."""
    console = terminal()
    suite = asked.place.of(suite)
    episodes = min(_EPISODES, suite.episodes) if asked.episodes is None else asked.episodes
    suite.seeds(episodes)
    if asked.zoom is not None and suite.device != STILL:
        raise UsageError("--zoom is for points on pictures: the suites grounding and screenspot:FOLDER")
    rules = None if asked.guardrails is None else guarded(asked.guardrails, suite, asked.place)
    played, known = measured(asked.baselines, suite, policy)
    if policy not in SCRIPTED and "://" not in policy:
        find_dialect(settings.dialect)
        checkpoint_folder(policy)

    plan: list[_Planned] = [(policy, n, None) for n in range(asked.runs)]
    plan += [(policy, 0, asked.zoom)] if asked.zoom else []
    plan += [(one, 0, None) for one in played]

    async def play(
        plan: list[_Planned], place: Place, out: Path, behind: str | None = None
    ) -> list[SuiteResult]:
        async with suite_farm(suite, asked.devices, place) as farm:
            if farm is not None:
                console.print(
                    f"farm      {asked.devices} {suite.device}s  live page {farm.live_url}", soft_wrap=True
                )
            results, client = [], farm.client if farm else None
            with StageLine(console, "1/1", "eval" + (" behind guardrails" if behind else "")) as line:
                for name, repetition, zoom in plan:
                    sampled = replace(settings, seed=repetition, zoom=zoom)
                    label = label_of(name, sampled) + (f"-run{repetition + 1}" if repetition else "")
                    label += "-guarded" if behind else ""
                    evaluator = Evaluator(suite, client, asked.devices, sampled, asked.max_steps, behind)
                    results.append(await evaluator.measure(name, label, out / label, episodes, line))
            return results

    async def work() -> list[SuiteResult]:
        with cancelled_by_signals():
            results = await play(plan, asked.place, run)
            if rules is not None:
                again = dict.fromkeys((policy, *(one for one in played if one in _SOLVING)))
                where, behind = rules
                results += await play([(one, 0, None) for one in again], where, run / GUARDED, behind)
            return results

    try:
        with PeakMemory() as memory:
            results = [*asyncio.run(work()), *known]
    except asyncio.CancelledError as error:
        raise StoppedError("interrupted; the same command goes on from here") from error
    first, beside = results[0], results[asked.runs :]
    repeated = Repetitions(tuple(results[: asked.runs]))
    print_results(results, console)
    if asked.zoom:
        for line in changes(Comparison(after=beside[0], before=first)):
            console.out(f"zoom {asked.zoom:g} on {line}", highlight=False)
    print_repetitions(repeated, console, asked.prices)
    with TrajectoryStore(run / first.label / "trajectories", readonly=True) as store:
        trajectories = list(store)
        summary = RunSummary(
            title=f"{policy} on {suite.name}",
            commit=commit(),
            wall_seconds=sum(trajectory.seconds for trajectory in trajectories),
            episodes=sum(len(result.episodes) for result in results),
            env_steps=sum(len(trajectory.steps) for trajectory in trajectories),
            peak_memory_mb=memory.megabytes,
            config={
                "policy": policy,
                "episodes": episodes,
                "temperature": settings.temperature,
                "dialect": settings.dialect,
                "history": settings.history.model_dump(),
                "runs": asked.runs,
                "max_steps": asked.max_steps,
                "guardrails": rules[1] if rules else None,
                "device": suite.device,
                "screen": suite.screen,
                "grants": suite.grants,
                "max_pixels": settings.max_pixels,
                "max_new_tokens": settings.max_new_tokens,
                "packages": versions(),
                "ran": msgspec.to_builtins(first.ran),
                "experiences": list(settings.experiences.entries.values()) if settings.experiences else [],
            },
        )
        comparison = Comparison(after=first, baselines=tuple(beside))
        none: list[Trajectory] = []
        write_report(
            run / "report.html",
            summary,
            comparison,
            [],
            select(none, trajectories, 12),
            store.frame,
            more=breakdown_section(results) + repetitions_section(repeated, asked.prices),
        )
    write_summary(
        run / "summary.json",
        summary,
        comparison,
        more={
            "repetitions": repetitions_json(repeated, asked.prices),
            "breakdown": {result.label: breakdown_json(result) for result in results},
        },
    )
    write_card(run / "card.md", repeated, beside, asked.prices)
    console.print(f"report    {run / 'report.html'}", soft_wrap=True)
