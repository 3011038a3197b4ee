"""Proof that a task's check is sound: met by its oracle, missed by its mutants, by idle agents and by tricks.

`audit` runs them all on a real device. A task whose proof is not sound must not be shipped or scored.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from msgspec.structs import replace

from guiagent.episode import run_episode, scored
from guiagent.errors import FaultError
from guiagent.policies.exploits import EXPLOITS, exploits_on
from guiagent.policies.null import LUCKY_AGENTS, NULL_AGENTS
from guiagent.protocols import Device, Policy, Provable, Task
from guiagent.types import Ending, ObserveSpec

_BLIND = ObserveSpec(frame="none")
_SEEN = ObserveSpec(frame="jpeg")


@dataclass(frozen=True)
class Proof:
    """The scores of one task with one seed. None: the check could not tell, which is unsound too.

    A task that is not `provable`, as those of others are, has no oracle: then nothing shows that it can be
    done, and no failure only says that nothing was paid that should not be.
    """

    task: str
    seed: int
    oracle: float | None
    mutants: Mapping[str, float | None] = field(default_factory=dict)
    null: Mapping[str, float | None] = field(default_factory=dict)
    exploits: Mapping[str, float | None] = field(default_factory=dict)
    provable: bool = True

    @property
    def failures(self) -> list[str]:
        """One line for each run that scored what it should not; [] if the check is sound."""
        wrong = [] if self.oracle == 1 or not self.provable else [f"the oracle scored {self.oracle}"]
        wrong += [
            f"the mutant {name!r} scored {v}" for name, v in self.mutants.items() if v is None or v >= 1
        ]
        wrong += [
            f"the null agent {name!r} scored {v}"
            for name, v in self.null.items()
            if (v is None or v > 0) and name not in LUCKY_AGENTS
        ]
        wrong += [
            f"the exploit {name!r} scored {v}: {EXPLOITS[name].why}"
            for name, v in self.exploits.items()
            if v is None or v > 0
        ]
        return wrong


async def audit(
    make: Callable[[], Task],
    device: Device,
    agents: Mapping[str, Callable[[], Policy]] | None = None,
    *,
    mutants: bool = True,
    exploits: bool = True,
) -> Proof:
    """Run the oracle, every mutant, every null agent and every exploit of a task on `device`, one by one.

    `make` builds the task, once more for each agent. Exploits are those for the device's kind; those that
    only give up are played where the oracle shows that the task can be done. With `agents`, these alone are
    run beside oracle and mutants; without `mutants`, none of them is run.

    Raises:
        FaultError: the device, the set-up or the check itself fails, which proves nothing.
    """
    task, oracle, missed, can_be_done = make(), None, {}, False
    if isinstance(task, Provable):
        oracle, ending = await _ended_by(task, device, task.oracle)
        can_be_done = ending.claim != "infeasible"
        for name in task.mutants if mutants else ():
            missed[name], _ = await _ended_by(task, device, partial(task.mutate, name))
    chosen = NULL_AGENTS if agents is None else agents
    null = {name: await _played_by(make(), device, agent(), _SEEN) for name, agent in chosen.items()}
    tried = {}
    if agents is None and exploits:
        described = await device.describe()
        spec = replace(_SEEN, tree="a11y" in described.features, page="page" in described.features)
        for name, exploit in exploits_on(described.kind).items():
            if can_be_done or not exploit.gives_up:
                tried[name] = await _played_by(make(), device, exploit.policy(), spec)
    return Proof(task.id, task.seed, oracle, missed, null, tried, isinstance(task, Provable))


async def _ended_by(
    task: Provable, device: Device, act: Callable[[Device], Awaitable[Ending]]
) -> tuple[float | None, Ending]:
    await task.setup(device, _BLIND)
    ending = await act(device)
    shown = await device.observe(ObserveSpec(frame="none", probes=dict(task.probes)))
    score = await scored(task, device, shown, ending)
    await task.teardown(device)
    return score.value, ending


async def _played_by(task: Task, device: Device, agent: Policy, spec: ObserveSpec) -> float | None:
    trajectory = await run_episode(
        task, device, agent, keep_frame=lambda frame: hashlib.sha256(frame).hexdigest(), spec=spec
    )
    if trajectory.fault is not None:
        raise FaultError(trajectory.fault)
    return trajectory.score.value if trajectory.score is not None else None
