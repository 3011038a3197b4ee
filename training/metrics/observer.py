"""The observer of a run: sees every committed episode, and writes a line of figures for every update."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from guiagent.errors import Fault
from guiagent.types import Trajectory
from rewards.judges.step import StepVerdict
from training.algorithms.adjusted import algorithm_of
from training.checkpoints.run_state import RunState
from training.config import TrainConfig
from training.engine.engine import Engine
from training.learner.labels import LabelCounts
from training.learner.learner import Update
from training.learner.signals import known_answer
from training.metrics.gpu import GpuMeter
from training.metrics.health import Health, HealthMonitor, health
from training.metrics.judge_agreement import GapMonitor, judged_and_true
from training.metrics.memory import resident_mb
from training.metrics.platforms import PlatformFigures, PlatformMeter
from training.metrics.utilisation import UtilizationMeter
from training.metrics.writer import Metrics, Phases
from training.replay import Group, Replay


@dataclass(frozen=True)
class Progress:
    """The progress of a run after an update."""

    step: int
    steps: int
    seconds: float  # seconds of training, over all sessions of the run
    episodes: int
    env_steps: int  # turns of the episodes
    episodes_per_second: float
    success: float  # success rate of the rollouts in this update
    staleness: float  # mean staleness of the groups taken, in policy versions
    faults: int
    entropy: float
    health: Health
    in_vain: int  # updates in a row that taught nothing, this one included
    warnings: tuple[str, ...]  # of this update, a line each
    proposals: dict[str, int]  # counts by outcome since the run began; {} without a proposer
    unjudged: dict[str, int]  # rollouts of this session without a verdict, by reason
    unlabelled: dict[str, int]  # rollouts of this session without step labels, by reason
    judged_gap: float | None  # judged minus true success of the newest audited rollouts
    gap_opened: bool
    platforms: dict[str, PlatformFigures]  # {} with only one


@dataclass(frozen=True)
class Counters:
    """Counters kept by the parts of a run; the dicts grow while the run goes on."""

    proposals: Mapping[str, int] = field(default_factory=dict)  # counts by outcome
    unjudged: Mapping[str, int] = field(default_factory=dict)  # rollouts without a verdict, by reason
    unlabelled: Mapping[str, int] = field(default_factory=dict)  # rollouts without step labels, by reason
    step_verdict: Callable[[Trajectory], StepVerdict | None] | None = None  # None without a step judge
    check: Callable[[], dict[str, Any]] = dict  # returns further figures; what it raises ends the run


class Rate(Protocol):
    @property
    def per_second(self) -> float: ...


class Rollouts(Protocol):
    """The counters of `training.rollout.dispatcher.RolloutDispatcher`."""

    @property
    def lost(self) -> Mapping[str, Fault]: ...

    @property
    def stats(self) -> Rate: ...

    @property
    def faults(self) -> Counter[str]: ...


class RunObserver:
    """The meters of a run, and the writer of its `metrics.jsonl`; `counters` are kept by the run's parts."""

    def __init__(
        self,
        run: Path,
        config: TrainConfig,
        state: RunState,
        replay: Replay,
        engine: Engine,
        counters: Counters,
    ) -> None:
        self._steps, self._state, self._replay, self._engine = config.steps, state, replay, engine
        self._counters = counters
        self._signals = algorithm_of(config.update).signals
        self._gap = GapMonitor()
        self._labels = LabelCounts()
        self._health = HealthMonitor(config.health, config.dialect)
        self._utilization = UtilizationMeter(config.devices)
        platforms = config.all_platforms()
        self._platforms = PlatformMeter({name: platform.devices for name, platform in platforms.items()})
        self._gpu = GpuMeter()
        self.phase = Phases()  # `with observer.phase("learning"): ...`
        self._metrics = Metrics(run, after_step=state.step, tracker=config.tracker)

    def close(self) -> None:
        self._metrics.close()

    def take_up(self, episodes: Iterable[Trajectory]) -> None:
        """Count episodes of an earlier session that no line of metrics includes yet: the next one will."""
        for trajectory in episodes:
            if trajectory.group:  # seeds were rolled out by another run
                self._count(trajectory)

    def committed(self, trajectory: Trajectory) -> None:
        """Count an episode that was just committed to the store."""
        self._count(trajectory)
        self._utilization.episode(trajectory)
        self._platforms.episode(trajectory)
        if (both := judged_and_true(trajectory)) is not None:
            self._gap.add(*both)

    def record(self, groups: Sequence[Group], update: Update, rollouts: Rollouts) -> Progress:
        """Write the figures of the update made from `groups`; they are on the disk when this returns.

        Raises what `Counters.check` raises, InfrastructureError if the disk is full or failing, and
        StalledError, when the figures are written, if the run has learned nothing for too long.
        """
        seconds, phases = self.phase.read()
        platforms = self._platforms.figures(seconds, groups, rollouts.lost)
        progress = self._progress(groups, update, rollouts, platforms)
        self._utilization.learned(groups, update.taught)
        figures = self._replay_figures() | self._signal_figures(groups)
        figures |= self._utilization.figures(seconds, phases, self._engine.stats) | self._gpu.figures()
        figures["memory_mb"] = resident_mb()
        figures["platforms"] = {name: one._asdict() for name, one in platforms.items()}
        self._metrics.update(asdict(progress) | update.metrics | figures | self._counters.check())
        self._state.recorded = self._state.episodes
        self._health.check()
        return progress

    def _count(self, trajectory: Trajectory) -> None:
        self._metrics.episode(trajectory)
        if self._counters.step_verdict is not None:
            self._labels.add(trajectory, self._counters.step_verdict(trajectory))

    def _progress(
        self,
        groups: Sequence[Group],
        update: Update,
        rollouts: Rollouts,
        platforms: dict[str, PlatformFigures],
    ) -> Progress:
        state, counters = self._state, self._counters
        found = health(groups, update)
        warnings = self._health.add(found)
        fresh = [group for group in groups if group.sampled]
        sampled = [trajectory for group in fresh for trajectory in group.sampled if trajectory.valid]
        return Progress(
            step=state.step,
            steps=self._steps,
            seconds=state.seconds,
            episodes=state.episodes,
            env_steps=state.env_steps,
            episodes_per_second=rollouts.stats.per_second,
            success=sum(trajectory.success for trajectory in sampled) / max(len(sampled), 1),
            staleness=found.staleness,
            faults=rollouts.faults.total(),
            entropy=found.entropy,
            health=found,
            in_vain=self._health.in_vain,
            warnings=warnings + self._gpu.warnings() + self._platforms.warnings(rollouts.lost),
            proposals=dict(counters.proposals),
            unjudged=dict(counters.unjudged),
            unlabelled=dict(counters.unlabelled),
            judged_gap=self._gap.gap,
            gap_opened=self._gap.opened,
            platforms=platforms,
        )

    def _replay_figures(self) -> dict[str, Any]:
        stats = self._replay.stats
        return {
            "stale_groups": stats.stale,
            "invalid_groups": stats.invalid,
            "flat_groups": stats.flat,
            "withdrawn_groups": stats.withdrawn,
            "masked": stats.masked,
            "replay_share": stats.replay_share,
            "staleness_histogram": stats.staleness,
        }

    def _signal_figures(self, groups: Sequence[Group]) -> dict[str, float]:
        """Return how many episodes have known answers and step labels, if the algorithm uses them."""
        figures: dict[str, float] = {}
        if "answers" in self._signals:
            members = [member for group in groups for member in group.members if member.valid]
            known = sum(known_answer(member) is not None for member in members)
            figures["known_answers"] = known / max(len(members), 1)
        if self._counters.step_verdict is not None:
            counted, self._labels = self._labels, LabelCounts()
            figures |= counted.figures()
        return figures
