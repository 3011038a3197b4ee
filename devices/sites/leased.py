"""The sites of one device: for each an instance, and a spare that takes its place at the next reset.

An instance that nothing was done with is as its image, and stays. The first connection to one starts its
spare; a reset only swaps the two, and the former one is ended behind it.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devices.sites.image import image
from devices.sites.instance import Instance
from devices.sites.site import Site
from guiagent.errors import Fault, FaultError, UsageError
from guiagent.types import CommandResult

PREFIX = "site:"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True)
class _Place:
    site: Site
    image: Path
    current: asyncio.Task[Instance]
    spare: asyncio.Task[Instance] | None = None
    touched: bool = False


class Sites:
    """Running sites of one device. `open` says whether the browser may reach them now."""

    def __init__(self, places: Sequence[_Place]) -> None:
        self.open = True
        self._places = {place.site.name: place for place in places}
        self._hosts = {place.site.host: place for place in places}
        self._ending: set[asyncio.Task[None]] = set()

    @classmethod
    async def start(cls, sites: Sequence[Site]) -> "Sites":
        """Start every site, one after another, and seed those that never were.

        Raises MissingProgram if one is not installed, FaultError if one does not start.
        """
        places: list[_Place] = []
        try:
            for site in sites:
                at = await image(site)
                places.append(_Place(site, at, _starting(site, at)))
                await places[-1].current
        except BaseException:
            await cls(places).close()
            raise
        return cls(places)

    @property
    def names(self) -> list[str]:
        return list(self._places)

    @property
    def hosts(self) -> list[str]:
        return list(self._hosts)

    @property
    def untouched(self) -> bool:
        """Whether nobody did anything with any of them since the last reset."""
        return not any(place.touched for place in self._places.values())

    async def connect(self, host: str) -> Streams:
        """Open a connection to the site of that host name. Raises OSError if it cannot be had."""
        if not self.open:
            raise ConnectionRefusedError("the device is being reset")
        place = self._hosts[host]
        self._touch(place)
        try:
            return await (await asyncio.shield(place.current)).connect()
        except FaultError as error:
            raise ConnectionRefusedError(str(error)) from error

    async def get(self, address: str) -> bytes:
        """Read a file of a site, `site:NAME/PATH`."""
        place, path = self._at(address)
        return await (await asyncio.shield(place.current)).get(path)

    async def put(self, address: str, data: bytes) -> None:
        """Write a file of a site."""
        place, path = self._at(address)
        self._touch(place)
        await (await asyncio.shield(place.current)).put(path, data)

    async def exec(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        """Run a program in a site: `["site:NAME", program, ...]`."""
        place, path = self._at(f"{command[0]}/")
        if path or len(command) < 2:
            raise UsageError('a program in a site is written ["site:NAME", program, argument, ...]')
        self._touch(place)
        return await (await asyncio.shield(place.current)).exec(command[1:], timeout_s)

    def renew(self) -> None:
        """Put a fresh instance in place of every one that something was done with, or that has ended."""
        for place in self._places.values():
            if place.touched or _failed(place.current):
                self._end(place.current)
                spare, place.spare = place.spare, None
                if spare is not None and _failed(spare):
                    self._end(spare)
                    spare = None
                place.current = spare or _starting(place.site, place.image)
                place.touched = False

    def check(self) -> None:
        """Raise FaultError if a site has ended, or did not start, that something was done with."""
        for place in self._places.values():
            if not place.touched or not place.current.done():
                continue
            instance = place.current.result()
            if not instance.running:
                raise instance.died()

    async def warm(self) -> None:
        """Wait until every instance, and every spare there is to be, runs."""
        for place in self._places.values():
            await asyncio.gather(*(task for task in (place.current, place.spare) if task is not None))

    async def close(self) -> None:
        self.open = False
        for place in self._places.values():
            self._end(place.current)
            if place.spare is not None:
                self._end(place.spare)
        await asyncio.gather(*self._ending)

    def _touch(self, place: _Place) -> None:
        place.touched = True
        if place.spare is None:
            place.spare = _starting(place.site, place.image)

    def _at(self, address: str) -> tuple[_Place, str]:
        name, _, path = address.removeprefix(PREFIX).partition("/")
        if name not in self._places:
            here = ", ".join(self._places) or "none"
            raise FaultError(Fault("task", "missing_site", f"this device has no site {name[:64]!r}: {here}"))
        return self._places[name], path.removesuffix("/") if path == "/" else path

    def _end(self, starting: asyncio.Task[Instance]) -> None:
        ending = asyncio.ensure_future(_stop(starting))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)


def _starting(site: Site, at: Path) -> asyncio.Task[Instance]:
    task = asyncio.ensure_future(Instance.start(site, at))
    task.add_done_callback(lambda done: None if done.cancelled() else done.exception())  # it is asked later
    return task


def _failed(task: asyncio.Task[Instance]) -> bool:
    """Whether an instance did not start, or has ended."""
    if not task.done():
        return False
    return task.cancelled() or task.exception() is not None or not task.result().running


async def _stop(starting: asyncio.Task[Instance]) -> None:
    if not starting.done():
        starting.cancel()
    with contextlib.suppress(FaultError, asyncio.CancelledError):
        await (await starting).stop()
