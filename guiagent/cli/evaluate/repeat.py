"""`guiagent replay --on`: a stored episode again on a device, and from there on something else."""

import asyncio
import contextlib
import os
import secrets
import time
import tomllib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from eval.replay.repeating import PATIENCE_S, Repeated, Repetition
from eval.replay.stores import stores_of
from eval.run import Claim
from eval.suites import find_suite
from guiagent.agent import Agent, Limits
from guiagent.cli.common.farm import own_farm
from guiagent.cli.common.plain import plain
from guiagent.cli.common.policy import PolicySettings, open_policy
from guiagent.cli.common.terminal import terminal
from guiagent.cli.farm.devices import SavedLease, save
from guiagent.client import FarmClient, LeasedDevice
from guiagent.client.local_pool import endpoint_of, find_pool
from guiagent.client.recording.device import LEASE
from guiagent.episode import scored
from guiagent.errors import DECODE_ERRORS, FaultError, UsageError
from guiagent.protocols import Task
from guiagent.storage.recording import Recording
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Observation, ObserveSpec, Score, Step, Trajectory
from guiagent.wire import Endpoint, Grant
from rewards.catalogue import find_taskset

FOLDER = "replayed"  # in the run's: a record for each repetition
_TTL_S = 3600.0
_LEAST_SIDE = 64
_LONGEST = 300  # characters of a text that is shown


@dataclass(frozen=True)
class Wish:
    """What is wanted of a repetition, as the command's options say."""

    on: str
    pool: str | None = None
    heal: bool = False
    patience: float = PATIENCE_S
    steps: int | None = None
    branch: bool = False
    policy: str | None = None
    dialect: str = "ui-tars"
    max_steps: int = 15
    taskset: str | None = None


def repeat(run: Path, id: str, wish: Wish) -> int:
    """Repeat an episode of a run on a device; print what became of each step. Return the exit code.

    Raises UsageError if there is no such episode, task or device, FaultError if the device fails.
    """
    episode, store_at = _find(run, id)
    with TrajectoryStore(store_at, readonly=True) as store:

        def frame(hash: str) -> bytes:
            try:
                return store.frame(hash) if hash else b""
            except KeyError:
                return b""

        return asyncio.run(_Work(run, episode, frame, wish).do())


class _Work:
    """One repetition: the device, the record of it, and what is printed."""

    def __init__(self, run: Path, episode: Trajectory, frame: Callable[[str], bytes], wish: Wish) -> None:
        self._episode = episode
        self._frame = frame
        self._wish = wish
        self._task = _task_of(run, episode, wish.taskset)
        self._folder = run / FOLDER / f"{episode.id[:40].replace('/', '-')}-{secrets.token_hex(3)}"
        self._record = Recording(self._folder)
        self._console = terminal(highlight=False, soft_wrap=True)

    async def do(self) -> int:
        async with self._leased() as (device, endpoint):
            again = Repetition(
                self._episode,
                device,
                self._frame,
                heal=self._wish.heal,
                patience_s=self._wish.patience,
                secret=os.environ.get("GUIAGENT_SECRET"),
                note=self._add,
            )
            try:
                out, score = await self._repeated(again, device)
                self._record.fork()
                if self._wish.policy is not None:
                    await self._go_on(self._wish.policy, device)
            except FaultError as error:
                self._record.finish(error.fault)
                raise
            if self._wish.branch:
                self._hand_over(device, await device.detach(), endpoint)
            else:
                self._record.finish(score=score)
            return 0 if out else 1

    async def _repeated(self, again: Repetition, device: LeasedDevice) -> tuple[bool, Score | None]:
        """Repeat the steps; True if all that were wanted came out, and the task's score if all were done."""
        episode, wish = self._episode, self._wish
        wanted = episode.steps[: wish.steps]
        await again.begin(self._task)
        self._record.begin(self._about(device))
        self._record.add(None, self._record.keep(again.shown.frame))
        for number, step in enumerate(wanted, 1):
            told = await again.step(step)
            self._tell(f"step {number}", told)
            if told.stops:
                self._say(f"stopped   at step {number} of {len(episode.steps)}")
                return False, None
        if len(wanted) < len(episode.steps):
            self._say(f"stopped   after {len(wanted)} of {len(episode.steps)} steps, as wished")
            return True, None
        told = await again.end()
        self._tell("end", told)
        score = None
        if self._task is not None and wish.policy is None and not wish.branch:
            score = await scored(self._task, device, again.shown, episode.ending)
            self._say(f"score     {_value(score)}, recorded {_value(episode.score)}")
        return not told.stops or any(one.verdict == "healed" for one in again.told), score

    def _about(self, device: LeasedDevice) -> Trajectory:
        """The episode that the repetition is: a branch of the recorded one, without a verdict so far."""
        was = self._episode
        return Trajectory(
            self._folder.name,
            was.task,
            was.seed,
            was.instruction,
            [],
            "agent_done",
            Score(None, reason="repeated; nobody checked it"),
            device=device.id,
            lease_token=device.token,
            group=was.group,
            started=time.time(),
            start=was.start,
            parent=was.id,
        )

    def _add(self, step: Step, before: Observation, after: Observation) -> None:
        step.frame = self._record.keep(before.frame) if before.frame else self._record.shown
        self._record.add(step, self._record.keep(after.frame) if after.frame else step.frame)

    async def _go_on(self, name: str, device: LeasedDevice) -> None:
        """Let a policy carry out the episode's instruction from here. It does not see the repeated steps."""
        settings = PolicySettings(temperature=0.0, dialect=self._wish.dialect)
        limits = Limits(steps=self._wish.max_steps)
        async with open_policy(name, settings) as policy:
            run = Agent(policy, device, limits=limits, spec=ObserveSpec(frame="png")).run(
                self._episode.instruction
            )
            async for one in run:
                seen = one.observation
                self._say(f"branch {one.index + 1:<3} {one.output.text!r}")
                self._add(Step("", seen.width, seen.height, one.output), seen, one.after)
        self._say(f"branch    {run.stop}")

    def _hand_over(self, device: LeasedDevice, held: tuple[Any, Any], endpoint: Endpoint) -> None:
        lease, request = held
        self._record.close()
        self._say(f"recorded  what you do with it, until `guiagent release {device.id}`, in {self._folder}")
        saved = SavedLease(endpoint.url, lease, request.model_dump(mode="json"))
        save(saved, self._folder, _TTL_S)

    @contextlib.asynccontextmanager
    async def _leased(self) -> AsyncIterator[tuple[LeasedDevice, Endpoint]]:
        """Lease the wished device, of the wished or the running farm, else of a farm for this command."""
        wish = self._wish
        endpoint = endpoint_of(wish.pool) if wish.pool else await find_pool()
        if endpoint is not None:
            async with FarmClient(endpoint.url, endpoint.token) as client:
                kinds = {one.id: one.kind for one in (await client.devices()).devices}
                device = wish.on if wish.on in kinds else ""
                async with self._lease(client, kinds.get(wish.on, wish.on), device) as held:
                    yield held, endpoint
        elif wish.branch:
            raise UsageError("no farm is running whose device you could go on with: `guiagent up`")
        else:
            width, height = self._size()
            async with (
                own_farm(1, width, height, kind=wish.on) as farm,
                self._lease(farm.client, wish.on, "") as held,
            ):
                yield held, Endpoint(farm.url, farm.token, pid=0)

    def _lease(
        self, client: FarmClient, kind: str, device: str
    ) -> contextlib.AbstractAsyncContextManager[LeasedDevice]:
        grants: list[Grant] = ["exec"] if self._task is not None else []
        told = [action for step in self._episode.steps for action in step.policy.actions]
        if any(action.get("type") == "shell" for action in told):
            grants.append("shell")
        return client.lease(
            kind, device=device, grants=grants, ttl=_TTL_S, label=f"replay {self._episode.id}"
        )

    def _size(self) -> tuple[int, int]:
        step = self._episode.steps[0]
        return max(step.width, _LEAST_SIDE), max(step.height, _LEAST_SIDE)

    def _tell(self, name: str, told: Repeated) -> None:
        share = f" {told.share:.0%}" if told.share else ""
        where = (
            f"  at {told.box[0]},{told.box[1]} {told.box[2]}x{told.box[3]}" if told.stops and told.box else ""
        )
        why = f"  {plain(told.why, _LONGEST)}" if told.why else ""
        self._say(f"{name:9} {told.verdict + share:13} {plain(told.did, _LONGEST)}{where}{why}")

    def _say(self, line: str) -> None:
        self._console.print(line)


def _find(run: Path, id: str) -> tuple[Trajectory, Path]:
    """The episode with this id, or the only one whose id begins with it, and its store."""
    begins = list[tuple[Trajectory, Path]]()
    for path in stores_of(run):
        with TrajectoryStore(path, readonly=True) as store:
            begins += [(one, path) for one in store if one.id.startswith(id)]
    exact = [found for found in begins if found[0].id == id] or begins
    if len(exact) != 1:
        names = plain(", ".join(one.id for one, _ in exact[:5]))
        raise UsageError(
            f"{len(exact)} episodes of {run} are called so: {names}" if exact else f"no episode {id} in {run}"
        )
    if not exact[0][0].steps:
        raise UsageError(f"episode {exact[0][0].id} has no steps to repeat")
    return exact[0]


def _task_of(run: Path, episode: Trajectory, taskset: str | None) -> Task | None:
    """The episode's task, by the taskset that is named, or that the files of the run name."""
    if episode.start is not None or episode.task == LEASE:
        return None
    name = taskset or next(filter(None, (_taskset_of(folder) for folder in (run, *run.glob("*/")))), None)
    if name is None:
        raise UsageError(f"episode {episode.id} is of the task {episode.task!r}: say of which --taskset")
    return find_taskset(name).task(episode.task, episode.seed)


def _taskset_of(folder: Path) -> str | None:
    """The taskset that a folder of `guiagent eval` or `guiagent train` is of; None for another folder."""
    with contextlib.suppress(OSError, ValueError, *DECODE_ERRORS):
        claim = msgspec.json.decode((folder / "suite.json").read_bytes(), type=Claim)
        return find_suite(claim.suite.partition(" (")[0]).taskset
    with contextlib.suppress(OSError, ValueError):
        return str(tomllib.loads((folder / "config.toml").read_text())["taskset"])
    return None


def _value(score: Score | None) -> str:
    return "unknown" if score is None or score.value is None else f"{score.value:g}"
