"""Qwen's tools: golden calls, there and back, coordinates, and only `DialectError` for hostile text."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guiagent.actions import (
    Action,
    Answer,
    Click,
    Done,
    Drag,
    KeyChord,
    LongPress,
    Move,
    Open,
    Pinch,
    PressButton,
    Scroll,
    Swipe,
    Type,
    Wait,
)
from guiagent.dialects import Dialect, find_dialect
from guiagent.dialects.language import MAX_ACTIONS, MAX_CHARS
from guiagent.errors import DialectError, UsageError

FULL_HD = (1920, 1080)  # shown as 1932x1092 by Qwen2.5-VL
PHONE = (1080, 2400)
COMPUTER, MOBILE = find_dialect("qwen3-computer"), find_dialect("qwen3-mobile")
OLD_COMPUTER, OLD_MOBILE = find_dialect("qwen2.5-computer"), find_dialect("qwen2.5-mobile")


def call(tool: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': tool, 'arguments': arguments})}\n</tool_call>"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"action": "left_click", "coordinate": [999, 0]}, Click(x=1919, y=0)),
        ({"action": "left_click", "coordinate": [500, 500]}, Click(x=961, y=541)),
        ({"action": "left_click", "coordinate": [490, 490, 510, 510]}, Click(x=961, y=541)),
        ({"action": "right_click", "coordinate": [0, 999]}, Click(x=0, y=1079, button="right")),
        ({"action": "middle_click", "coordinate": [0, 0]}, Click(x=0, y=0, button="middle")),
        ({"action": "double_click", "coordinate": [0, 0]}, Click(x=0, y=0, count=2)),
        ({"action": "triple_click", "coordinate": [0, 0]}, Click(x=0, y=0, count=3)),
        ({"action": "mouse_move", "coordinate": [-7, 5000]}, Move(x=0, y=1079)),
        (
            {"action": "left_click_drag", "start_coordinate": [0, 0], "coordinate": [999, 999]},
            Drag(path=((0, 0), (1919, 1079))),
        ),
        ({"action": "scroll", "pixels": -300}, Scroll(x=960, y=540, dy=300)),
        ({"action": "scroll", "pixels": 5, "coordinate": [0, 0]}, Scroll(x=0, y=0, dy=-5)),
        ({"action": "hscroll", "pixels": 40}, Scroll(x=960, y=540, dx=40)),
        ({"action": "key", "keys": ["ctrl", "C"]}, KeyChord(keys=("Control", "C"))),
        ({"action": "key", "keys": ["Return"]}, KeyChord(keys=("Enter",))),
        ({"action": "type", "text": "a\nb\n"}, Type(text="a\nb", submit=True)),
        ({"action": "type", "text": "x", "coordinate": [1, 2]}, Type(text="x")),
        ({"action": "wait", "time": 2}, Wait(ms=2000)),
        ({"action": "wait", "time": 1e9}, Wait(ms=60_000)),
        ({"action": "answer", "text": "42"}, Answer(text="42")),
        ({"action": "terminate", "status": "failure"}, Done(status="failure")),
    ],
)
def test_calls_of_the_computer(arguments: dict[str, Any], expected: Action) -> None:
    assert COMPUTER.parse(f"I look around.\n{call('computer_use', **arguments)}", FULL_HD) == [expected]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"action": "click", "coordinate": [999, 999]}, Click(x=1079, y=2399)),
        ({"action": "long_press", "coordinate": [0, 0], "time": 2}, LongPress(x=0, y=0, ms=2000)),
        ({"action": "long_press", "coordinate": [0, 0]}, LongPress(x=0, y=0)),
        (
            {"action": "swipe", "coordinate": [0, 999], "coordinate2": [0, 0]},
            Swipe(x1=0, y1=2399, x2=0, y2=0),
        ),
        ({"action": "system_button", "button": "Back"}, PressButton(button="back")),
        ({"action": "key", "text": "volume_up"}, PressButton(button="volume_up")),
        ({"action": "open", "text": "Clock"}, Open(target="Clock")),
    ],
)
def test_calls_of_the_phone(arguments: dict[str, Any], expected: Action) -> None:
    assert MOBILE.parse(call("mobile_use", **arguments), PHONE) == [expected]


def test_the_older_generation_counts_in_pixels_of_the_resized_picture() -> None:
    text = call("computer_use", action="left_click", coordinate=[966, 546])
    assert OLD_COMPUTER.parse(text, FULL_HD) == [Click(x=960, y=540)]
    assert OLD_COMPUTER.render([Click(x=960, y=540)], FULL_HD) == text
    assert "999x999" in COMPUTER.system and "999x999" not in OLD_COMPUTER.system


def test_several_calls_come_in_order_and_the_last_may_lack_its_end() -> None:
    both = call("mobile_use", action="wait") + "\n" + call("mobile_use", action="open", text="Clock")
    assert MOBILE.parse(both.removesuffix("</tool_call>"), PHONE) == [Wait(), Open(target="Clock")]


def test_the_system_turn_names_every_action_and_argument() -> None:
    for dialect in (COMPUTER, MOBILE):
        signature = json.loads(dialect.system.partition("<tools>\n")[2].partition("\n</tools>")[0])
        parameters = signature["function"]["parameters"]
        assert signature["function"]["name"] == dialect.name
        described = parameters["properties"]["action"]["description"].splitlines()
        assert [line.partition("(")[0] for line in described] == parameters["properties"]["action"]["enum"]
    assert find_dialect("ui-tars").system == ""


xs, ys = st.integers(0, FULL_HD[0] - 1), st.integers(0, FULL_HD[1] - 1)
words = st.text(st.characters(codec="utf-8"), max_size=60)
keys = st.sampled_from(["Control", "a", " ", "F5"])
clicks = st.builds(Click, x=xs, y=ys, count=st.sampled_from([1, 2, 3]))
shared: list[st.SearchStrategy[Action]] = [
    st.builds(Type, text=words.filter(lambda t: not t.endswith("\n"))),
    st.builds(Type, text=words, submit=st.just(True)),
    st.builds(Wait, ms=st.integers(0, 60_000)),
    st.builds(Answer, text=words),
    st.builds(Done, status=st.sampled_from(["success", "failure"])),
]
on_computers: st.SearchStrategy[Action] = st.one_of(
    *shared,
    clicks,
    st.builds(Click, x=xs, y=ys, button=st.sampled_from(["right", "middle"])),
    st.builds(Move, x=xs, y=ys),
    st.builds(Drag, path=st.tuples(st.tuples(xs, ys), st.tuples(xs, ys))),
    st.builds(Scroll, x=xs, y=ys, dy=st.integers(-10_000, 10_000)),
    st.builds(Scroll, x=xs, y=ys, dx=st.integers(1, 10_000)),
    st.builds(KeyChord, keys=st.lists(keys, min_size=1, max_size=5).map(tuple)),
)
on_phones: st.SearchStrategy[Action] = st.one_of(
    *shared,
    st.builds(Click, x=xs, y=ys),
    st.builds(LongPress, x=xs, y=ys, ms=st.integers(0, 60_000)),
    st.builds(Swipe, x1=xs, y1=ys, x2=xs, y2=ys),
    st.builds(Open, target=words.filter(bool)),
    st.builds(PressButton, button=st.sampled_from(["back", "home", "menu", "enter", "power"])),
)


@given(st.lists(on_computers, min_size=1, max_size=6))
def test_what_the_computer_can_say_comes_back(actions: list[Action]) -> None:
    assert OLD_COMPUTER.parse(OLD_COMPUTER.render(actions, FULL_HD), FULL_HD) == actions


@given(st.lists(on_phones, min_size=1, max_size=6))
def test_what_the_phone_can_say_comes_back(actions: list[Action]) -> None:
    assert OLD_MOBILE.parse(OLD_MOBILE.render(actions, FULL_HD), FULL_HD) == actions


@given(xs, ys)
def test_a_click_in_thousandths_comes_back_within_a_pixel(x: int, y: int) -> None:
    (click,) = COMPUTER.parse(COMPUTER.render([Click(x=x, y=y)], FULL_HD), FULL_HD)
    assert isinstance(click, Click)
    assert abs(click.x - x) <= 1920 / 2000 + 0.5 and abs(click.y - y) <= 1080 / 2000 + 0.5


@pytest.mark.parametrize(
    ("dialect", "action"),
    [
        (COMPUTER, LongPress(x=1, y=2)),
        (COMPUTER, Swipe(x1=1, y1=2, x2=3, y2=4)),
        (COMPUTER, PressButton(button="home")),
        (COMPUTER, PressButton(button="power")),
        (COMPUTER, Open(target="Clock")),
        (COMPUTER, Click(x=1, y=2, modifiers=("Control",))),
        (COMPUTER, Scroll(x=1, y=2, dx=3, dy=4)),
        (COMPUTER, KeyChord(keys=("ContextMenu",))),
        (COMPUTER, Type(text="a", clear=True)),
        (COMPUTER, Type(text="a\n")),
        (COMPUTER, Done(status="infeasible")),
        (MOBILE, Click(x=1, y=2, count=2)),
        (MOBILE, Move(x=1, y=2)),
        (MOBILE, KeyChord(keys=("a",))),
        (MOBILE, PressButton(button="recents")),
        (MOBILE, Pinch(x=1, y=2, scale=2)),
    ],
)
def test_what_it_cannot_say_is_refused_and_not_bent(dialect: Dialect, action: Action) -> None:
    with pytest.raises(DialectError, match="no word"):
        dialect.render([action], FULL_HD)


def test_saying_nothing_is_refused() -> None:
    with pytest.raises(DialectError):
        COMPUTER.render([], FULL_HD)


HOSTILE = [
    "",
    "click(start_box='(1,2)')",
    "<tool_call>",
    "<tool_call></tool_call>",
    "<tool_call>null</tool_call>",
    "<tool_call>[]</tool_call>",
    '<tool_call>{"name": "computer_use"}</tool_call>',
    '<tool_call>{"name": "computer_use", "arguments": "wait"}</tool_call>',
    '<tool_call>{"name": "computer_use", "arguments": {}}</tool_call>',
    "<tool_call>__import__('os').system('id')</tool_call>",
    "<tool_call>" + "[" * 15_000 + "</tool_call>",
    "<tool_call>" + '{"a":' * 3_000 + "</tool_call>",
    "<tool_call>" * 1000,
    "\ud800<tool_call>\ud800</tool_call>",
    "x" * (MAX_CHARS + 1),
    call("computer_use", action="wait") * (MAX_ACTIONS + 1),
    call("shell", action="wait"),
    call("mobile_use", action="click", coordinate=[1, 2]),
    call("computer_use", action="rm"),
    call("computer_use", action="left_click"),
    call("computer_use", action="left_click", coordinate=[1]),
    call("computer_use", action="left_click", coordinate=[1, 2, 3]),
    call("computer_use", action="left_click", coordinate=[1, 2, 3, 4, 5]),
    call("computer_use", action="left_click", coordinate=["1", "2"]),
    call("computer_use", action="left_click", coordinate={"x": 1, "y": 2}),
    '<tool_call>{"name":"computer_use","arguments":{"action":"left_click","coordinate":[1e999,0]}}</tool_call>',
    '<tool_call>{"name":"computer_use","arguments":{"action":"left_click","coordinate":[NaN,0]}}</tool_call>',
    call("computer_use", action="left_click", coordinate=[1e300, 0]),
    call("computer_use", action="left_click_drag", coordinate=[1, 2]),
    call("computer_use", action="key"),
    call("computer_use", action="key", keys=[]),
    call("computer_use", action="key", keys=["a"] * 6),
    call("computer_use", action="key", keys=["hyperspace"]),
    call("computer_use", action="key", keys="ctrl"),
    call("computer_use", action="type"),
    call("computer_use", action="type", text=7),
    call("computer_use", action="type", text="a" * 4097),
    call("computer_use", action="scroll"),
    call("computer_use", action="wait", time=-1),
    call("computer_use", action="wait", time="1"),
    call("computer_use", action="terminate"),
    call("computer_use", action="terminate", status="infeasible"),
    call("computer_use", action="type", text="</tool_call>"),
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(DialectError) as caught:
        COMPUTER.parse(text, FULL_HD)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


pieces = st.lists(
    st.sampled_from([*'{}[]":,01e-', "<tool_call>", "</tool_call>", '"name"', '"arguments"', "computer_use"]),
    max_size=40,
).map("".join)


@given(st.one_of(st.text(), pieces, pieces.map("<tool_call>{}".format)))
def test_any_text_is_either_actions_or_a_dialect_error(text: str) -> None:
    try:
        actions = COMPUTER.parse(text, FULL_HD)
    except DialectError:
        return
    assert actions


def test_an_unknown_dialect_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="qwen3-mobile"):
        find_dialect("esperanto")
