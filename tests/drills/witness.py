"""A device with every verb, which keeps what it was told to do: the witness of the drills of late calls."""

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Sequence

from guiagent.actions import Action, Type, Wait
from guiagent.types import Capabilities, CommandResult, Health, Observation, ObserveSpec, ResetSpec

FEATURES = ["exec", "shell", "files", "snapshot", "adb"]


class Witness:
    """`seen` counts what was executed, by verb and by the mark that the caller put into the request."""

    def __init__(self, seen: Counter[tuple[str, str]]) -> None:
        self._seen = seen
        self._taking: set[asyncio.Task[None]] = set()

    def _saw(self, verb: str, mark: str) -> None:
        self._seen[verb, mark.removeprefix("/")] += 1

    async def describe(self) -> Capabilities:
        return Capabilities("sim", 64, 64, features=FEATURES)

    async def reset(self, seed: int, baseline: ResetSpec, spec: ObserveSpec) -> Observation:
        if baseline.script is not None:
            self._saw("reset", baseline.script)
        return Observation(64, 64)

    async def observe(self, spec: ObserveSpec) -> Observation:
        for mark in spec.probes:
            self._saw("observe", mark)
        return Observation(64, 64, probes=dict.fromkeys(spec.probes, 0))

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        for action in actions:
            match action:
                case Type(text=mark):
                    self._saw("step", mark)
                case Wait(ms=ms):
                    await asyncio.sleep(ms / 1000)
                case _:
                    pass
        return Observation(64, 64)

    async def exec(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        self._saw("exec", command[0])
        return CommandResult(0, command[0])

    async def put(self, path: str, data: bytes) -> None:
        self._saw("put", path)

    async def get(self, path: str) -> bytes:
        self._saw("get", path)
        return b"content"

    async def snapshot(self) -> str:
        self._saw("snapshot", "")
        return f"snapshot-{self._seen['snapshot', '']}"

    async def connect(self, service: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self._saw("connect", "")
        ours, theirs = socket.socketpair()
        reader, _ = await asyncio.open_connection(sock=theirs)
        task = asyncio.create_task(self._take(reader))
        self._taking.add(task)
        task.add_done_callback(self._taking.discard)
        return await asyncio.open_connection(sock=ours)

    async def _take(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                self._saw("stream", (await reader.readuntil(b"\n")).decode().strip())

    async def allow(self, egress: Sequence[str]) -> None:
        pass

    async def health(self) -> Health:
        return Health(True)

    async def attest(self) -> str:
        return "always the same"

    async def close(self) -> None:
        for task in self._taking:
            task.cancel()
