"""A browser that crashes while it starts is started again, a few times and no more."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devices.chromium import process
from devices.chromium.process import Executable, Process
from devices.drivers.browser.device import BrowserDevice
from devices.phone.surface import Surface
from guiagent.errors import FaultError, MissingProgram

pytestmark = [pytest.mark.browser, pytest.mark.asyncio]


@pytest.fixture(autouse=True)
def shell() -> Executable:
    try:
        return process.headless_shell()
    except MissingProgram as missing:
        pytest.skip(str(missing))


@pytest.fixture
def crashing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """Lines to run instead of a browser, one for each of the next starts; after them the real one starts."""
    endings: list[str] = []
    tmp_path.chmod(0o755)  # for a device's own user
    start = Process.start

    async def instead(executable: Executable, *args: Any, **options: Any) -> Process:
        if endings:
            script = tmp_path / "headless_shell"
            script.write_text(f"#!/bin/sh\n{endings.pop(0)}\n")
            script.chmod(0o755)
            executable = Executable(str(script), True)
        return await start(executable, *args, **options)

    monkeypatch.setattr(Process, "start", instead)
    yield endings


SEGFAULT, OF_A_WRAPPER, REFUSAL = "kill -SEGV $$", "sh -c 'kill -SEGV $$'; exit $?", "exit 1"


@pytest.mark.parametrize("ending", [SEGFAULT, OF_A_WRAPPER])
async def test_a_phone_comes_up_after_two_crashes(
    ending: str, crashing: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    crashing += [ending] * 2
    with caplog.at_level(logging.WARNING):
        surface = await Surface.open(320, 240, 1.0)
    assert surface.alive and not crashing
    assert sum("starting it again" in line for line in caplog.messages) == 2
    await surface.close()


async def test_a_browser_comes_up_after_a_crash(shell: Executable, crashing: list[str]) -> None:
    crashing.append(SEGFAULT)
    device = await BrowserDevice.start(shell, 320, 240)
    assert (await device.health()).ok
    await device.close()


async def test_three_crashes_are_a_fault(crashing: list[str]) -> None:
    crashing += [SEGFAULT] * 4
    with pytest.raises(FaultError, match=r"did not come up: the browser process ended \(signal 11\)") as died:
        await Surface.open(320, 240, 1.0)
    assert (died.value.fault.code, died.value.fault.retryable, len(crashing)) == ("start_failed", True, 1)


async def test_what_ends_with_a_message_of_its_own_is_not_started_again(crashing: list[str]) -> None:
    crashing += [REFUSAL] * 2
    with pytest.raises(FaultError, match=r"\(exit code 1\)"):
        await Surface.open(320, 240, 1.0)
    assert len(crashing) == 1
