"""MiniWoB++ on a real browser: the baselines every page must pass, and what must not earn a point."""

import io
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
import xxhash
from msgspec.structs import replace
from PIL import Image, ImageChops

from eval.suites.miniwob import MINIWOB
from eval.suites.miniwob_demo import MINIWOB_DEMO
from guiagent.actions import Action, Click, Open, PressButton, Type
from guiagent.episode import run_episode
from guiagent.errors import UsageError
from guiagent.policies import NullPolicy, OraclePolicy
from guiagent.protocols import Device, Policy, Provable
from guiagent.seeds import REINFORCEMENT
from guiagent.types import Ending, Observation, ObserveSpec, ResetSpec, Score, Trajectory
from rewards.audit import audit
from rewards.tasksets.miniwob import (
    GROUNDING_TASKS,
    STEP_TASKS,
    TRAIN_TASKS,
    UNSEEN_TASKS,
    UNSOLVED_TASKS,
    MiniWob,
    MiniWobTask,
    SolvedTask,
)
from rewards.tasksets.miniwob.pages import CLICKS, LEFT_OUT, UNSOLVED_STEPS

PAGES = tuple(CLICKS)
SPEC = ObserveSpec(frame="png")
SEEDS = REINFORCEMENT[:10]
SPOOF = """data:text/html,<script>
var core = {seed: 7, getUtterance: () => 'done'}, WOB_TASK_READY = true, WOB_DONE_GLOBAL = true,
  WOB_RAW_REWARD_GLOBAL = 1, WOB_REWARD_REASON = 'because I say so';
</script>"""


def with_browser(test):
    return pytest.mark.browser(pytest.mark.asyncio(loop_scope="module")(test))


def look_the_same(one: bytes, other: bytes) -> bool:
    """Up to a single level: Chromium rounds a rounded corner that it paints anew now this way, now that."""
    pictures = [Image.open(io.BytesIO(frame)).convert("RGB") for frame in (one, other)]
    return max(high for _, high in ImageChops.difference(*pictures).getextrema()) <= 1


async def play(device: Device, task: MiniWobTask, policy: Policy) -> Trajectory:
    trajectory = await run_episode(task, device, policy, keep_frame=xxhash.xxh3_128_hexdigest, spec=SPEC)
    assert trajectory.fault is None
    return trajectory


async def score_after(device: Device, task: MiniWobTask, *turns: Sequence[Action]) -> float | None:
    """The score after these turns, one device verb each."""
    _, shown = await task.setup(device, SPEC)
    for actions in turns:
        shown = await device.act(actions, ObserveSpec(frame="none", probes=dict(task.probes)))
    return (await task.check(device, shown, Ending(claim="success"))).value


async def solution(device: Device, task: MiniWobTask) -> Click:
    _, shown = await MiniWob(oracle=True).task(task.id, task.seed).setup(device, SPEC)
    return Click.model_validate(shown.probes["oracle"][0])


def test_what_is_learned_seen_and_never_seen_is_disjoint():
    assert len(TRAIN_TASKS) >= 8
    assert len({*TRAIN_TASKS, *UNSEEN_TASKS, *GROUNDING_TASKS}) == len(PAGES) == 18
    assert len(PAGES) == len(TRAIN_TASKS) + len(UNSEEN_TASKS) + len(GROUNDING_TASKS)
    assert MiniWob().names == (*PAGES, *STEP_TASKS, *UNSOLVED_TASKS)
    assert not {*PAGES} & {*STEP_TASKS}


def test_every_page_of_the_package_is_a_task_or_left_out_for_a_reason():
    root = Path(find_spec("miniwob").origin).parent
    pages = {page.stem for page in (root / "html/miniwob").glob("*.html")}
    listed = set(re.findall(r'id="miniwob/(.+)-v\d+"', (root / "registration.py").read_text()))
    assert listed - set(LEFT_OUT) == set(MiniWob().names) == set(MINIWOB.tasks) and len(MINIWOB.tasks) == 125
    assert pages | listed == {*MiniWob().names, *LEFT_OUT}
    with pytest.raises(UsageError, match="moving-items is no task here: the package does not list it"):
        MiniWob().task("moving-items", 0)


def test_what_is_kept_unseen_is_nowhere_to_be_trained_on():
    assert {*UNSEEN_TASKS, *GROUNDING_TASKS} == set(MINIWOB.unseen_tasks)
    assert set(MINIWOB_DEMO.train_tasks) <= set(MINIWOB.train_tasks)


@pytest.mark.parametrize("page", UNSOLVED_TASKS)
def test_a_page_without_an_oracle_says_so_and_has_a_budget(page):
    task = MiniWob(oracle=True).task(page, 0)
    assert not isinstance(task, Provable) and task.max_steps == UNSOLVED_STEPS == 20
    assert MINIWOB.groups["oracle"][page] == "has none"


@pytest.mark.parametrize(
    ("raw", "done", "parts"),
    [(1.0, True, (1, 1)), (0.25, True, (1, 0)), (-1.0, True, (0, 0)), (1.0, False, (0, 0))],
)
async def test_both_conventions_of_success_are_parts_of_the_score(raw, done, parts):
    shown = Observation(160, 224, probes={"state": [True, done, raw, None]})
    score = await MiniWob().task("draw-line", 0).check(None, shown, Ending())
    assert (tuple(score.parts.values()), score.value) == (parts, parts[0])
    assert list(score.parts) == ["raw reward above 0", "raw reward of 1"]


def test_an_unknown_task_is_refused_with_the_names_there_are():
    with pytest.raises(UsageError, match=r"'click-everything'.*click-test-2.*find-midpoint"):
        MiniWob().task("click-everything", 0)


@with_browser
@pytest.mark.parametrize("page", PAGES)
async def test_the_oracle_scores_1_and_null_0(browser_device, page):
    taskset = MiniWob(oracle=True)
    for seed in SEEDS:
        solved = await play(browser_device, taskset.task(page, seed), OraclePolicy())
        assert solved.score.value == 1.0 and solved.stop == "task_done", seed
        assert len(solved.steps) <= taskset.task(page, seed).max_steps / 2
    idle = await play(browser_device, MiniWob().task(page, SEEDS[0]), NullPolicy())
    assert idle.score.value == 0.0 and idle.stop == "max_steps"


@with_browser
@pytest.mark.parametrize("page", ["click-test-2", "click-test-transfer", "click-button-sequence"])
async def test_the_oracle_finds_what_is_left_of_a_button_below_another(browser_device, page):
    """This seed of the suites leaves four pixels of the button on the left and two above."""
    solved = await play(browser_device, MiniWob(oracle=True).task(page, 1_000_000_038), OraclePolicy())
    assert solved.score.value == 1.0, solved.steps


@with_browser
@pytest.mark.parametrize("page", PAGES)
async def test_every_page_is_sound(browser_device, page):
    proof = await audit(lambda: MiniWob().task(page, SEEDS[0]), browser_device)
    assert proof.failures == []
    assert len(proof.null) == 7


@with_browser
@pytest.mark.parametrize(("given", "unsound"), [(1.0, 20), (0.0, 1), (None, 21)])
async def test_an_unsound_check_is_found_out(browser_device, given, unsound):
    class Says(SolvedTask):
        async def check(self, device: Device, observation: Observation, ending: Ending) -> Score:
            return Score(given)

    proof = await audit(lambda: Says("click-test-2", "click-test-2", 1, 2), browser_device)
    assert len(proof.failures) == unsound, proof.failures


@with_browser
@pytest.mark.parametrize("page", PAGES)
async def test_a_seed_gives_one_frame_and_instruction_on_a_freshly_loaded_page(browser_device, page):
    shown = []
    for seed in (3, 3):
        await browser_device.reset(0, ResetSpec(), ObserveSpec(frame="none"))  # elsewhere
        shown.append(await MiniWob().task(page, seed).setup(browser_device, SPEC))
    shown.append(await MiniWob().task(page, 4).setup(browser_device, SPEC))
    (instruction, first), (instruction_again, again), (other_instruction, other) = shown
    assert instruction == instruction_again
    assert look_the_same(first.frame, again.frame)
    assert instruction != other_instruction or not look_the_same(first.frame, other.frame)


@with_browser
@pytest.mark.parametrize(
    ("page", "picture"), [("click-dialog", "ui-icons_"), ("email-inbox-star-reply", "star")]
)
async def test_a_page_is_set_up_once_its_pictures_have_come(browser_device, page, picture):
    """Those of the page's own style, and of one that it links to; they are held, or they would go again."""
    held = "core.pictured.map(one => [one.src, one.complete && one.naturalWidth > 0])"
    spec = replace(SPEC, probes={**SPEC.probes, "came": held})
    _, shown = await MiniWob(oracle=True).task(page, 11).setup(browser_device, spec)
    came = dict(shown.probes["came"])
    assert any(picture in url for url in came) and all(came.values()), came


@with_browser
@pytest.mark.parametrize("page", [page for page in PAGES if page != "click-tab"])
async def test_setting_a_page_up_again_in_place_leaves_nothing_of_the_last_episode(browser_device, page):
    """All but click-tab, whose own page keeps a pixel of the tab that was open before."""
    task = MiniWob(oracle=True).task(page, 11)
    _, fresh = await task.setup(browser_device, SPEC)
    await play(browser_device, MiniWob(oracle=True).task(page, 12), OraclePolicy())
    instruction, again = await task.setup(browser_device, SPEC)
    assert look_the_same(again.frame, fresh.frame)
    assert again.probes["utterance"] == instruction == fresh.probes["utterance"]


@with_browser
async def test_a_wrong_click_scores_0_and_says_so(browser_device):
    task = MiniWob(oracle=True).task("click-test-2", 5)
    _, shown = await task.setup(browser_device, SPEC)
    right = shown.probes["oracle"][0]
    wrong = next(spot for spot in shown.probes["candidates"] if spot != right)
    shown = await browser_device.act([Click.model_validate(wrong)], ObserveSpec(probes=dict(task.probes)))
    score = await task.check(browser_device, shown, Ending())
    assert task.ended(shown)
    assert (score.value, score.source, score.evidence) == (0.0, "check", {"done": True, "raw_reward": -1.0})


@with_browser
async def test_an_ended_page_cannot_be_tried_again(browser_device):
    """One reply can hold several actions: a second guess in it must not undo the first."""
    task = MiniWob().task("click-test-2", 5)
    right = await solution(browser_device, task)
    assert await score_after(browser_device, task, [right]) == 1.0
    _, shown = await MiniWob(oracle=True).task("click-test-2", 5).setup(browser_device, SPEC)
    wrong = next(Click.model_validate(c) for c in shown.probes["candidates"] if c["x"] != right.x)
    everywhere = [Click(x=x, y=y) for x in range(10, 160, 30) for y in range(10, 210, 20)]
    for again in ([right], [*everywhere, right]):
        assert await score_after(browser_device, task, [wrong, *again]) == 0.0


@with_browser
@pytest.mark.parametrize(
    "elsewhere",
    ["about:blank", SPOOF, "miniwob:click-test", "https://127.0.0.1:9/", "javascript:core.endEpisode(1)"],
)
async def test_a_page_the_agent_went_to_earns_nothing(browser_device, elsewhere):
    task = MiniWob().task("click-collapsible", 1)
    assert await score_after(browser_device, task, [Open(target=elsewhere)]) == 0.0
    assert (
        await score_after(browser_device, task, [Open(target=elsewhere)], [PressButton(button="back")]) == 0.0
    )


@with_browser
async def test_another_page_of_the_package_solved_is_not_this_task_solved(browser_device):
    task = MiniWob().task("click-collapsible", 1)
    easier = [
        Open(target="miniwob:click-test"),
        Click(x=80, y=105),
        *[Click(x=x, y=y) for x in range(5, 160, 12) for y in range(50, 210, 12)],
    ]
    assert await score_after(browser_device, task, easier) == 0.0


@with_browser
async def test_words_and_answers_change_no_score(browser_device):
    task = MiniWob().task("focus-text", 2)
    _, shown = await task.setup(browser_device, SPEC)
    typed = "'); core.endEpisode(1); ('\n<script>core.endEpisode(1)</script>"
    shown = await browser_device.act([Type(text=typed, submit=True)], ObserveSpec(probes=dict(task.probes)))
    for answer in (None, "", "success", "1.0", typed):
        assert (await task.check(browser_device, shown, Ending(answer))).value == 0.0
