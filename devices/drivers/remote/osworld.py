"""A desktop behind OSWorld's in-guest HTTP server, wherever it runs.

The interface has no reset and no password: a lease finds what the lease before it left behind, so such a
device belongs to one tenant. Its actions are `pyautogui` commands that run in the guest.
"""

import asyncio
import io
import re
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec
from PIL import Image

from devices.drivers import atspi
from devices.drivers.remote import xml_tree
from devices.drivers.remote.pyautogui import Unsupported, held_s, script
from devices.drivers.replies import MAX_FILE, MAX_JSON, Executed, Unacceptable, ask, parse
from guiagent.actions import Action, Shell
from guiagent.errors import Fault, FaultError, UsageError
from guiagent.types import Capabilities, CommandResult, Health, Node, Observation, ObserveSpec, ResetSpec

T = TypeVar("T")
_VERB_S = 30.0
_ACTION_S = 30.0  # besides what it asks for itself
_HEALTH_S = 5.0
_FILE_S = 120.0
_SLACK_S = 5.0  # for the answer of a command that ends in time
_SETTLE_S = 3.0
_POLL_S = 0.05
_MAX_FRAME = 32 << 20  # bytes of a screenshot
_MAX_PIXELS = 8192 * 8192
_LONGEST_SIDE = 1 << 15
_OUTPUT = 64 << 10


class _Size(msgspec.Struct):
    width: Annotated[int, msgspec.Meta(ge=1, le=_LONGEST_SIDE)]
    height: Annotated[int, msgspec.Meta(ge=1, le=_LONGEST_SIDE)]


class _Refusal(msgspec.Struct):
    message: str = ""


class _Tree(msgspec.Struct):
    xml: str = msgspec.field(name="AT")


class OSWorldDevice:
    """A `devices.drivers.HostedDevice` with `Shell`, `Files` and `Services` ("osworld")."""

    def __init__(self, http: httpx.AsyncClient, url: str, kind: str) -> None:
        self._http = http
        self._url = url
        self._kind = kind
        self._size = (0, 0)
        self._platform = ""

    @classmethod
    async def start(cls, url: str, kind: str) -> "OSWorldDevice":
        device = cls(httpx.AsyncClient(base_url=url, timeout=None), url, kind)
        try:
            platform = await device._ask("GET", "/platform")
            device._platform = platform.decode("utf-8", "replace").strip()[:40]
            size = _parsed("/screen_size", await device._ask("POST", "/screen_size"), _Size)
            device._size = (size.width, size.height)
        except BaseException:
            await device.close()
            raise
        return device

    async def describe(self) -> Capabilities:
        features = ["a11y", "shell", "files", "osworld", "unlimited_egress"]
        return Capabilities(self._kind, *self._size, features, f"OSWorld server on {self._platform}")

    async def reset(self, seed: int, baseline: ResetSpec, spec: ObserveSpec) -> Observation:
        """Observe the device as it is: its interface cannot restore an earlier state.

        Raises UsageError for any baseline but the blank one.
        """
        if baseline != ResetSpec():
            raise UsageError("an OSWorld server cannot be set to a baseline: set it up with exec and put")
        return await self.observe(spec)

    async def observe(self, spec: ObserveSpec) -> Observation:
        png = b"" if spec.frame == "none" else await self._screenshot()
        return await self._observe(spec, png, None, None)

    async def act(self, actions: Sequence[Action], spec: ObserveSpec) -> Observation:
        error, output = None, None
        for action in actions:
            if isinstance(action, Shell):
                output = (await self.exec(["sh", "-c", action.command], _ACTION_S)).stdout
                continue
            try:
                code = script(action)
            except Unsupported as reason:
                error = str(reason)
                break
            if not code:
                continue
            result = await self.exec(["python", "-c", code], _ACTION_S + held_s(action))
            if result.code != 0:
                lines = result.stderr.strip().splitlines() or ["it said nothing"]
                error = f"the guest could not do {action.type}: {lines[-1][:200]}"
                break
        return await self._observe(spec, await self._quiet(), error, output)

    async def exec(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        body = {"command": list(command), "shell": False}
        status, answer = await self._request("POST", "/execute", MAX_JSON, timeout_s + _SLACK_S, json=body)
        if status != 200:
            return CommandResult(126, "", _parsed("/execute", answer, _Refusal).message[:_OUTPUT])
        return _parsed("/execute", answer, Executed).result(_OUTPUT)

    async def put(self, path: str, data: bytes) -> None:
        await self._ask(
            "POST", "/setup/upload", seconds=_FILE_S, data={"file_path": path}, files={"file_data": data}
        )

    async def get(self, path: str) -> bytes:
        status, answer = await self._request("POST", "/file", MAX_FILE, _FILE_S, data={"file_path": path})
        if status == 404:
            raise FaultError(Fault("task", "missing_file", f"there is no {path} on the device"))
        return self._accepted("/file", status, answer)

    async def connect(self, service: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if service != "osworld":
            raise UsageError(f"an OSWorld server has no service {service!r}; it has 'osworld'")
        at = urlsplit(self._url)
        try:
            return await asyncio.open_connection(at.hostname, at.port or 80)
        except OSError as error:
            raise _broken(f"{self._url} cannot be reached: {error}") from error

    async def attest(self) -> str:
        return "not attested: an OSWorld server has no reset"

    async def health(self) -> Health:
        try:
            await self._ask("GET", "/platform", seconds=_HEALTH_S)
        except FaultError as error:
            return Health(False, error.fault.message)
        return Health(True)

    async def close(self) -> None:
        await self._http.aclose()

    # -- inside ----------------------------------------------------------------------------------------------

    async def _ask(
        self, method: str, path: str, most: int = MAX_JSON, seconds: float | None = None, **content: Any
    ) -> bytes:
        """The body of an answer with a status of success."""
        status, body = await self._request(method, path, most, seconds, **content)
        return self._accepted(path, status, body)

    async def _request(
        self, method: str, path: str, most: int, seconds: float | None = None, **content: Any
    ) -> tuple[int, bytes]:
        try:
            return await ask(self._http, method, path, most, seconds or _VERB_S, **content)
        except Unacceptable as error:
            raise _broken(f"{self._url}: {error}") from error

    def _accepted(self, path: str, status: int, body: bytes) -> bytes:
        if status >= 400:
            said = body[:200].decode("utf-8", "replace")
            raise _broken(f"{self._url}{path} answered {status}: {said!r}")
        return body

    async def _screenshot(self) -> bytes:
        return await self._ask("GET", "/screenshot", _MAX_FRAME)

    async def _quiet(self) -> bytes:
        """The first screenshot that equals the one before, or the last before the cap."""
        before = await self._screenshot()
        deadline = asyncio.get_running_loop().time() + _SETTLE_S
        while asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(_POLL_S)
            after = await self._screenshot()
            if after == before:
                break
            before = after
        return before

    async def _observe(
        self, spec: ObserveSpec, png: bytes, error: str | None, output: str | None
    ) -> Observation:
        frame = b""
        if spec.frame != "none":
            frame = await asyncio.to_thread(_encoded, png, spec.frame, spec.quality)
        return Observation.of(
            self._size,
            frame,
            spec,
            tree=await self._tree() if spec.tree else None,
            action_error=error,
            output=output,
        )

    async def _tree(self) -> list[Node]:
        xml = _parsed("/accessibility", await self._ask("GET", "/accessibility"), _Tree).xml
        if re.search(r"<!(DOCTYPE|ENTITY)", xml):
            raise _broken("its accessibility tree is not what an OSWorld server gives")
        return await asyncio.to_thread(lambda: atspi.nodes(xml_tree.told(xml)))


def _encoded(png: bytes, format: str, quality: int) -> bytes:
    try:
        with Image.open(io.BytesIO(png), formats=("PNG",)) as image:
            if image.width * image.height > _MAX_PIXELS:
                raise _broken(f"a screen of {image.width}x{image.height} is refused")
            if format == "png":
                return png
            buffer = io.BytesIO()
            image.convert("RGB").save(buffer, "JPEG", quality=quality)
            return buffer.getvalue()
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise _broken(f"its screenshot cannot be read: {error}") from error


def _parsed(path: str, body: bytes, kind: type[T]) -> T:
    try:
        return parse(body, kind)
    except ValueError as error:
        raise _broken(f"{path} does not answer as an OSWorld server does: {error}") from error


def _broken(message: str) -> FaultError:
    return FaultError(Fault("device", "osworld", message, retryable=True))
