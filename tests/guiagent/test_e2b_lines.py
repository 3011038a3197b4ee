"""The lines of E2B's desktop client come to actions at the right pixel; other lines are left alone."""

import shlex

import pytest

from guiagent.actions import Action, Click, KeyChord, MouseDown, MouseUp, Move, Open, Scroll, Type
from guiagent.doors.e2b.desktop import Line, read
from guiagent.errors import UsageError

SIZE = (1024, 768)
AT = (30, 40)


def of(line: str) -> Line:
    said = read(line, AT, SIZE)
    assert said is not None, line
    return said


@pytest.mark.parametrize(
    ("line", "actions"),
    [
        ("xdotool mousemove --sync 411 302", (Move(x=411, y=302),)),
        ("xdotool click 1", (Click(x=30, y=40),)),
        ("xdotool click 2", (Click(x=30, y=40, button="middle"),)),
        ("xdotool click 3", (Click(x=30, y=40, button="right"),)),
        ("xdotool click --repeat 2 1", (Click(x=30, y=40, count=2),)),
        ("xdotool click --repeat 5 1", (Click(x=30, y=40, count=3), Click(x=30, y=40, count=2))),
        ("xdotool click --repeat 3 5", (Scroll(x=30, y=40, dy=159),)),
        ("xdotool click --repeat 1 4", (Scroll(x=30, y=40, dy=-53),)),
        ("xdotool click --repeat 200 4", (Scroll(x=30, y=40, dy=-188 * 53), Scroll(x=30, y=40, dy=-12 * 53))),
        ("xdotool click 7", (Scroll(x=30, y=40, dx=53),)),
        ("xdotool mousedown 1", (MouseDown(x=30, y=40),)),
        ("xdotool mouseup 3", (MouseUp(x=30, y=40, button="right"),)),
        ("xdotool key Return", (KeyChord(keys=("Enter",)),)),
        ("xdotool key Control_L+Shift_L+t", (KeyChord(keys=("Control", "Shift", "t")),)),
        ("xdotool key Super_L", (KeyChord(keys=("Meta",)),)),
        ("xdotool key Page_Up", (KeyChord(keys=("PageUp",)),)),
        ("xdotool key +", (KeyChord(keys=("+",)),)),
        ("xdg-open https://example.org/?a=1", (Open(target="https://example.org/?a=1"),)),
        ("gtk-launch firefox-esr ", (Open(target="firefox-esr"),)),
    ],
)
def test_a_line_is_actions(line: str, actions: tuple[Action, ...]) -> None:
    assert of(line).actions == actions


@pytest.mark.parametrize(
    "text",
    ["plain", "it's", 'say "hi"', "$(reboot) `id` ~ {a,b} * \\ | ; &", "--", "-x", "zwölf\nline", "'''"],
)
def test_typed_text_is_what_was_quoted(text: str) -> None:
    line = f"xdotool type --delay 75 -- {shlex.quote(text)}"
    assert of(line).actions == (Type(text=text),)


def test_long_text_is_typed_whole() -> None:
    text = "a" * 5000
    assert "".join(one.text for one in of(f"xdotool type -- {text}").actions if isinstance(one, Type)) == text


def test_the_pointer_is_where_it_was_moved() -> None:
    moved = of("xdotool mousemove --sync 411 302")
    assert moved.pointer == (411, 302)
    clicked = read("xdotool click 1", moved.pointer, SIZE)
    assert clicked is not None and clicked.actions == (Click(x=411, y=302),)
    assert of("xdotool getmouselocation").output.startswith("x:30 y:40 ")


def test_questions_are_answered_for_this_screen() -> None:
    assert "1024x768" in of("xrandr").output
    assert of("scrot --pointer /tmp/screenshot-1.png").screenshot == "/tmp/screenshot-1.png"
    assert of("Xvfb :0 -ac -screen 0 1024x768x24 -retro -dpi 96 -nolisten tcp -nolisten unix").actions == ()
    session = (
        "pgrep -x xfce4-session >/dev/null && pgrep -x xfwm4 >/dev/null && pgrep -x xfdesktop >/dev/null"
    )
    assert of(session).actions == ()


@pytest.mark.parametrize(
    "line",
    [
        "ls /",
        "xdotool click 1; rm -rf /",
        "xdotool click 1 && true",
        "xdotool type $(cat /etc/passwd)",
        'xdotool type "$HOME"',
        "xdotool mousemove 1 2 click 1",  # a chain is xdotool's own
        "xdotool getwindowfocus",
        "xdotool search --onlyvisible --class xterm",
        "xdg-open /tmp/a.pdf",
        "gtk-launch a https://example.org",
        "scrot --select /tmp/a.png",
        "xdotool 'unclosed",
        "",
    ],
)
def test_what_is_not_the_clients_own_line_is_left_to_the_device(line: str) -> None:
    assert read(line, AT, SIZE) is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("xdotool mousemove --sync -5 2", "'-5' is no pixel"),
        ("xdotool mousemove --sync 99999 2", "less than or equal to 16383"),
        ("xdotool mousemove --sync 1e3 2", "no pixel"),
        ("xdotool mousemove --sync ٣ 2", "no pixel"),
        ("xdotool click 9", "buttons 1 to 7"),
        ("xdotool click --repeat 1000000 1", "from 1 to 1000"),
        ("xdotool click --repeat -1 1", "from 1 to 1000"),
        ("xdotool key Hyper_Q", "no key is called"),
        ("Xvfb :0 -ac -screen 0 640x480x24", r"1024 x 768 pixels .* resolution=\(1024, 768\)"),
        (f"xdg-open https://example.org/{'a' * 3000}", "at most 2048"),
    ],
)
def test_what_no_screen_can_follow_is_said_in_one_line(line: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        read(line, AT, SIZE)
    assert "\n" not in str(refused.value)
