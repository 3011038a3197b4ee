"""E2B's wire as its clients write it: sandboxes and their time, programs, files, what is refused."""

import asyncio
import base64
import contextlib
import io
import json
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from PIL import Image

from guiagent.actions import Click, Move
from guiagent.wire import MAX_FILE
from tests.support.e2b_door import Door, opened

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def of_all(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Door]:
    async with opened(tmp_path_factory.mktemp("farm"), 2) as door:
        yield door


@pytest_asyncio.fixture(loop_scope="module")
async def door(of_all: Door) -> AsyncIterator[Door]:
    """A farm of two devices, which every test is to find free."""
    yield of_all
    for sandbox in of_all.sandboxes.all():
        await of_all.sandboxes.end(sandbox)
    await of_all.farm.service.settled()


# -- sandboxes -----------------------------------------------------------------------------------------------


async def test_a_sandbox_lives_until_it_is_killed_and_its_device_is_free_again(tmp_path: Path) -> None:
    async with opened(tmp_path, 1) as door:
        box = await door.create(metadata={"who": "me"}, timeout=60)
        (listed,) = (await door.http.get("/v2/sandboxes", params={"metadata": "who=me"})).json()
        detail = (await door.http.get(f"/sandboxes/{box.id}")).json()
        assert listed["sandboxID"] == detail["sandboxID"] == box.id and detail["state"] == "running"
        for query in ({"metadata": "who=you"}, {"state": "paused"}, {"template": "desktop"}):
            assert (await door.http.get("/v2/sandboxes", params=query)).json() == []
        assert (await door.http.get("/health", headers=box.headers)).status_code == 204
        assert (await door.http.delete(f"/sandboxes/{box.id}")).status_code == 204
        assert (await door.http.delete(f"/sandboxes/{box.id}")).status_code == 404
        gone = await door.http.get("/health", headers=box.headers)
        assert (gone.status_code, gone.json()["message"]) == (502, "the sandbox was not found")
        assert (await door.create()).id != box.id


async def test_its_time_ends_it_and_is_lengthened_by_who_connects(door: Door, monkeypatch: Any) -> None:
    monkeypatch.setattr("guiagent.doors.e2b.sandboxes._SWEEP_S", 0.05)
    box = await door.create(timeout=30)
    (sandbox,) = door.sandboxes.all()
    first = sandbox.ends
    for seconds, later in ((10, False), (600, True)):
        connected = await door.http.post(f"/v2/sandboxes/{box.id}/connect", json={"timeout": seconds})
        assert connected.json()["envdAccessToken"] == box.token
        assert (sandbox.ends > first) == later
    assert (await door.http.post(f"/sandboxes/{box.id}/timeout", json={"timeout": 1})).status_code == 204
    async with asyncio.timeout(10):
        while door.sandboxes.all():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert (await door.http.get(f"/sandboxes/{box.id}")).status_code == 404


async def test_a_repeated_request_is_one_sandbox(door: Door) -> None:
    asked = {"json": {"templateID": "sim"}, "headers": {"Idempotency-Key": "one"}}
    answers = await asyncio.gather(*(door.http.post("/v2/sandboxes", **asked) for _ in range(3)))
    assert len({answer.json()["sandboxID"] for answer in answers}) == 1 == len(door.sandboxes.all())
    await door.http.delete(f"/sandboxes/{answers[0].json()['sandboxID']}")
    again = await door.http.post("/v2/sandboxes", **asked)
    assert again.status_code == 201 and again.json()["sandboxID"] != answers[0].json()["sandboxID"]


async def test_who_went_away_while_waiting_is_given_no_device(tmp_path: Path) -> None:
    async with opened(tmp_path, 1) as door:
        box = await door.create()
        with pytest.raises(httpx.ReadTimeout):
            await door.http.post("/v2/sandboxes", json={"templateID": "sim"}, timeout=0.2)
        async with asyncio.timeout(5):
            while any(making.waiting for making in door.sandboxes._makings.values()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await door.http.delete(f"/sandboxes/{box.id}")
        await door.create()


async def test_it_reaches_what_was_asked_for(door: Door) -> None:
    for asked in (
        {"allow_internet_access": False},
        {"network": {"allowOut": ["example.org"], "denyOut": ["0.0.0.0/0"]}},
    ):
        assert (await (await door.create(**asked)).run("true"))[0] == 0
    assert sorted(tuple(one.egress[-1]) for one in door.machines) == [(), ("example.org",)]
    refused = await door.http.post(
        "/v2/sandboxes", json={"templateID": "sim", "network": {"denyOut": ["example.org"]}}
    )
    assert refused.status_code == 400 and "allow_out" in refused.json()["message"]


# -- the screen ----------------------------------------------------------------------------------------------


async def test_the_clients_lines_are_actions_and_its_screenshot_a_picture(door: Door) -> None:
    box = await door.create()
    assert await box.run("xdotool mousemove --sync 41 52") == (0, "", "")
    assert await box.run("xdotool click 1") == (0, "", "")
    (machine,) = (one for one in door.machines if one.did)
    assert machine.did == [Move(x=41, y=52), Click(x=41, y=52)]
    path = f"{machine.home}/shot.png"
    assert (await box.run(f"scrot --pointer {path}"))[0] == 0
    shot = await door.http.get("/files", params={"path": path}, headers=box.headers)
    assert Image.open(io.BytesIO(shot.content)).size == (160, 120)
    code, out, err = await box.run("xdotool mousemove --sync 500 52")
    assert (code, out) == (1, "") and "off the screen" in err
    assert (await box.run("xdotool getmouselocation"))[1].startswith("x:41 y:52 ")
    screen = {"process": {"cmd": "/bin/bash", "args": ["-l", "-c", "Xvfb :0 -screen 0 640x480x24"]}}
    error = (await box.stream("process.Process/Start", screen))[-1]["error"]
    assert error["code"] == "invalid_argument" and "160 x 120" in error["message"]


# -- programs ------------------------------------------------------------------------------------------------


async def test_a_program_has_its_streams_code_variables_and_folder(door: Door) -> None:
    box = await door.create(envVars={"A": "sandbox", "B": "b", "DISPLAY": ":0"})
    line = 'echo "$A $B $PWD [$DISPLAY]"; echo bad >&2; exit 3'
    code, out, err = await box.run(line, envs={"A": "a'$x"}, cwd="/usr")
    assert (code, out, err) == (3, "a'$x b /usr []\n", "bad\n")
    assert await box.run("printf '\\360\\237\\230'; sleep 0.3; printf '\\200'") == (0, "\U0001f600", "")
    assert (await box.run("nonesuch"))[0] == 127
    code, out, _ = await box.run("head -c 700000 /dev/zero | tr '\\0' x")
    assert code == 0 and out == "x" * 700_000


async def test_a_program_goes_on_without_a_reader_and_the_screen_meanwhile(door: Door) -> None:
    box = await door.create()
    go = "until [ -e go ]; do sleep 0.02; done; echo went"
    message = {"process": {"cmd": "sh", "args": ["-c", f"echo began; {go}"]}, "tag": "waits"}
    body = json.dumps(message).encode()
    pid = 0
    async with door.http.stream(
        "POST",
        "/process.Process/Start",
        content=struct.pack(">BI", 0, len(body)) + body,
        headers=box.headers,
    ) as answer:
        async for part in answer.aiter_raw():
            pid = json.loads(part[5 : 5 + struct.unpack_from(">BI", part)[1]])["event"]["start"]["pid"]
            break
    assert (await box.run("xdotool click 1"))[0] == 0
    (listed,) = (await box.call("process.Process/List")).json()["processes"]
    assert (listed["pid"], listed["tag"]) == (pid, "waits")
    await box.run("touch go")
    *events, end = await box.stream("process.Process/Connect", {"process": {"pid": pid}})
    told = b"".join(base64.b64decode(one["event"].get("data", {}).get("stdout", "")) for one in events)
    assert end == {} and told.decode().endswith("went\n")
    assert events[-1]["event"]["end"]["exitCode"] == 0
    assert (await box.call("process.Process/List")).json() == {"processes": []}


async def test_a_program_is_killed_with_what_it_started_by_signal_or_by_its_time(door: Door) -> None:
    box = await door.create()
    task = asyncio.create_task(box.run("sleep 999 & sleep 999"))
    async with asyncio.timeout(10):
        while not (  # noqa: ASYNC110
            listed := (await box.call("process.Process/List")).json()["processes"]
        ):
            await asyncio.sleep(0.01)
    kill = {"process": {"pid": listed[0]["pid"]}, "signal": "SIGNAL_SIGKILL"}
    assert (await box.call("process.Process/SendSignal", **kill)).json() == {}
    assert (await task)[0] == 137
    assert (await box.call("process.Process/SendSignal", **kill)).status_code == 404
    process = {"process": {"cmd": "sleep", "args": ["999"]}}
    *events, end = await box.stream("process.Process/Start", process, **{"Connect-Timeout-Ms": "150"})
    assert end == {} and events[-1]["event"]["end"]["exitCode"] == 137


# -- files ---------------------------------------------------------------------------------------------------


async def test_files_and_folders_from_the_home_folder_on(door: Door) -> None:
    box = await door.create()
    put = await door.http.post(
        "/files",
        params={"path": "a/b.bin"},
        files={"file": ("x", b"\0\xff\r\n")},
        headers=box.headers,
    )
    ((name, path),) = ((one["name"], one["path"]) for one in put.json())
    assert name == "b.bin" and path.endswith("/a/b.bin")
    many = [("file", ("c/1", b"1")), ("file", ("c/2", b"22"))]
    assert len((await door.http.post("/files", files=many, headers=box.headers)).json()) == 2
    octets = {"Content-Type": "application/octet-stream"}
    await door.http.post("/files", params={"path": "c/3"}, content=b"333", headers=box.headers | octets)
    assert (
        await door.http.get("/files", params={"path": path}, headers=box.headers)
    ).content == b"\0\xff\r\n"
    entries = (await box.call("filesystem.Filesystem/ListDir", path="c", depth=1)).json()["entries"]
    assert {one["name"]: one["size"] for one in entries} == {"1": "1", "2": "2", "3": "3"}
    moved = await box.call("filesystem.Filesystem/Move", source="c/1", destination="c/one")
    assert moved.json()["entry"]["type"] == "FILE_TYPE_FILE"
    await box.run("ln -s one c/link")
    link = (await box.call("filesystem.Filesystem/Stat", path="c/link")).json()["entry"]
    assert link["isSymlink"] and link["symlinkTarget"] == "one"
    assert (await box.call("filesystem.Filesystem/MakeDir", path="d/e")).status_code == 200
    made = await box.call("filesystem.Filesystem/MakeDir", path="d/e")
    assert (made.status_code, made.json()["code"]) == (409, "already_exists")
    assert (await box.call("filesystem.Filesystem/Remove", path="c")).json() == {}
    for answer in (
        await box.call("filesystem.Filesystem/Stat", path="c"),
        await door.http.get("/files", params={"path": "c/2"}, headers=box.headers),
    ):
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


# -- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"templateID": "toaster"}, "no 'toaster' devices"),
        ({"templateID": ""}, "templateID"),
        ({"templateID": "sim", "timeout": 0}, "timeout"),
        ({"templateID": "sim", "timeout": 10**9}, "timeout"),
        ({"templateID": "sim", "mcp": {"x": {}}}, "no mcp"),
        ({"templateID": "sim", "volumeMounts": [{"name": "v", "path": "/v"}]}, "no volumeMounts"),
        ({"templateID": "sim", "metadata": {"a": 1}}, "metadata"),
        ([], "no message"),
        ("[" * 100_000, "no message"),
    ],
)
async def test_what_no_sandbox_can_be_is_refused(door: Door, asked: Any, why: str) -> None:
    body = asked.encode() if isinstance(asked, str) else json.dumps(asked).encode()
    answer = await door.http.post("/v2/sandboxes", content=body)
    assert answer.status_code == 400 and why in answer.json()["message"]
    assert "\n" not in answer.json()["message"] and door.sandboxes.all() == []


async def test_what_it_cannot_do_is_said_and_nothing_is_done(door: Door) -> None:
    box = await door.create()
    for message in (
        {"process": {"cmd": "cat"}, "stdin": True},
        {"process": {"cmd": "sh"}, "pty": {"size": {"cols": 80, "rows": 24}}},
    ):
        assert (await box.stream("process.Process/Start", message))[-1]["error"]["code"] == "unimplemented"
    assert (await box.call("filesystem.Filesystem/WatchDir", path="/")).json()["code"] == "unimplemented"
    paused = await door.http.post(f"/sandboxes/{box.id}/pause")
    assert paused.status_code == 501 and "pause" in paused.json()["message"]
    for message, why in (
        ({"process": {"cmd": "sh", "envs": {"a b": "1"}}}, "no name of a variable"),
        ({"process": {"cmd": "sh", "args": ["a\0b"]}}, "NUL"),
        ({"process": {"cmd": "sh", "cwd": "/nonesuch"}}, "cannot be started in /nonesuch"),
        ({"process": 7}, "no message of this call"),
    ):
        error = (await box.stream("process.Process/Start", message))[-1]["error"]
        assert error["code"] == "invalid_argument" and why in error["message"]
    for path in ("", "a\0b", "x" * 5000):
        answer = await box.call("filesystem.Filesystem/Stat", path=path)
        assert answer.json()["code"] == "invalid_argument"
    form = {"Content-Type": "multipart/form-data; boundary=x"}
    answer = await door.http.post("/files", content=b"--x\r\nno form", headers=box.headers | form)
    assert answer.status_code == 400 and "form of files" in answer.json()["message"]


@pytest.mark.parametrize(
    "body", [b"", b"\0\0", struct.pack(">BI", 0, 99) + b"{}", struct.pack(">BI", 1, 2) + b"{}"]
)
async def test_what_is_no_envelope_is_refused(door: Door, body: bytes) -> None:
    box = await door.create()
    answer = await door.http.post("/process.Process/Start", content=body, headers=box.headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")


async def test_too_large_a_body_is_refused_before_its_end(door: Door) -> None:
    box = await door.create()

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(2 * MAX_FILE // (1 << 20)):
            yield bytes(1 << 20)

    for path, headers in (("/v2/sandboxes", {}), ("/files?path=x", box.headers)):
        with contextlib.suppress(httpx.WriteError, httpx.ReadError):  # it may hang up on who goes on sending
            answer = await door.http.post(path, content=endless(), headers=headers)
            assert answer.status_code in (413, 429), answer.text
    assert (await box.call("filesystem.Filesystem/Stat", path="x")).status_code == 404
