"""A host that has joined a pool and then says whatever a test likes."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import websockets

from devices.hosts import messages
from devices.hosts.host import SlotInfo
from guiagent.types import Capabilities
from guiagent.wire import HOSTS
from tests.support.joined_hosts import TOKEN


@contextlib.asynccontextmanager
async def rogue_host(url: str) -> AsyncIterator[Any]:
    """The connection of a host "far" with one device to the pool at `url`."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    address = url.replace("http", "ws", 1) + HOSTS + "/join"
    async with websockets.connect(address, additional_headers=headers, compression=None) as joined:
        slots = [SlotInfo("far.sim-0", "sim", 9, 9)]
        await joined.send(messages.encode(messages.Hello("far", "s", slots, messages.PROTOCOL)))
        assert isinstance(messages.decode_to_host(await joined.recv(decode=False)), messages.Welcome)
        yield joined


async def until_called(joined: Any) -> messages.VerbCall:
    """Answer as a healthy host does, until a verb is called."""
    able = Capabilities("sim", 9, 9, ["shell", "files"])
    while True:
        match messages.decode_to_host(await joined.recv(decode=False)):
            case messages.Start(id=id):
                await joined.send(messages.encode(messages.Answer(id, msgspec.msgpack.encode(able))))
            case messages.Stop(id=id) | messages.Recycle(id=id) | messages.Check(id=id):
                await joined.send(messages.encode(messages.Answer(id, msgspec.msgpack.encode(None))))
            case messages.VerbCall() as call:
                return call
            case _:
                await joined.send(messages.encode(messages.Alive()))
