"""The languages of APIs and benchmarks, and the XML form: golden replies, there and back, hostile text."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    Zoom,
)
from guiagent.dialects import DIALECTS, OTHERS, find_dialect
from guiagent.errors import DialectError

SIZE = (1000, 700)
UHD = (3840, 2160)  # which Anthropic's API shows as 1429x804
GOLDEN: list[tuple[str, str, list[Action]]] = [
    ("openai-computer", '{"type":"click","x":10,"y":20}', [Click(x=10, y=20)]),
    (
        "openai-computer",
        '{"type":"computer_call","actions":[{"type":"click","button":"wheel","x":1,"y":2,"keys":["SHIFT"]},'
        '{"type":"keypress","keys":["CTRL","A"]},{"type":"wait"}]}',
        [
            Click(x=1, y=2, button="middle", modifiers=("Shift",)),
            KeyChord(keys=("Control", "a")),
            Wait(ms=2000),
        ],
    ),
    (
        "openai-computer",
        '{"type":"computer_call","action":{"type":"drag","path":[{"x":1,"y":2},{"x":3,"y":4},{"x":5,"y":6}]}}',
        [Drag(path=((1, 2), (3, 4), (5, 6)))],
    ),
    (
        "openai-computer",
        '[{"type":"scroll","x":5,"y":6,"scroll_x":0,"scroll_y":-300}]',
        [Scroll(x=5, y=6, dy=-300)],
    ),
    ("openai-computer", "The sum is 7.", [Answer(text="The sum is 7."), Done()]),
    ("anthropic-20241022", '{"action":"left_click","coordinate":[10,20]}', [Click(x=10, y=20)]),
    (
        "anthropic-20241022",
        '{"action":"mouse_move","coordinate":[1,2]}{"action":"left_click_drag","coordinate":[9,8]}',
        [Move(x=1, y=2), Drag(path=((1, 2), (9, 8)))],
    ),
    (
        "anthropic-20250124",
        '{"type":"tool_use","id":"t","name":"computer","input":{"action":"scroll","coordinate":[5,6],'
        '"scroll_direction":"down","scroll_amount":3}}',
        [Scroll(x=5, y=6, dy=300)],
    ),
    (
        "anthropic-20250124",
        '{"action":"key","text":"ctrl+shift+t"}',
        [KeyChord(keys=("Control", "Shift", "t"))],
    ),
    (
        "anthropic-20250124",
        '{"action":"hold_key","text":"shift","duration":0.5}',
        [KeyDown(key="Shift"), Wait(ms=500), KeyUp(key="Shift")],
    ),
    ("anthropic-20251124", '{"action":"zoom","region":[0,0,50,60]}', [Zoom(region=(0, 0, 50, 60))]),
    (
        "computer-13",
        '```json\n{"action_type": "CLICK", "x": 3, "y": 4, "button": "right"}\n```',
        [Click(x=3, y=4, button="right")],
    ),
    (
        "computer-13",
        '{"action_type":"MOVE_TO","parameters":{"x":3,"y":4}} '
        '{"action_type":"DRAG_TO","parameters":{"x":9,"y":9}}',
        [Move(x=3, y=4), Drag(path=((3, 4), (9, 9)))],
    ),
    ("computer-13", '{"action_type":"SCROLL","dx":0,"dy":-2}', [Scroll(x=500, y=350, dy=200)]),
    ("computer-13", "FAIL", [Done(status="infeasible")]),
    ("computer-13", "```DONE```", [Done()]),
    (
        "pyautogui",
        "```python\nimport pyautogui\nimport time\npyautogui.click(5, y=6, clicks=2)\ntime.sleep(0.5)\n"
        "pyautogui.write('it\\'s')\npyautogui.hotkey('ctrl', 's')\n```",
        [Click(x=5, y=6, count=2), Wait(ms=500), Type(text="it's"), KeyChord(keys=("Control", "s"))],
    ),
    (
        "pyautogui",
        "pyautogui.mouseDown(1, 2)\npyautogui.mouseUp(3, 4, button='left')",
        [MouseDown(x=1, y=2), MouseUp(x=3, y=4)],
    ),
    ("pyautogui", "WAIT", [Wait(ms=2000)]),
    (
        "androidworld",
        'Reason: it is there.\nAction: {"action_type": "input_text", "text": "a", "x": 5, "y": 6}',
        [Click(x=5, y=6), Type(text="a", submit=True)],
    ),
    ("androidworld", '{"action_type": "scroll", "direction": "down"}', [Scroll(x=500, y=350, dy=350)]),
    (
        "androidworld",
        '{"action_type": "swipe", "direction": "up"}',
        [Swipe(x1=500, y1=699, x2=500, y2=0, ms=500)],
    ),
    ("androidworld", '{"action_type": "long_press", "x": 1, "y": 2}', [LongPress(x=1, y=2)]),
    ("androidworld", '{"action_type": "navigate_back"}', [PressButton(button="back")]),
    ("androidworld", '{"action_type":"status","goal_status":"infeasible"}', [Done(status="infeasible")]),
    ("browsergym", "```mouse_click(5, 6)```", [Click(x=5, y=6)]),
    ("browsergym", "mouse_move(5, 6)\nscroll(0, 200)", [Move(x=5, y=6), Scroll(x=5, y=6, dy=200)]),
    ("browsergym", "keyboard_press('Control+a')", [KeyChord(keys=("Control", "a"))]),
    ("browsergym", "goto('https://example.org')", [Open(target="https://example.org")]),
    ("json", '{"type": "click", "x": 5, "y": 9999}', [Click(x=5, y=699)]),
    (
        "qwen3.5-computer",
        "I click.\n<tool_call>\n<function=computer_use>\n<parameter=action>\nleft_click\n</parameter>\n"
        "<parameter=coordinate>\n[500, 500]\n</parameter>\n</function>\n</tool_call>",
        [Click(x=501, y=350)],
    ),
    (
        "qwen3.5-mobile",
        "<tool_call>\n<function=mobile_use>\n<parameter=action>\ntype\n</parameter>\n<parameter=text>\na\nb\n"
        "</parameter>\n</function>\n</tool_call>",
        [Type(text="a\nb")],
    ),
    ("ui-tars-1.0", "Action: click(start_box='<|box_start|>(500,500)<|box_end|>')", [Click(x=500, y=350)]),
]


@pytest.mark.parametrize(("name", "reply", "expected"), GOLDEN)
def test_golden_replies(name: str, reply: str, expected: list[Action]) -> None:
    assert find_dialect(name).parse(reply, SIZE) == expected


def test_every_new_language_has_golden_replies() -> None:
    new = {*OTHERS, "qwen3.5-computer", "qwen3.5-mobile", "ui-tars-1.0"}
    assert {name for name, _, _ in GOLDEN} == new


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
LOSSY = {  # what each language leaves out of what it says; everything else comes back as it was
    "openai-computer": {"wait": {"ms"}},
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
    (read,) = dialect.parse(said, SIZE)
    lost = LOSSY.get(name, {}).get(action.type, set())
    assert read.model_dump(exclude=lost) == action.model_dump(exclude=lost), said


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
