"""E2B's own desktop client, unmodified, on a leased desktop: mouse, keyboard, programs, files, its errors."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from devices.drivers.desktop import sandbox
from tests.support.doors import ROOT, TOKEN, run_in, serving

pytestmark = pytest.mark.doors

SCRIPT = """
import threading
from e2b import CommandExitException, FileNotFoundException, SandboxNotRunningException
from e2b_desktop import Sandbox

def refused(kind, call):
    try:
        call()
    except kind as error:
        print("refused", kind.__name__, str(error).replace(chr(10), " ")[:60])
    else:
        print("not refused", kind.__name__)

first = Sandbox.create(metadata={"who": "first"}, envs={"GREETING": "hello"})
print("listed", [one.metadata for one in Sandbox.list().next_items()])
run = first.commands.run
print("ran", repr(run('echo "$GREETING"; echo "$DISPLAY" | grep -c :; exit 0').stdout))
refused(CommandExitException, lambda: run("echo no >&2; exit 4"))
lines = []
run("for i in 1 2 3; do echo $i; done", on_stdout=lines.append)
print("streamed", "".join(lines).split())
waiting = run("read line < go; echo $line", background=True, timeout=30) if not run("mkfifo go").stdout else 0
first.move_mouse(60, 70)
print("pointer", first.get_cursor_position(), "while", len(first.commands.list()), "waits")
run("echo went > go")
print("waited", waiting.wait().stdout.strip())
sleeper = run("sleep 1000", background=True)
print("killed", sleeper.kill())
refused(CommandExitException, sleeper.wait)

first.files.write_files([{"path": "a/one", "data": b"1"}, {"path": "a/two", "data": "zwei"}])
first.files.write("a/three", iter([b"th", b"ree"]))
print("files", sorted((one.name, one.size) for one in first.files.list("a")))
print("renamed", first.files.rename("a/one", "a/uno").path, first.files.exists("a/one"))
print("read", first.files.read("a/two"), b"".join(first.files.read("a/three", format="stream")))
first.files.remove("a")
refused(FileNotFoundException, lambda: first.files.read("a/two"))

for call in (first.double_click, first.right_click, first.middle_click):
    call(300, 400)
first.scroll("down", 2)
first.drag((10, 20), (30, 40))
first.press(["ctrl", "shift", "a"])
first.press("page_down")
refused(CommandExitException, lambda: first.left_click(2000, 10))
first.launch("xterm")
while not (named := first.commands.run("xdotool search --class xterm || true").stdout.split()):
    pass
print("window", first.get_window_title(named[-1]))

again = Sandbox.connect(first.sandbox_id, timeout=200)
print("again", again.commands.run("echo here").stdout.strip())
first.set_timeout(100)
print("kill", first.kill(), first.is_running(), Sandbox.kill(first.sandbox_id))
refused(SandboxNotRunningException, lambda: run("true"))
refused(SandboxNotRunningException, lambda: first.files.read("x"))
try:
    Sandbox.create(resolution=(640, 480))
except Exception as error:
    print("other size", type(error).__name__, str(error)[:60])
print("left", Sandbox.list().next_items())
"""


@pytest.fixture
def url() -> Iterator[str]:
    if why := sandbox.why_not_isolated():
        pytest.skip(why)
    with serving(
        "e2b", "desktop=1@1024x768", "--wait", "60", "--http", "0", GUIAGENT_E2B_TOKEN=TOKEN
    ) as address:
        yield address


def run(script: Path, url: str) -> str:
    keys = {"E2B_API_URL": url, "E2B_SANDBOX_URL": url, "E2B_API_KEY": TOKEN}
    return run_in("e2b", script, **keys)


def test_the_example_clicks_types_and_reads(url: str) -> None:
    said = run(ROOT / "examples" / "doors" / "e2b_client.py", url)
    assert said.splitlines() == [
        "screen: (1024, 768)",
        "pointer: (411, 302)",
        "the terminal ended with 0",
        "it wrote: typed by E2B",
        "screenshot: (1024, 768)",
    ]


def test_the_whole_client(url: str, tmp_path: Path) -> None:
    (tmp_path / "client.py").write_text(SCRIPT)
    said = run(tmp_path / "client.py", url)
    assert said.splitlines() == [
        "listed [{'who': 'first'}]",
        "ran 'hello\\n1\\n'",
        "refused CommandExitException Command exited with code 4 and error: no ",
        "streamed ['1', '2', '3']",
        "pointer (60, 70) while 1 waits",
        "waited went",
        "killed True",
        "refused CommandExitException Command exited with code 137 and error: ",
        "files [('one', 1), ('three', 5), ('two', 4)]",
        "renamed /home/user/a/uno False",
        "read zwei b'three'",
        'refused FileNotFoundException task fault (not_found): the desktop answered 404: {"error": ',
        "refused CommandExitException Command exited with code 1 and error: (2000, 10) is off the ",
        "window xterm",
        "again here",
        "kill True False False",
        "refused SandboxNotRunningException the sandbox was not found: The sandbox was killed or reached",
        "refused SandboxNotRunningException the sandbox was not found: The sandbox was killed or reached",
        "other size InvalidArgumentException this desktop has 1024 x 768 pixels and cannot be another: cr",
        "left []",
    ]
