"""The same click through the doors to loops and clients of others lands on the same pixel of the device.

What those packages send is sent here without them, in their form; with them the doors are tested in
tests/doors. Most count in pixels. These do not:

- android_env: a share of the screen as a float32. Pixel x is `x / width`, and a share means the pixel that it
  falls into.
- UI-TARS 1.0 counts in thousandths and Qwen3-VL in 999ths of the screen: its reply has the nearest unit,
  `round(x * units / width)`, and the device's pixel is `round(unit * width / units)`. No pixel is lost on a
  screen with fewer pixels than units; on a larger one pixels share a unit, and `CoordinateSpace.drift` says
  how far that is (tests/guiagent/test_coordinates.py).
"""

import asyncio
import contextlib
import json
import os
import socket
import struct
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from a2a.client import ClientConfig, create_client
from a2a.helpers import new_text_message
from a2a.types import Role, SendMessageRequest
from acp import connect_to_agent, text_block
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from eval.doors import nemo_gym
from eval.doors.android_env import LIFT, TOUCH, AndroidEnv
from eval.doors.cube.seat import Seat
from eval.doors.harbor import folders, sessions
from eval.doors.play import play
from eval.doors.rollouts import Rollouts
from eval.doors.trl import SuiteEnvironments
from eval.stepping import SuiteTasks
from guiagent import serving
from guiagent.actions import ACTIONS
from guiagent.client import FarmClient
from guiagent.dialects import find_dialect
from guiagent.doors import a2a, acp
from guiagent.doors.e2b import server as e2b
from guiagent.doors.e2b.sandboxes import Sandboxes
from guiagent.doors.errands import MAX_MESSAGE, Desk, Settings
from guiagent.protocols import Turn
from guiagent.types import Observation, PolicyOutput
from guiagent.wire import Endpoint
from tests.support.dm_env_stand_in import without_dm_env
from tests.support.literal_policy import LiteralPolicy
from tests.support.pressed_canvas import (
    HEIGHT,
    MEANT,
    SUITE,
    TASK,
    WIDTH,
    Door,
    Point,
    landed,
    pressed_pool,
    row,
)

TOKEN, VERDICTS = "a token of the tests of doors", "another token, of verifiers"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with pressed_pool(tmp_path_factory.mktemp("pool")) as endpoint:
        yield endpoint


def browsing(app: Any, **options: Any) -> httpx.AsyncClient:
    """A client of an application in this process."""
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(transport=transport, base_url="http://door.test", timeout=30, **options)


@contextlib.asynccontextmanager
async def rollouts_on(pool: Endpoint) -> AsyncIterator[Rollouts]:
    async with FarmClient(pool.url, pool.token) as client:
        rollouts = Rollouts(SuiteTasks(SUITE), client, 1, None, 60, door="test", at_once="n")
        try:
            yield rollouts
        finally:
            await rollouts.close()


# -- a suite's tasks for frameworks of others ----------------------------------------------------------------


async def by_nemo_gym(pool: Endpoint, at: Point) -> None:
    async with rollouts_on(pool) as rollouts, browsing(nemo_gym.application(rollouts)) as http:
        (await http.post("/seed_session", json=row())).raise_for_status()
        (await http.post("/click", json={"x": at[0], "y": at[1]})).raise_for_status()


@contextlib.asynccontextmanager
async def harbor_container(pool: Endpoint) -> AsyncIterator[tuple[list[str], dict[str, str]]]:
    """The program of a task's container, with its session begun, and the container's variables."""
    async with rollouts_on(pool) as rollouts:
        app = sessions.application(sessions.Sessions(rollouts), TOKEN, VERDICTS)
        listener = serving.listen("127.0.0.1", 0, "--http")
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "session.py"
            made = folders.files(SuiteTasks(SUITE), TASK, row()["seed"], 60)
            program.write_text(made["environment/session.py"])
            variables = {
                "PATH": os.environ["PATH"],
                "GUIAGENT_HARBOR_URL": serving.url_of(listener, "127.0.0.1"),
                "GUIAGENT_HARBOR_TOKEN": TOKEN,
                "GUIAGENT_HARBOR_SESSION": str(Path(folder) / "session"),
            }
            async with serving.meanwhile(app, listener):
                await run([str(program), "begin", TASK, str(row()["seed"])], variables)
                yield [str(program)], variables


async def run(words: list[str], variables: dict[str, str]) -> None:
    ended = await asyncio.create_subprocess_exec(sys.executable, *words, env=variables)
    assert await asyncio.wait_for(ended.wait(), 60) == 0


async def by_harbors_command(pool: Endpoint, at: Point) -> None:
    async with harbor_container(pool) as (program, variables):
        await run([*program, "click", f"x={at[0]}", f"y={at[1]}"], variables)


async def by_harbors_mcp(pool: Endpoint, at: Point) -> None:
    async with harbor_container(pool) as (program, variables):
        started = StdioServerParameters(command=sys.executable, args=[*program, "mcp"], env=variables)
        async with Client(stdio_client(started)) as client:
            assert not (await client.call_tool("click", {"x": at[0], "y": at[1]})).is_error


def by_trl(pool: Endpoint, at: Point) -> None:
    with SuiteEnvironments(SUITE, pool=pool.url, devices=1) as environments:
        environment = environments()
        environment.reset(**row())
        environment.click(*at)
        environment.get_reward()


def by_cube(pool: Endpoint, at: Point) -> None:
    """CUBE's tools call what the task sits on; the package itself needs Python 3.12."""
    seat = Seat(SuiteTasks(SUITE), door="cube", pool=pool.url)
    try:
        seat.begin(**row())
        seat.call("click", {"x": at[0], "y": at[1]})
    finally:
        seat.close()


def by_android_env(pool: Endpoint, at: Point) -> None:
    with without_dm_env():
        env = AndroidEnv(SUITE, TASK, pool=pool.url)
        env.reset()
        share = np.array([at[0] / WIDTH, at[1] / HEIGHT], np.float32)
        for kind in (TOUCH, LIFT):
            env.step({"action_type": np.int32(kind), "touch_position": share})
        env.close()


class Replying:
    """A model that says one reply, read in its dialect as inspect_ai's, verifiers' and verl's models are."""

    def __init__(self, dialect: str, reply: str) -> None:
        self._dialect, self._reply = find_dialect(dialect), reply

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        if history:
            return PolicyOutput("", [{"type": "done"}])
        actions = self._dialect.parse(self._reply, (observation.width, observation.height))
        return PolicyOutput(self._reply, ACTIONS.dump_python(actions, mode="json"))

    def forget(self, episode: str) -> None:
        pass


async def played(pool: Endpoint, policy: Replying) -> None:
    tasks, first = SuiteTasks(SUITE), row()
    await play(tasks, first["task"], first["seed"], policy, pool, label="test")


async def by_a_reply_in_json(pool: Endpoint, at: Point) -> None:
    await played(pool, Replying("json", json.dumps({"type": "click", "x": at[0], "y": at[1]})))


async def by_a_reply_in_thousandths(pool: Endpoint, at: Point) -> None:
    x, y = round(at[0] * 1000 / WIDTH), round(at[1] * 1000 / HEIGHT)
    await played(pool, Replying("ui-tars-1.0", f"Thought: there.\nAction: click(start_box='({x},{y})')"))


async def by_a_reply_in_999ths(pool: Endpoint, at: Point) -> None:
    place = [round(at[0] * 999 / WIDTH), round(at[1] * 999 / HEIGHT)]
    call = {"name": "computer_use", "arguments": {"action": "left_click", "coordinate": place}}
    await played(pool, Replying("qwen3-computer", f"<tool_call>\n{json.dumps(call)}\n</tool_call>"))


# -- devices for clients of others ---------------------------------------------------------------------------


async def by_e2b(pool: Endpoint, at: Point) -> None:
    """The command lines of E2B's desktop client, a sandbox for both."""
    async with FarmClient(pool.url, pool.token) as client:
        sandboxes = Sandboxes(client, 5.0)
        try:
            async with browsing(e2b.application(sandboxes, TOKEN), headers={"X-API-KEY": TOKEN}) as http:
                created = await http.post("/v2/sandboxes", json={"templateID": "sim"})
                told = created.raise_for_status().json()
                headers = {"E2b-Sandbox-Id": told["sandboxID"], "X-Access-Token": told["envdAccessToken"]}
                headers["Content-Type"] = "application/connect+json"
                for line in (f"xdotool mousemove --sync {at[0]} {at[1]}", "xdotool click 1"):
                    process = {"cmd": "/bin/bash", "args": ["-l", "-c", line]}
                    body = json.dumps({"process": process, "stdin": False}).encode()
                    framed = struct.pack(">BI", 0, len(body)) + body
                    ended = await http.post("/process.Process/Start", content=framed, headers=headers)
                    ended.raise_for_status()
        finally:
            await sandboxes.close()


@contextlib.asynccontextmanager
async def desk_on(pool: Endpoint) -> AsyncIterator[Desk]:
    """Takes tasks on for a policy that does what they say to the letter."""
    async with FarmClient(pool.url, pool.token) as client:
        desk = Desk(client, LiteralPolicy(), Settings(kind="sim"))
        try:
            yield desk
        finally:
            await desk.close()


def in_words(at: Point) -> str:
    return json.dumps([{"type": "click", "x": at[0], "y": at[1]}])


async def by_a2a(pool: Endpoint, at: Point) -> None:
    async with desk_on(pool) as desk:
        app = a2a.application(desk, "http://door.test", TOKEN)
        async with browsing(app, headers={"Authorization": f"Bearer {TOKEN}"}) as http:
            client = await create_client("http://door.test", ClientConfig(httpx_client=http))
            message = new_text_message(in_words(at), role=Role.ROLE_USER)
            async for _ in client.send_message(SendMessageRequest(message=message)):
                pass


class _Editor:
    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        pass


async def by_acp(pool: Endpoint, at: Point) -> None:
    ours, theirs = socket.socketpair()
    async with desk_on(pool) as desk:
        lines = acp.Lines(*await asyncio.open_connection(sock=ours, limit=MAX_MESSAGE))
        served = asyncio.create_task(acp.serve(desk, lines))
        reader, writer = await asyncio.open_connection(sock=theirs)
        agent = connect_to_agent(_Editor(), writer, reader)  # type: ignore[arg-type]
        session = (await agent.new_session(cwd="/", mcp_servers=[])).session_id
        await agent.prompt(session_id=session, prompt=[text_block(in_words(at))])
        await agent.close()
        writer.close()
        await asyncio.wait_for(served, 20)


DOORS: list[Door] = [
    by_nemo_gym,
    by_harbors_command,
    by_harbors_mcp,
    by_trl,
    by_cube,
    by_android_env,
    by_a_reply_in_json,
    by_a_reply_in_thousandths,
    by_a_reply_in_999ths,
    by_e2b,
    by_a2a,
    by_acp,
]


@pytest.mark.parametrize("door", DOORS)
def test_a_click_lands_where_it_was_meant(pool: Endpoint, door: Door) -> None:
    assert landed(pool, door) == MEANT
