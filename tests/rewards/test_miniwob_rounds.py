"""Pages played several rounds in one episode, on a real browser: what pays, and what shows in between."""

from collections.abc import Sequence

import pytest
import xxhash

from guiagent.actions import ACTIONS, Action
from guiagent.episode import run_episode
from guiagent.errors import UsageError
from guiagent.policies import NullPolicy, OraclePolicy
from guiagent.protocols import Device
from guiagent.seeds import REINFORCEMENT
from guiagent.types import Ending, Observation, ObserveSpec, Trajectory
from rewards.audit import audit
from rewards.tasksets.miniwob import MiniWob, MiniWobTask
from rewards.tasksets.miniwob.rounds import ACTIONS_OF, PAGES, ROUNDS_OF, MiniWobRounds

SPEC = ObserveSpec(frame="png")
SEED = REINFORCEMENT[3]
SOME = ("click-test-2", "click-collapsible", "circle-center", "click-dialog-2", "identify-shape")


def with_browser(test):
    return pytest.mark.browser(pytest.mark.asyncio(loop_scope="module")(test))


async def begun(device: Device, task: MiniWobTask) -> Observation:
    return (await task.setup(device, SPEC))[1]


async def done(device: Device, task: MiniWobTask, actions: Sequence[Action]) -> Observation:
    return await device.act(actions, ObserveSpec(frame="png", probes=dict(task.probes)))


async def win(device: Device, task: MiniWobTask, shown: Observation) -> Observation:
    """Play one round."""
    for _ in range(ACTIONS_OF[task.id] // ROUNDS_OF[task.id]):
        shown = await done(device, task, ACTIONS.validate_python(shown.probes["oracle"])[:1])
    return shown


async def score(device: Device, task: MiniWobTask, shown: Observation) -> float | None:
    return (await task.check(device, shown, Ending(claim="success"))).value


def test_names_say_how_many_actions_they_take():
    assert len(MiniWobRounds().names) == 65
    assert ACTIONS_OF["circle-center-x5"] == 10 and ACTIONS_OF["click-test-2-x8"] == 8
    assert MiniWobRounds().task("click-collapsible-x8", 0).max_steps == 32
    with pytest.raises(UsageError, match=r"'circle-center-x4'.*click-color-x1"):
        MiniWobRounds().task("circle-center-x4", 0)


@with_browser
@pytest.mark.parametrize("page", PAGES)
async def test_the_oracle_scores_1_and_null_0(browser_device, page):
    async def play(task, policy) -> Trajectory:
        return await run_episode(
            task, browser_device, policy, keep_frame=xxhash.xxh3_128_hexdigest, spec=SPEC
        )

    for rounds in (1, 3, 8):
        task = MiniWobRounds(oracle=True).task(f"{page}-x{rounds}", SEED)
        solved = await play(task, OraclePolicy())
        assert (solved.score.value, solved.stop, solved.fault) == (1.0, "task_done", None)
        assert len(solved.steps) == ACTIONS_OF[task.id]
    idle = await play(MiniWobRounds().task(f"{page}-x3", SEED), NullPolicy())
    assert idle.score.value == 0.0 and idle.stop == "max_steps"


@with_browser
@pytest.mark.parametrize("page", SOME)
async def test_only_the_end_pays(browser_device, page):
    task = MiniWobRounds(oracle=True).task(f"{page}-x3", SEED)
    shown = await begun(browser_device, task)
    for _ in range(2):
        shown = await win(browser_device, task, shown)
        assert not task.ended(shown) and await score(browser_device, task, shown) == 0.0
    shown = await win(browser_device, task, shown)
    assert task.ended(shown) and await score(browser_device, task, shown) == 1.0


@with_browser
async def test_a_round_that_is_lost_ends_the_episode(browser_device):
    task = MiniWobRounds(oracle=True).task("click-test-2-x3", SEED)
    shown = await win(browser_device, task, await begun(browser_device, task))
    wrong = [click for click in shown.probes["candidates"] if click not in shown.probes["oracle"]]
    shown = await done(browser_device, task, ACTIONS.validate_python(wrong[:1]))
    assert task.ended(shown) and await score(browser_device, task, shown) == 0.0


@with_browser
@pytest.mark.parametrize("page", SOME)
async def test_the_screen_after_a_round_is_the_next_problems(browser_device, page):
    """It is the one that is there a moment later, too, and not that of the round before."""
    task = MiniWobRounds(oracle=True).task(f"{page}-x3", SEED)
    first = await begun(browser_device, task)
    second = await win(browser_device, task, first)
    later = await browser_device.observe(ObserveSpec(frame="png", probes=dict(task.probes)))
    assert second.frame == later.frame != first.frame
    assert second.probes["oracle"] == later.probes["oracle"]


@with_browser
@pytest.mark.parametrize("page", ["click-color", "click-dialog-2", "click-widget", "focus-text-2"])
async def test_every_round_asks_for_what_the_instruction_says(browser_device, page):
    task = MiniWobRounds(oracle=True).task(f"{page}-x8", SEED)
    instruction, shown = await task.setup(browser_device, SPEC)
    for _ in range(7):
        shown = await win(browser_device, task, shown)
        asked = await browser_device.observe(
            ObserveSpec(frame="none", probes={"asked": "core.getUtterance()"})
        )
        assert asked.probes["asked"] == instruction


@with_browser
async def test_one_seed_is_one_row_of_problems(browser_device):
    async def seen() -> list[bytes]:
        task = MiniWobRounds(oracle=True).task("click-collapsible-x3", SEED)
        frames = [(shown := await begun(browser_device, task)).frame]
        for _ in range(2):
            frames.append((shown := await win(browser_device, task, shown)).frame)
        return frames

    once = await seen()
    await begun(browser_device, MiniWob().task("click-tab", SEED))  # another page, so that it is loaded anew
    assert await seen() == once and len({*once}) == 3


@with_browser
async def test_the_page_alone_is_one_round_again(browser_device):
    rounds = MiniWobRounds(oracle=True).task("click-test-2-x3", SEED)
    await win(browser_device, rounds, await begun(browser_device, rounds))
    alone = MiniWob(oracle=True).task("click-test-2", SEED)
    shown = await begun(browser_device, alone)
    shown = await done(browser_device, alone, ACTIONS.validate_python(shown.probes["oracle"]))
    assert alone.ended(shown) and await score(browser_device, alone, shown) == 1.0


@with_browser
@pytest.mark.parametrize("name", ["click-test-2-x2", "click-collapsible-x5", "circle-center-x3"])
async def test_every_kind_is_sound(browser_device, name):
    proof = await audit(lambda: MiniWobRounds().task(name, SEED), browser_device)
    assert proof.failures == []
    assert len(proof.mutants) == 3


@with_browser
async def test_the_first_problem_is_that_of_the_page_alone(browser_device):
    alone = await begun(browser_device, MiniWob().task("circle-center", SEED))
    shown = await begun(browser_device, MiniWobRounds().task("circle-center-x8", SEED))
    assert alone.frame == shown.frame
