"""A running Chromium and what a device shows of it: one browser context, or a named profile, and its tabs."""

import contextlib
from typing import Any

from devices.chromium.cdp import Connection, Json, ProtocolError
from devices.chromium.process import (
    BEGIN_FRAME_FLAGS,
    EXPOSED_FLAGS,
    UNTHROTTLED_FLAGS,
    Executable,
    Process,
)
from devices.chromium.starting import failure, persistently
from devices.drivers.browser.files import Downloads, Home
from devices.drivers.browser.page import View
from devices.drivers.browser.profiles import Profile
from devices.drivers.browser.residue import residue, wipe_clipboard
from devices.drivers.browser.tabs import Tabs
from guiagent.errors import FaultError

_MAX_ORIGINS = 256


class Chromium:
    """A running Chromium with one browser context, or a named profile.

    Attributes:
        software: the browser's name and version.
        home: the device's files.
        tabs: tabs of the present browser context, see `renew`.
        downloads: downloads of the present browser context.
    """

    def __init__(self, process: Process, view: View, profile: Profile | None) -> None:
        self.process = process
        self.connection = Connection(process.reader, process.writer)
        self.software = ""
        self.home = Home(process.files)
        self.tabs: Tabs
        self.downloads: Downloads
        self._view = view
        self._profile = profile
        self._origins: set[str] = set()  # of the documents of earlier contexts, until they are attested

    @classmethod
    async def start(
        cls,
        executable: Executable,
        view: View,
        *,
        cdp: bool,
        profile: Profile | None = None,
        allow_unisolated: bool = False,
    ) -> "Chromium":
        """Start a browser with a blank page and a named profile or a throwaway one.

        Raises FaultError if it does not start, InfrastructureError if it cannot be kept from this machine.
        """
        return await persistently(lambda: cls._start(executable, view, cdp, profile, allow_unisolated))

    @classmethod
    async def _start(
        cls, executable: Executable, view: View, cdp: bool, profile: Profile | None, allow_unisolated: bool
    ) -> "Chromium":
        flags = [
            *(BEGIN_FRAME_FLAGS if view.begin_frame else UNTHROTTLED_FLAGS),
            *(EXPOSED_FLAGS if cdp else ()),
            f"--proxy-server=http://127.0.0.1:{view.egress.port}",
            "--proxy-bypass-list=<-loopback>",  # the proxy is used even for loopback addresses
        ]
        process = await Process.start(
            executable,
            view.width,
            view.height,
            flags,
            fill=profile.fill if profile else None,
            allow_unisolated=allow_unisolated,
        )
        chromium = cls(process, view, profile)
        try:
            await chromium._come_up(cdp)
        except FaultError as error:
            await chromium.close()
            advice = f"; `{executable.path} --version` may say why"
            raise failure(process, executable.path, error, advice) from error
        except BaseException:
            await chromium.close()
            raise
        return chromium

    async def renew(self) -> None:
        """Replace all pages by a blank one, in a browser context that shares nothing with earlier ones."""
        self._origins.update(*(page.loading.origins for page in self.tabs.pages))
        self.tabs.close()
        contexts = await self.connection.post("Target.getBrowserContexts")
        for context in contexts["browserContextIds"]:  # before the next: a second page may hang the browser
            with contextlib.suppress(ProtocolError):  # it left by itself
                await self.connection.post("Target.disposeBrowserContext", {"browserContextId": context})
        await self._open()

    async def residue(self) -> dict[str, Any]:
        """Residue of a lease holder in this browser, by name; see `residue.residue`."""
        tabs = self.tabs
        origins = list(self._origins | tabs.current.loading.origins)[:_MAX_ORIGINS]
        left = await residue(self.connection, tabs.current, tabs.context, origins)
        left["files"] = self.home.listing()
        self._origins.clear()
        return left

    async def close(self) -> None:
        """End the browser; a named profile is saved."""
        with contextlib.suppress(FaultError, ProtocolError):  # then there is nothing left to save
            if self._profile is not None:
                await self.connection.post("Browser.close")
        await self.connection.close()
        await self.process.stop(save=self._profile.save if self._profile else None)

    async def _come_up(self, cdp: bool) -> None:
        version = await self.connection.post("Browser.getVersion")
        self.software = str(version["product"])
        unused = await self._targets()
        if not self._view.begin_frame:
            attach = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
            await self.connection.post("Target.setAutoAttach", attach | {"filter": [{"type": "page"}]})
        await self._open()
        for target in unused:  # the page every browser opens with costs a process of its own
            with contextlib.suppress(ProtocolError):  # it left by itself
                await self.connection.post("Target.closeTarget", {"targetId": target})
        while unused & await self._targets():  # closing takes longer than the answer to it
            pass
        if cdp:
            await self.process.port()

    async def _open(self) -> None:
        context: str | None = None
        if self._profile is None:
            made = await self.connection.post("Target.createBrowserContext", {"disposeOnDetach": True})
            context = made["browserContextId"]
        self.tabs = Tabs(self.connection, self._view, context)
        self.downloads = Downloads(self.connection, self.home, context)
        self.connection.listen("", self._on_event)
        await self.downloads.accept()
        await self.tabs.new()
        await self.tabs.current.authenticate_proxy()
        await wipe_clipboard(self.tabs.current)

    async def _targets(self) -> set[str]:
        """Ids of all pages, of every browser context."""
        infos = (await self.connection.post("Target.getTargets"))["targetInfos"]
        return {info["targetId"] for info in infos if info["type"] == "page"}

    def _on_event(self, method: str, event: Json) -> None:
        self.tabs.heard(method, event)
        self.downloads.heard(method, event)
