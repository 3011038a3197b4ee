"""The virtual phone without adb: apps on one screen over one state, driven by touches, text and keys."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from devices.phone import apps as app_folders
from devices.phone import keycodes
from devices.phone.apps import App
from devices.phone.bridge import Bridge
from devices.phone.documents import part
from devices.phone.screen import SYSTEM, Refused, Screen, Size
from devices.phone.state import State
from devices.phone.tasks import LAUNCHER, Tasks, screens
from devices.phone.views import View
from guiagent.errors import UsageError

_REMOVE_TASKS = "android.permission.REMOVE_TASKS"
_MAX_ROUNDS = 16
_SHIFT, _CTRL = 8, 2  # CDP's modifier bits


class Phone:
    """A virtual phone. Calls must not overlap; each returns once the screen is stable.

    Attributes:
        width, height: of the frame, in pixels.
        density: dpi; 160 would be one pixel to a dp.
        folder: the device's root directory on this machine.
        apps: by package.
        state: everything the phone remembers.
        screen_on: False while the power key has turned the screen off; touches and text do nothing then.
    """

    def __init__(self, width: int, height: int, density: int, folder: Path, apps: Mapping[str, App]) -> None:
        self.width, self.height, self.density, self.folder = width, height, density, folder
        self.apps = apps
        self.state = State(folder, apps, self._look_again)
        self.screen_on = True
        self._bridge = Bridge(self.state, apps)
        self._screen: Screen
        self._tasks: Tasks
        self._keyboard: str | None = None
        self._toast: str | None = None
        self._stale = True
        self._next: list[
            Callable[[], Awaitable[None] | None]
        ] = []  # what apps asked for during the last input

    @classmethod
    async def start(
        cls,
        width: int,
        height: int,
        density: int,
        folder: Path,
        seed: int = 0,
        folders: Sequence[Path] = (app_folders.BUILT_IN,),
        *,
        allow_unisolated: bool = False,
    ) -> "Phone":
        """Start a phone in the initial state of `seed`, with the apps in `folders`.

        Raises UsageError for an invalid manifest, InfrastructureError if there is no headless shell,
        FaultError if the phone does not start.
        """
        phone = cls(width, height, density, folder, app_folders.load(folders))
        filling = asyncio.create_task(asyncio.to_thread(phone.state.reset, seed))
        try:
            phone._screen = await Screen.start(
                Size(width, height, density), phone._answer, allow_unisolated=allow_unisolated
            )
        except BaseException:
            await filling
            raise
        phone._tasks = Tasks(phone.apps, phone._screen, phone._configuration)
        try:
            await filling
            await phone._tasks.home()
            await phone._settle()
        except BaseException:
            await phone.close()
            raise
        return phone

    async def close(self) -> None:
        await self._screen.close()

    @property
    def alive(self) -> bool:
        return self._screen.alive

    @property
    def pid(self) -> int:
        """Process id of the headless shell, which leads a process group of its own."""
        return self._screen.pid

    # -- input --------------------------------------------------------------------------------------------

    async def tap(self, x: int, y: int) -> None:
        await self._touch([(x, y)], 50)

    async def swipe(self, x1: int, y1: int, x2: int, y2: int, ms: int) -> None:
        """Swipe from one point to another in `ms`; a fast swipe flings. Equal points are a press of `ms`."""
        path = [(x1, y1)] if (x1, y1) == (x2, y2) else [(x1, y1), (x2, y2)]
        await self._touch(path, ms)

    async def text(self, text: str) -> None:
        """Type into the focused field; do nothing if no field has the focus."""
        self._input_begins()
        await self._type(text)
        await self._settle()

    async def _type(self, text: str) -> None:
        for index, line in enumerate(text.replace("\r\n", "\n").split("\n") if self.screen_on else ()):
            if index:
                await self._screen.press("Enter")
            if line:
                await self._screen.insert(line)

    async def key(self, code: int, meta: int = 0) -> None:
        """Press an Android key with android.view.KeyEvent's meta state bits; unknown codes do nothing."""
        self._input_begins()
        await self._press(code, meta)
        await self._settle()

    async def _press(self, code: int, meta: int = 0) -> None:
        match code:
            case keycodes.POWER:
                self._power(not self.screen_on)
            case keycodes.SLEEP | keycodes.WAKEUP:
                self._power(code == keycodes.WAKEUP)
            case _ if not self.screen_on:
                pass
            case keycodes.HOME:
                await self._go(self._tasks.home())
            case keycodes.BACK:
                await self._back()
            case keycodes.APP_SWITCH:
                await self._go(self._tasks.overview())
            case keycodes.NOTIFICATION:
                self._screen.tell(SYSTEM, "shade", True)
            case keycodes.VOLUME_UP | keycodes.VOLUME_DOWN | keycodes.VOLUME_MUTE:
                self._volume({keycodes.VOLUME_UP: 1, keycodes.VOLUME_DOWN: -1}.get(code, -100))
            case keycodes.CUT | keycodes.COPY | keycodes.PASTE:
                await self._edit(code)
            case _ if key := keycodes.KEYS.get(code):
                shift = key.shift or bool(meta & keycodes.META_SHIFT)
                name = key.name.upper() if shift and len(key.name) == 1 else key.name
                modifiers = _SHIFT * shift + _CTRL * bool(meta & keycodes.META_CTRL)
                await self._screen.press(name, modifiers)

    async def launch(
        self,
        package: str,
        activity: str | None = None,
        data: str | None = None,
        extras: Mapping[str, str] | None = None,
    ) -> None:
        """Bring an app to the front, on its current screen or on `activity`.

        Raises UsageError if there is no such app or activity.
        """
        await self._launch(package, activity, data, extras or {})
        await self._settle()

    async def stop_app(self, package: str) -> None:
        """End an app, so that its next launch starts it afresh. Raises UsageError if there is no such app."""
        self._tasks.known(package)
        self._tasks.end(package)
        if package in (LAUNCHER, self._tasks.front):
            await self._go(self._tasks.home())
        await self._settle()

    # -- output -------------------------------------------------------------------------------------------

    async def frame(self, format: Literal["jpeg", "png"] = "png", quality: int = 85) -> bytes:
        await self._settle()
        return await self._screen.frame(format, quality)

    async def views(self) -> View:
        """Tree of all that is visible: the app in front, then the system's bars and keyboard."""
        await self._settle()
        if not self.screen_on:
            return View("android.widget.FrameLayout", SYSTEM, (0, 0, self.width, self.height))
        return await self._screen.views(self._tasks.front)

    def foreground(self) -> tuple[str, str]:
        """Package and activity in front."""
        return self._tasks.front, self._tasks.screens[self._tasks.front][-1][0]

    def keyboard_shown(self) -> bool:
        return self._keyboard is not None

    def tasks(self) -> list[str]:
        """Packages in the overview of recent apps, the most recently used first."""
        return self._tasks.recent[::-1]

    # -- as a whole ---------------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """The whole state as a JSON document.

        `foreground` holds the screens of the app in front, the topmost last. Text that was typed there but
        not saved is not included.
        """
        tasks = self._tasks
        shown = [[name, parameters] for name, parameters in tasks.screens[tasks.front]]
        here = {"foreground": {"package": tasks.front, "screens": shown}, "tasks": list(tasks.recent)}
        return self.state.document() | here | {"screen_on": self.screen_on}

    async def load(self, document: Mapping[str, Any]) -> None:
        """Set the whole state to `document`. Raises UsageError, with nothing changed, if it is invalid."""
        front = part(document, "foreground", dict)
        package, shown = part(front, "package", str), screens(part(front, "screens", list))
        screen_on, recent = part(document, "screen_on", bool), part(document, "tasks", list)
        if not all(isinstance(name, str) for name in recent):
            raise UsageError("the phone's document has no list of packages 'tasks'")
        for name in (package, *recent):
            self._tasks.known(name)
        self.state.load(document)
        await self._start_over()
        self._tasks.recent = list(recent)
        if package != LAUNCHER:
            await self._go(self._tasks.resume(package, shown))
        self._power(screen_on)
        await self._settle()

    async def reset(self, seed: int) -> None:
        """Return to the initial state of `seed`; nothing from before is left."""
        running = LAUNCHER in self._screen.running
        self.state.reset_settings()
        await self._start_over()
        # Done while the launcher starts over: its calls are answered only after this.
        self.state.reset_contents(seed)
        self._stale = not running  # a launcher that had to be opened has read the old contents
        await self._settle()

    async def _start_over(self) -> None:
        self.screen_on, self._toast, self._next = True, None, []
        self._screen.tell(SYSTEM, "restart")
        await self._go(self._tasks.start_over())

    # -- what happens between inputs ----------------------------------------------------------------------

    async def _launch(
        self,
        package: str,
        activity: str | None,
        data: str | None,
        extras: Mapping[str, str],
        caller: str = "",
    ) -> None:
        parameters: dict[str, Any] = {"data": data, "extras": dict(extras)} if data or extras else {}
        await self._go(self._tasks.start(package, activity, parameters, caller))

    async def _go(self, elsewhere: Awaitable[None]) -> None:
        """Switch to another app with `elsewhere`, which sends the configuration; the keyboard closes."""
        self._keyboard = None
        await elsewhere
        self._stale = False

    async def _back(self) -> None:
        if await self._screen.call(SYSTEM, "back"):
            return
        front = self._tasks.front
        if self.keyboard_shown():
            self._show_keyboard(None)
        elif not await self._screen.call(front, "back"):
            await self._go(self._tasks.finish(front))

    async def _touch(self, path: Sequence[tuple[int, int]], ms: int) -> None:
        inside = [(min(max(x, 0), self.width - 1), min(max(y, 0), self.height - 1)) for x, y in path]
        self._input_begins()
        if self.screen_on:
            await self._screen.touch(inside, max(ms, 1))
        await self._settle()

    async def _settle(self) -> None:
        """Run what apps asked for and show what changed, until nothing is left to do (with a cap)."""
        self._stale |= self.state.clock.flows
        for _ in range(_MAX_ROUNDS):
            await self._screen.settle()
            if self._next:
                done = self._next.pop(0)()
                if done is not None:
                    await done
            elif self._stale:
                self._stale = False
                configuration = self._configuration()
                for package in (SYSTEM, self._tasks.front):
                    self._screen.tell(package, "configure", configuration)
            else:
                return

    def _look_again(self) -> None:
        self._stale = True

    def _configuration(self) -> dict[str, Any]:
        clock = self.state.clock
        return {
            "now": clock.now(),
            "flows": clock.flows,
            "settings": {name: self.state.settings_list(name) for name in ("system", "secure", "global")},
        }

    async def _answer(self, package: str, call: str, arguments: list[Any]) -> Any:
        """Answer an app's bridge call. Whatever changes the screen is queued until the input is over."""
        if self._bridge.knows(call):
            return self._bridge.answer(package, call, arguments)
        match call, arguments:
            case "ready", []:
                self._screen.mark_ready(package)
                return {
                    "configuration": self._configuration(),
                    "screens": self._tasks.screens.get(package, []),
                }
            case "screens", [[*given]]:
                self._tasks.screens[package] = screens(given)
            case "keyboard", [str() | None as kind]:
                if package == self._tasks.front:
                    self._next.append(lambda: self._show_keyboard(kind))
            case "toast", [str(text)]:
                self._next.append(lambda: self._show_toast(text[:200]))
            case "finish", []:
                self._next.append(lambda: self._go(self._tasks.finish(package)))
            case "start", [str(target), str() | None as activity, str() | None as data, dict(extras)]:
                if target not in self.apps:
                    raise Refused(f"no app {target!r} on this phone")
                caller = "" if package == LAUNCHER else package
                self._next.append(lambda: self._launch(target, activity, data, extras, caller))
            case "view", [str(action), str(data)]:
                found = app_folders.resolve(self.apps, action, data)
                if found is None:
                    raise Refused("No app can open this")
                target, activity = found
                self._next.append(lambda: self._launch(target, activity, data, {}, package))
            case "tasks", []:
                return self.tasks()
            case "dismiss", [str(target)] if _REMOVE_TASKS in self.apps[package].permissions:
                self._next.append(lambda: self._dismiss(target))
            case "key", [int(code)] if package == SYSTEM:
                self._next.append(lambda: self._press(code))
            case "type", [str(text)] if package == SYSTEM:
                self._next.append(lambda: self._type(text))
            case _:
                raise Refused(f"{package} cannot ask for {call!r} with {len(arguments)} arguments")
        return None

    def _dismiss(self, package: str) -> None:
        self._tasks.end(package)
        self._stale = True

    def _show_toast(self, text: str | None) -> None:
        self._toast = text
        self._screen.tell(SYSTEM, "toast", text)

    def _input_begins(self) -> None:
        if self._toast:  # a toast stays until the next input, however long that takes
            self._show_toast(None)

    def _show_keyboard(self, kind: str | None) -> None:
        self._keyboard = kind
        self._screen.tell(SYSTEM, "keyboard", kind)

    def _power(self, on: bool) -> None:
        self.screen_on = on
        self._screen.tell(SYSTEM, "power", on)

    def _volume(self, by: int) -> None:
        now = int(self.state.settings_get("system", "volume_music") or 0)
        self.state.settings_put("system", "volume_music", str(min(max(now + by, 0), 15)))

    async def _edit(self, code: int) -> None:
        if code == keycodes.PASTE:
            await self._screen.insert(self.state.clipboard)
        elif chosen := await self._screen.call(self._tasks.front, "selected"):
            self.state.clipboard = str(chosen)
            if code == keycodes.CUT:
                await self._screen.press("Delete")
