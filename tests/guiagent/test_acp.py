"""The front for editors, by the Agent Client Protocol's own client, unmodified."""

import asyncio
import base64
import contextlib
import io
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from acp import (
    PROTOCOL_VERSION,
    RequestError,
    connect_to_agent,
    image_block,
    resource_link_block,
    spawn_agent_process,
    text_block,
)
from acp.client.connection import ClientSideConnection
from acp.schema import AgentMessageChunk, AgentThoughtChunk, PromptResponse, ToolCallStart
from PIL import Image

from devices.api.server import Running, running
from guiagent import wire
from guiagent.agent import Limits
from guiagent.client import FarmClient, LeasedDevice
from guiagent.doors.acp import Lines, serve
from guiagent.doors.errands import MAX_MESSAGE, Desk, Settings
from tests.support.canvas_device import DRIVERS, TOKEN, CanvasDevice, farm_of
from tests.support.literal_policy import LiteralPolicy

CLICK = '{"type": "click", "x": 40, "y": 30}'
HOLD = '{"type": "open", "target": "canvas:hold"}'
STUCK = '{"type": "done", "status": "infeasible"}'


class Editor:
    """What an editor shows of a session. `seen` is set with everything that it is told."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.seen = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        self.seen.set()

    def of(self, kind: type[Any]) -> list[Any]:
        return [update for update in self.updates if isinstance(update, kind)]


class Bench:
    """An editor and its agent on a farm of two canvases."""

    def __init__(
        self, farm: Running, policy: LiteralPolicy, editor: Editor, agent: ClientSideConnection
    ) -> None:
        self.farm, self.policy, self.editor, self.agent = farm, policy, editor, agent

    async def session(self) -> str:
        return (await self.agent.new_session(cwd="/", mcp_servers=[])).session_id

    async def say(self, session: str, *words: str) -> PromptResponse:
        return await self.agent.prompt(session_id=session, prompt=[text_block(word) for word in words])

    async def asked(self, turns: int) -> None:
        """Wait until the policy was asked for so many turns."""
        async with asyncio.timeout(10):
            while self.policy.asked < turns:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    @property
    def leases(self) -> int:
        return len(self.farm.service.views.leases("").leases)

    async def refusal(self, session: str, *blocks: Any) -> RequestError:
        with pytest.raises(RequestError) as refused:
            await self.agent.prompt(session_id=session, prompt=list(blocks))
        return refused.value


@contextlib.asynccontextmanager
async def bench_of(folder: Path, **settings: Any) -> AsyncIterator[Bench]:
    CanvasDevice.let_go = asyncio.Event()
    ours, theirs = socket.socketpair()
    policy, editor = LiteralPolicy(), Editor()
    async with running(farm_of(2, folder), DRIVERS) as farm, FarmClient(farm.endpoint.url, TOKEN) as client:
        await farm.service.settled()
        desk = Desk(client, policy, Settings(kind="sim", **settings))
        lines = Lines(*await asyncio.open_connection(sock=ours, limit=MAX_MESSAGE))
        serving = asyncio.create_task(serve(desk, lines))
        reader, writer = await asyncio.open_connection(sock=theirs)
        agent = connect_to_agent(editor, writer, reader)  # type: ignore[arg-type]
        try:
            yield Bench(farm, policy, editor, agent)
        finally:
            await agent.close()
            writer.close()
            await asyncio.wait_for(serving, 20)
        assert farm.service.views.leases("").leases == []


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with bench_of(tmp_path, longest=80) as bench:
        yield bench


async def test_a_task_is_carried_out_and_shown_step_by_step(bench: Bench) -> None:
    about = await bench.agent.initialize(protocol_version=PROTOCOL_VERSION)
    assert about.protocol_version == PROTOCOL_VERSION and about.agent_info is not None
    assert about.agent_info.name == "guiagent"
    session = await bench.session()
    answer = '{"type": "answer", "text": "42"}'
    ended = await bench.say(session, f"[{CLICK}, {answer}]")
    assert ended.stop_reason == "end_turn" and ended.field_meta is not None
    told = ended.field_meta["guiagent"]
    assert (told["status"], told["stop"], told["answer"], told["steps"]) == ("success", "agent_done", "42", 2)
    clicked, answered = bench.editor.of(ToolCallStart)
    assert (clicked.title, clicked.status) == ("click x=40 y=30", "completed")
    image = Image.open(io.BytesIO(base64.b64decode(clicked.content[0].content.data))).convert("RGB")
    assert image.size == (80, 60)  # of 160 x 120
    assert image.getpixel((20, 15))[1] < 100 < image.getpixel((60, 40))[1]  # type: ignore[index]
    assert answered.title == "answer text='42'"
    assert [one.content.text for one in bench.editor.of(AgentThoughtChunk)] == ["now click", "now answer"]
    assert [one.content.text for one in bench.editor.of(AgentMessageChunk)] == ["42"]


async def test_a_session_goes_on_with_its_device(bench: Bench) -> None:
    session, other = await bench.session(), await bench.session()
    for task in (f"[{CLICK}]", "[]"):
        assert (await bench.say(session, "go on:", task)).stop_reason == "end_turn"
    *_, last = bench.editor.of(ToolCallStart)
    image = Image.open(io.BytesIO(base64.b64decode(last.content[0].content.data))).convert("RGB")
    assert image.getpixel((20, 15))[1] < 100  # type: ignore[index]  # the first task's click
    await bench.say(other, "[]")
    assert bench.leases == 2


async def test_a_cancelled_task_does_nothing_more_and_gives_the_device_back(bench: Bench) -> None:
    session = await bench.session()
    asked = asyncio.create_task(bench.say(session, f"[{', '.join([CLICK] * 300)}]"))
    await bench.editor.seen.wait()
    await bench.agent.cancel(session_id=session)
    assert (await asked).stop_reason == "cancelled"
    assert bench.leases == 0
    done = bench.policy.asked, len(bench.editor.updates)
    assert (await bench.say(session, "[]")).stop_reason == "end_turn"  # on another device, or a clean one
    assert (bench.policy.asked, len(bench.editor.of(ToolCallStart))) == (
        done[0] + 1,
        len([one for one in bench.editor.updates[: done[1]] if isinstance(one, ToolCallStart)]) + 1,
    )


async def test_an_action_under_way_does_not_hold_a_cancellation_up(bench: Bench) -> None:
    session = await bench.session()
    asked = asyncio.create_task(bench.say(session, f"[{CLICK}, {HOLD}, {CLICK}]"))
    await bench.asked(2)
    await bench.agent.cancel(session_id=session)
    assert (await asked).stop_reason == "cancelled"
    assert bench.leases == 0 and bench.policy.asked == 2
    CanvasDevice.let_go.set()


async def test_limits_end_a_task(tmp_path: Path) -> None:
    async with bench_of(tmp_path, limits=Limits(steps=3)) as bench:
        ended = await bench.say(await bench.session(), f"[{', '.join([CLICK] * 9)}]")
        assert ended.stop_reason == "max_turn_requests" and ended.field_meta is not None
        assert ended.field_meta["guiagent"]["status"] == "stopped"
        assert len(bench.editor.of(ToolCallStart)) == 3


async def test_a_person_is_asked_for_and_the_next_prompt_goes_on(bench: Bench) -> None:
    session = await bench.session()
    ended = await bench.say(session, "Buy it", f"[{CLICK}, {STUCK}]")
    assert ended.stop_reason == "end_turn" and ended.field_meta is not None
    assert ended.field_meta["guiagent"]["status"] == "asks"
    assert bench.editor.of(AgentMessageChunk)[-1].content.text == "the agent needs a person: now done"
    async with FarmClient(bench.farm.endpoint.url, TOKEN) as operator:
        async with asyncio.timeout(10):
            while not (wanted := await operator.wanted()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        (one,) = wanted
        assert one.reason == "now done"
        click = f'{{"token": {one.token}, "key": "k", "actions": [{CLICK}]}}'
        await operator.call("POST", f"/v1/help/{one.id}/step", click.encode())
        ended = await bench.say(session, "[]")  # while the person has it
        assert ended.field_meta is not None and ended.field_meta["guiagent"]["status"] == "asks"
        assert "somebody still has the device" in bench.editor.of(AgentMessageChunk)[-1].content.text
        await operator.give_back(one.id, note="logged in as Ann")
    ended = await bench.say(session, f"go on [{CLICK}]")
    assert ended.field_meta is not None and ended.field_meta["guiagent"]["status"] == "success"
    assert bench.policy.tasks[-1].splitlines() == [
        "Buy it",
        f"[{CLICK}, {STUCK}]",
        "",
        "You needed a person: now done",
        "A person used this screen meanwhile: click x=40 y=30",
        "The person says: logged in as Ann",
        f"Your user answers: go on [{CLICK}]",
    ]


async def test_the_words_of_the_user_are_enough_where_nobody_comes(bench: Bench) -> None:
    session = await bench.session()
    await bench.say(session, f"[{STUCK}]")
    ended = await bench.say(session, f"[{CLICK}]")
    assert ended.field_meta is not None and ended.field_meta["guiagent"]["status"] == "success"
    async with FarmClient(bench.farm.endpoint.url, TOKEN) as operator:
        assert await operator.wanted() == []


async def test_a_fault_is_an_error_and_the_session_goes_on_with_another_device(bench: Bench) -> None:
    session = await bench.session()
    holding = asyncio.create_task(bench.refusal(session, text_block(f"[{CLICK}, {HOLD}]")))
    await bench.asked(2)
    (held,) = bench.farm.service.views.leases("").leases
    async with FarmClient(bench.farm.endpoint.url, TOKEN) as operator:
        await operator.call("DELETE", f"{wire.LEASES}/{held.id}")
    error = await holding
    assert error.code == -32603 and "fault" in str(error)
    assert error.data["fault"]["origin"] == "farm" and error.data["steps"] == 2
    CanvasDevice.let_go.set()
    assert (await bench.say(session, f"[{CLICK}]")).stop_reason == "end_turn"


async def test_a_device_is_given_back_in_silence(tmp_path: Path) -> None:
    async with bench_of(tmp_path, idle_s=0.2) as bench:
        session = await bench.session()
        await bench.say(session, f"[{STUCK}]")
        async with asyncio.timeout(10):
            while bench.leases:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert (await bench.say(session, "[]")).stop_reason == "end_turn"


async def test_a_message_that_comes_while_a_device_is_given_back_has_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing, go_on = asyncio.Event(), asyncio.Event()
    close = LeasedDevice.close

    async def late(device: LeasedDevice) -> None:
        closing.set()
        await go_on.wait()
        await close(device)

    async with bench_of(tmp_path, idle_s=0.5) as bench:
        session = await bench.session()
        await bench.say(session, f"[{CLICK}]")
        monkeypatch.setattr(LeasedDevice, "close", late)
        async with asyncio.timeout(10):
            await closing.wait()
        assert (await bench.say(session, "[]")).stop_reason == "end_turn"
        assert bench.leases == 2
        go_on.set()
        async with asyncio.timeout(10):
            while bench.leases == 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert (await bench.say(session, "[]")).stop_reason == "end_turn"
        assert bench.leases == 1  # the session still has the second one


async def test_sessions_without_a_device_make_room_for_new_ones(bench: Bench) -> None:
    first = await bench.session()
    await bench.say(first, f"[{CLICK}]")
    second = await bench.session()
    for _ in range(64):
        await bench.session()
    assert (await bench.say(first, "[]")).stop_reason == "end_turn"
    assert "there is no session" in str(await bench.refusal(second, text_block("[]")))


async def test_mistakes_are_lines_and_the_session_goes_on(tmp_path: Path) -> None:
    async with bench_of(tmp_path, wait_s=0.0, most=2) as bench:
        session = await bench.session()
        assert "there is no session 'none'" in str(await bench.refusal("none", text_block("x")))
        for wrong in (image_block("", "image/png"), text_block(" "), text_block("[" + " " * 20_000)):
            error = await bench.refusal(session, wrong)
            assert error.code == -32602 and str(error).startswith(("a task", "say in words")), error
            assert bench.leases == 0
        holding = asyncio.create_task(bench.say(session, f"[{HOLD}]"))
        await bench.asked(1)
        assert "cancel it, or wait" in str(await bench.refusal(session, text_block("[]")))
        link = resource_link_block("page", "https://example.org/[]")
        other = await bench.session()
        await bench.agent.prompt(session_id=other, prompt=[link])
        assert bench.policy.tasks[-1] == "page: https://example.org/[]"
        assert "2 tasks are under way" in str(await bench.refusal(await bench.session(), text_block("[]")))
        CanvasDevice.let_go.set()
        assert (await holding).stop_reason == "end_turn"


async def test_no_free_device_is_a_fault(tmp_path: Path) -> None:
    async with bench_of(tmp_path, wait_s=0.0) as bench:
        for _ in range(2):
            await bench.say(await bench.session(), "[]")
        error = await bench.refusal(await bench.session(), text_block("[]"))
        assert error.data["fault"]["code"] == "no_device"


async def raw(lines: list[bytes], answers: int) -> list[Any]:
    """What a client is answered that sends these bytes."""
    ours, theirs = socket.socketpair()
    desk = Desk(FarmClient("http://127.0.0.1:9", "x"), LiteralPolicy(), Settings())
    agent = Lines(*await asyncio.open_connection(sock=ours, limit=MAX_MESSAGE))
    serving = asyncio.create_task(serve(desk, agent))
    reader, writer = await asyncio.open_connection(sock=theirs)
    writer.writelines(lines)
    said = [json.loads(await asyncio.wait_for(reader.readline(), 10)) for _ in range(answers)]
    writer.close()
    await asyncio.wait_for(serving, 10)
    return said


async def test_what_is_no_message_is_answered_and_the_next_one_is_read() -> None:
    asks = b'{"jsonrpc": "2.0", "id": 7, "method": "session/fly", "params": {}}\n'
    said = await raw([b"no\n", b"[1]\n", b"[" * 90_000 + b"\n", asks], 4)
    assert [one["error"]["code"] for one in said] == [-32700, -32600, -32700, -32601]
    assert said[-1]["id"] == 7


async def test_a_message_that_is_too_long_ends_the_connection() -> None:
    (said,) = await raw([b'"' + b"x" * (MAX_MESSAGE + 10)], 1)
    assert said["error"]["message"] == f"a message has at most {MAX_MESSAGE} bytes"


async def test_the_command_serves_an_editor_until_a_signal_comes(bench: Bench) -> None:
    words = ["-m", "guiagent.cli", "agent", "acp", "--pool", bench.farm.endpoint.url, "--device", "sim"]
    own = {**os.environ, "GUIAGENT_TOKEN": TOKEN}
    editor: Any = Editor()
    async with (
        asyncio.timeout(60),
        spawn_agent_process(editor, sys.executable, *words, "--policy", "done", env=own) as (agent, process),
    ):
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        session = (await agent.new_session(cwd="/", mcp_servers=[])).session_id
        ended = await agent.prompt(session_id=session, prompt=[text_block("nothing")])
        assert ended.stop_reason == "end_turn" and bench.leases == 1
        process.send_signal(signal.SIGTERM)  # its standard input stays open
        assert await process.wait() == 0
        assert bench.leases == 0
