"""Pool in a process of its own, to be killed; its devices log every action they execute.

python -m tests.drills.farm FOLDER PORT COUNT [--database URL]
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from devices.api.server import serve
from devices.config import PoolConfig, SimConfig, TenantConfig
from devices.drivers import Driver
from guiagent.actions import Action, Type, Wait
from guiagent.types import Capabilities, Health, Observation, ObserveSpec, ResetSpec
from guiagent.wire import HEALTH
from tests.drills import mutants
from tests.support.stores import Place

ROOT = Path(__file__).parents[2]
TOKEN = "a-token-for-the-drills"
NEIGHBOUR, STRANGER = "a-token-of-a-neighbour", "a-token-of-a-stranger"
ACTIONS = "actions.log"  # what the devices of all instances executed, a line each: time, typed text


class Typist:
    """Appends every text it is told to type to one file, with the time."""

    def __init__(self, log: Path) -> None:
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def describe(self) -> Capabilities:
        return Capabilities("sim", 64, 64)

    async def reset(self, seed: int, baseline: ResetSpec, spec: ObserveSpec) -> Observation:
        return await self.observe(spec)

    async def observe(self, spec: ObserveSpec) -> Observation:
        return Observation(64, 64)

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        for action in actions:
            if isinstance(action, Type):
                os.write(self._log, f"{time.time()} {action.text}\n".encode())
            elif isinstance(action, Wait):
                await asyncio.sleep(action.ms / 1000)
        return await self.observe(spec)

    async def health(self) -> Health:
        return Health(True)

    async def attest(self) -> str:
        return "always the same"

    async def close(self) -> None:
        os.close(self._log)


class Part:
    """A process of the farm, which is started again by the same command, as a supervised service is."""

    def __init__(self, *command: str) -> None:
        self._command = [sys.executable, "-m", *command]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, cwd=ROOT)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        self._process.terminate()
        return self._process.wait(30)


class Instance(Part):
    """One pool process, on the same port after each restart. Without devices of its own it takes in hosts."""

    def __init__(self, folder: Path, count: int, database: str = "") -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.place = Place(folder / str(port) / "pool.sqlite")  # where its state is without a database
        arguments = [str(folder), str(port), str(count), "--database", database]
        super().__init__("tests.drills.farm", *arguments)

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def health(self) -> dict[str, Any]:
        """What `/healthz` says; {} while nobody answers there."""
        try:
            answer: dict[str, Any] = httpx.get(self.url + HEALTH, timeout=1.0, trust_env=False).json()
        except httpx.TransportError:
            return {}
        return answer

    def wait_until(self, *roles: str) -> None:
        """Until it answers, in one of these roles."""
        give_up = time.monotonic() + 60
        while self.health().get("role", "leader") not in roles or not self.health():
            assert self._process.poll() is None, "the pool ended by itself"
            assert time.monotonic() < give_up, f"{self.url} is not {' or '.join(roles)}"
            time.sleep(0.02)


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--database", default="")
    asked = parser.parse_args()
    mutants.seed()

    async def start(_: SimConfig) -> Typist:
        return Typist(asked.folder / ACTIONS)

    config = PoolConfig(
        state_dir=asked.folder / str(asked.port),
        port=asked.port,
        token=TOKEN,
        devices=[SimConfig(count=asked.count, width=64, height=64)] if asked.count else [],
        database=asked.database or None,
        tenants=[
            TenantConfig(name="neighbour", token=NEIGHBOUR),
            TenantConfig(name="stranger", token=STRANGER),
        ],
    )
    serve(config, drivers={"sim": Driver(start)})


if __name__ == "__main__":
    main()
