"""A canvas with a shell: its programs and files are this machine's, in a folder that ends with it."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path

from devices.config import SimConfig
from devices.drivers import Driver
from guiagent.actions import Action
from guiagent.errors import Fault, FaultError
from guiagent.types import CommandResult, Observation, ObserveSpec, ResetSpec
from tests.support.canvas_device import CanvasDevice


class MachineDevice(CanvasDevice):
    """Keeps the actions it was asked for, in the order it did them."""

    def __init__(self, width: int, height: int) -> None:
        super().__init__(width, height)
        self.home = Path(tempfile.mkdtemp(prefix="guiagent-machine-"))
        self.did: list[Action] = []

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        self.did += actions
        return await super().act(actions, spec)

    async def reset(self, seed: int, baseline: ResetSpec, spec: ObserveSpec) -> Observation:
        await asyncio.to_thread(self._end)
        self.did = []
        self.home.mkdir()
        return await super().reset(seed, baseline, spec)

    async def exec(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        self._require_alive()
        own = {"HOME": str(self.home), "TMPDIR": str(self.home), "PATH": os.environ["PATH"]}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, cwd=self.home, env=own, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
        async with asyncio.timeout(timeout_s):
            out, err = await process.communicate()
        return CommandResult(process.returncode or 0, out.decode(), err.decode())

    async def put(self, path: str, data: bytes) -> None:
        await asyncio.to_thread(Path(path).write_bytes, data)

    async def get(self, path: str) -> bytes:
        try:
            return await asyncio.to_thread(Path(path).read_bytes)
        except OSError as error:
            raise FaultError(Fault("task", "missing_file", f"there is no {path}: {error}")) from error

    async def close(self) -> None:
        await super().close()
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        for entry in Path("/proc").iterdir():  # what its programs left running
            try:
                if f"HOME={self.home}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    os.kill(int(entry.name), signal.SIGKILL)
            except (OSError, ValueError):
                continue
        shutil.rmtree(self.home, ignore_errors=True)


class Machines:
    """A driver of them that keeps what it started."""

    def __init__(self) -> None:
        self.started: list[MachineDevice] = []

    async def start(self, config: SimConfig) -> MachineDevice:
        self.started.append(MachineDevice(config.width, config.height))
        return self.started[-1]

    @property
    def drivers(self) -> dict[str, Driver]:
        return {"sim": Driver(self.start)}
