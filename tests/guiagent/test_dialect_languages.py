"""Languages made of two functions: what they say comes back, and hostile text is refused in a line."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from miniwob.action import (  # type: ignore[import-untyped,unused-ignore]
    ELEMENT_ACTIONS,
    FIELD_ACTIONS,
    ActionTypes,
)
from miniwob.constants import (  # type: ignore[import-untyped,unused-ignore]
    ALL_POSSIBLE_KEYS,
    DEFAULT_ALLOWED_KEYS,
)

from guiagent.actions import (
    Action,
    Answer,
    Click,
    Done,
    Drag,
    KeyChord,
    KeyDown,
    KeyUp,
    LongPress,
    MouseDown,
    MouseUp,
    Move,
    Open,
    PressButton,
    Scroll,
    Swipe,
    Type,
    Wait,
)
from guiagent.dialects import DIALECTS, OTHERS, find_dialect
from guiagent.dialects.conformance import alike
from guiagent.errors import DialectError

SIZE = (1000, 700)
UHD = (3840, 2160)  # which Anthropic's API shows as 1429x804


def test_a_picture_that_the_api_shrinks_is_read_in_its_own_pixels() -> None:
    dialect = find_dialect("anthropic-20250124")
    assert dialect.space.extent(UHD) == (1429, 804)
    (click,) = dialect.parse('{"action":"left_click","coordinate":[714,402]}', UHD)
    assert click == Click(x=1919, y=1080)
    assert dialect.space.extent(SIZE) == SIZE


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("pyautogui", "import os\nos.system('id')"),
        ("pyautogui", "__import__('os').system('id')"),
        ("pyautogui", "pyautogui.click(*[1, 2])"),
        ("pyautogui", "pyautogui.write(open('/etc/passwd').read())"),
        ("pyautogui", "x = 1\npyautogui.click(x, 2)"),
        ("pyautogui", "pyautogui.screenshot('/tmp/a.png')"),
        ("pyautogui", "pyautogui.click()"),  # where is the pointer?
        ("pyautogui", "pyautogui.scroll(1e9)"),
        ("pyautogui", "import pyautogui as time"),
        ("pyautogui", "pyautogui.press(['a', None])"),
        ("pyautogui", "(" * 5000),
        ("browsergym", "click('a51')"),
        ("browsergym", "mouse_click(1, 2); exec('1')"),
        ("browsergym", "mouse_click(1, float('nan'))"),
        ("androidworld", '{"action_type": "click", "index": 3}'),
        ("androidworld", '{"action_type": "status", "goal_status": ["complete"]}'),
        ("computer-13", '{"action_type": "CLICK", "x": NaN, "y": 1}'),
        ("computer-13", '{"action_type": ["CLICK"]}'),
        ("computer-13", '{"action_type": "HOTKEY", "keys": "ctrl"}'),
        ("openai-computer", '{"type": "click", "x": Infinity, "y": 1}'),
        ("openai-computer", '{"type": "computer_call"}'),
        ("openai-computer", '{"type": "click", "x": 1, "y": 2, "keys": ["A"]}'),
        ("openai-computer", ""),
        ("anthropic-20241022", '{"action": "scroll", "coordinate": [1, 2]}'),  # not yet in that version
        ("anthropic-20250124", '{"action": "zoom", "region": [1, 2, 3, 4]}'),
        ("anthropic-20250124", '{"action": "left_click"}'),
        ("miniwob", '{"action_type": "CLICK_COORDS", "coords": [1, 2], "ref": 3}'),
        ("miniwob", '{"action_type": "CLICK_COORDS", "coords": [1]}'),
        ("miniwob", '{"action_type": "PRESS_KEY", "key": "C-C-C-C-C-C-a"}'),
        ("miniwob", '{"action_type": {"CLICK_COORDS": 1}}'),
        ("evocua", '<tool_call>{"name": "computer_use", "arguments": {"action": "left_click"}}</tool_call>'),
        ("evocua", '<tool_call>{"name": "computer_use", "arguments": {"action": "key_down"}}</tool_call>'),
        ("fara", '<tool_call>{"name": "computer_use", "arguments": {"action": "left_click"}}</tool_call>'),
        (
            "fara",
            '<tool_call>{"name": "computer_use", "arguments": {"action": "wait", "time": -1}}</tool_call>',
        ),
        ("mai-ui", '<tool_call>{"name": "mobile_use", "arguments": {"action": "click"}}</tool_call>'),
        ("mai-ui", '<tool_call>{"name": "shell", "arguments": {"action": "wait"}}</tool_call>'),
        ("gelab-zero", "action:CLICK"),
        ("gelab-zero", "action:CLICK\tpoint:1,2,3"),
        ("gelab-zero", "action:WAIT\tvalue:1e999"),
        ("gelab-zero", "action:" + "FLY" * 100),
        ("ui-venus-1.5", "<action>Click((1, 2))</action>"),
        ("ui-venus-1.5", "<action>Click(box=(1, 2, 3))</action>"),
        ("ui-venus-2", "<action>Click(point=(1, 'a'))</action>"),
        ("ui-venus-2", "<action>Click(point=(1, 2)); Wait()</action>" * 9),
        ("ui-venus-2", "<action>x = Click(point=(1, 2))</action>"),
        ("ui-venus-ground", "[1,2,3]"),
        ("ui-venus-ground", "[1,2] [3,4] [5,6]"),
        ("json", '{"type": "click", "x": 1}'),
        ("json", '{"type": "click", "x": 1, "y": 2, "more": 3}'),
        ("json", "[" * 10_000 + '{"type": 1}'),
        ("qwen3.5-computer", "<tool_call><function=computer_use><parameter=action>\nleft_click</function>"),
        (
            "qwen3.5-computer",
            "<tool_call><function=computer_use><parameter=action>\nleft_click\n</parameter>"
            "<parameter=action>\nwait\n</parameter></function></tool_call>",
        ),
    ],
)
def test_what_is_no_action_is_refused_in_a_line(name: str, reply: str) -> None:
    with pytest.raises(DialectError) as caught:
        find_dialect(name).parse(reply, SIZE)
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


places = {"x": st.integers(0, SIZE[0] - 1), "y": st.integers(0, SIZE[1] - 1)}
pixels = st.tuples(places["x"], places["y"])
keys = st.sampled_from(
    ["Control", "Shift", "Alt", "Enter", "a", "z", "7", "+", "F5", "ArrowUp", " ", "PageDown"]
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
anything: st.SearchStrategy[Action] = st.one_of(
    st.builds(
        Click,
        **places,
        button=st.sampled_from(["left", "right", "middle", "back"]),
        count=st.integers(1, 3),
        modifiers=st.lists(st.sampled_from(["Control", "Shift"]), max_size=2, unique=True).map(tuple),
    ),
    st.builds(Move, **places),
    st.builds(MouseDown, **places),
    st.builds(MouseUp, **places),
    st.builds(Drag, path=st.lists(pixels, min_size=2, max_size=4).map(tuple)),
    st.builds(Scroll, **places, dx=st.sampled_from([0, 100, -350]), dy=st.sampled_from([0, 300, -17, 350])),
    st.builds(Type, text=texts, clear=st.booleans(), submit=st.booleans()),
    st.builds(KeyChord, keys=st.lists(keys, min_size=1, max_size=3).map(tuple)),
    st.builds(KeyDown, key=keys),
    st.builds(KeyUp, key=keys),
    st.builds(LongPress, **places, ms=st.sampled_from([800, 1500])),
    st.builds(Swipe, x1=places["x"], y1=places["y"], x2=places["x"], y2=places["y"]),
    st.builds(PressButton, button=st.sampled_from(["back", "home", "enter", "forward", "power"])),
    st.builds(Open, target=texts.filter(bool)),
    st.builds(Wait, ms=st.sampled_from([0, 1000, 2000, 5000])),
    st.builds(Answer, text=texts),
    st.builds(Done, status=st.sampled_from(["success", "failure", "infeasible"])),
)
_NO_TIMES = {"wait": {"ms"}, "long_press": {"ms"}}
LOSSY = {  # what each language leaves out of what it says; everything else comes back as it was
    "openai-computer": {"wait": {"ms"}},
    "miniwob": {"scroll": {"dy"}},
    "fara": {"scroll": {"x", "y", "dy"}},
    "gelab-zero": {"long_press": {"ms"}},
    "mai-ui": {**_NO_TIMES, "swipe": {"x2", "y2"}},
    "ui-venus-1.5": _NO_TIMES,
    "ui-venus-2": _NO_TIMES,
}


@pytest.mark.parametrize("name", OTHERS)
@settings(deadline=None, max_examples=100)
@given(action=anything)
def test_what_a_language_can_say_comes_back(name: str, action: Action) -> None:
    dialect = find_dialect(name)
    try:
        said = dialect.render([action], SIZE)
    except DialectError:
        return
    read, *end = dialect.parse(said, SIZE)
    assert not end or (name, action.type, end) == ("gelab-zero", "answer", [Done()])
    lost = LOSSY.get(name, {}).get(action.type, set())
    before, after = (one.model_dump(mode="json", exclude=lost) for one in (action, read))
    assert alike(before, after, max(dialect.space.drift(SIZE))), said


def test_miniwobs_package_has_the_action_types_and_we_have_its_keys() -> None:
    dialect = find_dialect("miniwob")
    types = {str(kind.value) for kind in ActionTypes}
    by_place = types - {kind.value for kind in ELEMENT_ACTIONS | FIELD_ACTIONS}
    assert {name for name in types if name in dialect.system} == by_place
    for key in DEFAULT_ALLOWED_KEYS:
        (chord,) = dialect.parse(json.dumps({"action_type": "PRESS_KEY", "key": key}), SIZE)
        said = json.loads(dialect.render([chord], SIZE))["key"]
        assert said == key or "Numpad" in key  # a key of the number pad and its twin are one key here
        assert said in ALL_POSSIBLE_KEYS


@settings(deadline=None, max_examples=50)
@given(actions=st.lists(anything, min_size=2, max_size=5))
def test_several_come_back_in_order_as_plain_json(actions: list[Action]) -> None:
    dialect = find_dialect("json")
    assert dialect.parse(dialect.render(actions, SIZE), SIZE) == actions


PIECES = [
    *('{"action', '": "', "left_click", '"', "}", "{", "[", "]", ",", ":", "coordinate", "[1, 2]", "null"),
    *(
        "pyautogui.click(",
        "1, 2)",
        "\n",
        "```json\n",
        "```",
        "mouse_click(",
        "'",
        "\\",
        "\0",
        "\ud800",
        "1e999",
    ),
    *(
        '{"action_type": "CLICK", ',
        '"x": 1, "y": ',
        '"type": "click"',
        "<tool_call>",
        "<function=computer_use>",
    ),
    *(
        "<parameter=action>",
        "</parameter>",
        "</function>",
        "</tool_call>",
        "DONE",
        "-",
        "import os",
        "\u2028",
    ),
]
hostile: st.SearchStrategy[Any] = st.one_of(
    st.text(max_size=200), st.lists(st.sampled_from(PIECES), max_size=30).map("".join)
)


@pytest.mark.parametrize("name", DIALECTS)
@settings(deadline=None, max_examples=60)
@given(text=hostile)
def test_any_text_is_actions_or_a_dialect_error(name: str, text: str) -> None:
    try:
        actions = find_dialect(name).parse(text, SIZE)
    except DialectError:
        return
    assert actions
