"""UI-TARS's replies as `@ui-tars/action-parser` reads them: the same actions, or a reason why not."""

import json
import subprocess
from typing import Any

import pytest

from guiagent.actions import (
    Action,
    Answer,
    Click,
    Done,
    Drag,
    KeyChord,
    LongPress,
    Open,
    PressButton,
    Scroll,
    Type,
    Wait,
    points,
)
from guiagent.dialects import find_dialect
from guiagent.dialects.conformance import expected
from guiagent.errors import DialectError
from tests.support.doors import ROOT, environment_of

pytestmark = pytest.mark.doors

VERSIONS = {"ui-tars": "1.5", "ui-tars-1.0": "1.0"}
SIZES = ((1920, 1080), (1080, 2400), (1366, 768), (3840, 2160))
REPLIES = [
    "Thought: there\nAction: click(start_box='(400,300)')",
    "Thought: there\nAction: click(start_box='<|box_start|>(400,300)<|box_end|>')",
    "Action: click(point='<point>400 300</point>')",
    "Action: left_double(start_box='(10,20,30,40)')",
    "Action: right_single(start_box='<bbox>10 20 30 40</bbox>')",
    "Action: drag(start_box='(100,200)', end_box='(300,400)')",
    "Action: drag(start_point='<point>100 200</point>', end_point='<point>300 400</point>')",
    "Action: hotkey(key='ctrl c')",
    "Action: type(content='hello world')",
    "Action: scroll(start_box='(400,300)', direction='down')",
    "Action: long_press(start_box='(400,300)')",
    "Action: open_app(app_name='Clock')",
    "Action: press_home()",
    "Action: press_back()",
    "Action: wait()",
    "Action: finished(content='42')",
    "Action: finished()",
    "Action: call_user()",
    "Action: click(start_box='(1,2)')\n\ntype(content='a')",
]
REASONS = {  # replies that the two read otherwise, and why ours stays as it is
    "Action: type(content='it\\'s')": "it leaves escapes for its operators to read",
    "Action: type(content='a\\n')": "the same; here Enter is pressed",
    "Action: click(start_box='(5000,300)')": "its point is off the screen; here it is clamped",
    "Action: fly(start_box='(1,2)')": "it passes any name on; here the reply is refused",
    "I would click on it.": "it gives an action without a name; here the reply is refused",
}
_KINDS = {
    "left_double": Click,
    "right_single": Click,
    "click": Click,
    "long_press": LongPress,
    "drag": Drag,
    "hotkey": KeyChord,
    "type": Type,
    "scroll": Scroll,
    "open_app": Open,
    "press_home": PressButton,
    "press_back": PressButton,
    "wait": Wait,
    "finished": Done,
    "call_user": Done,
}


def theirs(asked: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    environment = environment_of("action-parser")
    command = ["node", str(ROOT / "tests" / "doors" / "action_parser.mjs"), str(environment)]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    read: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return read


def alike(one: dict[str, Any], action: Action, size: tuple[int, int]) -> bool:
    """Whether their action is ours: its kind, its places to the pixel, its words."""
    if not isinstance(action, _KINDS.get(one["type"], ())):
        return False
    places = [one[name] for name in ("start_coords", "end_coords") if name in one]
    here = points(action)
    near = all(
        abs(min(there[i], size[i] - 1) - mine[i]) <= 1
        for there, mine in zip(places, here, strict=False)
        for i in (0, 1)
    )
    match action:
        case Click(count=count, button=button):
            said = (count, button) == (
                2 if one["type"] == "left_double" else 1,
                "right" if one["type"] == "right_single" else "left",
            )
        case Type(text=text, submit=submit):
            said = one["content"] == text and not submit
        case KeyChord(keys=keys):
            said = len(one["key"].split()) == len(keys)
        case Open(target=target):
            said = one["app_name"] == target
        case PressButton(button=button):
            said = one["type"] == f"press_{button}"
        case Scroll(dx=dx, dy=dy):
            ways = {"down": dy > 0, "up": dy < 0, "left": dx < 0, "right": dx > 0}
            said = ways[one["direction"]]
        case Done(status=status):
            said = status == ("success" if one["type"] == "finished" else "infeasible")
        case _:
            said = True
    return near and said and len(places) == (len(here) if places else 0)


def agree(dialect: str, reply: str, size: tuple[int, int], read: list[dict[str, Any]]) -> bool:
    try:
        actions = find_dialect(dialect).parse(reply, size)
    except DialectError:
        return False
    kept = [action for action in actions if not isinstance(action, Answer)]  # theirs is part of finished()
    answers = [action.text for action in actions if isinstance(action, Answer)]
    contents = [one["content"] for one in read if one["type"] == "finished" and one.get("content")]
    return (
        answers == contents
        and len(kept) == len(read)
        and all(alike(one, action, size) for one, action in zip(read, kept, strict=True))
    )


@pytest.mark.parametrize("dialect", VERSIONS)
def test_both_read_the_same_actions_at_the_same_pixels(dialect: str) -> None:
    asked = [
        {"reply": reply, "size": size, "version": VERSIONS[dialect]} for reply in REPLIES for size in SIZES
    ]
    disagreed = [
        (one["reply"], one["size"], read)
        for one, read in zip(asked, theirs(asked), strict=True)
        if not agree(dialect, one["reply"], one["size"], read)
    ]
    assert disagreed == []


def test_replies_of_the_golden_file_are_read_alike_or_for_a_reason() -> None:
    asked = [
        {**one, "version": VERSIONS[name], "dialect": name}
        for name in VERSIONS
        for one in expected()[name]["replies"]
        if one["actions"]
    ]
    for one, read in zip(asked, theirs(asked), strict=True):
        escaped = "\\" in one["reply"]  # the first two of REASONS
        size = (one["size"][0], one["size"][1])
        assert agree(one["dialect"], one["reply"], size, read) != escaped, (one["reply"], read)


def test_where_they_differ_there_is_a_reason_and_they_do_differ() -> None:
    size = (1920, 1080)
    asked = [{"reply": reply, "size": size, "version": "1.5"} for reply in REASONS]
    for one, read in zip(asked, theirs(asked), strict=True):
        beyond = "5000" in one["reply"]
        assert beyond or not agree("ui-tars", str(one["reply"]), size, read), one["reply"]
        if beyond:
            assert read[0]["start_coords"][0] > size[0]
