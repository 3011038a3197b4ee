"""Utilisation of devices, engine and trainer, update by update: sums, no clock, no I/O."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from guiagent.types import Trajectory
from training.engine.engine import EngineStats
from training.replay import Group


@dataclass
class _Sums:
    episodes: int = 0
    steps: int = 0
    busy_s: float = 0.0
    useful_s: float = 0.0
    policy_s: float = 0.0
    sampled_tokens: int = 0
    trained_tokens: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)


@dataclass
class UtilizationMeter:
    """Counts episodes as they are committed and groups as they are learned from.

    `figures` cover the time since their last call, except the costs per success, which cover the session:
    one update has too few successes for them.
    """

    devices: int
    _since: _Sums = field(default_factory=_Sums)
    _device_s: float = 0.0
    _trainer_s: float = 0.0
    _engine: EngineStats = field(default_factory=EngineStats)
    _successes: int = 0

    def episode(self, trajectory: Trajectory) -> None:
        """Count a committed episode, faulted or not."""
        sums = self._since
        sums.episodes += 1
        sums.busy_s += trajectory.seconds
        sums.policy_s += sum(step.policy_ms for step in trajectory.steps) / 1000
        sums.steps += len(trajectory.steps)
        sums.sampled_tokens += _tokens(trajectory)
        if trajectory.fault is not None:
            sums.faults[f"{trajectory.fault.origin}/{trajectory.fault.code}"] += 1
        self._successes += trajectory.success

    def learned(self, groups: Sequence[Group], taught: Collection[str]) -> None:
        """Count a batch that the trainer took; `taught` are the ids of the trajectories with an advantage."""
        sums = self._since
        for group in groups:
            valid = [trajectory for trajectory in group.sampled if trajectory.valid]
            sums.useful_s += sum(trajectory.seconds for trajectory in valid if trajectory.id in taught)
            sums.trained_tokens += sum(_tokens(member) for member in group.members if member.valid)
            if valid:
                sums.outcomes[group_outcome(valid)] += 1

    def figures(self, seconds: float, phases: dict[str, float], engine: EngineStats) -> dict[str, Any]:
        """Return the figures of the last `seconds`; `phases` are the trainer's seconds by phase.

        A device is busy during an episode, from set-up to check, also while it waits for the policy; usefully
        busy if the episode had an advantage when it was learned from: one of a group whose episodes all fared
        alike taught nothing. An episode counts when it is committed or learned from, so over a short time a
        share may be above 1.

        `engine` has the engine's present totals. It is busy while a completion is in progress
        (`engine_busy_share`), whether it computes or waits for a core; `engine_cpu_share` are the CPU seconds
        of its threads by the seconds that passed, NaN where they are not known. Its encoded tokens are the
        prompt tokens without the cached ones, whose share is `engine_cached_share`.
        """
        sums, self._since = self._since, _Sums()
        self._device_s += self.devices * seconds
        self._trainer_s += seconds
        busy_s, prompt, cached, sampled, cpu_s = (
            now - before for now, before in zip(engine, self._engine, strict=True)
        )
        self._engine = engine
        per_success = 1 / self._successes if self._successes else float("nan")
        return {
            "device_utilisation": sums.busy_s / (self.devices * seconds),
            "useful_device_utilisation": sums.useful_s / (self.devices * seconds),
            "trainer_utilisation": phases.get("learning", 0.0) / seconds,
            "engine_busy_share": busy_s / seconds,
            "engine_cpu_share": cpu_s / seconds if engine.cpu_s else float("nan"),
            "engine_sampled_tokens_per_second": sampled / seconds,
            "engine_encoded_tokens_per_second": (prompt - cached) / seconds,
            "engine_cached_share": cached / prompt if prompt else float("nan"),
            "completions_in_flight": sums.policy_s / seconds,
            "env_steps_per_second": sums.steps / seconds,
            "sampled_tokens_per_second": sums.sampled_tokens / seconds,
            "trained_tokens_per_second": sums.trained_tokens / seconds,
            "fault_rate": sums.faults.total() / sums.episodes if sums.episodes else float("nan"),
            "faults_by_code": dict(sums.faults),
            "groups": {name: sums.outcomes[name] for name in ("all_fail", "all_success", "mixed")},
            "device_seconds_per_success": self._device_s * per_success,
            "trainer_seconds_per_success": self._trainer_s * per_success,
            "phase_seconds": phases,
        }


def group_outcome(sampled: Iterable[Trajectory]) -> str:
    """Return "all_fail", "all_success" or "mixed" for a group's valid trajectories."""
    outcomes = {trajectory.success for trajectory in sampled}
    return "mixed" if len(outcomes) > 1 else "all_success" if True in outcomes else "all_fail"


def _tokens(trajectory: Trajectory) -> int:
    return sum(len(call.completion_ids) for step in trajectory.steps for call in step.policy.sampled)
