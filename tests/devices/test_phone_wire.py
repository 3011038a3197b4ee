"""The virtual phone's wire: the real adb client, unmodified adbutils, and peers that break the protocol."""

import contextlib
import io
import json
import os
import pty
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest
from PIL import Image

from devices.adb import auth, wire
from devices.adb.wire import WireError
from devices.phone.shell.grammar import ScriptError, parse
from devices.phone.storage import Storage
from guiagent.errors import MissingProgram

WIDTH, HEIGHT = 360, 640


class Bench(NamedTuple):
    """A phone, and an adb server that may drive it."""

    process: "subprocess.Popen[bytes]"
    port: int  # of the phone
    server: int  # of adb
    facts: dict[str, Any]
    root: Path

    @property
    def serial(self) -> str:
        return f"127.0.0.1:{self.port}"

    def adb(
        self, *words: str, stdin: bytes | None = None, ok: bool = True
    ) -> "subprocess.CompletedProcess[bytes]":
        command = ["adb", "-P", str(self.server), "-s", self.serial, *words]
        done = subprocess.run(
            command, input=stdin if stdin is not None else b"", capture_output=True, timeout=20
        )
        assert not ok or done.returncode == 0, (words, done)
        return done

    def shell(self, script: str, stdin: bytes | None = None) -> str:
        return self.adb("shell", script, stdin=stdin, ok=False).stdout.decode()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def adb_server(home: Path, port: int) -> Iterator[None]:
    """adb's server with a key of its own, on a loopback port."""
    environment = {**os.environ, "HOME": str(home), "ADB_LOCAL_TRANSPORT_MAX_PORT": "5554"}
    command = ["adb", "-L", f"tcp:localhost:{port}", "server", "nodaemon"]
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.02)
        yield
    finally:
        server.kill()
        server.wait()


def start_phone(keys: Path, folder: Path, *more: str) -> "tuple[subprocess.Popen[bytes], dict[str, Any]]":
    command = [
        sys.executable,
        "-m",
        "devices.phone",
        f"--width={WIDTH}",
        f"--height={HEIGHT}",
        "--density=160",
    ]
    command += [f"--keys={keys}", f"--folder={folder}", *more]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    line = process.stdout.readline()
    if not line:
        reason = process.stderr.read().decode()
        if process.wait() == MissingProgram.exit_code:
            pytest.skip(reason)
        pytest.fail(reason)
    return process, json.loads(line)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    if shutil.which("adb") is None:
        pytest.skip("no adb: apt-get install adb")
    home = tmp_path_factory.mktemp("home")
    (home / ".android").mkdir()
    key = home / ".android" / "adbkey"
    subprocess.run(["adb", "keygen", str(key)], check=True, capture_output=True)
    root = home / "root"
    process, facts = start_phone(key.with_suffix(".pub"), root)
    server = free_port()
    with adb_server(home, server):
        bench = Bench(process, facts["port"], server, facts, root)
        connected = subprocess.run(["adb", "-P", str(server), "connect", bench.serial], capture_output=True)
        assert b"connected to" in connected.stdout, connected
        yield bench
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(10) == 0
    assert not Path(f"/proc/{facts['browser']}").exists()


# -- the format ------------------------------------------------------------------------------------------


def test_messages_survive_encoding_and_anything_else_is_refused() -> None:
    message = wire.encode(wire.WRTE, 7, 9, b"payload")
    header = wire.parse_header(message[: wire.HEADER_SIZE], wire.MAX_PAYLOAD)
    assert (header.command, header.arg0, header.arg1, header.length) == (wire.WRTE, 7, 9, 7)
    wire.check_payload(header, b"payload", wire.VERSION_CHECKED)
    with pytest.raises(WireError, match="checksum"):
        wire.check_payload(header, b"paxload", wire.VERSION_CHECKED)
    wire.check_payload(header, b"paxload", wire.VERSION)  # this version has no sums
    for broken, reason in (
        (struct.pack("<6I", 0x12345678, 0, 0, 0, 0, 0x12345678 ^ 0xFFFFFFFF), "unknown command"),
        (struct.pack("<6I", wire.OPEN, 0, 0, 0, 0, wire.OPEN), "magic"),
        (struct.pack("<6I", wire.OPEN, 0, 0, 0xFFFFFFFF, 0, wire.OPEN ^ 0xFFFFFFFF), "exceeds"),
    ):
        with pytest.raises(WireError, match=reason):
            wire.parse_header(broken, wire.MAX_PAYLOAD)


def test_a_signature_counts_only_whole_with_its_key_and_its_token(tmp_path: Path) -> None:
    if shutil.which("adb") is None or shutil.which("openssl") is None:
        pytest.skip("needs adb and openssl")
    token, keys = bytes(range(20)), []
    (tmp_path / "token").write_bytes(token)
    for name in ("one", "two"):
        subprocess.run(["adb", "keygen", str(tmp_path / name)], check=True, capture_output=True)
        keys.append(auth.parse_public_key((tmp_path / f"{name}.pub").read_text()))
    command = ["openssl", "pkeyutl", "-sign", "-inkey", "one", "-pkeyopt", "digest:sha1", "-in", "token"]
    signature = subprocess.run(command, check=True, capture_output=True, cwd=tmp_path).stdout
    assert keys[0].signed(token, signature)
    assert auth.is_signed_by_one(keys, token, signature)
    assert not keys[1].signed(token, signature)
    assert not keys[0].signed(token[::-1], signature)
    for forged in (b"", b"\0" * 256, b"\xff" * 256, signature[:-1], signature + b"\0", signature[::-1]):
        assert not auth.is_signed_by_one(keys, token, forged)
    raised = pow(int.from_bytes(signature, "big"), keys[0].exponent, keys[0].modulus)
    assert raised.to_bytes(256, "big").endswith(token)  # the whole block is compared, not only this end of it


@pytest.mark.parametrize("line", ["", "AAAA", "not base64!", "QAAAAB" + "A" * 690, "é"])
def test_a_line_that_is_no_key_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        auth.parse_public_key(line)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo a  b", [["echo", "a", "b"]]),
        ("echo 'a  b' \"c d\"e\\ f", [["echo", "a  b", "c de f"]]),
        ("a;b\nc", [["a"], ["b"], ["c"]]),
        ("a | b 2>/dev/null # why", [["a", "|", "b"]]),
        ("echo a;", [["echo", "a"]]),
    ],
)
def test_scripts_are_read_as_a_shell_reads_them(script: str, words: list[list[str]]) -> None:
    found = []
    for pipeline in parse(script):
        line: list[str] = []
        for command in pipeline.commands:
            line += (["|"] if line else []) + ["".join(part.text for part in word) for word in command.words]
        found.append(line)
    assert found == words


@pytest.mark.parametrize(
    "script",
    [
        "a &",
        "$(id)",
        "`id`",
        "echo 'open",
        "a | | b",
        "a &&",
        "| a",
        "(a)",
        "> ",
        '"$(id)"',
        "a >&7",
        "x" * 70_000,
        "for f in a b; echo; done",
        "for f in a b; do echo",
        "for f; do echo; done",
        "for 1 in a; do echo; done",
        "if true; echo; fi",
        "if true; then echo; done",
        "while true; do echo; done extra",
        "done",
        "then",
        "a && fi",
        "case x in esac",
        "if true; then " * 50,
    ],
)
def test_scripts_beyond_the_grammar_are_refused(script: str) -> None:
    with pytest.raises(ScriptError):
        parse(script)


@pytest.mark.parametrize(
    ("script", "printed"),
    [
        ("for x in a 'b c' d; do echo -$x-; done", "-a-\n-b c-\n-d-\n"),
        ("for x in; do echo $x; done; echo $?", "0\n"),
        ("for x in for do done; do echo $x; done", "for\ndo\ndone\n"),
        ("echo for do done if", "for do done if\n"),
        ("for x in 1 2\ndo\n  # a comment\n  for y in a b; do echo $x$y; done\ndone", "1a\n1b\n2a\n2b\n"),
        ("for x in 1 2 3; do if [ $x = 2 ]; then continue; fi; echo $x; done", "1\n3\n"),
        ("for x in 1 2 3; do echo $x; if [ $x = 2 ]; then break; fi; done; echo after", "1\n2\nafter\n"),
        ("for x in b a; do echo $x; done | sort", "a\nb\n"),
        ("for x in a b; do echo $x; done > /data/local/tmp/loop; cat /data/local/tmp/loop", "a\nb\n"),
        ("if false; then echo 1; elif true; then echo 2; else echo 3; fi", "2\n"),
        ("if false; then echo 1; else echo 3; fi", "3\n"),
        ("if false; then echo 1; fi; echo $?", "0\n"),
        ("if true && false; then echo 1; else echo 2; fi && echo 3", "2\n3\n"),
        (
            "touch /sdcard/x; while [ -e /sdcard/x ]; do rm /sdcard/x; echo once; done",
            "once\n",
        ),
        (
            "until [ -e /sdcard/y ]; do touch /sdcard/y; done; rm /sdcard/y; echo $?",
            "0\n",
        ),
        ("for x in 1 2; do echo $x; exit 3; done; echo no", "1\n"),
        ("break 2>/dev/null; echo went on", "went on\n"),
    ],
)
def test_loops_and_conditions(script: str, printed: str, bench: Bench) -> None:
    assert bench.shell(script) == printed


def test_a_loop_without_an_end_holds_nobody_up_and_is_ended(bench: Bench) -> None:
    endless = bench.adb("shell", "while true; do true; done", ok=False)
    assert b"a loop of more than 10000 rounds" in endless.stderr
    assert endless.returncode == 1


@pytest.mark.parametrize(
    "path", ["/../etc/passwd", "/sdcard/../../../etc/passwd", "/sdcard/link/passwd", "etc/passwd"]
)
def test_no_path_leads_out_of_the_phone(tmp_path: Path, path: str) -> None:
    storage = Storage(tmp_path, lambda: 0.0)
    storage.prepare("")
    (tmp_path / "sdcard" / "link").symlink_to("/etc")
    with pytest.raises(OSError, match=r"\d"):
        storage.read(path)
    with pytest.raises(OSError, match=r"\d"):
        storage.write(path)


# -- the real client -------------------------------------------------------------------------------------


def test_the_phone_says_what_it_is(bench: Bench) -> None:
    assert b"model:guiagent_virtual_phone" in bench.adb("devices", "-l").stdout
    assert bench.adb("get-state").stdout == b"device\n"
    assert bench.shell("getprop ro.guiagent.virtual") == "1\n"
    assert bench.shell("getprop ro.product.model") == "guiagent virtual phone\n"
    assert "cannot run as root" in bench.adb("root").stdout.decode()


def test_a_shell_keeps_exit_code_output_and_errors_apart(bench: Bench) -> None:
    done = bench.adb("shell", "echo out; ls /nowhere; exit 7", ok=False)
    assert (done.returncode, done.stdout) == (7, b"out\n")
    assert done.stderr == b"ls: /nowhere: No such file or directory\n"
    assert bench.shell("cat | wc -c", stdin=b"x" * 300_000) == "300000\n"
    assert bench.shell("nonsense; echo $?") == "127\n"
    assert bench.shell("false && echo a || echo b; X=5; echo \"$X\" '$X'") == "b\n5 $X\n"
    assert bench.shell("", stdin=b"echo one\necho two\n") == "one\ntwo\n"
    assert bench.shell("echo $(id)") == ""
    assert bench.shell("cat /etc/passwd") == ""
    assert "passwd" not in bench.shell("ls /data/../../../etc; ls /*")


class Terminal:
    """`adb shell` on a pseudo-terminal, as a person has it."""

    def __init__(self, bench: Bench) -> None:
        self._ours, theirs = pty.openpty()
        command = ["adb", "-P", str(bench.server), "-s", bench.serial, "shell"]
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)

    def types(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def shows(self, end: str) -> str:
        """All that is shown up to `end`."""
        shown = ""
        while not shown.endswith(end):
            assert select.select([self._ours], [], [], 10)[0], f"no {end!r} after {shown!r}"
            shown += os.read(self._ours, 1).decode()
        return shown

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@pytest.fixture
def terminal(bench: Bench) -> Iterator[Terminal]:
    terminal = Terminal(bench)
    yield terminal
    terminal.close()


def test_a_person_types_into_a_shell_on_a_terminal(terminal: Terminal) -> None:
    prompt = "virtual:/ $ "
    terminal.shows(prompt)
    terminal.types("echo hi\r")
    assert terminal.shows(prompt) == f"echo hi\r\nhi\r\n{prompt}"
    terminal.types("echo ab\x7fc\r")  # a typing error
    assert terminal.shows(prompt) == f"echo ab\b \bc\r\nac\r\n{prompt}"
    terminal.types("sleep 60\r")
    assert terminal.shows("\n") == "sleep 60\r\n"
    terminal.types("\x03")
    assert terminal.shows(prompt) == f"^C\r\n{prompt}"
    terminal.types("sleep 0.3; echo one\r")
    terminal.shows("\n")
    terminal.types("cd /sdcard; echo two\r")  # ahead, while a command runs
    assert terminal.shows("sdcard $ ").endswith(
        "one\r\nvirtual:/ $ cd /sdcard; echo two\r\ntwo\r\nvirtual:/sdcard $ "
    )
    terminal.types("exit 3\r")
    assert terminal.process.wait(10) == 3


@pytest.mark.parametrize("line_end", ["\n", "\r"])
def test_a_terminal_runs_what_is_piped_into_it_to_the_end(bench: Bench, line_end: str) -> None:
    typed = f"sleep 0.1; echo one{line_end}echo two; echo three{line_end}"
    shown = bench.adb("shell", "-tt", stdin=typed.encode()).stdout.decode()
    assert "\none\r\n" in shown and "\ntwo\r\nthree\r\n" in shown and "^C" not in shown


def test_a_pattern_that_never_ends_is_given_up(bench: Bench) -> None:
    done = bench.adb("shell", "grep -E '(a|aa)+$'", stdin=b"a" * 60 + b"!\n", ok=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"grep: REGEX '(a|aa)+$' takes too long\n"
    assert bench.shell(r"grep -oE '(a|aa)+\w'", stdin=b"a" * 60 + b"b!\n") == "a" * 60 + "b\n"


def test_files_and_folders_go_there_and_back(bench: Bench, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "a b.bin").write_bytes(os.urandom(3_000_000))
    (source / "deep" / "ä.txt").write_text("text")
    bench.adb("push", str(source), "/sdcard/Download/")
    bench.adb("pull", "/sdcard/Download/source", str(tmp_path / "back"))
    for file in ("a b.bin", "deep/ä.txt"):
        assert (tmp_path / "back" / file).read_bytes() == (source / file).read_bytes()
    assert bench.shell("find /sdcard/Download/source -type f | sort").splitlines() == [
        "/sdcard/Download/source/a b.bin",
        "/sdcard/Download/source/deep/ä.txt",
    ]
    assert bench.adb("pull", "/sdcard/none", str(tmp_path), ok=False).returncode == 1
    for refused in ("/system/x", "/data/data/x", "/sdcard/../../x"):
        done = bench.adb("push", str(source / "a b.bin"), refused, ok=False)
        assert (done.returncode, b"Read-only" in done.stdout + done.stderr) == (1, True)
    bench.shell("rm -rf /sdcard/Download/source")
    assert "source" not in bench.shell("ls /sdcard/Download").splitlines()


def test_filters_keep_to_what_they_are_asked_for(bench: Bench) -> None:
    (bench.root / "sdcard" / "lines").write_bytes(b"one\ntwo\nthree\n")
    file = "/sdcard/lines"
    for script, output in [
        (f"cat {file} | cat - {file} | wc -l", "6\n"),
        (f"head -c 100 {file}", "one\ntwo\nthree\n"),
        (f"tail -c 6 {file}", "three\n"),
        (f"tail -c 100 {file}", "one\ntwo\nthree\n"),
        (f"cat {file} | tail -c 6", "three\n"),
        (f"tail -c 0 {file}", ""),
        (f"tail -n 0 {file}", ""),
        (f"grep -c -m 1 e {file}", "1\n"),
        (f"grep -l -m 1 e {file}", f"{file}\n"),
        (f"cat {file} | grep -c -m 1 e", "1\n"),
        (f"grep -m 1 e {file}", "one\n"),
        (f"grep -m 0 e {file}; echo $?", "1\n"),
        (f"grep -c e {file}", "2\n"),
    ]:
        assert bench.shell(script) == output, script
    bench.shell(f"rm {file}")


def test_find_removes_a_folder_with_all_that_is_in_it(bench: Bench) -> None:
    bench.shell("mkdir -p /sdcard/trash/a/b; touch /sdcard/trash/one /sdcard/trash/a/b/two")
    (bench.root / "sdcard" / "trash" / "link").symlink_to("a")
    assert bench.shell("find /sdcard/trash -mindepth 2 | sort").split() == [
        f"/sdcard/trash/{name}" for name in ("a/b", "a/b/two")
    ]
    done = bench.adb("shell", "find /sdcard/trash -delete")
    assert (done.stdout, done.stderr) == (b"", b"")
    assert not (bench.root / "sdcard" / "trash").exists()


def test_services_say_whether_the_screen_is_on(bench: Bench) -> None:
    asked = "dumpsys power; dumpsys window; dumpsys display"
    awake = ("mWakefulness=Awake", "mAwake=true", "mScreenState=ON")
    asleep = ("mWakefulness=Asleep", "mAwake=false", "mScreenState=OFF")
    assert all(line in bench.shell(asked) for line in awake)
    bench.shell("input keyevent 26")
    assert all(line in bench.shell(asked) for line in asleep)
    bench.shell("input keyevent 26")
    assert all(line in bench.shell(asked) for line in awake)


def test_all_that_tells_a_time_tells_it_by_the_phones_clock(bench: Bench) -> None:
    day = bench.shell("date +%Y-%m-%d").strip()
    bench.shell("echo text > /sdcard/new.txt; log -t mine hello")
    assert day in bench.shell("ls -l /sdcard/new.txt")
    assert bench.shell("stat -c %y /sdcard/new.txt").startswith(day)
    assert bench.shell("stat -c %Y /sdcard/new.txt") == bench.shell("date +%s")
    assert bench.shell("logcat -d -s mine").splitlines()[-1].startswith(day[5:])
    assert bench.adb("ls", "/sdcard").stdout.decode().count(f"{int(bench.shell('date +%s')):x} new.txt") == 1
    old = bench.root / "sdcard" / "old.txt"
    old.touch()
    os.utime(old, (1_580_702_706, 1_580_702_706))
    assert "2020-02-03" in bench.shell("ls -l /sdcard/old.txt")  # no later than now is what was said
    bench.shell("rm /sdcard/new.txt /sdcard/old.txt")


def test_services_that_drivers_of_phones_ask(bench: Bench) -> None:
    """What mobile-mcp lists apps by, and airtest reads rotation and screen from."""
    launcher = "-a android.intent.action.MAIN -c android.intent.category.LAUNCHER"
    listed = bench.shell(f"cmd package query-activities {launcher}")
    packages = {
        line.strip().removeprefix("packageName=") for line in listed.splitlines() if "packageName=" in line
    }
    assert (
        {"com.android.settings", "com.android.contacts"}
        <= packages
        <= set(bench.shell("pm list packages").replace("package:", "").split())
    )
    assert not any("launcher" in package for package in packages)
    assert "com.android.settings/.Settings" in bench.shell(f"pm query-activities --brief {launcher}")
    assert bench.shell("pm query-activities --components -a android.settings.WIFI_SETTINGS") == (
        "com.android.settings/.WifiSettingsActivity\n"
    )
    assert bench.shell("pm query-activities -a no.such.ACTION") == "No activities found\n"
    assert "SurfaceOrientation: 0\n" in bench.shell("dumpsys input")
    assert "mScreenOnFully=true" in bench.shell("dumpsys window policy")
    assert bench.shell("settings get system user_rotation") == "0\n"


def test_the_picture_is_the_size_that_wm_says_in_every_form(bench: Bench) -> None:
    assert bench.shell("wm size") == f"Physical size: {WIDTH}x{HEIGHT}\n"
    with Image.open(io.BytesIO(bench.adb("exec-out", "screencap", "-p").stdout)) as png:
        assert png.size == (WIDTH, HEIGHT)
        pixels = png.convert("RGBA").tobytes()
    assert len(set(pixels[:40_000])) > 1
    raw = bench.adb("exec-out", "screencap").stdout
    assert struct.unpack("<4I", raw[:16]) == (WIDTH, HEIGHT, 1, 1)
    assert raw[16:] == pixels
    with Image.open(io.BytesIO(bench.adb("exec-out", "guiagent frame jpeg 80").stdout)) as jpeg:
        assert (jpeg.size, jpeg.format) == ((WIDTH, HEIGHT), "JPEG")


def test_the_hierarchy_is_the_one_on_the_screen(bench: Bench) -> None:
    bench.shell("am start -n com.android.settings/.Settings; am start -a android.settings.SETTINGS")
    assert "dumped to: /sdcard/w.xml" in bench.shell("uiautomator dump /sdcard/w.xml")
    root = ElementTree.fromstring(bench.shell("cat /sdcard/w.xml"))
    assert root.tag == "hierarchy"
    packages = {node.get("package") for node in root.iter("node")}
    assert "com.android.settings" in packages
    assert "com.android.settings" in bench.shell("dumpsys window | grep mCurrentFocus")
    assert ElementTree.fromstring(bench.shell("guiagent tree")).tag == "hierarchy"
    bench.shell("input keyevent KEYCODE_HOME")
    assert "launcher" in bench.shell("dumpsys activity activities | grep mResumedActivity")


def test_an_apk_is_refused_with_the_reason(bench: Bench, tmp_path: Path) -> None:
    apk = tmp_path / "app.apk"
    apk.write_bytes(os.urandom(2_000_000))
    refused = bench.adb("install", str(apk), ok=False)
    assert refused.returncode == 1
    assert b"virtual phone" in refused.stderr


def test_settings_properties_and_packages(bench: Bench) -> None:
    bench.shell("settings put system probe_a 'x y'")
    assert bench.shell("settings get system probe_a") == "x y\n"
    assert "probe_a=x y" in bench.shell("settings list system").splitlines()
    assert (
        bench.shell("settings delete system probe_a; settings get system probe_a") == "Deleted 1 rows\nnull\n"
    )
    assert bench.shell("setprop debug.a 5; getprop debug.a") == "5\n"
    assert (
        bench.shell("setprop ro.product.model pixel; getprop ro.product.model") == "guiagent virtual phone\n"
    )
    packages = bench.shell("pm list packages").splitlines()
    assert "package:com.android.settings" in packages
    assert bench.shell("pm list packages -3") == ""


def test_content_is_queried_and_changed_in_androids_format(bench: Bench) -> None:
    uri = "content://com.android.contacts/data/phones"
    rows = bench.shell(f"content query --uri {uri} --projection display_name:data1")
    assert rows.startswith("Row: 0 display_name=")
    assert ", data1=" in rows.splitlines()[0]
    assert bench.shell(f"content query --uri {uri} --where \"display_name='Nobody'\"") == "No result found.\n"
    refused = bench.adb(
        "shell", f'content query --uri {uri} --where "1) UNION SELECT sql FROM sqlite_master--"', ok=False
    )
    assert (refused.returncode, refused.stdout) == (1, b"")
    sms = "content://sms"
    before = bench.shell(f"content query --uri {sms}").count("Row:")
    bench.shell(f"content insert --uri {sms} --bind address:s:+15550100 --bind body:s:'a: b' --bind type:i:1")
    rows = bench.shell(f"content query --uri {sms} --projection address:body --where \"address='+15550100'\"")
    assert rows == "Row: 0 address=+15550100, body=a: b\n"
    bench.shell(f"content delete --uri {sms} --where \"address='+15550100'\"")
    assert bench.shell(f"content query --uri {sms}").count("Row:") == before


def test_a_database_can_be_pulled_and_asked_but_not_changed(bench: Bench, tmp_path: Path) -> None:
    files = bench.shell("find /data/data -name '*.db'").splitlines()
    assert files
    bench.adb("pull", files[0], str(tmp_path / "pulled.db"))
    assert (tmp_path / "pulled.db").read_bytes().startswith(b"SQLite format 3\0")
    table = bench.shell(f"sqlite3 {files[0]} .tables").splitlines()[0]
    count = bench.shell(f'sqlite3 {files[0]} "SELECT count(*) FROM {table}"')
    for sql in (f"DELETE FROM {table}", "ATTACH '/etc/passwd' AS x", "SELECT load_extension('x')", "VACUUM"):
        assert bench.adb("shell", f'sqlite3 {files[0]} "{sql}"', ok=False).returncode == 1
    assert bench.shell(f'sqlite3 {files[0]} "SELECT count(*) FROM {table}"') == count
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n) SELECT count(*) FROM n"
    assert bench.adb("shell", f'sqlite3 {files[0]} "{endless}"', ok=False).returncode == 1


def test_the_log_is_dumped_filtered_and_followed(bench: Bench) -> None:
    bench.shell("log -t probe first")
    assert bench.adb("logcat", "-d", "-s", "probe").stdout.endswith(b"I probe   : first\n")
    command = ["adb", "-P", str(bench.server), "-s", bench.serial, "logcat", "-v", "raw", "-s", "probe"]
    following = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert following.stdout is not None
    assert following.stdout.readline() == b"first\n"
    bench.shell("log -t probe second")
    assert following.stdout.readline() == b"second\n"
    following.kill()
    following.wait()


def test_ports_go_forward_to_what_the_phone_offers_and_reverse_to_the_host(bench: Bench) -> None:
    port = int(bench.adb("forward", "tcp:0", "tcp:7").stdout)
    with socket.create_connection(("127.0.0.1", port), timeout=5) as echo:
        echo.sendall(b"echoed")
        assert echo.recv(100) == b"echoed"
    refused = int(bench.adb("forward", "tcp:0", "tcp:22").stdout)
    with socket.create_connection(("127.0.0.1", refused), timeout=5) as closed:
        assert closed.recv(100) == b""
    bench.adb("forward", "--remove-all")
    with socket.create_server(("127.0.0.1", 0)) as host:
        bench.adb("reverse", "tcp:9000", f"tcp:{host.getsockname()[1]}")
        assert b"tcp:9000" in bench.adb("reverse", "--list").stdout
        command = ["adb", "-P", str(bench.server), "-s", bench.serial, "shell", "nc localhost 9000"]
        phone = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        host.settimeout(5)
        connection, _ = host.accept()
        with connection:
            connection.settimeout(5)
            assert phone.stdin is not None
            phone.stdin.write(b"from the phone")
            phone.stdin.flush()
            assert connection.recv(100) == b"from the phone"
            connection.sendall(b"from the host")
        out, _ = phone.communicate(timeout=5)
        assert out == b"from the host"
    bench.adb("reverse", "--remove-all")
    assert bench.adb("reverse", "--list").stdout.strip() == b""


def test_the_whole_state_is_one_document(bench: Bench) -> None:
    bench.shell("guiagent state reset 3")
    clean = bench.shell("guiagent attest")
    document = bench.adb("exec-out", "guiagent state get").stdout
    bench.shell(
        "settings put system probe_b 1; echo x > /sdcard/probe.txt; echo y > /data/local/tmp/z; setprop a.b 1"
    )
    changes = [
        json.loads(line)[0] for line in bench.shell("guiagent state diff", stdin=document).splitlines()
    ]
    assert {"settings/system/probe_b"} <= set(changes)
    assert any("probe.txt" in path for path in changes)
    assert bench.shell("guiagent attest") != clean
    bench.adb("shell", "guiagent state put", stdin=document)
    assert bench.shell("guiagent state diff", stdin=document) == ""
    assert bench.shell("guiagent attest") == clean
    bench.shell("guiagent state merge", stdin=b'{"settings": {"system": {"probe_c": "7"}}}')
    assert bench.shell("settings get system probe_c") == "7\n"
    assert bench.adb("shell", "guiagent state put", stdin=b"{}", ok=False).returncode == 1
    bench.shell("guiagent state reset 3")
    assert bench.shell("guiagent attest") == clean


def test_a_reboot_ends_connections_and_adb_comes_back(bench: Bench) -> None:
    bench.adb("reboot")
    for _ in range(100):
        if bench.adb("shell", "echo back", ok=False).stdout == b"back\n":
            break
        time.sleep(0.05)
    assert bench.shell("echo back") == "back\n"


def test_adbutils_drives_it_unmodified(bench: Bench, tmp_path: Path) -> None:
    adbutils = pytest.importorskip("adbutils", reason="pip install adbutils")
    device = adbutils.AdbClient("127.0.0.1", bench.server).device(bench.serial)
    assert device.window_size() == (WIDTH, HEIGHT)
    assert device.prop.model == "guiagent virtual phone"
    assert device.shell2("echo out; echo err >&2; exit 3", v2=True).returncode == 3
    assert device.shell2("false").returncode == 1
    device.click(WIDTH // 2, HEIGHT // 2)
    device.swipe(100, 500, 100, 200, 0.1)
    device.keyevent("HOME")
    device.app_start("com.android.settings")
    assert device.app_current().package == "com.android.settings"
    assert "com.android.settings" in device.dump_hierarchy()
    assert device.screenshot().size == (WIDTH, HEIGHT)
    assert device.framebuffer().size == (WIDTH, HEIGHT)
    assert device.app_info("com.android.settings").version_name
    assert "com.android.settings" in device.list_packages()
    assert device.battery().present is True
    assert device.is_screen_on()
    device.sync.push(b"hello", "/sdcard/a.txt")
    assert device.sync.read_bytes("/sdcard/a.txt") == b"hello"
    assert device.sync.stat("/sdcard/a.txt").size == 5
    assert "a.txt" in [entry.path for entry in device.sync.list("/sdcard")]
    assert not device.sync.exists("/sdcard/none")
    device.app_stop("com.android.settings")
    device.remove("/sdcard/a.txt")


# -- peers that are no adb -------------------------------------------------------------------------------


def test_a_stranger_with_a_key_of_its_own_stays_outside(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / ".android").mkdir()
    port = free_port()
    with adb_server(tmp_path, port):
        command = ["adb", "-P", str(port)]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run([*command, "connect", bench.serial], capture_output=True, timeout=2)
        listed = subprocess.run([*command, "devices"], capture_output=True, timeout=5).stdout
        assert b"\tdevice" not in listed
        assert subprocess.run([*command, "shell", "echo in"], capture_output=True, timeout=5).stdout == b""


CNXN = wire.encode(wire.CNXN, wire.VERSION, wire.MAX_PAYLOAD, b"host::")


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + b"x" * 100,
        wire.encode(wire.OPEN, 1, 0, b"shell:id\0"),
        CNXN + wire.encode(wire.OPEN, 1, 0, b"shell:id\0"),
        CNXN + wire.encode(wire.AUTH, wire.AUTH_SIGNATURE, 0, b"\0" * 256) * 40,
        struct.pack("<6I", wire.CNXN, wire.VERSION, 4096, 1 << 30, 0, wire.CNXN ^ 0xFFFFFFFF),
        struct.pack("<6I", wire.CNXN, wire.VERSION_CHECKED, 4096, 6, 1, wire.CNXN ^ 0xFFFFFFFF) + b"host::",
    ],
)
def test_a_peer_that_breaks_the_protocol_is_cut_off(bench: Bench, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", bench.port), timeout=5) as peer:
        peer.sendall(sent)
        with contextlib.suppress(ConnectionError):
            while peer.recv(65536):
                pass
    assert bench.shell("echo well") == "well\n"


def test_the_unix_socket_asks_for_no_key_and_bounds_what_comes(bench: Bench, tmp_path: Path) -> None:
    keys = bench.root.parent / ".android" / "adbkey.pub"
    process, _ = start_phone(keys, tmp_path / "root", f"--socket={tmp_path / 'adb'}")
    try:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(5)
            peer.connect(str(tmp_path / "adb"))
            peer.sendall(CNXN)
            head = wire.parse_header(peer.recv(wire.HEADER_SIZE, socket.MSG_WAITALL), wire.MAX_PAYLOAD)
            assert head.command == wire.CNXN
            assert b"shell_v2" in peer.recv(head.length, socket.MSG_WAITALL)
            peer.sendall(wire.encode(wire.OPEN, 5, 0, b"shell:sleep 5\0"))
            opened = wire.parse_header(peer.recv(wire.HEADER_SIZE, socket.MSG_WAITALL), wire.MAX_PAYLOAD)
            assert (opened.command, opened.arg1) == (wire.OKAY, 5)
            # Nobody reads what goes to `sleep`, so the second message comes before an acknowledgement.
            peer.sendall(wire.encode(wire.WRTE, 5, opened.arg0, b"x") * 2)
            while peer.recv(65536):
                pass
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
