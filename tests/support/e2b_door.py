"""E2B's wire over a pool of machines, with what its clients send and read."""

import base64
import contextlib
import json
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from devices.api.server import Running, running
from guiagent import serving
from guiagent.client import FarmClient
from guiagent.doors.e2b.sandboxes import Sandboxes
from guiagent.doors.e2b.server import application
from tests.support.canvas_device import farm_of
from tests.support.machine_device import MachineDevice, Machines

KEY = "a key of the tests"


@dataclass
class Door:
    http: httpx.AsyncClient
    sandboxes: Sandboxes
    machines: list[MachineDevice]
    farm: Running

    async def create(self, **asked: Any) -> "Box":
        answer = await self.http.post("/v2/sandboxes", json={"templateID": "sim", **asked})
        assert answer.status_code == 201, answer.text
        told = answer.json()
        return Box(self.http, told["sandboxID"], told["envdAccessToken"])


@dataclass
class Box:
    http: httpx.AsyncClient
    id: str
    token: str

    @property
    def headers(self) -> dict[str, str]:
        return {"E2b-Sandbox-Id": self.id, "X-Access-Token": self.token}

    async def call(self, name: str, **message: Any) -> httpx.Response:
        return await self.http.post(f"/{name}", json=message, headers=self.headers)

    async def stream(self, name: str, message: Any, **headers: str) -> list[dict[str, Any]]:
        """The messages of a stream; the last one is what ended it."""
        body = json.dumps(message).encode()
        answer = await self.http.post(
            f"/{name}", content=struct.pack(">BI", 0, len(body)) + body, headers=self.headers | headers
        )
        assert answer.headers["content-type"] == "application/connect+json", answer.text
        data, messages = answer.content, []
        while data:
            flags, length = struct.unpack_from(">BI", data)
            messages.append(json.loads(data[5 : 5 + length]) | ({"last": True} if flags == 2 else {}))
            data = data[5 + length :]
        assert messages[-1].pop("last")
        return messages

    async def run(self, line: str, **config: Any) -> tuple[int, str, str]:
        """The exit code and both streams of a command line."""
        process = {"cmd": "/bin/bash", "args": ["-l", "-c", line], **config}
        *events, end = await self.stream("process.Process/Start", {"process": process, "stdin": False})
        assert end == {}, end
        told = {"stdout": b"", "stderr": b""}
        for event in events:
            for name, data in event["event"].get("data", {}).items():
                told[name] += base64.b64decode(data)
        assert "start" in events[0]["event"]
        code = events[-1]["event"]["end"]["exitCode"]
        return code, told["stdout"].decode(), told["stderr"].decode()


@contextlib.asynccontextmanager
async def opened(folder: Path, count: int, wait_s: float = 5.0) -> AsyncIterator[Door]:
    machines = Machines()
    async with contextlib.AsyncExitStack() as stack:
        farm = await stack.enter_async_context(running(farm_of(count, folder), machines.drivers))
        await farm.service.settled()
        client = await stack.enter_async_context(FarmClient(farm.endpoint.url, farm.endpoint.token))
        sandboxes = Sandboxes(client, wait_s)
        listener = stack.enter_context(serving.listen("127.0.0.1", 0, "--http"))
        await stack.enter_async_context(serving.meanwhile(application(sandboxes, KEY), listener))
        http = httpx.AsyncClient(
            base_url=serving.url_of(listener, "127.0.0.1"), headers={"X-API-KEY": KEY}, timeout=30
        )
        yield Door(await stack.enter_async_context(http), sandboxes, machines.started, farm)
