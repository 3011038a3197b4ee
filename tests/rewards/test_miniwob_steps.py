"""MiniWoB++ pages of typing, lists, menus, mail and drags: their oracles solve them through the device."""

import pytest

from guiagent.actions import ACTIONS
from guiagent.episode import run_episode
from guiagent.policies import OraclePolicy
from guiagent.seeds import REINFORCEMENT
from guiagent.types import Ending, ObserveSpec, ResetSpec
from rewards.audit import audit
from rewards.tasksets.miniwob import STEP_TASKS, MiniWob
from rewards.tasksets.miniwob.pages import PARTIAL, STEPS

SEED = REINFORCEMENT.start
BLIND = ObserveSpec(frame="none")


def with_browser(test):
    return pytest.mark.browser(pytest.mark.asyncio(loop_scope="module")(test))


@with_browser
@pytest.mark.parametrize("page", STEP_TASKS)
async def test_an_idle_agent_fails_and_the_oracle_solves_it(browser_device, page):
    task = MiniWob().task(page, SEED)
    _, shown = await task.setup(browser_device, BLIND)
    assert (await task.check(browser_device, shown, Ending(claim="success"))).value == 0.0
    ending = await task.oracle(browser_device)
    shown = await browser_device.observe(ObserveSpec(frame="none", probes=dict(task.probes)))
    score = await task.check(browser_device, shown, ending)
    assert (score.value, task.ended(shown)) == (1.0, True), score


@with_browser
@pytest.mark.parametrize("page", [name for name in STEP_TASKS if name.startswith("email-inbox-")])
async def test_the_icons_of_a_page_are_there_when_it_is_set_up(browser_device, page):
    await browser_device.reset(0, ResetSpec(), BLIND)  # leaves the page, so that its pictures come anew
    icons = "[...document.querySelectorAll('#main .star')].map(one => one.getBoundingClientRect().width)"
    task = MiniWob().task(page, SEED)
    _, shown = await task.setup(browser_device, ObserveSpec(frame="none", probes={"icons": icons}))
    assert shown.probes["icons"] and all(width == 12 for width in shown.probes["icons"])


@with_browser
@pytest.mark.parametrize("page", ["login-user", "drag-box", "click-menu", "email-inbox-reply", "enter-date"])
async def test_the_oracle_takes_at_most_half_of_the_steps_that_are_allowed(browser_device, page):
    task = MiniWob(oracle=True).task(page, SEED + 1)
    solved = await run_episode(task, browser_device, OraclePolicy(), keep_frame=lambda _: "", spec=BLIND)
    assert solved.fault is None and solved.score.value == 1.0
    assert 1 < len(solved.steps) <= STEPS[page] == task.max_steps / 2


@with_browser
async def test_a_page_that_is_set_up_again_keeps_nothing_that_was_typed(browser_device):
    task = MiniWob(oracle=True).task("login-user", SEED)
    _, first = await task.setup(browser_device, BLIND)
    await task.oracle(browser_device)
    _, again = await task.setup(browser_device, BLIND)
    plans = [ACTIONS.validate_python(shown.probes["oracle"]) for shown in (first, again)]
    assert plans[0] == plans[1]
    assert [action.type for action in plans[0]] == ["click", "type", "click", "type", "click"]


@with_browser
@pytest.mark.parametrize("page", ["enter-password", "form-sequence-2", "drag-sort-numbers"])
async def test_near_misses_earn_nothing(browser_device, page):
    proof = await audit(lambda: MiniWob().task(page, SEED), browser_device, {})
    assert (proof.failures, set(proof.mutants)) == ([], {"the last step left out", "the last step alone"})


def test_pages_that_pay_for_a_part_are_pages_of_steps():
    assert {*STEPS} > PARTIAL
