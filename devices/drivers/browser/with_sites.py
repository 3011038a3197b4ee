"""A browser with sites: web applications that it alone reaches, by name, fresh after every reset."""

import asyncio
from collections.abc import Sequence

import msgspec
import xxhash

from devices.drivers.browser.device import BrowserDevice
from devices.sites import SITES, Site
from devices.sites.leased import PREFIX, Sites
from guiagent.actions import Action
from guiagent.errors import UsageError
from guiagent.types import Capabilities, CommandResult, Health, Observation, ObserveSpec, ResetSpec

_UNSEEN = ObserveSpec(frame="none")
_PACKAGED = ("about:blank", "miniwob:")  # pages that load nothing from anywhere


def known(names: Sequence[str]) -> list[Site]:
    """The definitions of these sites. Raises UsageError for a name that no site has."""
    for name in names:
        if name not in SITES:
            raise UsageError(f"there is no site {name!r}; there are {', '.join(sorted(SITES))}")
    return [SITES[name] for name in dict.fromkeys(names)]


class BrowserWithSites:
    """A `BrowserDevice`, and its sites as `Shell` and `Files` of addresses that begin with "site:".

    A verb that finds a site dead raises FaultError (origin "device"), so that its host starts both anew.
    """

    def __init__(self, browser: BrowserDevice, sites: Sites) -> None:
        self._browser = browser
        self._sites = sites
        browser.serve(sites.hosts, sites.connect)

    async def describe(self) -> Capabilities:
        about = await self._browser.describe()
        features = [*about.features, "sites", *(f"{PREFIX}{name}" for name in self._sites.names)]
        return msgspec.structs.replace(about, features=features)

    async def allow(self, egress: Sequence[str]) -> None:
        await self._browser.allow(egress)

    async def reset(self, seed: int, baseline: ResetSpec, spec: ObserveSpec) -> Observation:
        """Reset the browser with fresh sites, which no page of before reaches."""
        self._sites.open = False
        try:
            packaged = baseline.url.startswith(_PACKAGED) and baseline.profile is None
            if not packaged:  # what is open now must be gone before the baseline's page may reach a site
                await self._browser.reset(0, ResetSpec(), _UNSEEN)
            else:
                shown = await self._browser.reset(seed, baseline, spec)
            self._sites.renew()
        finally:
            self._sites.open = True
        if not packaged:
            shown = await self._browser.reset(seed, baseline, spec)
            self._sites.check()
        return shown

    async def observe(self, spec: ObserveSpec) -> Observation:
        shown = await self._browser.observe(spec)
        self._sites.check()
        return shown

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        shown = await self._browser.act(actions, spec)
        self._sites.check()
        return shown

    async def get(self, path: str) -> bytes:
        return await (self._sites.get(path) if path.startswith(PREFIX) else self._browser.get(path))

    async def put(self, path: str, data: bytes) -> None:
        await (self._sites.put(path, data) if path.startswith(PREFIX) else self._browser.put(path, data))

    async def exec(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        """Run a program in a site, `["site:NAME", program, ...]`; a browser itself runs none."""
        if not command[0].startswith(PREFIX):
            raise UsageError('a browser runs no programs; in a site of its own: ["site:NAME", program, ...]')
        return await self._sites.exec(command, timeout_s)

    async def connect(self, service: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await self._browser.connect(service)

    async def health(self) -> Health:
        self._sites.check()
        return await self._browser.health()

    async def attest(self) -> str:
        """The browser's digest, and whether its sites are as their images."""
        own = await self._browser.attest()
        return xxhash.xxh3_64_hexdigest(f"{own} {self._sites.untouched}".encode())

    async def warm(self) -> None:
        """Wait until all instances and spares run, as benchmarks of the swap do."""
        await self._sites.warm()

    async def close(self) -> None:
        await self._sites.close()
        await self._browser.close()
