"""Proof that a task's check is sound: met by its oracle, missed by its mutants and by agents that do nothing.

`audit` runs them all on a real device. A task whose proof is not sound must not be shipped or scored.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from guiagent.episode import run_episode, scored
from guiagent.errors import FaultError
from guiagent.policies.null import LUCKY_AGENTS, NULL_AGENTS
from guiagent.protocols import Device, Policy, Provable
from guiagent.types import Ending, ObserveSpec

_BLIND = ObserveSpec(frame="none")
_SEEN = ObserveSpec(frame="jpeg")


@dataclass(frozen=True)
class Proof:
    """The scores of one task with one seed. None: the check could not tell, which is unsound too."""

    task: str
    seed: int
    oracle: float | None
    mutants: Mapping[str, float | None] = field(default_factory=dict)
    null: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def failures(self) -> list[str]:
        """One line for each run that scored what it should not; [] if the check is sound."""
        wrong = [] if self.oracle == 1 else [f"the oracle scored {self.oracle}"]
        wrong += [
            f"the mutant {name!r} scored {v}" for name, v in self.mutants.items() if v is None or v >= 1
        ]
        wrong += [
            f"the null agent {name!r} scored {v}"
            for name, v in self.null.items()
            if (v is None or v > 0) and name not in LUCKY_AGENTS
        ]
        return wrong


async def audit(
    make: Callable[[], Provable],
    device: Device,
    agents: Mapping[str, Callable[[], Policy]] = NULL_AGENTS,
    *,
    mutants: bool = True,
) -> Proof:
    """Run the oracle, every mutant and every null agent of a task on `device`, one after the other.

    `make` builds the task, once more for each null agent. Without `mutants`, none of them is run.

    Raises:
        FaultError: the device, the set-up or the check itself fails, which proves nothing.
    """
    task = make()
    oracle = await _ended_by(task, device, task.oracle)
    missed = {
        name: await _ended_by(task, device, partial(task.mutate, name))
        for name in (task.mutants if mutants else ())
    }
    null = {name: await _played_by(make(), device, agent()) for name, agent in agents.items()}
    return Proof(task.id, task.seed, oracle, missed, null)


async def _ended_by(
    task: Provable, device: Device, act: Callable[[Device], Awaitable[Ending]]
) -> float | None:
    await task.setup(device, _BLIND)
    ending = await act(device)
    shown = await device.observe(ObserveSpec(frame="none", probes=dict(task.probes)))
    score = await scored(task, device, shown, ending)
    await task.teardown(device)
    return score.value


async def _played_by(task: Provable, device: Device, agent: Policy) -> float | None:
    trajectory = await run_episode(
        task, device, agent, keep_frame=lambda frame: hashlib.sha256(frame).hexdigest(), spec=_SEEN
    )
    if trajectory.fault is not None:
        raise FaultError(trajectory.fault)
    return trajectory.score.value if trajectory.score is not None else None
