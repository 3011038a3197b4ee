"""cua-agent, unmodified: its agent drives a leased browser, and reads models' replies as our dialects do."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from guiagent.actions import Action, Answer, Click, Done, Drag, KeyChord, Move, Scroll, Type, Wait, points
from guiagent.dialects import find_dialect
from guiagent.errors import DialectError
from tests.support.doors import ROOT, python_of, run_in
from tests.support.model_stand_in import Body, stand_in

pytestmark = pytest.mark.doors

QUIET = {"CUA_TELEMETRY_ENABLED": "false", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
SIZES = ((1920, 1080), (1080, 2400), (1366, 768), (3840, 2160))


def call(**arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': 'computer_use', 'arguments': arguments})}\n</tool_call>"


def xml(**arguments: Any) -> str:
    given = "".join(
        f"<parameter={name}>\n{value if isinstance(value, str) else json.dumps(value)}\n</parameter>\n"
        for name, value in arguments.items()
    )
    return f"<tool_call>\n<function=computer_use>\n{given}</function>\n</tool_call>"


VERBS: list[dict[str, Any]] = [
    {"action": "left_click", "coordinate": [500, 250]},
    {"action": "right_click", "coordinate": [1, 998]},
    {"action": "middle_click", "coordinate": [70, 20]},
    {"action": "double_click", "coordinate": [900, 900]},
    {"action": "mouse_move", "coordinate": [333, 667]},
    {"action": "key", "keys": ["ctrl", "c"]},
    {"action": "type", "text": "hello world"},
    {"action": "scroll", "coordinate": [500, 500], "pixels": -300},
    {"action": "wait", "time": 1},
]
REPLIES = {
    "ui-tars-1.0": [
        "Thought: there\nAction: click(start_box='(400,300)')",
        "Thought: there\nAction: click(start_box='<|box_start|>(400,300)<|box_end|>')",
        "Action: left_double(start_box='(10,20)')",
        "Action: right_single(start_box='(990,980)')",
        "Action: drag(start_box='(100,200)', end_box='(300,400)')",
        "Action: hotkey(key='ctrl c')",
        "Action: type(content='hello world')",
        "Action: type(content='it\\'s')",
        "Action: scroll(start_box='(400,300)', direction='down')",
        "Action: scroll(start_box='(400,300)', direction='up')",
        "Action: wait()",
        "Action: finished(content='42')",
    ],
    "qwen3-computer": [call(**verb) for verb in VERBS],
    "qwen3.5-computer": [xml(**verb) for verb in VERBS],
}
# Replies that the two read otherwise, and why ours stays as it is.
REASONS = {
    ("ui-tars-1.0", "Action: scroll(start_box='(4,3)', direction='left')"): "it scrolls up or down only",
    ("ui-tars-1.0", "Action: fly(start_box='(1,2)')"): "it does nothing, in silence; here that is refused",
    ("qwen3-computer", call(action="triple_click", coordinate=[5, 5])): "it clicks twice",
    ("qwen3-computer", call(action="left_click_drag", coordinate=[9, 9])): "it knows no drag",
    ("qwen3-computer", call(action="terminate", status="success")): "it goes on until a reply has no call",
    ("fara", call(action="left_click", coordinate=[966, 546])): "it reads resized pixels as 1000ths",
}
KINDS: dict[str, type[Action]] = {
    **dict.fromkeys(("click", "left_click", "right_click", "middle_click", "double_click"), Click),
    "move": Move,
    "drag": Drag,
    "keypress": KeyChord,
    "type": Type,
    "scroll": Scroll,
    "wait": Wait,
}


def theirs(asked: list[dict[str, Any]]) -> list[list[dict[str, Any]] | None]:
    script = ROOT / "tests" / "doors" / "cua_actions.py"
    done = subprocess.run(
        [str(python_of("cua")), str(script)],
        input=json.dumps(asked),
        env=QUIET,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    read: list[list[dict[str, Any]] | None] = json.loads(done.stdout.splitlines()[-1])
    return read


def alike(one: dict[str, Any], action: Action, family: str, size: tuple[int, int]) -> bool:
    """Whether their action is ours: its kind, its places, its words.

    They round thousandths down; to them Qwen3's screen of 999 has 1000.
    """
    kind = one["action"]
    if not isinstance(action, KINDS.get(kind, ())):
        return False
    places = one["path"] if kind == "drag" else [one] if "x" in one else []
    here = points(action)
    slack = [1 + (side / 999 if family.startswith("qwen") else 0) for side in size]
    near = len(places) == len(here) and all(
        abs(there[axis] - mine[i]) <= slack[i]
        for there, mine in zip(places, here, strict=True)
        for i, axis in enumerate("xy")
    )
    match action:
        case Click(button=button, count=count):
            pressed = one.get("button", kind.removesuffix("_click")).replace("double", "left")
            said = (button, count) == (pressed, 2 if kind == "double_click" else 1)
        case Type(text=text, submit=submit):
            said = one["text"] == text and not submit
        case KeyChord(keys=keys):
            said = len(one["keys"]) == len(keys)
        case Scroll(dx=dx, dy=dy):
            said = dx == one["scroll_x"] == 0 and dy * one["scroll_y"] < 0  # theirs is positive upwards
        case _:
            said = True
    return near and said


def agree(family: str, reply: str, size: tuple[int, int], read: list[dict[str, Any]] | None) -> bool:
    try:
        actions = find_dialect(family).parse(reply, size)
    except DialectError:
        return False
    words = [action.text for action in actions if isinstance(action, Answer)]
    kept = [action for action in actions if not isinstance(action, Answer | Done)]
    said = [one["text"] for one in read or [] if one["action"] == "message"]
    done = [one for one in read or [] if one["action"] != "message"]
    return (
        words == said
        and bool(read)
        and len(kept) == len(done)
        and all(alike(one, action, family, size) for one, action in zip(done, kept, strict=True))
    )


@pytest.mark.parametrize("family", REPLIES)
def test_both_read_the_same_actions_at_the_same_places(family: str) -> None:
    asked = [(reply, size) for reply in REPLIES[family] for size in SIZES]
    answers = theirs([{"family": family, "reply": reply, "size": size} for reply, size in asked])
    disagreed = [
        (reply, size, read)
        for (reply, size), read in zip(asked, answers, strict=True)
        if not agree(family, reply, size, read)
    ]
    assert disagreed == []


def test_where_they_differ_there_is_a_reason_and_they_do_differ() -> None:
    size = (1920, 1080)
    answers = theirs([{"family": family, "reply": reply, "size": size} for family, reply in REASONS])
    alike_after_all = [
        reply
        for (family, reply), read in zip(REASONS, answers, strict=True)
        if agree(family, reply, size, read)
    ]
    assert alike_after_all == []


@pytest.mark.browser
def test_its_agent_presses_a_button_on_a_leased_browser(tmp_path: Path) -> None:
    replies = ["Action: click(start_box='(500,500)')", "Action: finished(content='it is pressed')"]

    def mind(body: Body) -> str:
        """A model that presses what lies in the middle, then says so."""
        return replies[min(len(re.findall("Action: click", json.dumps(body["messages"]))), 1)]

    with stand_in(mind) as model:
        own = {"OPENAI_API_BASE": f"{model.url}/v1", "OPENAI_API_KEY": "k", "HOME": str(tmp_path)}
        script = ROOT / "examples" / "doors" / "cua_loop.py"
        told = run_in("cua", script, CUA_MODEL="openai/UI-TARS-1.5-7B", **QUIET, **own)
        pictures = [body for body in model.bodies if "image_url" in json.dumps(body)]
    assert "click 640 400" in told and "the agent says: it is pressed" in told
    assert told.splitlines()[-1] == "the page is now called pressed"
    assert pictures  # it was shown the screen
