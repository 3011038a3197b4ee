"""Implementation of `guiagent judge`: runs a judge over a trajectory store, and prints its error rates."""

import asyncio
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
from rich.console import Console
from rich.table import Table

from guiagent import config as configuration
from guiagent.cli.common.judge import open_judge
from guiagent.cli.common.progress import StageLine
from guiagent.cli.common.terminal import terminal
from guiagent.errors import DECODE_ERRORS, InfrastructureError, UsageError
from guiagent.storage.atomic import write_file
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Trajectory
from rewards.judges.calibration import Calibration, Rate, VoteRates, corrected_rate, share
from rewards.judges.calibration import calibrate as measure
from rewards.judges.config import JudgeConfig, ServerConfig
from rewards.judges.log import VERDICTS, VerdictLog, judge_all
from rewards.judges.outcome import PRESETS
from rewards.judges.verdicts import Rule, Usage, Verdict

_Config = TypeVar("_Config", bound=ServerConfig)

CALIBRATION = "calibration.json"  # beside a run's trajectories


def calibrate(trajectories: Path, toml: Path | None, overrides: Sequence[str], limit: int | None) -> None:
    """Compare a judge with the state checks of at most `limit` episodes; write and print its error rates.

    Raises UsageError if no episode has a known truth, InfrastructureError if the judge gave no verdict.
    """
    run, console = trajectories.parent, terminal(highlight=False)
    config = config_for(JudgeConfig, "judge", run, toml, overrides)
    with TrajectoryStore(trajectories, readonly=True) as store:
        truths = {t.id: truth for t in store if (truth := known_truth(t)) is not None}
        chosen = set(list(truths)[:limit])
        if not chosen:
            raise UsageError(f"no episode in {trajectories} has a state check's score to compare with")
        verdicts = _judge(config, store, chosen, run, "calibrate", console)
    if all(verdict.value is None for verdict in verdicts.values()):
        raise InfrastructureError(
            f"the judge could say nothing of {len(verdicts)} episodes ({_unknowns(verdicts)}); "
            "the same command asks it again"
        )
    found = measure([(truths[id], verdict) for id, verdict in verdicts.items()], rule_of(config))
    write_file(run / CALIBRATION, msgspec.json.format(msgspec.json.encode(found)))
    print_calibration(found, console)
    _say_unknown(verdicts, console)
    console.print(f"calibration  {run / CALIBRATION}", soft_wrap=True)


def again(trajectories: Path, toml: Path | None, overrides: Sequence[str]) -> None:
    """Judge the episodes without a known score again, and print the outcome."""
    run, console = trajectories.parent, terminal(highlight=False)
    config = config_for(JudgeConfig, "judge", run, toml, overrides)
    with TrajectoryStore(trajectories, readonly=True) as store:
        unknown = {trajectory.id for trajectory in store if left_unknown(trajectory)}
        if not unknown:
            console.print("every episode has its verdict")
            return
        verdicts = _judge(config, store, unknown, run, "again", console)
    values = [verdict.value for verdict in verdicts.values() if verdict.value is not None]
    passed = share(sum(value >= 1 for value in values), len(values))
    console.print(f"judged       {len(values)} of {len(verdicts)}; success {shown(passed)}")
    _say_unknown(verdicts, console)
    if passed.rate is not None and (
        rate := _corrected(run, next(iter(verdicts.values())).judge, passed.rate)
    ):
        console.print(f"corrected    {100 * rate:.0f}% by the errors measured in {run / CALIBRATION}")


def known_truth(trajectory: Trajectory) -> bool | None:
    """Return the state check's verdict: the audit's if a judge gave the score. None if there is none."""
    score = trajectory.audit
    if score is None and trajectory.score is not None and trajectory.score.source == "check":
        score = trajectory.score
    if trajectory.fault is not None or score is None or score.value is None:
        return None
    return score.value >= 1


def left_unknown(trajectory: Trajectory) -> bool:
    """Whether an episode ran to its end and has no known score."""
    is_scored = trajectory.score is not None and trajectory.score.value is not None
    return not is_scored and (trajectory.fault is None or trajectory.fault.origin == "judge")


def config_for(
    kind: type[_Config], table: str, run: Path, toml: Path | None, overrides: Sequence[str]
) -> _Config:
    """Load a judge's config from `toml`, or else from the `table` of the run's own config.

    Its replies are cached in the run's folder unless it names another one.
    """
    own, flags = run / "config.toml", {}
    if toml is None and own.is_file():
        try:
            flags = tomllib.loads(own.read_text()).get(table, {})
        except ValueError as error:  # bad TOML or bad UTF-8
            raise UsageError(f"{own} is not TOML: {error}; name the judge with --judge FILE") from None
    config = configuration.load(kind, toml, overrides, flags)
    return config if config.cache else config.model_copy(update={"cache": run / "judge-cache"})


def print_calibration(found: Calibration, console: Console) -> None:
    """Print the judge's error rates, its votes, and the effect of its errors on training."""
    console.print(f"{found.judge} on {found.episodes} episodes of known truth", soft_wrap=True)
    record = Table("", "rate", "95%", "of", box=None)
    rows = {
        "abstention": found.abstention,
        "accuracy": found.accuracy,
        "precision": found.precision,
        "recall": found.recall,
        "specificity": found.specificity,
        "false positives": found.false_positive_rate,
        "false negatives": found.false_negative_rate,
        "true success": found.true_success,
        "judged success": found.judged_success,
    }
    for name, rate in rows.items():
        record.add_row(name, _percent(rate.rate), f"{100 * rate.low:.1f}-{100 * rate.high:.1f}", str(rate.n))
    console.print(record)
    for truth, votes in (("successes", found.votes_on_successes), ("failures", found.votes_on_failures)):
        if votes is not None:
            console.print(f"votes on {truth}: {_votes(votes)}", soft_wrap=True)
    if found.effects:
        effects = Table(
            "true", "judged", "advantage", "normalised", "flipped", "silent", "spurious", box=None
        )
        for e in found.effects:
            shares = (e.success, e.judged_success, e.flipped, e.silent, e.spurious)
            true, judged, *rest = map(_percent, shares)
            effects.add_row(true, judged, f"x{e.advantage_gain:.2f}", f"x{e.normalised_gain:.2f}", *rest)
        console.print(f"in training, groups of {found.effects[0].n} at each true success rate:")
        console.print(effects)
    console.print(f"cost         {_cost(found.usage, found.episodes)}", soft_wrap=True)


def _judge(
    config: JudgeConfig, store: TrajectoryStore, chosen: set[str], run: Path, stage: str, console: Console
) -> dict[str, Verdict]:
    """Judge the chosen trajectories; return verdicts by id. Known ones are taken from the run's log."""
    verdicts: dict[str, Verdict] = {}

    async def work(log: VerdictLog, line: StageLine) -> None:
        def count(trajectory: Trajectory, verdict: Verdict) -> None:
            verdicts[trajectory.id] = verdict
            unknown = sum(verdict.value is None for verdict in verdicts.values())
            line.update(f"{len(verdicts)} of {len(chosen)} episodes, {unknown} unknown")

        judge = open_judge(config)
        episodes: Iterable[Trajectory] = (t for t in store if t.id in chosen)
        try:
            await judge_all(
                judge, episodes, store.frame, log, concurrency=config.concurrency, on_verdict=count
            )
        finally:
            await judge.close()

    with VerdictLog(run / VERDICTS) as log, StageLine(console, "1/1", stage) as line:
        asyncio.run(work(log, line))
    return verdicts


def rule_of(config: JudgeConfig) -> Rule:
    """Return the rule by which the judge's votes are counted."""
    return config.rule or ("all" if config.url is None else PRESETS[config.preset].rule)


def _corrected(run: Path, judge: str, judged: float | None) -> float | None:
    """Estimate the true success rate from a judged one; None if this judge was not calibrated here."""
    try:
        known = msgspec.json.decode((run / CALIBRATION).read_bytes(), type=Calibration)
    except (FileNotFoundError, *DECODE_ERRORS):
        return None
    recall, false_alarm = known.recall.rate, known.false_positive_rate.rate
    if known.judge != judge or recall is None or false_alarm is None or judged is None:
        return None
    return corrected_rate(judged, recall, false_alarm)


def _unknowns(verdicts: dict[str, Verdict]) -> str:
    """Return the reasons for unknown verdicts with counts: "3 deadline, 1 abstained"."""
    reasons = Counter(v.fault.code if v.fault else "abstained" for v in verdicts.values() if v.value is None)
    return ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())


def _say_unknown(verdicts: dict[str, Verdict], console: Console) -> None:
    if unknown := _unknowns(verdicts):
        console.print(f"unknown      {unknown}; the same command asks again", soft_wrap=True)


def _votes(votes: VoteRates) -> str:
    correlation = "unknown" if votes.correlation is None else f"{votes.correlation:.2f}"
    return (
        f"one passes {_percent(votes.single.rate)}, correlation {correlation}; by the rule "
        f"{_percent(votes.measured.rate)} pass, {_percent(votes.independent)} if votes were independent"
    )


def _cost(usage: Usage, episodes: int) -> str:
    tokens = f"{usage.prompt_tokens} prompt tokens ({usage.prompt_tokens / episodes:.0f} a verdict)"
    return (
        f"{usage.requests} requests, {usage.cached} from the cache, {tokens}, "
        f"{usage.completion_tokens} completion tokens, {usage.seconds:.0f} s of waiting"
    )


def shown(rate: Rate) -> str:
    """Format a rate with its 95% interval: "62% (51-72)"."""
    return f"{_percent(rate.rate)} ({100 * rate.low:.0f}-{100 * rate.high:.0f})"


def _percent(rate: float | None) -> str:
    return "–" if rate is None else f"{100 * rate:.1f}%"
