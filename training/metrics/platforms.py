"""Figures of each platform of a run, update by update: sums, no clock, no I/O."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from guiagent.errors import Fault
from guiagent.types import Trajectory
from training.replay import Group


class PlatformFigures(NamedTuple):
    """One platform's part of an update; a rate of nothing is NaN."""

    groups: int  # that the trainer took
    success: float  # of the episodes of these groups
    episodes: int  # that were committed since the update before, with faults or without
    env_steps: int  # turns of these
    faults: int  # of these, those that a fault ended
    device_utilisation: float  # share of its devices' time at an episode
    env_steps_per_second: float
    lost: str  # why it takes no part now; "" while it does


@dataclass
class _Sums:
    episodes: int = 0
    env_steps: int = 0
    faults: int = 0
    busy_s: float = 0.0


@dataclass
class PlatformMeter:
    """Counts episodes as they are committed; `devices` are their numbers by platform.

    There are no figures of a run with only one platform: those of the run are its own.
    """

    devices: Mapping[str, int]
    _since: dict[str, _Sums] = field(default_factory=dict)
    _lost: Mapping[str, Fault] = field(default_factory=dict)

    def episode(self, trajectory: Trajectory) -> None:
        """Count a committed episode."""
        sums = self._since.setdefault(trajectory.platform, _Sums())
        sums.episodes += 1
        sums.env_steps += len(trajectory.steps)
        sums.faults += trajectory.fault is not None
        sums.busy_s += trajectory.seconds

    def figures(
        self, seconds: float, groups: Sequence[Group], lost: Mapping[str, Fault]
    ) -> dict[str, PlatformFigures]:
        """Return the figures by platform of the last `seconds`, in which the trainer took `groups`."""
        since, self._since = self._since, {}
        if len(self.devices) < 2:
            return {}
        taken = Counter(group.platform for group in groups if group.sampled)
        sampled: dict[str, list[bool]] = {name: [] for name in self.devices}
        for group in groups:
            for trajectory in group.sampled:
                if trajectory.valid:
                    sampled[group.platform].append(trajectory.success)
        found: dict[str, PlatformFigures] = {}
        for name, devices in self.devices.items():
            sums, known = since.get(name, _Sums()), sampled[name]
            found[name] = PlatformFigures(
                groups=taken[name],
                success=sum(known) / len(known) if known else float("nan"),
                episodes=sums.episodes,
                env_steps=sums.env_steps,
                faults=sums.faults,
                device_utilisation=sums.busy_s / (devices * seconds),
                env_steps_per_second=sums.env_steps / seconds,
                lost=lost[name].message if name in lost else "",
            )
        return found

    def warnings(self, lost: Mapping[str, Fault]) -> tuple[str, ...]:
        """Say which platforms were lost since the last call, and which are back."""
        before, self._lost = self._lost, dict(lost)
        gone = [f"{fault.message}; the others go on" for name, fault in lost.items() if name not in before]
        back = [f"the platform {name} has devices again" for name in before if name not in lost]
        return (*gone, *back)
