"""Every path of the guest server, asked directly, in a real desktop session."""

import contextlib
import io
import os
import signal
import subprocess
import threading
import uuid
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
from PIL import Image

from tests.support.guest_session import (
    HEIGHT,
    PYTHON,
    WIDTH,
    Session,
    command,
    eventually,
    pids_of,
    session,
    titles,
    windows,
)

STATE = "{https://accessibility.ubuntu.example.org/ns/state}"
COMPONENT = "{https://accessibility.ubuntu.example.org/ns/component}"
TERMINAL = """
import gi, sys
gi.require_version("Gtk", "3.0"); gi.require_version("Atk", "1.0")
from gi.repository import Atk, GLib, Gtk
GLib.set_prgname("gnome-terminal-server")
window, view = Gtk.Window(title="Terminal"), Gtk.TextView()
view.get_buffer().set_text("$ ls\\nnotes.txt\\n$ \\n\\n")
view.get_accessible().set_role(Atk.Role.TERMINAL)
window.add(view); window.show_all(); view.grab_focus()
Gtk.main()
"""


@pytest.fixture(scope="module")
def desktop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with session(tmp_path_factory.mktemp("home")) as started:
        applications = started.home / ".config"
        applications.mkdir()
        (applications / "mimeapps.list").write_text(
            "[Default Applications]\ntext/plain=org.xfce.mousepad.desktop\n"
        )
        yield started


@pytest.fixture(scope="module")
def guest(desktop: Session) -> Iterator[httpx.Client]:
    with desktop.client() as client:
        assert eventually(lambda: client.get("/guiagent/health").status_code == 200)
        yield client


@pytest.fixture
def clean(guest: httpx.Client) -> Iterator[httpx.Client]:
    """Ends with no window left."""
    yield guest
    for window in windows(guest):
        with contextlib.suppress(ProcessLookupError):  # it was closing
            os.kill(int(str(window["pid"])), signal.SIGKILL)
    assert eventually(lambda: not windows(guest))


def image_of(answer: httpx.Response) -> Image.Image:
    assert answer.status_code == 200, answer.text
    return Image.open(io.BytesIO(answer.content)).convert("RGB")


def do(guest: httpx.Client, *actions: dict[str, Any]) -> httpx.Response:
    return guest.post("/guiagent/input", json={"actions": list(actions)})


def open_editor(guest: httpx.Client, file: Path, text: str = "") -> None:
    file.write_text(text)
    guest.post("/setup/launch", json={"command": ["mousepad", "--disable-server", str(file)]})
    assert eventually(lambda: any(w["active"] and file.name in str(w["title"]) for w in windows(guest)))
    # The window manager says so before the editor has taken notice.
    assert eventually(lambda: any("focused" in node.get("states", ()) for node in text_fields(guest)))


def text_fields(guest: httpx.Client) -> list[dict[str, Any]]:
    nodes = guest.get("/guiagent/tree", params={"deadline_ms": 5000}).json()["nodes"]
    return [node for node in nodes if node["role"] == "text"]


def editor_text(guest: httpx.Client) -> str:
    texts: list[str] = [node.get("value", "") for node in text_fields(guest)]
    return texts[0] if texts else ""


def xterm(guest: httpx.Client, title: str, *options: str) -> None:
    guest.post("/setup/launch", json={"command": ["xterm", "-T", title, *options]})
    assert eventually(lambda: title in titles(guest))


# What is shown


def test_platform_screen_and_pointer(guest: httpx.Client) -> None:
    assert guest.get("/platform").text == "Linux"
    assert guest.post("/screen_size").json() == {"width": WIDTH, "height": HEIGHT}
    assert do(guest, {"type": "move", "x": 123, "y": 45}).json() == {"position": [123, 45]}
    assert guest.get("/cursor_position").json() == [123, 45]


def test_screenshot_shows_the_cursor_where_it_is_and_a_frame_does_not(guest: httpx.Client) -> None:
    do(guest, {"type": "move", "x": 200, "y": 200})
    shot = guest.get("/screenshot")
    assert shot.headers["content-type"] == "image/png"
    with_cursor, without = image_of(shot), image_of(guest.get("/guiagent/frame?format=png"))
    assert with_cursor.size == without.size == (WIDTH, HEIGHT)
    differing = [
        (x, y)
        for y in range(HEIGHT)
        for x in range(WIDTH)
        if with_cursor.getpixel((x, y)) != without.getpixel((x, y))
    ]
    assert differing
    assert all(abs(x - 200) < 40 and abs(y - 200) < 40 for x, y in differing)


def test_an_unchanged_frame_costs_no_bytes(clean: httpx.Client) -> None:
    first = clean.get("/guiagent/frame?format=jpeg&quality=70")
    assert first.headers["content-type"] == "image/jpeg"
    assert image_of(first).size == (WIDTH, HEIGHT)
    known = {"If-None-Match": first.headers["etag"]}
    again = clean.get("/guiagent/frame?format=jpeg&quality=70", headers=known)
    assert (again.status_code, again.content) == (304, b"")
    assert clean.get("/guiagent/frame?format=jpeg&quality=71", headers=known).status_code == 200
    xterm(clean, "news")
    assert eventually(
        lambda: clean.get("/guiagent/frame?format=jpeg&quality=70", headers=known).status_code == 200
    )


def test_frames_of_other_kinds_are_refused(guest: httpx.Client) -> None:
    assert guest.get("/guiagent/frame?format=bmp").status_code == 400
    assert guest.get("/guiagent/frame?quality=900").status_code == 400


def test_accessibility_is_osworlds_document(clean: httpx.Client, desktop: Session) -> None:
    open_editor(clean, desktop.home / "read.txt", "line one\n")
    root = ElementTree.fromstring(clean.get("/accessibility").json()["AT"])
    assert root.tag == "desktop-frame"
    frame = next(frame for frame in root.iter("frame") if "read.txt" in frame.get("name", ""))
    assert frame.get(STATE + "active") == "true"
    assert frame.get(COMPONENT + "screencoord", "").startswith("(")
    texts = [text for text in frame.iter("text") if text.get(STATE + "multi_line") == "true"]
    assert [text.text for text in texts] == ["line one\n"]
    assert any(
        item.get("name", "").startswith("Save") for item in frame.iter("menu-item")
    )  # hidden ones, too


def test_tree_is_what_is_shown_and_follows_changes(clean: httpx.Client, desktop: Session) -> None:
    open_editor(clean, desktop.home / "tree.txt", "before\n")
    answer = clean.get("/guiagent/tree", params={"deadline_ms": 5000}).json()
    nodes = answer["nodes"]
    assert not answer["truncated"]
    by_id = {node["id"]: node for node in nodes}
    assert all(node["parent"] in by_id for node in nodes if "parent" in node)
    menu = next(node for node in nodes if (node["role"], node["name"]) == ("menu", "File"))
    x, y, width, height = menu["box"]
    assert "focused" in next(node for node in nodes if node["role"] == "text")["states"]
    assert not [node for node in nodes if node["role"] == "menu item"]
    do(clean, {"type": "click", "x": x + width // 2, "y": y + height // 2})

    def items() -> list[str]:
        tree = clean.get("/guiagent/tree", params={"deadline_ms": 5000}).json()["nodes"]
        return [node["name"] for node in tree if node["role"] == "menu item"]

    assert eventually(items)
    assert any(name.startswith("Save") for name in items())
    do(clean, {"type": "key", "keys": ["Escape"]}, {"type": "type", "text": "after "})
    assert eventually(lambda: editor_text(clean) == "after before\n")
    assert not items()


def test_tree_keeps_to_its_cap_and_its_deadline(clean: httpx.Client, desktop: Session) -> None:
    open_editor(clean, desktop.home / "cap.txt")
    answer = clean.get("/guiagent/tree", params={"max_nodes": 3}).json()
    assert (len(answer["nodes"]), answer["truncated"]) == (3, True)
    assert clean.get("/guiagent/tree?deadline_ms=1").status_code == 400


def test_a_hung_program_is_left_out_of_the_tree(clean: httpx.Client, desktop: Session) -> None:
    open_editor(clean, desktop.home / "hung.txt")
    pid = int(str(windows(clean)[0]["pid"]))
    os.kill(pid, signal.SIGSTOP)
    try:
        answer = clean.get("/guiagent/tree", params={"deadline_ms": 2000}, timeout=4).json()
        # It is counted as silent, unless the deadline came while it was being asked.
        assert answer["truncated"] and answer["silent"] <= 1
        assert not [node for node in answer["nodes"] if node["role"] == "text"]
        cut_short = clean.get("/guiagent/tree", params={"deadline_ms": 100}, timeout=4).json()
        assert cut_short["truncated"]
    finally:
        os.kill(pid, signal.SIGCONT)
    assert eventually(lambda: not clean.get("/guiagent/tree?deadline_ms=5000").json()["truncated"])
    assert clean.get("/guiagent/tree?deadline_ms=5000").json()["nodes"]


def test_terminal_is_the_focused_one_of_the_active_window(clean: httpx.Client, desktop: Session) -> None:
    assert clean.get("/terminal").json() == {"output": None, "status": "success"}
    clean.post("/setup/launch", json={"command": [PYTHON, "-c", TERMINAL]})
    assert eventually(lambda: "Terminal" in titles(clean))
    assert eventually(lambda: clean.get("/terminal").json()["output"]) == "$ ls\nnotes.txt\n$"


def test_clipboard_is_read_whole(guest: httpx.Client, desktop: Session) -> None:
    assert guest.get("/guiagent/clipboard").json() == {"text": ""}
    for text in ("grüße", "0123456789" * 60_000):  # the second comes piecemeal
        source = desktop.home / "copied.txt"
        source.write_text(text)
        subprocess.run(
            ["xclip", "-selection", "clipboard", "-i", str(source)], env=desktop.environment, check=True
        )
        assert guest.get("/guiagent/clipboard").json()["text"] == text


def test_health_names_the_stage_that_fails(desktop: Session) -> None:
    with desktop.client(DISPLAY=":987", DBUS_SESSION_BUS_ADDRESS="unix:path=/nowhere") as client:
        answer = client.get("/guiagent/health")
        assert answer.status_code == 503
        stages = answer.json()["stages"]
        assert [name for name in ("x", "dbus", "atspi") if not stages[name]["ok"]] == ["x", "dbus", "atspi"]
        assert ":987" in stages["x"]["detail"]
        assert client.get("/screenshot").status_code == 503
        assert client.post("/screen_size").status_code == 503
        assert client.get("/platform").status_code == 200


def test_it_finds_an_x_server_that_was_restarted(desktop: Session) -> None:
    display = f":{1000 + os.getpid() % 50_000}"

    def start() -> "subprocess.Popen[str]":
        return desktop.start("Xvfb", display, "-nolisten", "tcp", "-noreset")

    screen = start()
    with desktop.client(DISPLAY=display) as client:

        def answers(status: int) -> bool:
            paths = [
                client.post("/screen_size"),
                client.get("/guiagent/frame"),
                do(client, {"type": "click"}),
            ]
            return [answer.status_code for answer in paths] == [status] * 3

        assert eventually(lambda: answers(200))
        screen.kill()
        screen.wait()
        assert answers(503)
        screen = start()
        assert eventually(lambda: answers(200))
        screen.kill()
        screen.wait()


# Windows


def test_windows_are_found_activated_and_closed(clean: httpx.Client) -> None:
    xterm(clean, "First one", "-geometry", "40x10")
    xterm(clean, "Second one")

    def ask(verb: str, name: str, **how: bool) -> int:
        return clean.post(f"/setup/{verb}_window", json={"window_name": name, **how}).status_code

    def active() -> list[object]:
        return [window["title"] for window in windows(clean) if window["active"]]

    assert ask("activate", "first") == 200
    assert eventually(lambda: active() == ["First one"])
    assert ask("activate", "second one", strict=True) == 404
    assert ask("activate", "Second one", strict=True) == 200
    assert eventually(lambda: active() == ["Second one"])
    assert ask("activate", "xterm.XTerm", by_class=True, strict=True) == 200
    assert ask("activate", "nothing like it") == 404
    assert ask("activate", "") == 400
    assert ask("close", "First") == 200
    assert eventually(lambda: titles(clean) == ["Second one"])
    window = windows(clean)[0]
    assert (window["name"], window["class"]) == ("xterm", "XTerm")
    assert "xterm" in Path(f"/proc/{window['pid']}/cmdline").read_text()


def test_window_size_is_found_by_class(clean: httpx.Client) -> None:
    assert clean.post("/window_size", data={"app_class_name": "XTerm"}).status_code == 404
    assert clean.post("/window_size").status_code == 400
    xterm(clean, "sized")
    box = windows(clean)[0]["box"]
    assert isinstance(box, list)
    answer = clean.post("/window_size", data={"app_class_name": "xterm"})
    assert answer.json() == {"width": box[2], "height": box[3]}


def test_open_file_answers_once_its_window_is_active(clean: httpx.Client, desktop: Session) -> None:
    (desktop.home / "opened.txt").write_text("hello\n")
    assert clean.post("/setup/open_file", json={"path": "~/opened.txt"}).status_code == 200
    assert eventually(
        lambda: [w["active"] for w in windows(clean) if "opened.txt" in str(w["title"])] == [True]
    )
    assert clean.post("/setup/open_file", json={"path": "xterm"}).status_code == 200
    assert clean.post("/setup/open_file", json={"path": "/no/such/file"}).status_code == 404
    assert clean.post("/setup/open_file", json={}).status_code == 400


def test_open_file_gives_up_when_its_program_does(guest: httpx.Client, desktop: Session) -> None:
    (desktop.home / "odd.bin").write_bytes(bytes(range(255, 0, -1)))  # of no type that anything opens
    answer = guest.post("/setup/open_file", json={"path": str(desktop.home / "odd.bin")})
    assert answer.status_code == 500
    assert "ended with" in answer.text


def test_wallpaper_is_set_shown_and_read(guest: httpx.Client, desktop: Session) -> None:
    picture = desktop.home / "wall paper.png"
    Image.new("RGB", (80, 60), (10, 200, 30)).save(picture)
    assert guest.post("/setup/change_wallpaper", json={"path": "~/wall paper.png"}).status_code == 200
    assert guest.post("/wallpaper").content == picture.read_bytes()
    frame = image_of(guest.get("/guiagent/frame?format=png"))
    assert frame.getpixel((5, 5)) == frame.getpixel((WIDTH - 5, HEIGHT - 5)) == (10, 200, 30)
    assert guest.post("/setup/change_wallpaper", json={"path": "/no/such.png"}).status_code == 404
    assert guest.post("/setup/change_wallpaper", json={"path": "/etc/passwd"}).status_code == 400


# Input


def test_typed_actions_reach_the_program(clean: httpx.Client, desktop: Session) -> None:
    open_editor(clean, desktop.home / "typed.txt", "old\n")
    text = 'a<b> "Ünï" 漢字 € ~^`\tX\n'
    do(clean, {"type": "type", "text": text, "clear": True})
    assert eventually(lambda: editor_text(clean) == text)
    do(clean, {"type": "key", "keys": ["Control", "Home"]}, {"type": "key_down", "key": "Shift"})
    do(clean, {"type": "key", "keys": ["End"]}, {"type": "key_up", "key": "Shift"})
    do(clean, {"type": "type", "text": "Z", "submit": True})
    assert eventually(lambda: editor_text(clean) == "Z\n\n")


def test_typing_follows_a_change_of_the_keyboard(clean: httpx.Client, desktop: Session) -> None:
    open_editor(clean, desktop.home / "layout.txt")
    typed = ""
    try:
        for layout in ("de", "us"):
            command(clean, "setxkbmap", layout)
            do(clean, {"type": "type", "text": "zZ@ß€"})
            typed += "zZ@ß€"
            assert eventually(lambda: editor_text(clean) == typed)  # noqa: B023  before the keyboard changes again
    finally:
        command(clean, "setxkbmap", "us")


def test_nothing_is_done_where_one_action_is_wrong(clean: httpx.Client, desktop: Session) -> None:
    open_editor(clean, desktop.home / "wrong.txt")
    typing = {"type": "type", "text": "no"}
    for wrong in ({"type": "type", "text": "\x01"}, {"type": "click", "x": WIDTH, "y": 1}, {"type": "shell"}):
        answer = do(clean, typing, wrong)
        assert answer.status_code == 400
        assert answer.json()["message"].startswith("action 1: ")
    do(clean, {"type": "type", "text": "yes"})
    assert eventually(lambda: editor_text(clean)) == "yes"


def test_pyautogui_of_executed_programs_is_there(clean: httpx.Client, desktop: Session) -> None:
    open_editor(clean, desktop.home / "auto.txt")
    code = f"""
import pyautogui as p, time
p.PAUSE = 0.05  # what a middle click pastes arrives when its owner gets round to it
p.moveTo(100, 100, 0.15, p.easeInOutQuad); assert p.position() == (100, 100), p.position()
p.moveRel(-20, 5); assert p.position() == (80, 105)
assert p.size() == ({WIDTH}, {HEIGHT}) and p.onScreen(1, 1) and not p.onScreen({WIDTH}, 1)
p.click({WIDTH // 2}, {HEIGHT // 2}); p.doubleClick(); p.tripleClick(); p.middleClick()
p.scroll(-3); p.hscroll(2)
p.hotkey('ctrl', 'a'); p.press('delete'); p.press(['a', 'b'], presses=2); p.write('Cd', interval=0.001)
p.keyDown('shift'); p.press('e'); p.keyUp('shift'); p.typewrite(['enter', 'f', 'left', 'G']); p.press('fn')
with p.hold('shift'): p.press('right')
p.mouseDown(button='right'); p.mouseUp(button='right'); p.press('esc')
try: p.click(button='seventh')
except p.PyAutoGUIException as error: print('refused')
p.FAILSAFE = True; p.moveTo(0, 0)
try: p.press('q')
except p.FailSafeException: print('safe')
try: p.locateOnScreen('x.png')
except AttributeError as error: print(error)
"""
    said = command(clean, "python", "-c", code).splitlines()
    assert said[:2] == ["refused", "safe"]
    assert "apt-get" not in said[2] and "real package" in said[2]
    assert eventually(lambda: editor_text(clean) == "ababCdE\nGf")


# Programs


def test_execute_takes_lists_strings_and_shells(guest: httpx.Client, desktop: Session) -> None:
    def execute(command: object, **more: object) -> dict[str, Any]:
        answer = guest.post("/setup/execute", json={"command": command, **more})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    assert execute(["echo", "a  b"]) == {
        "status": "success",
        "output": "a  b\n",
        "error": "",
        "returncode": 0,
    }
    assert execute("echo 'a  b' c")["output"] == "a  b c\n"
    assert execute("echo $HOME; echo no >&2; exit 3", shell=True) == {
        "status": "success",
        "output": f"{desktop.home}\n",
        "error": "no\n",
        "returncode": 3,
    }
    assert execute(["sh", "-c", "echo $0 $1", "~/x", "~y"])["output"] == f"{desktop.home}/x ~y\n"
    assert execute(["printf", r"\377ok"])["output"] == "\ufffdok"


@pytest.mark.parametrize("command", ["", [], [""], 7, None, ["a\0b"], "unfinished 'quote", [1, 2]])
def test_execute_refuses_what_is_no_command(guest: httpx.Client, command: object) -> None:
    answer = guest.post("/execute", json={"command": command})
    assert (answer.status_code, answer.json()["status"]) == (400, "error")


def test_a_program_that_is_not_there_is_an_error_as_osworlds(guest: httpx.Client) -> None:
    answer = guest.post("/execute", json={"command": ["no-such-program"]})
    assert (answer.status_code, answer.json()["status"]) == (500, "error")
    assert "no-such-program" in answer.json()["message"]
    assert guest.post("/setup/launch", json={"command": ["no-such-program"]}).status_code == 500


def test_execute_does_not_wait_for_what_it_leaves_running(guest: httpx.Client) -> None:
    mark = f"600.{uuid.uuid4().int % 10**9}"
    answer = guest.post(
        "/execute", json={"command": f"sleep {mark} & echo started", "shell": True}, timeout=5
    )
    assert answer.json()["output"] == "started\n"
    [pid] = [pid for pid in pids_of(mark) if "sleep" in Path(f"/proc/{pid}/comm").read_text()]
    os.kill(pid, signal.SIGKILL)


def test_launch_does_not_wait(guest: httpx.Client) -> None:
    mark = f"600.{uuid.uuid4().int % 10**9}"
    answer = guest.post("/setup/launch", json={"command": ["sleep", mark]}, timeout=5)
    assert answer.text == f"sleep {mark} launched successfully"
    [pid] = eventually(lambda: pids_of(mark))
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: not Path(f"/proc/{pid}").exists())  # nor does it stay a zombie


def test_execute_with_verification_waits_for_a_window(clean: httpx.Client) -> None:
    ask = {"command": "xterm -T Verified &", "shell": True, "verification": {"window_exists": "verified"}}
    passed = clean.post("/execute_with_verification", json={**ask, "check_interval": 0.05}).json()
    assert (passed["status"], passed["verification"], passed["returncode"]) == ("success", "passed", 0)
    ask = {
        "command": ["true"],
        "verification": {"window_exists": "verified", "command_success": "test 1 = 2"},
    }
    failed = clean.post("/setup/execute_with_verification", json={**ask, "max_wait_time": 0.2})
    assert (failed.status_code, failed.json()["status"]) == (500, "verification_failed")
    plain = clean.post("/execute_with_verification", json={"command": ["echo", "x"]}).json()
    assert plain == {"status": "success", "output": "x\n", "error": "", "returncode": 0}


def test_run_python_keeps_its_streams_apart(guest: httpx.Client) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(4)"
    assert guest.post("/run_python", json={"code": code}).json() == {
        "status": "error",
        "message": "out\n\nerr\n",
        "need_more": False,
        "output": "out\n",
        "error": "err\n",
        "return_code": 4,
    }
    assert guest.post("/run_python", json={"code": "print(6*7)"}).json()["output"] == "42\n"
    assert guest.post("/run_python", json={}).status_code == 400


def test_run_bash_script_merges_its_streams(guest: httpx.Client) -> None:
    def run(script: str, **more: object) -> httpx.Response:
        return guest.post("/run_bash_script", json={"script": script, **more})

    answer = run("echo out; echo err >&2; pwd; exit 5", working_dir="/usr").json()
    assert answer == {"status": "error", "output": "out\nerr\n/usr\n", "error": "", "returncode": 5}
    assert run("[[ a == a ]] && echo bash").json()["output"] == "bash\n"
    assert run("true", working_dir="/nowhere").status_code == 400
    assert run("").status_code == 400
    mark = f"600.{uuid.uuid4().int % 10**9}"
    late = run(f"setsid sleep {mark} & sleep {mark}", timeout=0.5)
    assert (late.status_code, late.json()["returncode"]) == (500, -1)
    assert not pids_of(mark)  # not even what left the process group


# Files


def test_list_directory_survives_loops(guest: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "f.txt").touch()
    (tmp_path / "a" / "b" / "up").symlink_to(tmp_path)
    (tmp_path / "other").symlink_to(tmp_path / "a" / "b")
    tree = guest.post("/list_directory", json={"path": str(tmp_path)}).json()["directory_tree"]
    assert (tree["type"], tree["name"]) == ("directory", tmp_path.name)
    inner = {child["name"]: child for child in tree["children"]}
    assert {child["name"]: child["type"] for child in inner["a"]["children"]} == {
        "b": "directory",
        "f.txt": "file",
    }
    assert inner["other"]["children"] == [{"type": "file", "name": "up"}]
    assert guest.post("/list_directory", json={"path": str(tmp_path / "a/f.txt")}).status_code == 400
    assert guest.post("/list_directory", json={}).status_code == 400


def test_desktop_path_is_there_once_the_folder_is(guest: httpx.Client, desktop: Session) -> None:
    (desktop.home / "Desktop").mkdir(exist_ok=True)
    assert guest.post("/desktop_path").json() == {"desktop_path": f"{desktop.home}/Desktop"}
    (desktop.home / "Desktop").rmdir()
    assert guest.post("/desktop_path").status_code == 404


def test_files_go_in_and_out_whole(guest: httpx.Client, desktop: Session) -> None:
    data = os.urandom(12 << 20) + b"\r\n--almost a boundary"
    form = {"file_path": "~/new/folder/big file.bin"}
    answer = guest.post("/setup/upload", data=form, files={"file_data": data})
    assert answer.text == f"File Uploaded: {len(data)} bytes"
    assert (desktop.home / "new/folder/big file.bin").read_bytes() == data
    back = guest.post("/file", data={"file_path": "$HOME/new/folder/big file.bin"})
    assert back.content == data
    assert "big%20file.bin" in back.headers["content-disposition"]
    empty = guest.post("/setup/upload", data={"file_path": "~/empty"}, files={"file_data": b""})
    assert (empty.text, (desktop.home / "empty").read_bytes()) == ("File Uploaded: 0 bytes", b"")


def test_files_that_cannot_be_sent(guest: httpx.Client, desktop: Session) -> None:
    os.mkfifo(desktop.home / "pipe")
    asked = {
        "/no/such/file": 404,
        "/etc/passwd/x": 404,
        str(desktop.home): 500,
        "/dev/zero": 500,
        str(desktop.home / "pipe"): 500,
        "a\0b": 400,
        "": 400,
    }
    for path, status in asked.items():
        assert guest.post("/file", data={"file_path": path}).status_code == status, path
    refused = guest.post("/setup/upload", data={"file_path": "/proc/nothing"}, files={"file_data": b"x"})
    assert refused.status_code == 500
    assert guest.post("/setup/upload", data={"file_path": "/tmp/x"}).status_code == 400


def test_download_file(guest: httpx.Client, desktop: Session, tmp_path: Path) -> None:
    (tmp_path / "page.bin").write_bytes(b"\x00page" * 1000)

    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(tmp_path))

        def log_message(self, format: str, *arguments: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as web:
        threading.Thread(target=web.serve_forever, args=(0.02,), daemon=True).start()
        base = f"http://127.0.0.1:{web.server_port}"

        def download(url: str, path: str) -> httpx.Response:
            return guest.post("/setup/download_file", json={"url": url, "path": path})

        assert download(f"{base}/page.bin", "~/got/page").text == "File downloaded successfully: 5000 bytes"
        assert (desktop.home / "got/page").read_bytes() == b"\x00page" * 1000
        assert download(f"{base}/missing", "~/got/missing").status_code == 500
        assert sorted(os.listdir(desktop.home / "got")) == ["page"]
        assert download("file:///etc/passwd", "~/got/passwd").status_code == 400
        assert download("", "~/x").status_code == 400
        web.shutdown()


# Recording


def test_recording_is_a_film_of_the_screen(guest: httpx.Client, tmp_path: Path) -> None:
    assert guest.post("/end_recording").status_code == 400
    started = guest.post("/start_recording")
    assert started.json() == {"status": "success", "message": "Started recording successfully."}
    assert guest.post("/start_recording").status_code == 400
    for step in range(10):
        do(guest, {"type": "move", "x": 30 * step, "y": 20 * step}, {"type": "wait", "ms": 50})
    film = guest.post("/end_recording")
    assert film.status_code == 200, film.text
    (tmp_path / "film.mp4").write_bytes(film.content)
    entries = "stream=width,height,codec_name"
    probe = subprocess.run(
        ["ffprobe", "-v", "error", "-show_entries", entries, "-of", "csv=p=0", str(tmp_path / "film.mp4")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert probe.stdout.strip() == f"h264,{WIDTH},{HEIGHT}"
    assert guest.post("/end_recording").status_code == 400
