"""Every action on a real page: the events that the page gets, and those it must not get."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from devices.drivers.browser import page as driver_page
from guiagent.actions import (
    Action,
    Answer,
    Click,
    Drag,
    KeyChord,
    KeyDown,
    KeyUp,
    LongPress,
    MouseDown,
    MouseUp,
    Move,
    Open,
    Pinch,
    PressButton,
    Scroll,
    Swipe,
    Type,
    Wait,
)
from guiagent.protocols import Device
from guiagent.types import ObserveSpec
from tests.support.browser_pages import (
    BLIND,
    FULL,
    MODES,
    PNG,
    RECORDER,
    REPAINTING,
    SHELL,
    act,
    ask,
    asking,
    document,
    recorded,
    running,
)

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
_CANVAS = """<canvas style='position:absolute;left:200px'></canvas>
<script>document.querySelector('canvas').getContext('2d').fillRect(0, 0, 99, 99)</script>"""
CORNER = "<style>select, input { position:absolute; left:0; top:0; width:100px; height:30px }</style>"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def device() -> AsyncIterator[Device]:
    async with running() as started:
        yield started


async def test_a_click_is_where_it_should_be_and_nothing_else(device: Device) -> None:
    log = await recorded(device, Click(x=123, y=45))
    assert [event["type"] for event in log] == ["mousemove", "mousedown", "mouseup", "click"]
    assert all((event["x"], event["y"], event["button"]) == (123, 45, 0) for event in log)


@pytest.mark.parametrize(("button", "number"), [("left", 0), ("middle", 1), ("right", 2)])
async def test_buttons(device: Device, button: Any, number: int) -> None:
    log = await recorded(device, Click(x=99, y=99, button=button))
    assert {event["button"] for event in log if event["type"] in ("mousedown", "mouseup")} == {number}
    assert {"left": "click", "middle": "auxclick", "right": "contextmenu"}[button] in [e["type"] for e in log]


async def test_modifiers_are_held_during_the_click_only(device: Device) -> None:
    log = await recorded(device, Click(x=99, y=99, modifiers=("Shift", "Control")), Click(x=99, y=99))
    first, second = [event for event in log if event["type"] == "click"]
    assert (first["shift"], first["control"], first["alt"]) == (True, True, False)
    assert (second["shift"], second["control"]) == (False, False)


async def test_double_and_triple_clicks(device: Device) -> None:
    log = await recorded(device, Click(x=99, y=99, count=2))
    assert [event["detail"] for event in log if event["type"] == "click"] == [1, 2]
    assert log[-1]["type"] == "dblclick"
    await act(device, Click(x=20, y=20), Type(text="three words here"), Click(x=20, y=20, count=3))
    assert await ask(device, "getSelection().toString()") == "three words here"


async def test_a_drag_moves_with_the_button_down(device: Device) -> None:
    log = await recorded(device, Drag(path=((50, 60), (80, 90), (110, 120))))
    heard = [(event["type"], event["x"], event["buttons"]) for event in log]
    assert heard[:5] == [
        ("mousemove", 50, 0),
        ("mousedown", 50, 1),
        ("mousemove", 80, 1),
        ("mousemove", 110, 1),
        ("mouseup", 110, 0),
    ]


@pytest.mark.parametrize(
    "actions",
    [
        [Drag(path=((30, 30), (130, 30)))],
        [Drag(path=((30, 30), (60, 40), (90, 60), (120, 40), (130, 30)))],
        [MouseDown(x=30, y=30), Move(x=60, y=30), Move(x=130, y=30), MouseUp(x=130, y=30)],
    ],
)
async def test_what_a_page_lets_drag_can_be_dropped(device: Device, actions: Sequence[Action]) -> None:
    html = """<style>div { position:absolute; top:10px; width:50px; height:50px; background:gray }</style>
    <div draggable=true ondragstart="event.dataTransfer.setData('text/plain', 'parcel')"></div>
    <div style='left:110px' ondragover='event.preventDefault()'
      ondrop="document.title = event.dataTransfer.getData('text/plain')"></div>"""
    await device.reset(0, document(html), BLIND)
    assert (await act(device, *actions)).title == "parcel"
    await act(device, Click(x=30, y=30))  # the mouse is a mouse again
    assert await ask(device, "document.title") == "parcel"


async def test_what_is_dragged_goes_with_its_page(device: Device) -> None:
    html = "<div draggable=true style='width:99px; height:99px; background:gray'></div>"
    await device.reset(0, document(html), BLIND)
    await act(device, MouseDown(x=30, y=30), Move(x=60, y=60), Open(target=document(RECORDER).url))
    await ask(device, "log.splice(0)")
    await act(device, Click(x=99, y=99))
    assert [e["type"] for e in await ask(device, "log")] == ["mousemove", "mousedown", "mouseup", "click"]


@pytest.mark.parametrize("mode", ["frames", SHELL, FULL])
async def test_input_right_after_a_reset_is_heard(mode: str) -> None:
    async with running(**MODES[mode]) as device:
        for number in range(50):
            await device.reset(number, document(REPAINTING), BLIND)  # no frame of it was asked for
            observation = await device.act([Click(x=99, y=99), Click(x=99, y=99)], asking(clicks="clicks"))
            assert observation.probes["clicks"] == 2


async def test_a_drag_can_be_done_by_hand(device: Device) -> None:
    log = await recorded(device, MouseDown(x=50, y=60), Move(x=80, y=90), MouseUp(x=80, y=90), Move(x=9, y=9))
    heard = [(e["type"], e["x"], e["buttons"]) for e in log if e["type"] != "click"]
    assert heard == [("mousedown", 50, 1), ("mousemove", 80, 1), ("mouseup", 80, 0), ("mousemove", 9, 0)]


async def test_a_key_held_down_modifies_what_follows(device: Device) -> None:
    log = await recorded(
        device, KeyDown(key="Shift"), Click(x=99, y=99), KeyUp(key="Shift"), Click(x=99, y=99)
    )
    assert [event["shift"] for event in log if event["type"] == "click"] == [True, False]


async def test_scrolling_down_moves_the_content_up(device: Device) -> None:
    await device.reset(0, document(RECORDER), PNG)
    await act(device, Scroll(x=100, y=100, dy=300))
    assert await ask(device, "scrollY") == 300
    await act(device, Scroll(x=100, y=100, dy=-100))
    assert await ask(device, "scrollY") == 200


async def test_a_scroll_beside_a_drawn_canvas_holds_nothing_up(device: Device) -> None:
    """A page whose canvas has been painted, and a part that scrolls by itself: the next frames come."""
    await device.reset(
        0, document(_CANVAS + "<div style='width:150px;height:100px;overflow:scroll'>" + "word " * 900), PNG
    )
    await act(device, Scroll(x=70, y=60, dy=100))
    assert await ask(device, "document.querySelector('div').scrollTop") == 100
    assert (await device.observe(PNG)).frame


@pytest.mark.parametrize(
    ("start", "actions", "value"),
    [
        ("", [Type(text="Hello, World! 100% ~ok")], "Hello, World! 100% ~ok"),
        ("", [Type(text="żółć 汉字 😀")], "żółć 汉字 😀"),
        ("old", [Type(text="er")], "older"),
        ("old", [Type(text="new", clear=True)], "new"),
        ("old", [Type(text="", clear=True)], ""),
        ("abc", [KeyChord(keys=("ArrowLeft",)), KeyChord(keys=("Backspace",))], "ac"),
        ("abc", [KeyChord(keys=("Home",)), KeyChord(keys=("Delete",))], "bc"),
        ("abc", [KeyChord(keys=("Control", "a")), KeyChord(keys=("x",))], "x"),
        ("ab", [KeyChord(keys=("Control", k)) for k in "acvv"], "abab"),
        ("ab", [KeyChord(keys=("Shift", "c")), KeyChord(keys=("Shift", "1"))], "abC!"),
        ("abc", [KeyChord(keys=("Shift", "ArrowLeft")), KeyChord(keys=("Delete",))], "ab"),
        ("", [KeyDown(key="Shift"), Type(text="a"), KeyUp(key="Shift"), Type(text="a")], "Aa"),
        ("", [Type(text="a" * 1000)], "a" * 1000),
    ],
)
async def test_typing(device: Device, start: str, actions: Sequence[Action], value: str) -> None:
    await device.reset(0, document(RECORDER), BLIND)
    await ask(device, f"field.value = {start!r}, field.focus(), field.setSelectionRange(99, 99)")
    observation = await device.act(actions, asking(value="field.value"))
    assert observation.probes["value"] == value
    assert observation.action_error is None


async def test_newlines_tabs_and_submit_are_keys(device: Device) -> None:
    html = """<form onsubmit="sent = a.value + '|' + b.value; return false">
    <textarea id=a autofocus></textarea><input id=b><input type=submit></form>"""
    await device.reset(0, document(html), BLIND)
    await ask(device, "a.focus()")
    await act(device, Type(text="one\r\ntwo\tthree", submit=True))
    assert await ask(device, "sent") == "one\ntwo|three"


async def test_keys_have_their_names_and_codes(device: Device) -> None:
    log = await recorded(device, KeyChord(keys=("Control", "Shift", "k")), PressButton(button="enter"))
    assert [(event["type"], event["key"], event["code"]) for event in log] == [
        ("keydown", "Control", "ControlLeft"),
        ("keydown", "Shift", "ShiftLeft"),
        ("keydown", "K", "KeyK"),
        ("keyup", "K", "KeyK"),
        ("keyup", "Shift", "ShiftLeft"),
        ("keyup", "Control", "ControlLeft"),
        ("keydown", "Enter", "Enter"),
        ("keyup", "Enter", "Enter"),
    ]


async def test_a_long_press_lasts(device: Device) -> None:
    await device.reset(
        0, document("<script>onmousedown = onmouseup = e => { window[e.type] = e.timeStamp }</script>"), BLIND
    )
    await act(device, LongPress(x=99, y=99, ms=300))
    assert await ask(device, "mouseup - mousedown") >= 250


async def test_words_to_the_user_move_nothing(device: Device) -> None:
    assert await recorded(device, Answer(text="42")) == []


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (Pinch(x=5, y=5, scale=2.0), "no 'pinch' action"),
        (Swipe(x1=5, y1=5, x2=50, y2=50), "no 'swipe' action"),
        (PressButton(button="home"), "no 'press_button' action"),
        (KeyChord(keys=("Hyper",)), "no key named 'Hyper'"),
        (PressButton(button="forward"), "no page to go forward to"),
    ],
)
async def test_what_cannot_be_done_says_so_and_ends_the_batch(
    device: Device, action: Action, error: str
) -> None:
    await device.reset(0, document(RECORDER), BLIND)
    await ask(device, "log.splice(0)")
    observation = await device.act([action, Type(text="x"), Click(x=9, y=9)], asking(log="log"))
    assert error in (observation.action_error or "")
    assert observation.probes["log"] == []
    assert (await device.act([], BLIND)).action_error is None


async def test_a_dropdown_is_on_the_screen_and_can_be_clicked(device: Device) -> None:
    html = CORNER + "<select id=s style='appearance:none'><option>red<option>green<option>blue"
    closed = await device.reset(0, document(html), PNG)
    opened = await act(device, Click(x=50, y=15), spec=ObserveSpec(tree=True))
    assert opened.hash != closed.hash
    assert opened.tree is not None
    (blue,) = [node for node in opened.tree if node.name == "blue"]
    left, top, width, height = blue.box
    await act(device, Click(x=left + width // 2, y=top + height // 2))
    assert await ask(device, "s.value") == "blue"


@pytest.mark.parametrize("kind", ["date", "time", "color", "datetime-local"])
async def test_pickers_do_not_hold_the_browser(device: Device, kind: str) -> None:
    await device.reset(0, document(f"{CORNER}<input type={kind}>"), PNG)
    observation = await act(device, Click(x=88, y=15), Click(x=20, y=15), spec=PNG)
    assert observation.action_error is None


async def test_a_popup_that_gets_through_is_closed(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_page, "_POPUP_S", 0.3)
    inner = CORNER + "<select><option>a<option>b</select>"
    html = f'<div id=host></div><script>host.attachShadow({{mode: "open"}}).innerHTML = "{inner}"</script>'
    await device.reset(0, document(html), PNG)
    for _ in range(2):  # the second popup as well: the first one is out of the way
        seen = [await act(device, Click(x=50, y=15), spec=PNG)]
        while seen[-1].action_error is None and len(seen) < 50:  # it may come up after the click's own step
            seen.append(await act(device, Wait(ms=100), spec=PNG))
        assert seen[-1].action_error == "a popup that cannot be shown was closed"
        assert all(observation.frame for observation in seen)


@pytest.mark.parametrize(
    ("call", "answer"), [("alert('hey')", None), ("confirm('hey')", False), ("prompt('hey', 'x')", None)]
)
async def test_dialogs_are_dismissed_and_noted(device: Device, call: str, answer: object) -> None:
    await device.reset(
        0, document(f"<script>onclick = () => {{ answer = {call}; done = true }}</script>"), PNG
    )
    observation = await device.act([Click(x=9, y=9)], asking(done="done", answer="answer"))
    assert observation.action_error == f"the page showed a dialog ({call.partition('(')[0]}): 'hey'"
    assert observation.probes == {"done": True, "answer": answer}
    assert (await act(device, Move(x=5, y=5))).action_error is None


async def test_a_page_that_wants_to_be_kept_can_be_left(device: Device) -> None:
    await device.reset(
        0, document("<input autofocus><script>onbeforeunload = e => e.preventDefault()</script>"), PNG
    )
    observation = await act(device, Click(x=20, y=15), Type(text="x"), Open(target="about:blank"))
    assert (observation.url, observation.action_error) == ("about:blank", None)
