"""Drill of open ports: what a pool and its host listen on, read from the kernel's tables."""

import asyncio
import ipaddress
from pathlib import Path

from guiagent.cli.common.memory import descendants
from tests.drills.farm import Instance
from tests.drills.host import Host
from tests.drills.tally import Tally

_LISTEN = "0A"


def listeners(folder: Path, n: int) -> Tally:
    """`n` starts of a pool and a host as they come, each listening on loopback and nowhere else."""
    tally = Tally.looking_for("starts", "off loopback", "unexpected")
    for number in range(n):
        place = folder / str(number)
        place.mkdir()
        pool = Instance(place, 1)
        host = Host(place, "far", 1, [pool.url])
        try:
            pool.wait_until("leader")
            asyncio.run(asyncio.sleep(1.0))  # for the host's devices
            tally.did("starts")
            found = {part: _listening(part.pid) for part in (pool, host)}
        finally:
            host.stop()
            pool.stop()
        expected = int(pool.url.rpartition(":")[2])
        for part, sockets in found.items():
            for address, port in sockets:
                tally.did("sockets")
                if not address.is_loopback:
                    tally.fail("off loopback", f"{address} port {port}")
                if part is host or port != expected:
                    tally.fail("unexpected", f"{address} port {port}")
    return tally


def _listening(pid: int) -> list[tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]]:
    """Addresses and ports that a process and those it started listen on."""
    inodes = {inode for one in descendants(pid) for inode in _sockets(one)}
    found: list[tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]] = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *rest = line.split()
            if state == _LISTEN and rest[5] in inodes:
                address, _, port = local.partition(":")
                words = bytes.fromhex(address)
                packed = b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))
                found.append((ipaddress.ip_address(packed), int(port, 16)))
    return found


def _sockets(pid: int) -> set[str]:
    inodes = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(file.readlink())
        except OSError:  # it was closed meanwhile
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    return inodes
