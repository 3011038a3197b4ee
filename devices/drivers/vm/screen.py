"""What a guest shows: pictures as frames, and when its screen has come to rest."""

import asyncio
import io
import re

import xxhash
from PIL import Image

from devices.drivers.vm.qemu import Qemu
from guiagent.errors import Fault, FaultError
from guiagent.types import ObserveSpec

_PPM = re.compile(rb"P6\n(\d+) (\d+)\n255\n")
_WINDOW_S = 0.03
_BUSY = 0.4  # share of a window that a guest at work wants to run, and one that waits does not
_QUIET_WINDOWS = 2
_SETTLE_CAP_S = 2.0


class Frame:
    """One picture of the screen; `hash` is of the encoded bytes."""

    def __init__(self, width: int, height: int, media_type: str, data: bytes) -> None:
        self.width = width
        self.height = height
        self.media_type = media_type
        self.data = data
        self.hash = xxhash.xxh3_128_hexdigest(data)


class Camera:
    """Takes a guest's frames, and encodes what has not changed once."""

    def __init__(self, qemu: Qemu) -> None:
        self._qemu = qemu
        self._last: tuple[str, str, int] = ("", "", 0)
        self._frame = Frame(0, 0, "", b"")

    async def frame(self, spec: ObserveSpec) -> Frame:
        picture = await self._qemu.picture()
        wanted = (xxhash.xxh3_128_hexdigest(picture), spec.frame, spec.quality)
        if wanted != self._last:
            self._frame = await asyncio.to_thread(encode, picture, spec.frame, spec.quality)
            self._last = wanted
        return self._frame

    async def settle(self, cap_s: float = _SETTLE_CAP_S) -> None:
        """Wait until the guest waits too and its screen is as it was, or until the cap."""
        loop = asyncio.get_running_loop()
        end = loop.time() + cap_s
        quiet, shown = 0, b""
        while quiet < _QUIET_WINDOWS and loop.time() < end:
            if await busy(self._qemu, _WINDOW_S):
                quiet = 0
                continue
            picture = xxhash.xxh3_128_digest(await self._qemu.picture())
            quiet = quiet + 1 if picture == shown else 1
            shown = picture


async def busy(qemu: Qemu, window_s: float) -> bool:
    """Whether the guest has something to do in that time. What it was asked for is done once it has not."""
    loop = asyncio.get_running_loop()
    since, ran = loop.time(), await qemu.cpu_seconds()
    await asyncio.sleep(window_s)
    return await qemu.cpu_seconds() - ran > _BUSY * (loop.time() - since)


def encode(picture: bytes, kind: str, quality: int) -> Frame:
    """A PPM picture as a JPEG or PNG frame. FaultError where it is none."""
    head = _PPM.match(picture)
    if head is None:
        raise FaultError(Fault("device", "protocol", "QEMU's picture is no PPM file", retryable=True))
    size = (int(head[1]), int(head[2]))
    image = Image.frombuffer("RGB", size, picture[head.end() :], "raw", "RGB", 0, 1)
    out = io.BytesIO()
    if kind == "png":
        image.save(out, "PNG", compress_level=1)
    else:
        image.save(out, "JPEG", quality=quality)
    return Frame(*size, f"image/{kind}", out.getvalue())
