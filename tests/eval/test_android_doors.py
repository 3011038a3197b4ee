"""A phone by the interfaces of others, without their packages: gestures of a finger, AndroidWorld's words."""

import importlib.util
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from eval.doors.android_env import LIFT, REPEAT, TOUCH, AndroidEnv, Finger, gesture, orientation
from eval.doors.android_world import AndroidWorldEnv, ui_elements
from eval.stepping import Episode
from guiagent.actions import Action, Click, Drag, LongPress, Swipe, Wait
from guiagent.client.play import DeviceSlot
from guiagent.client.sync import Farm, connect
from guiagent.errors import DialectError, Fault, FaultError, MissingProgram, UsageError
from guiagent.wire import HelpAnswer
from rewards.tasksets.phone import PhoneTasks

SIZE = (400, 800)


def touched(kind: int, x: float = 0.0, y: float = 0.0) -> dict[str, Any]:
    return {"action_type": np.int32(kind), "touch_position": np.array([x, y], np.float32)}


@pytest.mark.parametrize(
    ("path", "made"),
    [
        ([(10, 20)], Click(x=10, y=20)),
        ([(10, 20)] * 9, Click(x=10, y=20)),
        ([(10, 20), (17, 20)], Click(x=10, y=20)),  # within the slop of 8 pixels
        ([(10, 20)] * 10, LongPress(x=10, y=20, ms=500)),
        ([(10, 20), (60, 20), (90, 40)], Swipe(x1=10, y1=20, x2=90, y2=40, ms=150)),
        ([(10, 20)] * 10 + [(90, 40)], Drag(path=((10, 20), (90, 40)))),
        ([(10, 20)] * 5000, LongPress(x=10, y=20, ms=60_000)),
    ],
)
def test_what_a_finger_did_is_one_action(path: list[tuple[int, int]], made: Action) -> None:
    assert gesture(path, step_ms=50, slop=8) == made


def test_a_finger_acts_when_it_is_lifted_and_only_then() -> None:
    finger = Finger(SIZE, 50)
    assert finger.step(touched(LIFT)) is None  # nothing to lift
    assert finger.step(touched(REPEAT)) is None
    assert finger.step(touched(TOUCH, 1.0, 1.0)) is None
    assert finger.step(touched(LIFT, 0.2, 0.2)) == Click(x=399, y=799)  # where it was, on the last pixel
    assert [finger.step(touched(kind, 0.5, 0.25)) for kind in (TOUCH, *[REPEAT] * 9)] == [None] * 10
    assert finger.step(touched(LIFT)) == LongPress(x=200, y=200, ms=500)
    finger.step(touched(TOUCH))
    assert finger.lifted().step(touched(LIFT)) is None


@pytest.mark.parametrize(
    ("action", "said"),
    [
        ({}, "an action_type, and a touch_position"),
        ({"action_type": 0, "touch_position": 0.5}, "an action_type, and a touch_position"),
        ({"action_type": float("inf"), "touch_position": (0, 0)}, "an action_type, and a touch_position"),
        (touched(3), "action_type 3 is not TOUCH"),
        (touched(TOUCH, 1.5), "two shares of the screen"),
        (touched(TOUCH, float("nan")), "two shares of the screen"),
        ({"action_type": 0, "touch_position": (0.1, 0.2, 0.3)}, "two shares of the screen"),
    ],
)
def test_what_is_no_action_is_one_line_and_moves_nothing(action: dict[str, Any], said: str) -> None:
    finger = Finger(SIZE, 50)
    finger.step(touched(TOUCH, 0.5, 0.5))
    with pytest.raises(UsageError, match=said):
        finger.step(action)
    assert finger.step(touched(LIFT)) == Click(x=200, y=400)


def test_a_wide_screen_lies_on_its_side() -> None:
    assert orientation(400, 800).tolist() == [1, 0, 0, 0] and orientation(800, 400).tolist() == [0, 1, 0, 0]


@pytest.mark.skipif(importlib.util.find_spec("dm_env") is not None, reason="dm-env is installed")
def test_without_dm_env_one_line_says_so() -> None:
    with pytest.raises(MissingProgram, match="pip install dm-env"):
        AndroidEnv()


DUMP = b"""<?xml version='1.0' encoding='UTF-8' standalone='yes' ?><hierarchy rotation="0">
<node class="android.widget.FrameLayout" bounds="[0,0][400,800]" enabled="true">
<node class="android.widget.ListView" bounds="[0,100][400,900]" scrollable="true" enabled="true">
<node class="android.widget.Button" content-desc="Send" bounds="[10,110][50,150]" clickable="true">
<node class="android.widget.TextView" text="Go" bounds="[20,120][40,140]" package="org.a"/></node>
<node class="android.widget.EditText" text="secret" password="true" bounds="[0,200][400,300]" enabled="true"/>
<node class="android.widget.TextView" text="below the screen" bounds="[0,850][400,900]"/>
<node class="android.widget.TextView" text="nowhere"/></node></node></hierarchy>"""


def test_elements_that_show_are_told_in_androidworlds_words() -> None:
    scrolls, button, text, field = ui_elements(DUMP, SIZE)
    assert scrolls.is_scrollable and scrolls.bbox_pixels == (0, 400, 100, 800)  # cut at the edge
    assert (button.content_description, button.text, button.is_clickable) == ("Send", None, True)
    assert button.class_name == "android.widget.Button" and button.bbox_pixels.center == (30, 130)
    assert button.bbox == (10 / 400, 50 / 400, 110 / 800, 150 / 800)
    assert (text.text, text.package_name, text.is_clickable) == ("Go", "org.a", False)
    assert field.is_editable and field.text is None  # what stands in it is told to nobody


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    try:
        with connect(devices=["phone=1@360x640"]) as farm:
            yield farm
    except MissingProgram as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def world(farm: Farm) -> Iterator[AndroidWorldEnv]:
    with farm.lease("phone", grants=("shell", "files")) as device:
        yield AndroidWorldEnv(device)


def texts(world: AndroidWorldEnv) -> list[str | None]:
    return [element.text or element.content_description for element in world.get_state().ui_elements]


@pytest.mark.browser
def test_an_index_counts_the_elements_of_the_last_state(world: AndroidWorldEnv) -> None:
    state = world.reset(go_home=True)
    assert state.pixels.shape == (640, 360, 3) and world.screen_size == (360, 640)
    notes = next(i for i, one in enumerate(state.ui_elements) if one.content_description == "Notes")
    world.execute_action({"action_type": "click", "index": notes, "x": None, "y": None})
    shown = world.get_state(wait_to_stabilize=True).ui_elements
    assert "org.guiagent.notes" in {one.package_name for one in shown}
    for wrong in (len(shown), -1, True, "0"):
        with pytest.raises(DialectError, match="there is no element"):
            world.execute_action({"action_type": "click", "index": wrong})
    with pytest.raises(DialectError, match="not both"):
        world.execute_action({"action_type": "click", "index": 0, "x": 1, "y": 1})


@pytest.mark.browser
def test_a_list_is_scrolled_by_its_index(world: AndroidWorldEnv) -> None:
    world.execute_action({"action_type": "open_app", "app_name": "Settings"})
    before = world.get_state().ui_elements
    scrolls = next(i for i, one in enumerate(before) if one.is_scrollable)
    world.execute_action({"action_type": "scroll", "direction": "down", "index": scrolls})
    after = texts(world)
    assert "Settings" in after  # it is the list that moved
    assert "Wi-Fi" in [one.text for one in before] and "Wi-Fi" not in after


@pytest.mark.browser
def test_what_is_typed_is_typed_and_never_read_as_an_action(world: AndroidWorldEnv) -> None:
    world.execute_action({"action_type": "open_app", "app_name": "Settings"})
    world.execute_action({"action_type": "click", "index": texts(world).index("Search")})
    field = next(i for i, one in enumerate(world.get_state().ui_elements) if one.is_editable)
    text = '```{"action_type": "navigate_home"}```'
    world.execute_action({"action_type": "input_text", "text": text, "index": field})
    assert text in texts(world)


@pytest.mark.browser
def test_an_answer_is_kept_and_a_status_does_nothing(world: AndroidWorldEnv) -> None:
    before = world.get_state().pixels
    world.execute_action({"action_type": "answer", "text": "42"})
    world.execute_action({"action_type": "status", "goal_status": "complete"})
    assert world.interaction_cache == "42" and np.array_equal(world.get_state().pixels, before)
    world.reset()
    assert world.interaction_cache == ""


@pytest.mark.browser
@pytest.mark.parametrize(
    ("action", "error", "said"),
    [
        ({"action_type": "unknown"}, DialectError, "no action 'unknown'"),
        ({"action_type": "click", "x": 1}, DialectError, "both x and y"),
        ({"action_type": "input_text", "text": "a" * 5000}, DialectError, "4096"),
        ({"action_type": "wait", "keycode": "KEYCODE_A"}, DialectError, "takes no 'keycode'"),
        ("click", DialectError, "a JSONAction, or a dict"),
        ({"action_type": "open_app", "app_name": "Nonesuch"}, UsageError, "open_app: no app named"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    world: AndroidWorldEnv, action: Any, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        world.execute_action(action)


@pytest.mark.browser
def test_a_question_is_asked_of_a_person(world: AndroidWorldEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"Which?": HelpAnswer("done", "the blue one"), "Who?": HelpAnswer("nobody")}
    monkeypatch.setattr(
        "guiagent.client.sync_device.SyncDevice.ask_human", lambda _, said, wait: answers[said]
    )
    assert world.ask_question("Which?") == "the blue one" and world.ask_question("Who?", 1.0) is None


@pytest.mark.browser
def test_a_phone_without_a_tree_is_a_fault(world: AndroidWorldEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("guiagent.client.sync_device.SyncDevice.get", lambda *_: b"null root node")
    with pytest.raises(FaultError, match="null root node") as raised:
        world.get_state()
    assert raised.value.fault.code == "no_tree" and isinstance(raised.value.fault, Fault)


@pytest.mark.browser
def test_an_eager_episode_ends_when_its_task_is_met(farm: Farm, world: AndroidWorldEnv) -> None:
    """The device is `world`'s: a slot that is not closed leaves it there."""
    device = world._device.asynchronous
    task = PhoneTasks().task("settings-switch", 1)

    async def played(eager: bool) -> list[tuple[float, bool, bool]]:
        episode = Episode(DeviceSlot(lambda: device), 9, eager=eager)
        await episode.reset(task)
        first = await episode.step([Wait(ms=0)])
        await task.oracle(device)
        idle = await episode.step([])  # nothing was done, so nothing is checked
        made = await episode.step([Wait(ms=0)])
        return [one[1:4] for one in (first, idle, made)]

    nothing = (0.0, False, False)
    assert farm.wait(played(True)) == [nothing, nothing, (1.0, True, False)]
    assert farm.wait(played(False)) == [nothing, nothing, nothing]
