"""What a tenant or a host writes into a device's log stays within its own line, and the line stays short."""

import asyncio
from pathlib import Path

from devices.config import SimConfig
from devices.hosts import messages
from devices.hosts.slot_record import LogLine
from guiagent.actions import Open
from tests.support.joined_hosts import NOTHING, client_of, farm_of, ready
from tests.support.rogue_host import rogue_host, until_called

FORGED = "2026-01-01T00:00:00Z quarantined by the operator"
ENDS = ("\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\x1b[2K\x1b[1G")


async def test_a_tenant_writes_no_line_of_its_own(tmp_path: Path) -> None:
    async with farm_of(tmp_path, [SimConfig(count=1)]) as farm, client_of(farm) as client:
        await ready(client, 1)
        device = await client.lease("sim", grants=["shell", "files"])
        before = len((await client.logs(device.id)).splitlines())
        for end in ENDS:
            await device.exec([f"echo{end}{FORGED}"])
            await device.put(f"/a{end}{FORGED}", b"")
            await device.act([Open(target=f"https://a.example/{end}{FORGED}")], NOTHING)
        await device.exec(["A" * 100_000 + FORGED])
        log = await client.logs(device.id)
        assert len(log.splitlines()) == before + 3 * len(ENDS) + 1
        assert not [line for line in log.splitlines() if line.startswith(FORGED)]
        assert "\x1b" not in log
        assert len(log) < 50_000


async def test_a_host_writes_no_line_but_its_own(tmp_path: Path) -> None:
    async with farm_of(tmp_path) as farm, client_of(farm) as client, rogue_host(farm.endpoint.url) as joined:
        answering = asyncio.create_task(until_called(joined))
        await ready(client, 1)
        lines = [LogLine(0.0, 1, f"one{end}{FORGED}") for end in ENDS] + [LogLine(0.0, 1, "last")]
        await joined.send(messages.encode(messages.Seen("far.sim-0", 0, b"", "", "", lines)))
        while "last" not in (log := await client.logs("far.sim-0")):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        assert len(log.splitlines()) == len(lines)
        answering.cancel()
