"""A client of the E2B server wants what is not its own: no key, another's token, a lease that has ended."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from guiagent.client import FarmClient
from guiagent.doors.e2b.files import Folders
from guiagent.types import CommandResult
from tests.support.e2b_door import KEY, opened


async def test_the_key_opens_the_api_and_only_its_own_token_a_sandbox(tmp_path: Path) -> None:
    async with opened(tmp_path, 2) as door:
        mine, other = await door.create(), await door.create()
        for key in ("", "wrong", KEY[:-1]):
            for method, path in (
                ("GET", "/v2/sandboxes"),
                ("POST", "/v2/sandboxes"),
                ("GET", f"/sandboxes/{mine.id}"),
                ("DELETE", f"/sandboxes/{mine.id}"),
                ("POST", f"/v2/sandboxes/{mine.id}/connect"),
            ):
                answer = await door.http.request(method, path, headers={"X-API-KEY": key})
                assert answer.status_code == 401 and mine.token not in answer.text
        for token in ("", other.token, mine.token[:-1], KEY):
            headers = {"E2b-Sandbox-Id": mine.id, "X-Access-Token": token}
            for path in ("/health", "/files?path=/etc/passwd"):
                assert (await door.http.get(path, headers=headers)).status_code == 401
            for path in ("/process.Process/Start", "/filesystem.Filesystem/Remove", "/files?path=x"):
                assert (await door.http.post(path, content=b"{}", headers=headers)).status_code == 401
        assert (await door.http.get("/health", headers={"E2b-Sandbox-Id": "none"})).status_code == 502
        assert len(door.sandboxes.all()) == 2 and await mine.run("true") == (0, "", "")


async def test_a_lease_that_ends_under_a_program_is_said_once_and_keeps_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, 1) as door:
        box = await door.create()
        (sandbox,) = door.sandboxes.all()
        message = {"process": {"cmd": "sleep", "args": ["999"]}}
        stream = asyncio.create_task(box.stream("process.Process/Start", message))
        async with asyncio.timeout(10):
            while not (await box.call("process.Process/List")).json()["processes"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        async with FarmClient(door.farm.endpoint.url, door.farm.endpoint.token) as operator:
            await operator.quarantine(sandbox.device.id, "the test wants it")
        error = (await stream)[-1]["error"]
        assert error["code"] == "unavailable" and error["message"].startswith("the sandbox was not found: ")
        assert "\n" not in error["message"] and door.sandboxes.all() == []
        assert (await door.http.get(f"/sandboxes/{box.id}")).status_code == 404


class Device:
    """Keeps the path that it is asked for."""

    asked = ""

    async def exec(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        return CommandResult(0, "/home/user")

    async def get(self, path: str) -> bytes:
        self.asked = path
        return b""

    async def put(self, path: str, data: bytes) -> None:
        raise AssertionError


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("/etc/passwd", "/etc/passwd"),
        ("../../../../etc/passwd", "/etc/passwd"),
        ("/../../etc/./passwd", "/etc/passwd"),
        ("~/a", "/home/user/a"),
        ("-rf", "/home/user/-rf"),
        ("file:///etc/passwd", "/home/user/file:/etc/passwd"),
    ],
)
async def test_a_path_is_one_of_the_device_and_of_nothing_else(said: str, asked: str) -> None:
    device = Device()
    await Folders(device).read(said)
    assert device.asked == asked
