"""The pure parts of the android driver: actions to commands, dumps to trees, raw pictures, ports."""

import os
import struct
import subprocess
import tempfile
from pathlib import Path

import pytest

from devices.drivers import UnsupportedAction
from devices.drivers.android import actions, emulator, frames, tree
from guiagent.actions import (
    Action,
    Click,
    Drag,
    KeyChord,
    LongPress,
    Move,
    Pinch,
    PressButton,
    Scroll,
    Swipe,
    Type,
)
from guiagent.errors import FaultError, InfrastructureError
from guiagent.types import Node
from guiagent.uiautomator import TreeError
from tests.support import android_sdk


def lines(given: Action, *, unicode: bool = True) -> list[str]:
    return [" ".join(words) for words in actions.commands(given, 1000, 2000, unicode=unicode)]


def test_actions_become_the_commands_of_androids_shell() -> None:
    assert lines(Click(x=1, y=2, count=2)) == ["input tap 1 2"] * 2
    assert lines(LongPress(x=1, y=2, ms=700)) == ["input swipe 1 2 1 2 700"]
    assert lines(Swipe(x1=1, y1=2, x2=3, y2=4)) == ["input swipe 1 2 3 4 300"]
    assert lines(Drag(path=((1, 2), (3, 4)))) == ["input draganddrop 1 2 3 4 500"]
    assert lines(PressButton(button="recents")) == ["input keyevent KEYCODE_APP_SWITCH"]
    assert lines(KeyChord(keys=("Control", "a"))) == ["input keycombination KEYCODE_CTRL_LEFT KEYCODE_A"]
    assert lines(KeyChord(keys=("A",))) == ["input keycombination KEYCODE_SHIFT_LEFT KEYCODE_A"]
    assert lines(Type(text="50%s a\nb", clear=True, submit=True)) == [
        "input keycombination KEYCODE_CTRL_LEFT KEYCODE_A",
        "input keyevent KEYCODE_DEL",
        "input text 50%",
        "input text s%sa",
        "input keyevent KEYCODE_ENTER",
        "input text b",
        "input keyevent KEYCODE_ENTER",
    ]


@pytest.mark.parametrize("dy", [-9000, -300, 300, 1500, 9000])
def test_scrolling_moves_a_finger_the_other_way_inside_the_screen(dy: int) -> None:
    way = 0
    for line in lines(Scroll(x=990, y=5, dy=dy)):
        x1, y1, x2, y2, _ = map(int, line.split()[2:])
        assert 0 < x1 == x2 < 1000
        assert 0 < y1 < 2000 and 0 < y2 < 2000
        way += y1 - y2
    assert abs(way - dy) <= 20
    assert lines(Scroll(x=1, y=1)) == []


@pytest.mark.parametrize(
    "given",
    [
        Click(x=1, y=1, button="right"),
        Click(x=1, y=1, modifiers=("Shift",)),
        Drag(path=((1, 1), (2, 2), (3, 3))),
        Move(x=1, y=1),
        Pinch(x=1, y=1, scale=2),
        KeyChord(keys=("a", "b")),
        KeyChord(keys=("Nonsense",)),
        PressButton(button="forward"),
    ],
)
def test_what_a_phone_cannot_do_is_said(given: Action) -> None:
    with pytest.raises(UnsupportedAction):
        lines(given)


def test_text_of_other_scripts_needs_a_phone_that_types_it() -> None:
    assert lines(Type(text="ä")) == ["input text ä"]
    with pytest.raises(UnsupportedAction, match="ADBKeyboard"):
        lines(Type(text="ä"), unicode=False)


@pytest.mark.parametrize(
    "hostile", ["; reboot", "$(reboot)", "`reboot`", "'", '"', "a\\", "-p", "|cat", "\n;x"]
)
def test_no_text_ends_an_argument(hostile: str) -> None:
    script = actions.script([("input", "text", hostile)])
    answer = subprocess.run(
        ["/bin/sh", "-c", f'input() {{ printf %s "$2" >&2; }}; {script}'], capture_output=True
    )
    assert answer.stderr.decode() == hostile


def test_an_app_is_found_by_package_label_or_common_name() -> None:
    installed = [
        "com.android.settings",
        "com.google.android.deskclock",
        "org.example.notes",
        "org.other.notes",
    ]
    find = actions.package_of
    assert find("org.example.notes", installed, {}) == "org.example.notes"
    assert find("Clock", installed, {}) == "com.google.android.deskclock"
    assert find("my notes", installed, {"org.other.notes": "My Notes"}) == "org.other.notes"
    assert find("notes", installed, {}) is None  # two are called so
    assert find("Nonsense", installed, {}) is None
    for url in ("file:///etc/passwd", "content://sms", "intent:#Intent;end", "javascript:1"):
        with pytest.raises(UnsupportedAction, match="refused"):
            actions.open_url(url)


def dump(inner: str) -> bytes:
    return f"<?xml version='1.0'?><hierarchy>{inner}</hierarchy>UI hierchary dumped to: x".encode()


def test_a_dump_becomes_nodes_with_boxes_on_the_screen() -> None:
    inner = (
        '<node class="a.b.FrameLayout" bounds="[0,0][100,200]">'
        '<node class="a.Button" text="OK" clickable="true" bounds="[-10,20][50,60]">'
        '<node class="a.ImageView" content-desc="in" bounds="[0,20][10,30]"/></node>'
        '<node class="a.EditText" text="v" content-desc="n" focused="true" enabled="false" '
        'bounds="[90,190][300,300]"/>'
        '<node class="a.Text" text="gone" bounds="[100,0][200,50]"/></node>'
    )
    assert tree.parse(dump(inner), 100, 200) == [
        Node("button", "OK", (0, 20, 50, 40), "0", states=("clickable",)),
        Node("image", "in", (0, 20, 10, 10), "1", "0"),
        Node("textbox", "n", (90, 190, 10, 10), "2", value="v", states=("disabled", "focused")),
    ]


@pytest.mark.parametrize(
    "xml",
    [
        b"",
        b"ERROR: null root node returned by UiTestAutomationBridge.",
        dump(""),
        dump("<node"),
        b"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b 'bbbb'>]><hierarchy>&b;</hierarchy>",
    ],
)
def test_what_is_no_tree_is_never_an_empty_one(xml: bytes) -> None:
    with pytest.raises(TreeError):
        tree.parse(xml, 100, 100)


def test_a_deep_or_wide_dump_is_bounded() -> None:
    one = '<node class="a.T" text="x" bounds="[0,0][9,9]">'
    assert len(tree.parse(dump((one + "</node>") * 5000), 10, 10)) == 1000
    assert len(tree.parse(dump(one * 3000 + "</node>" * 3000), 10, 10)) < 1000


def test_raw_pictures_are_read_in_both_forms_and_nothing_else() -> None:
    pixels = bytes([255, 0, 0, 255]) * 6
    for header in (struct.pack("<3I", 3, 2, 1), struct.pack("<4I", 3, 2, 1, 1)):
        picture = frames.parse(header + pixels)
        assert (picture.size, picture.getpixel((0, 0))) == ((3, 2), (255, 0, 0))
    for broken in (
        b"",
        b"\x89PNG\r\n\x1a\n" + bytes(100),
        struct.pack("<3I", 0xFFFFFFFF, 0xFFFFFFFF, 1) + pixels,
        struct.pack("<3I", 16000, 16000, 1) + pixels,
        struct.pack("<3I", 3, 2, 4) + pixels,
        struct.pack("<3I", 3, 2, 1) + pixels[:-1],
    ):
        with pytest.raises(FaultError, match="no picture"):
            frames.parse(broken)


def test_emulator_ports_are_pairs_that_are_free_and_not_given_twice() -> None:
    first, second = emulator.reserve_ports(), emulator.reserve_ports()
    try:
        assert first % 2 == second % 2 == 0
        assert first != second
    finally:
        emulator._reserved.difference_update((first, second))


def test_an_emulator_without_a_port_leaves_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sdk").mkdir()
    for name, value in android_sdk.install(tmp_path / "sdk").items():
        monkeypatch.setenv(name, value)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(emulator, "_reserved", set(range(emulator._FIRST_PORT, emulator._LAST_PORT + 1)))
    with pytest.raises(InfrastructureError, match="all ports for emulators"):
        emulator.Emulator.launch("Tiny")
    assert not os.listdir(tmp_path / "temporary")
