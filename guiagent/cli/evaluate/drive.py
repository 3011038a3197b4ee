"""`guiagent run`: lets a policy carry out a user's instruction in one browser."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from eval.report.page import write_episodes
from guiagent.cli.common.farm import own_farm
from guiagent.cli.common.plain import plain
from guiagent.cli.common.policy import PolicySettings, open_policy
from guiagent.cli.common.terminal import terminal
from guiagent.episode import run_episode
from guiagent.errors import FaultError
from guiagent.protocols import Device, Task
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Ending, Observation, ObserveSpec, PolicyOutput, ResetSpec, Score, Trajectory
from rewards.tasksets.miniwob import MiniWobTask


@dataclass(frozen=True)
class OpenTask:
    """A start page and an instruction. Nothing checks the outcome: the score stays unknown."""

    url: str
    instruction: str
    max_steps: int
    id: str = "run"
    seed: int = 0
    probes: Mapping[str, str] = field(default_factory=dict)

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        return self.instruction, await device.reset(self.seed, ResetSpec(url=self.url), spec)

    def ended(self, observation: Observation) -> bool:
        return False

    async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
        return Score(None, reason="a free task has no check")

    async def teardown(self, device: Device) -> None:
        pass


@dataclass(frozen=True)
class MiniWobPage(MiniWobTask):
    """A page of the package `miniwob`, with its own seeding and check, and the user's instruction."""

    instruction: str = ""

    async def setup(self, device: Device, spec: ObserveSpec) -> tuple[str, Observation]:
        _, observation = await super().setup(device, spec)
        return self.instruction, observation


def make_task(instruction: str, url: str, max_steps: int) -> Task:
    """Make a task of a page: "miniwob:NAME" has a check of its own, any other address has none."""
    scheme, _, page = url.partition(":")
    if scheme == "miniwob":
        return MiniWobPage(page, page, 0, max_steps, instruction=instruction)
    return OpenTask(url, instruction, max_steps)


def drive(
    instruction: str,
    url: str,
    policy: str,
    max_steps: int,
    screen: tuple[int, int],
    settings: PolicySettings,
    run: Path,
) -> None:
    """Let a policy carry out an instruction in one browser of this size, and report the episode.

    Raises FaultError if a fault ended it; the report is written all the same.
    """
    console = terminal()

    def say(index: int, observation: Observation, output: PolicyOutput) -> None:
        error = f"  ({plain(output.error)})" if output.error else ""
        console.print(f"step {index + 1}  {output.text!r}{error}")

    async def work(store: TrajectoryStore) -> Trajectory:
        async with (
            open_policy(policy, settings) as agent,
            own_farm(1, *screen) as farm,
            farm.client.lease("browser", grants=("exec",), label="guiagent run") as device,
        ):
            console.print(f"live page {farm.live_url}", soft_wrap=True)
            task = make_task(instruction, url, max_steps)
            spec = ObserveSpec(frame="png")
            trajectory = await run_episode(
                task, device, agent, keep_frame=store.put_frame, spec=spec, on_step=say
            )
            trajectory.device, trajectory.lease_token = device.id, device.token
            trajectory.start = ResetSpec(url=url) if isinstance(task, OpenTask) else None
            store.commit([trajectory])
            return trajectory

    with TrajectoryStore(run / "trajectories") as store:
        trajectory = asyncio.run(work(store))
        report = run / "report.html"
        write_episodes(report, instruction, [(policy, trajectory)], store.frame)
    score = trajectory.score.value if trajectory.score else None
    verdict = "no verdict" if score is None else f"score {score:g}"
    line = f"{trajectory.stop} after {len(trajectory.steps)} steps, {verdict}  {report}"
    console.print(line, soft_wrap=True)
    if trajectory.fault is not None:
        raise FaultError(trajectory.fault)
