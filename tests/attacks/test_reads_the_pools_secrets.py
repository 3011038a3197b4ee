"""Somebody who took over a device's program, and now reads what the pool and other devices keep."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from devices import owned, processes
from devices.config import PhoneConfig
from devices.drivers import phone
from guiagent.errors import InfrastructureError
from guiagent.types import ResetSpec
from tests.support.browser_pages import BLIND, members, running

SECRET = "vermilion-token-of-the-operator"
AS_ROOT = os.geteuid() == 0
TRY = """
for path; do
    if [ -d "$path" ]; then ls "$path"; else cat "$path"; fi && printf '\\nread %s\\n' "$path"
done
cat /proc/self/limits
"""


class Status(NamedTuple):
    """What a process may do."""

    role: str
    user: int
    capabilities: int
    no_new_privileges: bool
    filtered: bool
    environment: bytes


def status_of(pid: int) -> Status:
    process = Path(f"/proc/{pid}")
    lines = (line.partition(":") for line in (process / "status").read_text().splitlines())
    said = {name: value.split() for name, _, value in lines}
    words = (process / "cmdline").read_bytes().replace(b"\0", b" ").split()
    role = next((word.removeprefix(b"--type=").decode() for word in words if b"--type=" in word), "main")
    try:
        own = os.readlink(process / "ns/user") != os.readlink("/proc/self/ns/user")
        environment = (process / "environ").read_bytes()
    except PermissionError:  # a sandboxed process of our own user: nobody but root may look
        own, environment = True, b""
    capabilities = 0 if own else int(said["CapEff"][0], 16)
    filtered = said["Seccomp"] == ["2"]
    return Status(role, int(said["Uid"][0]), capabilities, said["NoNewPrivs"] == ["1"], filtered, environment)


def naming(process: Path, name: str) -> int | None:
    return int(process.name) if name.encode() in (process / "cmdline").read_bytes() else None


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUIAGENT_TOKEN", SECRET)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)


def require_kept_out(found: list[Status]) -> int:
    """Every process is nobody of importance and knows nothing; returns the user id they share."""
    assert found
    for one in found:
        assert SECRET.encode() not in one.environment, one.role
        assert one.no_new_privileges, one.role
        assert one.capabilities == 0, one.role
    (user,) = {one.user for one in found}
    assert (user != 0) if AS_ROOT else (user == os.geteuid())
    return user


async def test_browsers_have_a_user_each_no_rights_and_a_clean_environment() -> None:
    users = []
    async with running() as one, running() as other:
        for device in (one, other):
            await device.reset(0, ResetSpec("miniwob:click-test"), BLIND)
            found = [status_of(pid) for pid in members(device.pid)]
            users.append(require_kept_out(found))
            pages = [status for status in found if status.role == "renderer"]
            assert pages
            assert all(status.filtered for status in pages) or processes.why_no_namespace()
    assert len(set(users)) == (2 if AS_ROOT else 1)


async def test_a_phone_is_no_other() -> None:
    device = await phone.start(PhoneConfig())
    try:
        folder = device._backend._folder
        named = owned.survey(lambda place: naming(place, folder.name))
        require_kept_out([status_of(pid) for pid in named])
    finally:
        await device.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    folder = owned.create_folder("taken")
    yield folder
    owned.remove_folder(folder)


async def test_what_it_runs_reads_neither_the_pool_nor_a_neighbour(folder: Path, tmp_path: Path) -> None:
    """The program stands for whatever a page could make of a browser whose own sandbox it left."""
    endpoint = tmp_path / "state" / "endpoint.json"
    endpoint.parent.mkdir(mode=0o700)
    endpoint.write_text(SECRET)
    async with running() as neighbour:
        theirs = neighbour._chromium.process.profile
        wanted = [endpoint, Path("/proc/self/environ"), Path(f"/proc/{os.getpid()}/environ")]
        wanted += [Path(f"/proc/{neighbour.pid}/environ"), theirs, theirs.parent / "files"]
        confined = processes.confine(folder)
        ran = await asyncio.to_thread(
            subprocess.run,
            [*confined.command, "/bin/sh", "-c", TRY, "sh", *map(str, wanted)],
            env=confined.environment,
            capture_output=True,
            text=True,
        )
    read = [line.removeprefix("read ") for line in ran.stdout.splitlines() if line.startswith("read ")]
    if AS_ROOT:
        assert SECRET not in ran.stdout
        assert read == ["/proc/self/environ"]
    assert f"{processes.MEMORY}" in ran.stdout


def test_where_root_cannot_become_another_it_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(processes, "why_no_user", lambda: "setresuid failed")
    with pytest.raises(InfrastructureError, match=r"setresuid failed; --allow-unisolated"):
        processes.confine(folder)
    assert processes.confine(folder, allow_unisolated=True).user is None


def test_of_a_closed_home_it_sees_the_programs_alone(folder: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "programs").mkdir(parents=True)
    (home / "programs" / "hello").write_text("#!/bin/sh\necho hello\n")
    (home / "programs" / "hello").chmod(0o755)
    (home / "notes").write_text(SECRET)
    home.chmod(0o700)
    confined = processes.confine(folder, [home / "programs"])
    if not AS_ROOT:  # it is our own user, to whom nothing is closed
        assert confined.user is None
        return
    script = f"{home}/programs/hello; ls {home}; touch {home}/programs/new || touch $HOME/new && echo written"
    command = [*confined.command, "/bin/sh", "-c", script]
    ran = subprocess.run(command, env=confined.environment, capture_output=True, text=True)
    assert ran.stdout.split() == ["hello", "programs", "written"]
    assert (folder / "new").exists()
    (home / "programs").chmod(0o700)
    with pytest.raises(InfrastructureError, match="closed to other users"):
        processes.confine(folder, [home / "programs"])
