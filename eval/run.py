"""Run a suite: every task and seed once, on leased devices, each episode committed as it ends.

The store in the output folder is the state: a run that is started again on the same folder skips what is
committed. A fault says nothing about the policy, so the episode is run again on another device; every attempt
is kept.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from eval.conditions import conditions, read_devices, settings_digest
from eval.results import EpisodeResult, SuiteResult, episode_result, result_json, write_json
from eval.rows import result_csv
from eval.suites.suite import Suite
from guiagent.client import FarmClient
from guiagent.client.play import DeviceSlot, play
from guiagent.client.still import STILL, StillSlot
from guiagent.episode import run_episode
from guiagent.errors import DECODE_ERRORS, InfrastructureError, UsageError
from guiagent.protocols import Device, Policy, Taskset
from guiagent.storage.atomic import write_file
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import ObserveSpec, Trajectory
from rewards.catalogue import require_task

RETRIES = 2  # runs of an episode after faults, beyond the first
LEASE_WAIT_S = 300.0  # others may hold the devices, or one is being replaced
Job = tuple[str, int]  # a task and a seed


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What is measured: the tasks of a suite, each on the first `episodes` of its seeds (None: on all)."""

    suite: Suite
    taskset: Taskset
    episodes: int | None = None
    max_steps: int | None = None  # turns of an episode, instead of each task's own number

    @property
    def jobs(self) -> list[Job]:
        """Raises UsageError if the suite does not have so many episodes."""
        return [(task, seed) for task in self.suite.tasks for seed in self.suite.seeds(self.episodes)]


@dataclass(frozen=True, slots=True)
class Agent:
    """Who is measured: a policy, its name, and what it sees."""

    policy: Policy
    label: str  # names the policy down to its weights, such as "tiny@1f3a"
    spec: ObserveSpec = field(default_factory=ObserveSpec)  # frames as in its training
    facts: Mapping[str, Any] = field(default_factory=dict)  # settings of prompts and sampling, for the record


@dataclass(frozen=True, slots=True)
class Progress:
    """Episodes finished so far, of all that are scheduled."""

    done: int
    total: int
    successes: int
    faults: int


class _Slot(Protocol):
    """Where episodes are played: a leased device, or a screen of pictures in this process."""

    async def play(self, episode: Callable[[Device], Awaitable[Trajectory]]) -> Trajectory: ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class _Schedule:
    """The state of each scheduled episode. A fault is final only after its last retry."""

    jobs: list[Job]
    results: dict[Job, EpisodeResult] = field(default_factory=dict)
    attempts: Counter[Job] = field(default_factory=Counter)

    def record(self, trajectory: Trajectory) -> None:
        job = trajectory.task, trajectory.seed
        self.attempts[job] += 1
        self.results[job] = episode_result(trajectory, self.attempts[job])

    def finished(self, job: Job) -> bool:
        result = self.results.get(job)
        return result is not None and (result.outcome != "fault" or self.attempts[job] > RETRIES)

    def progress(self) -> Progress:
        outcomes = [self.results[job].outcome for job in self.jobs if self.finished(job)]
        return Progress(len(outcomes), len(self.jobs), outcomes.count("success"), outcomes.count("fault"))


async def run_suite(
    benchmark: Benchmark,
    agent: Agent,
    farm: FarmClient | None,
    out: Path,
    *,
    concurrency: int = 4,
    on_progress: Callable[[Progress], None] | None = None,
) -> SuiteResult:
    """Run an agent over a suite and write `results.json` and `trajectories/` into `out`.

    A suite of pictures needs no farm. Asking for more episodes later continues from those that `out` has.
    Equal labels are taken for the same policy; results of another label are refused.

    Raises:
        UsageError: `out` holds the results of another suite or policy, `episodes` is out of range, or the
            taskset lacks a task of the suite.
        InfrastructureError: the disk or the farm fails. What was committed stays.
    """
    suite, jobs = benchmark.suite, benchmark.jobs
    for name in suite.tasks:
        require_task(benchmark.taskset, name)
    settings = settings_digest({**agent.facts, **suite.addresses})
    _claim(
        out / "suite.json",
        Claim(suite.name, suite.digest, agent.label, benchmark.max_steps, settings),
    )
    schedule = _Schedule(jobs)
    devices = read_devices(out / "devices.json")
    with TrajectoryStore(out / "trajectories") as store:
        for trajectory in store:
            schedule.record(trajectory)
        missing = [job for job in jobs if not schedule.finished(job)]

        async def episode(job: Job, slot: _Slot) -> bool:
            """Play one episode; return True if it has to be run again."""

            async def on(device: Device) -> Trajectory:
                if (described := await device.describe()) not in devices:
                    devices.append(described)
                    write_json(out / "devices.json", devices)
                return await run_episode(
                    benchmark.taskset.task(*job),
                    device,
                    agent.policy,
                    keep_frame=store.put_frame,
                    spec=agent.spec,
                    id="/".join((agent.label, *map(str, job), str(schedule.attempts[job]))),
                    max_steps=benchmark.max_steps,
                )

            trajectory = await slot.play(on)
            store.commit([trajectory])
            schedule.record(trajectory)
            if on_progress:
                on_progress(schedule.progress())
            if schedule.results[job].outcome == "fault":  # whatever failed, the next one has a fresh device
                await slot.close()
            return not schedule.finished(job)

        await play(missing, [_slot(suite, agent.label, farm) for _ in range(concurrency)], episode)
    ran = conditions(suite, devices, agent.facts, benchmark.max_steps)
    result = SuiteResult(suite, agent.label, tuple(schedule.results[job] for job in jobs), ran)
    write_json(out / "results.json", result_json(result))
    write_file(out / "results.csv", result_csv(result))
    return result


def _slot(suite: Suite, label: str, farm: FarmClient | None) -> _Slot:
    """Raises UsageError if a suite of devices has no farm."""
    if suite.device == STILL:
        return StillSlot()
    if farm is None:
        raise UsageError(f"suite {suite.name} needs a farm with a {suite.device}")
    return DeviceSlot(partial(farm.lease, **suite.lease, label=label, wait=LEASE_WAIT_S))


class Claim(msgspec.Struct, forbid_unknown_fields=True):
    """The suite and the policy (`label`) whose results a folder holds, and the turns that it gave them."""

    suite: str
    digest: str
    label: str
    max_steps: int | None = None
    settings: str | None = None  # digest of the policy's; None in folders of older versions

    def __str__(self) -> str:
        turns = f" in {self.max_steps} turns" if self.max_steps is not None else ""
        return f"{self.label!r}{turns} on suite {self.suite} ({self.digest[:8]})"


def _claim(path: Path, ours: Claim) -> None:
    """Write down whose folder this is, or check that it is ours."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Claim)
    except FileNotFoundError:
        write_json(path, ours)
        return
    except DECODE_ERRORS as error:
        raise InfrastructureError(f"{path} is damaged ({error}); choose another folder") from error
    except OSError as error:
        raise InfrastructureError(f"cannot read {path}: {error.strerror}") from error
    if found.settings is not None and found.settings != ours.settings:
        raise UsageError(
            f"{path.parent} holds results of {found} with other settings of its prompts or sampling; "
            "choose another folder or remove it"
        )
    if msgspec.structs.replace(found, settings=ours.settings) != ours:
        raise UsageError(
            f"{path.parent} holds results of {found}, not of {ours}; choose another folder or remove it"
        )
