"""An agent on a device: its steps as a stream, its limits, and what becomes of it when something fails."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest

import guiagent
from devices.config import SimConfig
from devices.drivers import sim
from guiagent.actions import ACTION, Action, Answer, Click, Done, Open, Wait
from guiagent.agent import Agent, AgentStep, Limits
from guiagent.client.sync_agent import SyncAgent
from guiagent.errors import FaultError, UsageError
from guiagent.policies import NullPolicy
from guiagent.protocols import Turn
from guiagent.types import Observation, ObserveSpec, PolicyOutput, ResetSpec
from guiagent.wire import Endpoint
from tests.support.canvas_device import farm_of
from tests.support.pool_thread import pool_thread

BLIND = ObserveSpec(frame="none", tree=True)
KEY_A = Click(x=20, y=60)


class Says:
    """A policy that says one thing after the other, of one token each, and counts how often it is asked."""

    def __init__(self, *actions: Action | str | BaseException, tokens: int = 1) -> None:
        self._script, self._tokens = actions, tokens
        self.asked = 0
        self.seen: list[Observation] = []
        self.forgotten: list[str] = []

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        self.asked += 1
        self.seen.append(observation)
        match self._script[min(len(history), len(self._script) - 1)]:
            case str() as text:
                return PolicyOutput(text, error="no action")
            case BaseException() as error:
                raise error
            case action:
                return PolicyOutput(
                    action.type, [ACTION.dump_python(action, mode="json")], completion_ids=[7] * self._tokens
                )

    def forget(self, episode: str) -> None:
        self.forgotten.append(episode)


@pytest.fixture
async def device() -> AsyncIterator[sim.SimDevice]:
    device = await sim.start(SimConfig())
    await device.reset(0, ResetSpec(), BLIND)
    yield device
    await device.close()


async def steps_of(agent: Agent) -> tuple[list[AgentStep], str | None]:
    run = agent.run("do it")
    steps = [step async for step in run]
    return steps, run.stop


async def test_steps_come_with_what_was_seen_said_and_done(device: sim.SimDevice) -> None:
    policy = Says(KEY_A, Answer(text="42"))
    run = Agent(policy, device, spec=BLIND).run("press a key")
    steps = [step async for step in run]
    assert [(step.index, step.output.text) for step in steps] == [(0, "click"), (1, "answer")]
    lines = [(step.observation.tree or [])[0].value for step in steps]
    assert lines[0] == "" and len(lines[1]) == 1
    assert (steps[0].after.tree or [])[0].value == lines[1]
    assert steps[1].after is steps[1].observation  # an answer does nothing
    assert (run.stop, run.answer, run.tokens) == ("agent_done", "42", 2)
    assert run.trajectory is not None
    assert (run.trajectory.instruction, len(run.trajectory.steps)) == ("press a key", 2)
    assert run.trajectory.score is not None and run.trajectory.score.value is None
    assert policy.forgotten == [run.trajectory.id]


async def test_the_policy_sees_pages_and_pictures_by_default(device: sim.SimDevice) -> None:
    policy = Says(Done())
    [step] = [step async for step in Agent(policy, device).run("look")]
    assert (policy.seen[0].title, policy.seen[0].media_type) == ("keypad", "image/jpeg")
    assert step._repr_jpeg_() == policy.seen[0].frame
    assert step._repr_png_() is None


async def test_a_run_can_be_awaited_as_a_whole(device: sim.SimDevice) -> None:
    trajectory = await Agent(Says(KEY_A, KEY_A, Done(status="infeasible")), device, spec=BLIND).run("x")
    assert (len(trajectory.steps), trajectory.ending.claim) == (3, "infeasible")


async def test_the_agent_goes_on_only_when_asked(device: sim.SimDevice) -> None:
    policy = Says(KEY_A)
    async for step in Agent(policy, device, spec=BLIND).run("x"):
        await asyncio.sleep(0.05)
        assert policy.asked == step.index + 1
        if step.index == 2:
            break


async def test_a_run_that_is_left_ends(device: sim.SimDevice) -> None:
    policy = Says(KEY_A)
    run = Agent(policy, device, spec=BLIND).run("x")
    async for _ in run:
        break
    await run.close()
    assert len(policy.forgotten) == 1
    assert [step async for step in run] == []
    with pytest.raises(UsageError, match="closed before its end"):
        await run


async def test_the_limit_on_steps(device: sim.SimDevice) -> None:
    steps, stop = await steps_of(Agent(NullPolicy(), device, limits=Limits(steps=3), spec=BLIND))
    assert (len(steps), stop) == (3, "max_steps")


async def test_the_limit_on_tokens(device: sim.SimDevice) -> None:
    policy = Says(KEY_A, tokens=40)
    steps, stop = await steps_of(Agent(policy, device, limits=Limits(tokens=100), spec=BLIND))
    assert (len(steps), stop) == (3, "max_tokens")
    with pytest.raises(UsageError, match="does not report its tokens"):
        await Agent(Says(KEY_A, tokens=0), device, limits=Limits(tokens=9), spec=BLIND).run("x")


async def test_the_limit_on_seconds(device: sim.SimDevice) -> None:
    limits = Limits(seconds=0.2)
    waits = Agent(Says(Wait(ms=250)), device, limits=limits, spec=BLIND)
    steps, stop = await steps_of(waits)
    assert (len(steps), stop) == (1, "max_seconds")

    class Slow(Says):
        async def act(self, *_: object) -> PolicyOutput:
            await asyncio.Event().wait()
            raise AssertionError

    run = Agent(Slow(Done()), device, limits=limits, spec=BLIND).run("x")
    [step] = [step async for step in run]
    assert step.output.error == "no reply within the 0.2 s of the run"
    assert run.stop == "max_seconds"
    assert run.trajectory is not None and run.trajectory.stop == "max_steps"


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"seconds": 0}, {"seconds": float("nan")}, {"tokens": 0}])
def test_limits_that_leave_nothing_to_run_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="limits are above 0"):
        Limits(**wrong)  # type: ignore[arg-type]


async def test_a_reply_without_an_action_ends_the_run(device: sim.SimDevice) -> None:
    steps, stop = await steps_of(Agent(Says(KEY_A, "hm"), device, spec=BLIND))
    assert (len(steps), stop, steps[-1].output.error) == (2, "parse_error", "no action")


async def test_a_fault_is_raised_after_the_steps_before_it(device: sim.SimDevice) -> None:
    run = Agent(Says(KEY_A, Open(target="sim:crash")), device, spec=BLIND).run("x")
    seen = []
    with pytest.raises(FaultError, match="told to crash"):
        async for step in run:
            seen.append(step.output.text)
    assert seen == ["click", "open"]
    assert run.stop == "fault"
    assert run.trajectory is not None and len(run.trajectory.steps) == 2


async def test_an_error_of_the_policy_is_the_callers(device: sim.SimDevice) -> None:
    for error in (UsageError("no such model"), TimeoutError("its own"), KeyError("bug")):
        with pytest.raises(type(error)):
            await Agent(Says(error), device, spec=BLIND).run("x")


# -- blocking ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with pool_thread(farm_of(1, tmp_path_factory.mktemp("pool"))) as endpoint:
        yield endpoint


def test_blocking_code_has_the_same(pool: Endpoint) -> None:
    policy = Says(KEY_A, KEY_A, Answer(text="yes"))
    with guiagent.connect(pool.url, pool.token) as farm, farm.lease("sim") as device:
        run = SyncAgent(policy, device, limits=Limits(steps=5)).run("x")
        assert [step.output.text for step in run] == ["click", "click", "answer"]
        assert (run.stop, run.answer, run.tokens) == ("agent_done", "yes", 3)
        assert run.trajectory is not None and len(run.trajectory.steps) == 3

        for step in SyncAgent(policy, device).run("x"):
            assert step.index == 0
            break
        assert len(policy.forgotten) == 2
        assert device._repr_png_()[:4] == b"\x89PNG"  # type: ignore[index]
    assert device._repr_png_() is None


def test_a_farm_may_be_closed_before_the_loop_is_left(pool: Endpoint) -> None:
    with guiagent.connect(pool.url, pool.token) as farm:
        steps = iter(SyncAgent(Says(KEY_A), farm.lease("sim")).run("x"))
        assert next(steps).index == 0
    with pytest.raises(UsageError, match="this connection to the farm is closed"):
        next(steps)


def test_an_interrupted_loop_leaves_nothing_behind(pool: Endpoint) -> None:
    policy = Says(KEY_A)
    with guiagent.connect(pool.url, pool.token) as farm, farm.lease("sim") as device:
        with pytest.raises(KeyboardInterrupt):
            for _ in SyncAgent(policy, device).run("x"):
                raise KeyboardInterrupt
        device.observe("none")
    assert len(policy.forgotten) == 1
