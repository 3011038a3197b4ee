"""A program on a desktop reaches for the kernel that it shares with the host."""

import asyncio
from typing import Any

import pytest

from devices.config import DesktopConfig
from devices.drivers import desktop
from devices.drivers.desktop import sandbox
from guiagent.actions import Open
from guiagent.errors import InfrastructureError
from guiagent.types import ObserveSpec
from tests.support.desktops import CONFIG, act, running, shell
from tests.support.sandboxes import ATTEMPTS, ESCAPES, SECRET

TITLE = ObserveSpec(frame="none", page=True)


async def test_a_desktops_program_stays_in_its_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET, "canary")
    tries = "\n".join(f"if {attempt}(): print('{attempt}')" for attempt in ATTEMPTS)
    async with running() as device:
        await device.put("/tmp/escapes.py", (ESCAPES + tries).encode())
        assert await shell(device, "python3 /tmp/escapes.py") == ""
        assert "Operation not permitted" in await shell(device, "unshare --user true")


async def test_a_browser_runs_on_such_a_desktop() -> None:
    async with running(CONFIG) as device:
        await act(device, Open(target="data:text/html,<title>shown</title><body style='background:lime'>"))
        async with asyncio.timeout(30):
            title = None
            while "shown" not in (title or ""):
                title = (await device.observe(TITLE)).title


async def test_a_desktop_that_cannot_be_isolated_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> str:
        return "no user namespaces here"

    monkeypatch.setattr(sandbox, "why_not_isolated", refuse)
    with pytest.raises(InfrastructureError, match=r"no user namespaces here.*--allow-unisolated"):
        await desktop.start(DesktopConfig(width=800, height=600))
