"""A browser as a `Device`: one Chromium process and one page at a time, driven over its pipe.

Small screens on a headless shell run under begin-frame control (see `page.py`), about 5 ms a step. From 720p
up, drawing dominates and removing the frame-rate limit is as fast, which is all a full Chromium offers.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import xxhash

from devices.chromium.cdp import Connection, ProtocolError, SessionEnded
from devices.chromium.process import Executable
from devices.drivers import UnsupportedAction
from devices.drivers.browser import sites, tree
from devices.drivers.browser.chromium import Chromium
from devices.drivers.browser.input import Held, after, commands
from devices.drivers.browser.page import FileChooser, Page, View, value
from devices.drivers.browser.profiles import Profile
from devices.drivers.browser.tabs import Tabs, command
from devices.drivers.deadline import deadline
from devices.egress.proxy import EgressProxy, Reach
from guiagent.actions import (
    Action,
    Answer,
    Done,
    Drag,
    KeyChord,
    LongPress,
    MouseDown,
    MouseUp,
    Open,
    PressButton,
    Type,
    Wait,
)
from guiagent.errors import Fault, FaultError, UsageError
from guiagent.types import Capabilities, Health, Observation, ObserveSpec, ResetSpec

_BEGIN_FRAME_MAX_PIXELS = 1280 * 720 - 1
_START_DEADLINE_S = 45.0
_VERB_DEADLINE_S = 25.0
_HEALTH_DEADLINE_S = 5.0
_WHERE = "({url: location.href, title: document.title})"


class BrowserDevice:
    """A browser with `Device`, `Files`, `Networked` and, with `cdp`, `Services` of `guiagent.protocols`.

    Verbs must not overlap. Until `allow` is called, pages reach the public internet and no private address.
    """

    def __init__(
        self, executable: Executable, view: View, chromium: Chromium, *, cdp: bool, allow_unisolated: bool
    ) -> None:
        self._executable = executable
        self._view = view
        self._cdp = cdp
        self._allow_unisolated = allow_unisolated
        self._chromium = chromium
        self._profile: Profile | None = None
        self._held = Held()
        # The baseline's URL and its document, while that can be set up again in place.
        self._set_up = ("", "")
        self._tapped = False  # a client of the DevTools port may have changed anything in the browser

    @classmethod
    async def start(
        cls,
        executable: Executable,
        width: int,
        height: int,
        *,
        cdp: bool = False,
        allow_unisolated: bool = False,
    ) -> "BrowserDevice":
        small = width * height <= _BEGIN_FRAME_MAX_PIXELS
        egress = await EgressProxy.start()
        egress.allow(["public"])
        view = View(width, height, executable.headless_shell and small and not cdp, egress)
        try:
            async with _answering("start", _START_DEADLINE_S):
                chromium = await Chromium.start(executable, view, cdp=cdp, allow_unisolated=allow_unisolated)
        except BaseException:
            await egress.close()
            raise
        return cls(executable, view, chromium, cdp=cdp, allow_unisolated=allow_unisolated)

    @property
    def pid(self) -> int:
        """Process id of the browser, which leads its own process group; a reset may change it."""
        return self._chromium.process.pid

    @property
    def connection(self) -> Connection:
        """The browser's command pipe, which counts what was asked of it."""
        return self._chromium.connection

    async def describe(self) -> Capabilities:
        features = ["exec", "a11y", "page", "files", "profile", *(["cdp"] if self._cdp else [])]
        return Capabilities("browser", self._view.width, self._view.height, features, self._chromium.software)

    async def allow(self, egress: Sequence[str]) -> None:
        """Set the egress rules (see `devices.egress.rules`). Raises UsageError for an invalid one."""
        self._view.egress.allow(egress)

    def serve(self, hosts: Iterable[str], reach: Reach) -> None:
        """Let pages reach these host names, by `reach` and whatever the egress rules say, at port 80."""
        self._view.egress.serve(hosts, reach)

    async def put(self, path: str, data: bytes) -> None:
        """Write a file below /home/user, which can then be uploaded to pages."""
        await asyncio.to_thread(self._chromium.home.put, path, data)

    async def get(self, path: str) -> bytes:
        """Read a file below /home/user; downloads are in /home/user/Downloads."""
        return await asyncio.to_thread(self._chromium.home.get, path)

    async def connect(self, service: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection to the DevTools port, which gives the browser's own rights on its host."""
        if service != "cdp" or not self._cdp:
            raise UsageError(f'this browser has no service {service!r}: start one with cdp = true for "cdp"')
        async with _answering("connect", _HEALTH_DEADLINE_S):
            self._tapped = True
            return await asyncio.open_connection("127.0.0.1", await self._chromium.process.port())

    async def reset(self, seed: int, baseline: ResetSpec, spec: ObserveSpec) -> Observation:
        """Load the baseline's page and run its script with SEED.

        A page that comes with a package is set up again in place if it is still open. Any other page begins
        in a browser context of its own, where nothing of an earlier baseline is left; with a profile, in a
        browser of its own.
        """
        async with _answering("reset", _VERB_DEADLINE_S):
            url = sites.resolve(baseline.url)
            set_up, self._set_up = self._set_up, ("", "")  # a reset that fails leaves no page to trust
            self._forget_notes()
            if self._chromium.home.listing():
                await asyncio.to_thread(self._chromium.home.clear)
            script = f"(SEED => {{{baseline.script or ''}\n}})({int(seed)})"
            stays = self._stays(set_up, baseline, url)
            if not stays:
                await self._load(url, baseline)
            elif self._held.buttons:
                await self._page.send(commands(MouseUp(x=0, y=0), self._held))
            self._held = Held()
            if stays:
                await self._page.start_over(script)
            else:
                await self._page.send([("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": 0, "y": 0})])
                await self._page.run(script)
            self._set_up = (url, self._page.loading.document)
            await self._tabs.settle()
            return await self._observe(spec)

    async def observe(self, spec: ObserveSpec) -> Observation:
        async with _answering("observe", _VERB_DEADLINE_S):
            await (await self._tabs.ensure()).tick()
            return await self._observe(spec)

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        waits_s = sum(action.ms for action in actions if isinstance(action, Wait | LongPress)) / 1000
        async with _answering("act", _VERB_DEADLINE_S + waits_s):
            self._forget_notes()
            for index, action in enumerate(actions):
                page = await self._tabs.ensure()
                try:
                    if index and not isinstance(action, Wait):
                        # The action before may have opened one, which this one answers or dismisses.
                        await page.wait_for_file_chooser()
                    await self._perform(page, action)
                except SessionEnded:
                    continue  # it closed its own tab
                except (UnsupportedAction, ProtocolError) as error:
                    page.note = str(error)
                    break
            await self._tabs.settle()
            await self._chromium.downloads.settle(any(page.loading.saves for page in self._tabs.pages))
            return await self._observe(spec)

    async def health(self) -> Health:
        if not (self._chromium.connection.alive and self._chromium.process.running):
            return Health(False, "the browser process ended")
        try:
            async with _answering("health", _HEALTH_DEADLINE_S):
                await (await self._tabs.ensure()).run("1")
        except FaultError as error:
            return Health(False, str(error))
        return Health(True)

    async def attest(self) -> str:
        """Digest of `residue`, to be taken after a reset to the blank baseline."""
        async with _answering("attest", _VERB_DEADLINE_S):
            left = await self.residue()
        return xxhash.xxh3_64_hexdigest(repr(sorted(left.items())).encode())

    async def residue(self) -> dict[str, Any]:
        """Residue of a lease holder, by name: in the browser, its files, and keys and buttons held down."""
        return await self._chromium.residue() | {"held": (self._held, self._page.chooser)}

    async def close(self) -> None:
        await self._chromium.close()
        await self._view.egress.close()
        if self._profile is not None:
            self._profile.release()

    # -- verbs -----------------------------------------------------------------------------------------------

    @property
    def _tabs(self) -> Tabs:
        return self._chromium.tabs

    @property
    def _page(self) -> Page:
        return self._tabs.current

    def _forget_notes(self) -> None:
        self._tabs.note = self._chromium.downloads.note = None
        for page in self._tabs.pages:
            page.note = page.loading.failed = None
            page.loading.saves = False

    def _note(self) -> str | None:
        if self._page.chooser is not None and self._page.note is None:
            return "the page asks for a file: type the path of one, such as /home/user/NAME"
        pages = (self._page, *self._tabs.pages)
        of_pages = [note for page in pages for note in (page.note, page.loading.failed)]
        return next(filter(None, [*of_pages, self._tabs.note, self._chromium.downloads.note]), None)

    def _stays(self, set_up: tuple[str, str], baseline: ResetSpec, url: str) -> bool:
        """True if the baseline's page is still open and can be set up again in place."""
        return (
            sites.is_site(baseline.url)
            and (baseline.profile, self._profile) == (None, None)
            and len(self._tabs.pages) == 1
            and set_up == (url, self._page.loading.document)
        )

    async def _load(self, url: str, baseline: ResetSpec) -> None:
        # Pages of packages have no secrets, and a blank page has nowhere to keep one.
        kept = {"file://", "about:"} if url.startswith("file:") else set()
        tapped = (
            self._tapped and baseline == ResetSpec()
        )  # a reset for the next holder: this one may still be connected
        if baseline.profile is not None or self._profile is not None or tapped:
            await self._restart(baseline.profile)
        elif len(self._tabs.pages) != 1 or not self._page.loading.origins <= kept:
            await self._chromium.renew()
        await self._page.navigate(url)
        await self._page.forget_history()

    async def _restart(self, profile_name: str | None) -> None:
        """Replace this browser, which saves its profile, by another one with the named profile or none."""
        former, profile = self._profile, None
        if profile_name is not None:
            profile = former if former and former.name == profile_name else Profile(profile_name)
        self._profile = profile
        await self._chromium.close()
        if former is not None and former is not profile:
            former.release()
        self._chromium = await Chromium.start(
            self._executable,
            self._view,
            cdp=self._cdp,
            profile=profile,
            allow_unisolated=self._allow_unisolated,
        )
        self._tapped = False

    async def _observe(self, spec: ObserveSpec) -> Observation:
        # Probes are posted before the picture so that both describe the same moment.
        page = await self._tabs.ensure()
        probes = {name: page.probe(source) for name, source in spec.probes.items()}
        elements = page.probe(tree.SOURCE) if spec.tree else None
        targets = self._chromium.connection.post("Target.getTargets") if spec.tree else None
        where = page.probe(_WHERE) if spec.page else None
        try:
            frame = b"" if spec.frame == "none" else await page.picture(spec.frame, spec.quality)
            values = {name: value(await reply) for name, reply in probes.items()}
            at = value(await where) if where is not None else {}
            nodes = None
            if elements is not None and targets is not None:
                nodes = self._tabs.nodes((await targets)["targetInfos"]) + tree.nodes(value(await elements))
        except SessionEnded:  # the tab closed itself just now
            return await self._observe(spec)
        return Observation.of(
            (self._view.width, self._view.height),
            frame,
            spec,
            url=at.get("url"),
            title=at.get("title"),
            tree=nodes,
            probes=values,
            action_error=self._note(),
        )

    async def _perform(self, page: Page, action: Action) -> None:
        if page.chooser is not None and not isinstance(action, Type | Wait):
            page.chooser = None  # any other action dismisses it, like a dialog
        match action:
            case Open(target=target) if target.startswith("tab:"):
                await self._tabs.do(target.removeprefix("tab:"))
            case Open():
                await self._open(page, action.target)
            case KeyChord() if self._tabs.several and (tab := command(action.keys)):
                await self._tabs.do(tab)
            case Type() if page.chooser is not None:
                await self._choose(page, page.chooser, action.text)
            case PressButton(button="back" | "forward"):
                if not await page.go_history(-1 if action.button == "back" else 1):
                    raise UnsupportedAction(f"there is no page to go {action.button} to")
            case Wait():
                await page.pause(action.ms)
            case LongPress():
                await self._perform(page, MouseDown(x=action.x, y=action.y))
                await page.pause(action.ms)
                await self._perform(page, MouseUp(x=action.x, y=action.y))
            case Drag():
                for step in commands(action, self._held):  # moves that wait for the same frame become one
                    await page.send([step])
            case Answer() | Done():
                pass  # words to the user; nothing on the screen moves
            case _:
                events, self._held = commands(action, self._held), after(action, self._held)
                await page.send(events)

    async def _choose(self, page: Page, chooser: FileChooser, text: str) -> None:
        """Answer a page's file chooser with paths on the device, one a line. Raises UnsupportedAction."""
        paths = [line.strip() for line in text.splitlines() if line.strip()]
        if not paths or (len(paths) > 1 and not chooser.multiple):
            wanted = "files: type their paths, one a line" if chooser.multiple else "one file: type its path"
            raise UnsupportedAction(f"the page asks for {wanted}")
        await self._chromium.downloads.settle(page.loading.saves)  # one of them may be what it asks for
        try:
            chosen = [str(self._chromium.home.find(path)) for path in paths]
        except FaultError as error:
            raise UnsupportedAction(error.fault.message) from error
        await page.choose(chosen)

    async def _open(self, page: Page, target: str) -> None:
        try:
            await page.navigate(sites.resolve(target))
        except FaultError as error:
            if error.fault.origin != "task":
                raise
            page.note = error.fault.message  # the agent's mistake, not a fault of the device


@contextlib.asynccontextmanager
async def _answering(verb: str, seconds: float) -> AsyncIterator[None]:
    """In time, and without a refusal of the browser's; else a fault."""
    try:
        async with deadline("the browser", verb, seconds):
            yield
    except ProtocolError as error:
        message = f"the browser refused {verb!r}: {error}"
        raise FaultError(Fault("device", "protocol", message, retryable=True)) from error
