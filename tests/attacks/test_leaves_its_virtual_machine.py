"""A guest that wants more of its host than a screen: processes, its loopback, another tenant's guest."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from devices.drivers import vm
from devices.drivers.vm import network
from devices.drivers.vm.machine import Machine, Memory, arguments
from devices.drivers.vm.network import Network
from guiagent.errors import InfrastructureError
from tests.support.vm_guests import started

PATIENCE_S = 120.0  # with a guest that is emulated beside other work: reached only where a test fails
CONNECTIONS = 200
# Opens connections to the proxy, keeps them for a while, and says how many it had.
FLOOD = f"""
import socket, time
held = []
for _ in range({CONNECTIONS}):
    try:
        held.append(socket.create_connection(("10.0.2.100", 3128), 20))
        held[-1].sendall(b"GET ")
    except OSError:
        break
time.sleep(3)
print(len(held))
"""


def test_qemu_may_start_nothing() -> None:
    for proxied in (False, True):
        memory = Memory(Path("/ram"), shared=False)
        line = arguments(Machine("tcg", 1, 64, 640, 480), Path("/d"), memory, "n", 3, proxied=proxied)
        assert not any("cmd:" in word for word in line)
        sandbox = line[line.index("-sandbox") + 1].split(",")
        assert {"on", "spawn=deny", "elevateprivileges=deny"} <= set(sandbox)


def test_without_namespaces_a_guest_runs_only_where_the_operator_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for way in ("_AS_ROOT", "_AS_USER"):
        monkeypatch.setattr(network, way, getattr(network, way)._replace(unshare=["false"]))
    mine = Network()
    with pytest.raises(InfrastructureError, match=r"network namespace.*--allow-unisolated"):
        mine.make("guest")
    mine.allow_unisolated = True
    assert mine.make("guest", Path("/proxy")) == [], "QEMU then runs here, and is told that it has no proxy"
    assert not mine.private
    mine.remove("guest")


def test_a_gate_that_ends_is_not_followed_by_less_isolation(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Network()
    try:
        mine.make("guest")
    except InfrastructureError:
        pytest.skip("this machine does not allow network namespaces")
    assert mine._gate is not None
    mine._gate.kill()
    mine._gate.wait()
    for way in ("_AS_ROOT", "_AS_USER"):
        monkeypatch.setattr(network, way, getattr(network, way)._replace(unshare=["false"]))
    with pytest.raises(InfrastructureError):
        mine.make("guest")


# -- with a real guest ---------------------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guest() -> AsyncIterator[vm.VmDevice]:
    running = await started()
    yield running
    await running.close()


def descendants(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    children = [int(word) for word in path.read_text().split()]
    return children + [below for child in children for below in descendants(child)]


@pytest.mark.vm
@pytest.mark.asyncio(loop_scope="module")
async def test_connections_of_a_guest_are_no_processes_of_its_host(guest: vm.VmDevice) -> None:
    await guest.allow([])
    before = len(descendants(os.getpid()))
    flood = asyncio.create_task(guest.exec(["python3", "-c", FLOOD], PATIENCE_S))
    most = 0
    while not flood.done():
        most = max(most, len(descendants(os.getpid())) - before)
        await asyncio.sleep(0.05)
    opened = int((await flood).stdout.split()[0])
    assert opened > 100
    assert most == 0
    assert descendants(guest.pid) == []


@pytest.mark.vm
@pytest.mark.asyncio(loop_scope="module")
async def test_a_guest_reaches_neither_its_host_nor_its_sibling(guest: vm.VmDevice) -> None:
    sibling = await started()
    try:
        theirs = await sibling._vm.qemu.port()
        with socket.create_server(("127.0.0.1", 0)) as mine:
            for host in ("10.0.2.100", "10.0.2.2", "10.0.2.3"):
                for port in (mine.getsockname()[1], theirs):
                    address = f"http://{host}:{port}/platform"
                    tried = await guest.exec(
                        ["curl", "-sS", "-m", "3", "--noproxy", "*", address], PATIENCE_S
                    )
                    assert tried.code != 0 and not tried.stdout, address
            mine.setblocking(False)
            with pytest.raises(BlockingIOError):
                mine.accept()
    finally:
        await sibling.close()
