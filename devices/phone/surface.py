"""One page of a headless shell that draws only on request: commands, input, and frames.

It has no network, no files and no second page, so it needs nothing of the browser driver's page.
"""

import asyncio
import base64
from collections.abc import Awaitable
from typing import Literal, TypeVar

from devices.chromium import process
from devices.chromium.cdp import Connection, Json, Listener
from devices.chromium.starting import failure, persistently
from guiagent.errors import Fault, FaultError

T = TypeVar("T")
# One process for all frames, with the graphics and network services inside the browser's own process: a phone
# has nothing to isolate from itself, and every process costs memory. Of two lists of features the
# last one counts: this one has what begin-frame control disables, too.
_LEAN = (
    "--disable-features=RasterInducingScroll,IsolateOrigins,site-per-process,IsolateSandboxedIframes",
    "--enable-features=NetworkServiceInProcess2",
    "--in-process-gpu",
)
_FIRST_PAUSE_S = 0.0005
_FRAME_S = 1 / 60
_MAX_DRAWINGS = 8


class Surface:
    """A page of a headless shell that draws a frame only when asked to.

    Attributes:
        page: DevTools id of the page, which is also the id of its main frame.
    """

    def __init__(self, shell: process.Process, connection: Connection, page: str, session: str) -> None:
        self.page = page
        self._process = shell
        self._connection = connection
        self._session = session
        self._drawing: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._drawing.set_result({})
        self._pictures: dict[tuple[str, int], bytes] = {}  # of the current screen, by encoding and quality

    @classmethod
    async def open(
        cls, width: int, height: int, scale: float, *, allow_unisolated: bool = False
    ) -> "Surface":
        """Open a blank page of `width` x `height` CSS pixels, each `scale` pixels of the frame.

        Raises InfrastructureError if there is no headless shell, or it cannot be kept from this machine.
        """
        return await persistently(lambda: cls._open(width, height, scale, allow_unisolated))

    @classmethod
    async def _open(cls, width: int, height: int, scale: float, allow_unisolated: bool) -> "Surface":
        flags = (*process.BEGIN_FRAME_FLAGS, *_LEAN, f"--force-device-scale-factor={scale}")
        shell = await process.Process.start(
            process.headless_shell(), width, height, flags, allow_unisolated=allow_unisolated
        )
        connection = Connection(shell.reader, shell.writer)
        try:
            # Use the page that the browser opens with: another page would be another process.
            targets = (await connection.post("Target.getTargets"))["targetInfos"]
            pages = [target["targetId"] for target in targets if target["type"] == "page"]
            if not pages:
                raise FaultError(
                    Fault("device", "start_failed", "the browser opened no page", retryable=True)
                )
            page = pages[0]
            attached = await connection.post("Target.attachToTarget", {"targetId": page, "flatten": True})
        except FaultError as error:
            await connection.close()
            await shell.stop()
            raise failure(shell, "the phone's browser", error) from error
        except BaseException:
            await connection.close()
            await shell.stop()
            raise
        return cls(shell, connection, page, attached["sessionId"])

    async def close(self) -> None:
        await self._connection.close()
        await self._process.stop()

    @property
    def alive(self) -> bool:
        return self._connection.alive and self._process.running

    @property
    def pid(self) -> int:
        return self._process.pid

    def listen(self, listener: Listener) -> None:
        self._connection.listen(self._session, listener)

    def fail(self, fault: Fault) -> None:
        """End every waiting and every later command in `fault`."""
        self._connection.fail(fault)

    def post(self, method: str, params: Json | None = None) -> asyncio.Future[Json]:
        return self._connection.post(method, params, self._session)

    async def ticking(self, work: Awaitable[T]) -> T:
        """Await `work` and draw frames meanwhile, since the page may wait for one to handle an input."""
        task = asyncio.ensure_future(work)
        pause = _FIRST_PAUSE_S
        try:
            while not task.done():
                await asyncio.wait((task,), timeout=pause)
                if not task.done():
                    await self._draw()
                pause = min(2 * pause, _FRAME_S)
            return await task
        finally:
            task.cancel()

    async def tick(self) -> bool:
        """Draw one frame; return True if something on the screen changed."""
        return bool((await self._draw()).get("hasDamage"))

    async def picture(self, encoding: Literal["jpeg", "png"], quality: int) -> bytes:
        """Encoded picture of the screen; `quality` (0 to 100) is for JPEG only.

        While the screen does not change, the last picture is returned again.
        """
        if data := self._pictures.get((encoding, quality)):
            return data
        wanted: Json = {"format": encoding, "optimizeForSpeed": True}
        if encoding == "jpeg":
            wanted["quality"] = quality
        for _ in range(_MAX_DRAWINGS):
            if drawn := (await self._draw(screenshot=wanted)).get("screenshotData"):
                # The frame after a picture is always drawn in full, even if nothing changed: request it now.
                self._drawing = self.post("HeadlessExperimental.beginFrame")
                self._pictures[encoding, quality] = base64.b64decode(drawn)
                return self._pictures[encoding, quality]
            await asyncio.sleep(_FRAME_S)
        raise FaultError(Fault("device", "no_frame", "the phone's screen drew no frame", retryable=True))

    async def _draw(self, **options: Json) -> Json:
        while not self._drawing.done():  # the browser takes one frame at a time
            await asyncio.wait((self._drawing,))
        self._drawing = self.post("HeadlessExperimental.beginFrame", options)
        reply = await asyncio.shield(self._drawing)
        if reply.get("hasDamage"):
            self._pictures.clear()
        return reply
