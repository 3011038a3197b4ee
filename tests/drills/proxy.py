"""A TCP proxy that is a bad network: what lost, late and reordered packets do to those above TCP, by a seed.

TCP hides lost, doubled and reordered packets from programs; what is left of them are pauses (as for a
retransmission), pieces in place of messages, connections that overtake one another, silence, and resets at
any byte, also between a request and its answer. Whole requests are doubled by `tests.drills.network`.
"""

import asyncio
import contextlib
import random
from collections import Counter
from dataclasses import dataclass
from typing import Self

_CHUNK = 64 << 10


@dataclass(frozen=True, slots=True)
class Weather:
    """Chances are per piece of data that passes, in one direction."""

    delay_s: tuple[float, float] = (0.0, 0.02)
    lost: float = 0.02  # a retransmission: all that follows on the connection waits for it
    retransmit_s: float = 0.2
    split: float = 0.2  # into two pieces, some time apart
    reset: float = 0.005  # both ends, in the middle of it
    answer_lost: float = 0.005  # reset instead of the answer: what was asked for was done
    silence: float = 0.002  # nothing passes any more, and nobody is told
    silence_s: float = 8.0


CLEAR = Weather((0.0, 0.0), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


class Proxy:
    """Listens on a free loopback port and forwards to `port`; `did` counts what it did to connections."""

    def __init__(self, port: int, weather: Weather, seed: int) -> None:
        self.did: Counter[str] = Counter()
        self.weather = weather
        self._to = port
        self._dice = random.Random(seed)
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.did["connections"] += 1
        far: asyncio.StreamWriter | None = None
        try:
            far_reader, far = await asyncio.open_connection("127.0.0.1", self._to)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(reader, far, "asked"))
                both.create_task(self._pass(far_reader, writer, "answered"))
        except* (OSError, _Reset):
            pass
        finally:
            for end in (writer, far):
                if end is not None:
                    _reset(end)
            self._tasks.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str) -> None:
        """Pass the bytes of one direction on, until it ends or breaks."""
        while data := await reader.read(_CHUNK):
            weather, dice = self.weather, self._dice
            await asyncio.sleep(dice.uniform(*weather.delay_s))
            if self._happens("lost", weather.lost):
                await asyncio.sleep(weather.retransmit_s)
            if way == "answered" and self._happens("answer lost", weather.answer_lost):
                raise _Reset
            if self._happens("silence", weather.silence):
                await asyncio.sleep(weather.silence_s)
                raise _Reset
            if self._happens("reset", weather.reset):
                writer.write(data[: dice.randrange(len(data))])
                raise _Reset
            if len(data) > 1 and self._happens("split", weather.split):
                at = dice.randrange(1, len(data))
                writer.write(data[:at])
                await asyncio.sleep(dice.uniform(*weather.delay_s))
                data = data[at:]
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()

    def _happens(self, what: str, chance: float) -> bool:
        happens = self._dice.random() < chance
        self.did[what] += happens
        return happens


class _Reset(Exception):
    """This connection breaks now."""


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with a reset rather than in order."""
    transport = writer.transport
    transport.abort()
