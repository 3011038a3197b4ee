"""The screens of the farm that a run trains on, from its pool's live stream, while somebody looks.

What comes from the pool was made by devices: it is parsed, bounded, and shown only if it is a picture.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from eval.report.viewer import media_type, plain
from guiagent.errors import DECODE_ERRORS
from guiagent.wire import LIVE, LIVE_PROTOCOL, Endpoint, FarmInfo

_IDLE_S = 15.0  # without a look, the stream is left
_RETRY_S = 5.0
_MOST_MESSAGE = 32 * 2**20
_MOST_DEVICES = 512


class FarmScreens:
    """The newest picture of every device of a pool, whose endpoint `find` returns; None if there is none.

    A thread follows the stream from the first look until nobody has looked for a while.
    """

    def __init__(self, find: Callable[[], Endpoint | None]) -> None:
        self._find = find
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._looked = self._tried = float("-inf")
        self._devices: dict[str, dict[str, Any]] = {}
        self._pictures: dict[str, tuple[int, bytes]] = {}  # with the number of each

    def devices(self) -> list[dict[str, Any]]:
        """Return a line about each device; [] if no pool answers, or none has yet."""
        now = time.monotonic()
        with self._lock:
            self._looked = now
            stopped = self._thread is None or not self._thread.is_alive()
            if stopped and now - self._tried > _RETRY_S:
                self._tried = now
                self._thread = threading.Thread(target=self._follow, name="screens", daemon=True)
                self._thread.start()
            return [
                {**info, "number": self._pictures[id][0]}
                for id, info in sorted(self._devices.items())
                if id in self._pictures
            ]

    def picture(self, device: str) -> tuple[str, bytes]:
        """Return the media type and bytes of a device's picture. Raises KeyError if there is none."""
        with self._lock:
            _, data = self._pictures[device]
        media = media_type(data)
        if media is None:
            raise KeyError(device)
        return media, data

    def _follow(self) -> None:
        try:
            if (endpoint := self._find()) is not None:
                self._stream(endpoint)
        except (OSError, TimeoutError, WebSocketException, *DECODE_ERRORS):
            pass  # the pool ended, or is none: the next look tries again
        finally:
            with self._lock:
                self._devices, self._pictures = {}, {}

    def _stream(self, endpoint: Endpoint) -> None:
        address = endpoint.url.replace("http", "ws", 1).rstrip("/") + LIVE
        protocols: Any = [LIVE_PROTOCOL, endpoint.token]
        with connect(
            address, subprotocols=protocols, max_size=_MOST_MESSAGE, open_timeout=_RETRY_S
        ) as stream:
            while time.monotonic() - self._looked < _IDLE_S:
                message = stream.recv(timeout=_IDLE_S)
                if isinstance(message, str):
                    self._take_state(msgspec.json.decode(message, type=FarmInfo))
                else:
                    self._take_picture(message)

    def _take_state(self, farm: FarmInfo) -> None:
        known = {
            one.id: {
                "device": plain(one.id, 200),
                "state": plain(one.state, 40),
                "label": plain(one.label, 200),
                "fps": one.fps,
                "steps": one.steps,
                "faults": one.faults,
            }
            for one in farm.devices[:_MOST_DEVICES]
        }
        with self._lock:
            self._devices = known
            self._pictures = {id: p for id, p in self._pictures.items() if id in known}

    def _take_picture(self, message: bytes) -> None:
        length = message[0] if message else 0
        device, data = message[1 : 1 + length].decode(errors="replace"), message[1 + length :]
        with self._lock:
            if device in self._devices:
                number = self._pictures[device][0] + 1 if device in self._pictures else 1
                self._pictures[device] = number, data
