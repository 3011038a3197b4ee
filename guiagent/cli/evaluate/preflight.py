"""`guiagent tasks preflight`: every task's set-up, and an agent that does nothing, on real devices."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from eval.suites import find_suite
from eval.suites.suite import Suite
from guiagent.cli.common.farm import suite_farm
from guiagent.cli.common.place import Place
from guiagent.cli.common.plain import plain
from guiagent.cli.common.terminal import terminal
from guiagent.client.play import LOST, DeviceSlot, play
from guiagent.episode import run_episode
from guiagent.errors import UsageError
from guiagent.policies.scripted import ScriptedPolicy
from guiagent.protocols import Taskset
from guiagent.types import ObserveSpec, Trajectory
from rewards.catalogue import find_taskset

_ATTEMPTS = 3  # at a task whose device or farm fails
_BLIND = ObserveSpec(frame="none")


@dataclass(frozen=True)
class Verdict:
    """What came of a task: "right", "unsound" (nothing was done, and it scored), or "fault"."""

    task: str
    kind: str
    why: str

    def __str__(self) -> str:
        return plain(" ".join(f"{self.kind:7}  {self.task}  {self.why}".splitlines()).rstrip(" ;"))


def preflight(name: str, only: list[str], devices: int, place: Place) -> bool:
    """Print a line for each task, and how many are of each kind; return whether all are right.

    Raises UsageError for an unknown suite or task.
    """
    suite = place.of(find_suite(name))
    if only:
        suite = suite.only(only)
    console = terminal()
    counts: Counter[str] = Counter()

    def tell(verdict: Verdict) -> None:
        counts[verdict.kind] += 1
        console.print(str(verdict), soft_wrap=True, highlight=False)

    asyncio.run(_fly(suite, find_taskset(suite.taskset), devices, place, tell))
    console.print(", ".join(f"{counts[kind]} {kind}" for kind in ("right", "unsound", "fault")))
    return counts["right"] == len(suite.tasks)


async def _fly(
    suite: Suite, taskset: Taskset, devices: int, place: Place, tell: Callable[[Verdict], None]
) -> None:
    attempts: Counter[str] = Counter()

    async def fly(name: str, slot: DeviceSlot) -> bool:
        attempts[name] += 1
        task = taskset.task(name, suite.first_seed)
        idle = ScriptedPolicy([])
        trajectory = await slot.play(
            lambda device: run_episode(task, device, idle, keep_frame=_digest, spec=_BLIND)
        )
        if trajectory.fault and trajectory.fault.origin in LOST and attempts[name] < _ATTEMPTS:
            return True
        tell(verdict(trajectory))
        return False

    async with suite_farm(suite, devices, place) as farm:
        if farm is None:
            raise UsageError(f"suite {suite.name} is of pictures, which need no set-up")
        lease = partial(farm.client.lease, **suite.lease, label=f"preflight {suite.name}")
        await play(suite.tasks, [DeviceSlot(lease) for _ in range(devices)], fly)


def _digest(frame: bytes) -> str:
    return hashlib.sha256(frame).hexdigest()


def verdict(trajectory: Trajectory) -> Verdict:
    """Judge the episode of an agent that said at once that it was done."""
    fault, score = trajectory.fault, trajectory.score
    if fault is not None:
        return Verdict(trajectory.task, "fault", f"{fault.origin} ({fault.code}): {fault.message}")
    if score is None or score.value is None:
        return Verdict(trajectory.task, "fault", "the check could not tell")
    notes = "; ".join(score.evidence.get("notes", ()))
    if score.value > 0:
        return Verdict(
            trajectory.task, "unsound", f"an agent that does nothing scored {score.value:g}; {notes}"
        )
    return Verdict(trajectory.task, "right", notes)
