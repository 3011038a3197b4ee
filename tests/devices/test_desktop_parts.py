"""The pure parts of the desktop driver: settling, keys, input events, drawing and encoding, applications."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from devices.drivers.desktop.applications import applications, command_for, menu
from devices.drivers.desktop.capture import draw, encode
from devices.drivers.desktop.display import Cursor, Event
from devices.drivers.desktop.input import strokes
from devices.drivers.desktop.keys import Keymap, character, chunks, keysym
from devices.drivers.desktop.packages import installed
from devices.drivers.desktop.settle import QUIET_S, Quiet
from guiagent.actions import Click, Drag, Scroll, Swipe, Type

# Keycodes 10 to 14: a A, 1 !, Shift, Control, Return; 15 and 16 are spare.
KEYSYMS = [0x61, 0x41, 0x31, 0x21, 0xFFE1, 0, 0xFFE3, 0, 0xFF0D, 0, 0, 0, 0, 0]


def keymap() -> Keymap:
    return Keymap.read(10, 2, KEYSYMS)


def test_a_screen_is_quiet_a_while_after_the_last_paint() -> None:
    quiet = Quiet(800, 600)
    assert quiet.quiet_at() == float("-inf")
    quiet.paint(10, 10, 5, 5, now=1.0)
    assert quiet.quiet_at() == 1.0 + QUIET_S
    quiet.paint(799, 599, 1, 1, now=1.02)
    assert quiet.quiet_at() == 1.02 + QUIET_S
    assert quiet.quiet_at(0.25) == 1.02 + 0.25


def test_what_plays_by_itself_is_waited_for_only_at_first() -> None:
    quiet = Quiet(800, 600)
    for frame in range(100):
        quiet.paint(0, 0, 100, 100, now=frame * 0.04)
    assert quiet.quiet_at() < 0.7
    quiet.paint(400, 400, 9, 9, now=5.0)
    assert quiet.quiet_at() == 5.0 + QUIET_S, "a paint elsewhere counts"
    quiet.paint(0, 0, 100, 100, now=9.0)
    assert quiet.quiet_at() == 9.0 + QUIET_S, "after a pause it counts again"


def test_a_blinking_cursor_counts_each_time() -> None:
    quiet = Quiet(800, 600)
    for blink in range(20):
        quiet.paint(30, 30, 2, 14, now=blink * 0.5)
        assert quiet.quiet_at() == blink * 0.5 + QUIET_S


@given(st.integers(0, 799), st.integers(0, 599), st.integers(1, 800), st.integers(1, 600), st.floats(0, 1e6))
def test_any_paint_on_the_screen_is_taken(x: int, y: int, width: int, height: int, now: float) -> None:
    quiet = Quiet(800, 600)
    quiet.paint(x, y, min(width, 800 - x), min(height, 600 - y), now)
    assert quiet.quiet_at() == now + QUIET_S


def test_keys_have_their_keysyms() -> None:
    assert keysym("Enter") == 0xFF0D and keysym("F12") == 0xFFC9 and keysym("Meta") == 0xFFEB
    assert keysym("a") == 0x61 and keysym("ü") == 0xFC and keysym("€") == 0x010020AC
    assert keysym("Nonsense") is None and keysym("\x07") is None
    assert character("\n") == 0xFF0D and character("\x85") is None


def test_spare_keycodes_are_lent_and_stay_lent() -> None:
    keys = keymap()
    assert keys.spare == [15, 16]
    assert keys.key(0x41) == (10, True) and keys.key(0xE4) is None
    assert keys.lend([0x61, 0xE4]) == ({15: 0xE4}, False)
    assert keys.lend([0xE4]) == ({}, False) and keys.key(0xE4) == (15, False)
    assert keys.lend([0xF6]) == ({16: 0xF6}, False), "a keycode that was never lent goes first"
    assert keys.lend([0xF6, 0xFC]) == ({15: 0xFC}, True), "one that is needed now is kept"
    with pytest.raises(ValueError, match="spare"):
        keys.lend([1, 2, 3])


@given(st.lists(st.sampled_from([0x61, 0x31, 0xE4, 0xF6, 0xFC, 0xDF]), max_size=30))
def test_parts_of_a_text_need_no_more_than_the_spare_keys(keysyms: list[int]) -> None:
    keys = keymap()
    parts = chunks(keysyms, keys)
    assert [one for part in parts for one in part] == keysyms
    for part in parts:
        keys.lend(part)
        assert all(keys.key(one) for one in part)


def test_text_becomes_key_presses_with_shift_where_needed() -> None:
    [stroke] = strokes(Type(text="aA\n"), keymap())
    pressed = [(event.kind, event.detail) for event in stroke.events]
    assert pressed == [(2, 10), (3, 10), (2, 12), (2, 10), (3, 10), (3, 12), (2, 14), (3, 14)]
    lending = list(strokes(Type(text="äöü"), keymap()))
    assert [stroke.loan for stroke in lending] == [({15: 0xE4, 16: 0xF6}, False), ({15: 0xFC}, True)]


def test_pointer_events_are_where_the_action_says() -> None:
    [click] = strokes(Click(x=7, y=9, count=2), keymap())
    assert click.events[0] == Event(6, 0, 7, 9)
    assert [event.kind for event in click.events[1:]] == [4, 5, 4, 5]
    drag = [event for stroke in strokes(Drag(path=((1, 2), (3, 4))), keymap()) for event in stroke.events]
    assert drag == [Event(6, 0, 1, 2), Event(4, 1), Event(6, 0, 3, 4), Event(5, 1)]
    swipe = list(strokes(Swipe(x1=0, y1=0, x2=100, y2=50, ms=160), keymap()))
    assert swipe[-2].events == [Event(6, 0, 100, 50)]
    assert sum(stroke.pause_ms or 0 for stroke in swipe) == 160
    [scroll] = strokes(Scroll(x=1, y=1, dx=-60, dy=110), keymap())
    assert [event.detail for event in scroll.events if event.kind == 4] == [5, 5, 6]


def test_the_pointer_is_blended_and_cut_off_at_the_edges() -> None:
    pixels = bytearray(b"\x64\x64\x64\x00" * 4)  # 2x2, grey 100
    half_red = bytes([0, 0, 128, 128])  # premultiplied blue, green, red, alpha
    draw(Cursor(1, 1, 1, 2, 2, half_red + b"\xff" * 12), pixels, 2, 2)
    assert pixels[:12] == b"\x64\x64\x64\x00" * 3
    assert pixels[12:] == bytes([49, 49, 177, 0])
    draw(Cursor(1, -1, -1, 2, 2, bytes(12) + b"\xff\xff\xff\xff"), pixels, 2, 2)
    assert pixels[:3] == b"\xff\xff\xff"


@pytest.mark.parametrize("form", ["jpeg", "png"])
def test_both_encodings_show_the_colours(form: str) -> None:
    pytest.importorskip("simplejpeg")
    frame = encode(bytearray(b"\x10\x80\xf0\x00" * (64 * 48)), 64, 48, form, 90)  # type: ignore[arg-type]
    image = Image.open(io.BytesIO(frame))
    assert (image.format or "").lower() == form and image.size == (64, 48)
    colour = image.convert("RGB").getpixel((20, 20))
    assert isinstance(colour, tuple)
    assert all(abs(got - wanted) < 6 for got, wanted in zip(colour, (0xF0, 0x80, 0x10), strict=True))


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A root with a few programs and desktop entries."""
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/share/applications").mkdir(parents=True)
    for name in ("edit", "top", "chromium", "xterm"):
        (tmp_path / "usr/bin" / name).touch()
    for name, lines in {
        "org.edit": "Name=Text & Edit\nExec=edit --new %F",
        "top": "Name=Top\nExec=top\nTerminal=true",
        "hidden": "Name=Hidden\nExec=edit\nNoDisplay=true",
        "gone": "Name=Gone\nExec=not-installed",
        "broken": "Exec='",
    }.items():
        path = tmp_path / f"usr/share/applications/{name}.desktop"
        path.write_text(f"[Desktop Entry]\n{lines}\n")
    return tmp_path


def test_applications_are_opened_by_name_entry_command_or_url(system: Path) -> None:
    assert set(applications(system)) == {"Text & Edit", "Top"}
    assert command_for("text & edit", system) == ["edit", "--new"]
    assert command_for("org.edit.desktop", system) == ["edit", "--new"]
    assert command_for("Top", system) == ["xterm", "-e", "top"]
    assert command_for("edit", system) == ["edit"]
    assert command_for("https://example.org/a b", system) == ["chromium", "https://example.org/a b"]
    for nothing in ("not-installed", "../../bin/sh", "/usr/bin/edit", "edit; rm", "--help", "", "."):
        assert command_for(nothing, system) is None, nothing


def test_the_menu_offers_the_applications_and_no_way_out(system: Path) -> None:
    text = menu(system)
    assert "Text &amp; Edit" in text
    assert "<command>xterm -e top</command>" in text
    assert "Exit" not in text and "Hidden" not in text


def test_versions_of_programs_and_a_digest_of_all_packages_come_from_the_system(tmp_path: Path) -> None:
    def system(name: str, *entries: tuple[str, str, str]) -> Path:
        status = tmp_path / name / "var/lib/dpkg/status"
        status.parent.mkdir(parents=True)
        paragraphs = (
            f"Package: {package}\nStatus: {state}\nDescription: x\n more\nVersion: {version}\n"
            for package, state, version in entries
        )
        status.write_text("\n".join(paragraphs))
        return tmp_path / name

    there, gone = "install ok installed", "deinstall ok config-files"
    first = installed(system("a", ("gimp", there, "3.0-1"), ("libc6", there, "2.41"), ("vlc", gone, "3")))
    other = installed(system("b", ("gimp", there, "3.0-1"), ("libc6", there, "2.42")))
    assert first[0] == other[0] == "gimp 3.0-1"
    assert first[1] != other[1] and len(first[1]) == 16
    assert installed(system("c", ("libc6", there, "2.41"), ("gimp", there, "3.0-1"))) == first
    assert installed(tmp_path / "no Debian") == ("", "")
