"""The calls of E2B's daemon on one sandbox: processes, the file system, files whole."""

import asyncio
import base64
import contextlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import msgspec
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from guiagent.doors.e2b.connect import STREAMED, RpcError, decoded, envelope, last, opened, rpc_error
from guiagent.doors.e2b.desktop import WrongScreenError
from guiagent.doors.e2b.programs import Program
from guiagent.doors.e2b.sandboxes import Sandbox, Sandboxes
from guiagent.errors import FaultError, GuiAgentError, UsageError
from guiagent.wire import MAX_FILE

Call = Callable[[Sandbox, bytes], Awaitable[dict[str, Any]]]
Stream = Callable[[Sandbox, bytes, float | None], AsyncGenerator[dict[str, Any], None]]

_OVERHEAD = 1 << 16  # bytes of a form around its file
_MOST_FILES = 64  # of a form
_KEEP_ALIVE_S = 20.0
_OURS = 1  # the process id of what this door does itself
_SIGNALS = {"SIGNAL_SIGKILL": "KILL", "SIGNAL_SIGTERM": "TERM"}
_SHELLS = ("/bin/bash", "bash", "/bin/sh", "sh")


class _Config(msgspec.Struct):
    cmd: str
    args: list[str] = []
    envs: dict[str, str] = {}
    cwd: str | None = None


class _Start(msgspec.Struct):
    process: _Config
    pty: Any = None
    tag: str | None = None
    stdin: bool = False


class _Selector(msgspec.Struct):
    pid: int | None = None
    tag: str | None = None


class _Selected(msgspec.Struct):
    process: _Selector
    signal: str = ""


class _Path(msgspec.Struct):
    path: str = ""
    depth: int = 1


class _Move(msgspec.Struct):
    source: str
    destination: str


# -- streams -------------------------------------------------------------------------------------------------


async def streamed(
    sandboxes: Sandboxes, sandbox: Sandbox, work: Stream, body: bytes, timeout_ms: str
) -> Response:
    """The answer of a server's stream. What fails within it is its last message, as the protocol has it."""
    message = opened(body)
    timeout_s = int(timeout_ms) / 1000 if re.fullmatch(r"\d{1,10}", timeout_ms, re.ASCII) else None

    async def messages() -> AsyncGenerator[bytes, None]:
        try:
            async with (
                sandboxes.using(sandbox),
                contextlib.aclosing(work(sandbox, message, timeout_s)) as events,
            ):
                async for event in events:
                    yield envelope({"event": event})
            yield last()
        except GuiAgentError as error:
            yield last(rpc_error(error))

    return StreamingResponse(messages(), media_type=STREAMED)


async def start(
    sandbox: Sandbox, body: bytes, timeout_s: float | None
) -> AsyncGenerator[dict[str, Any], None]:
    """Run a program, or do what a command line of the desktop client says."""
    said = decoded(body, _Start)
    if said.pty is not None or said.stdin:
        raise RpcError("unimplemented", "programs have neither a terminal nor an input here")
    config = said.process
    if config.cmd in _SHELLS and len(config.args) >= 2 and config.args[-2] == "-c":
        try:
            done = await sandbox.carry_out(config.args[-1])
        except WrongScreenError:
            raise  # nobody reads how that program ends
        except UsageError as error:  # as from the program that was meant
            for event in (_started(_OURS), _data("stderr", f"{error}\n".encode()), _ended(1)):
                yield event
            return
        if done is not None:
            yield _started(_OURS)
            if done.output:
                yield _data("stdout", done.output.encode())
            yield _ended(0)
            return
    own = {"DISPLAY"}  # a leased desktop has a display of its own
    environment = {
        name: value for name, value in (sandbox.asked.environment | config.envs).items() if name not in own
    }
    folder = await sandbox.folders.path(config.cwd or ".")
    program = await sandbox.programs.start(
        [config.cmd, *config.args], folder, environment, timeout_s, said.tag
    )
    async for event in _followed(sandbox, program):
        yield event


async def connect(sandbox: Sandbox, body: bytes, _: float | None) -> AsyncGenerator[dict[str, Any], None]:
    """Go on with a program's output from where its last reader left off."""
    program = _selected(sandbox, decoded(body, _Selected).process)
    async for event in _followed(sandbox, program):
        yield event


async def _followed(sandbox: Sandbox, program: Program) -> AsyncGenerator[dict[str, Any], None]:
    yield _started(program.pid)
    async with contextlib.aclosing(sandbox.programs.output(program)) as output:
        following = asyncio.ensure_future(anext(output, None))
        try:
            while True:
                done, _ = await asyncio.wait((following,), timeout=_KEEP_ALIVE_S)
                if not done:
                    yield {"keepalive": {}}
                    continue
                if (part := following.result()) is None:
                    break
                yield _data(*part)
                following = asyncio.ensure_future(anext(output, None))
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    yield _ended(program.code or 0)


def _started(pid: int) -> dict[str, Any]:
    return {"start": {"pid": pid}}


def _data(name: str, data: bytes) -> dict[str, Any]:
    return {"data": {name: base64.b64encode(data).decode()}}


def _ended(code: int) -> dict[str, Any]:
    told = {"exitCode": code, "exited": True, "status": f"exit status {code}"}
    return {"end": told | ({"error": told["status"]} if code else {})}


def _selected(sandbox: Sandbox, said: _Selector) -> Program:
    program = sandbox.programs.of(said.pid) if said.pid is not None else None
    if program is None:
        raise RpcError(
            "not_found", f"there is no process {said.pid if said.tag is None else said.tag[:60]!r}"
        )
    return program


# -- calls ---------------------------------------------------------------------------------------------------


async def processes(sandbox: Sandbox, _: bytes) -> dict[str, Any]:
    return {
        "processes": [
            {
                "pid": program.pid,
                "config": {"cmd": program.command[0], "args": list(program.command[1:])},
                **({} if program.tag is None else {"tag": program.tag}),
            }
            for program in await sandbox.programs.running()
        ]
    }


async def send_signal(sandbox: Sandbox, body: bytes) -> dict[str, Any]:
    said = decoded(body, _Selected)
    if said.signal not in _SIGNALS:
        raise UsageError(f"a signal is one of {', '.join(_SIGNALS)}")
    await sandbox.programs.kill(_selected(sandbox, said.process), _SIGNALS[said.signal])
    return {}


async def stat(sandbox: Sandbox, body: bytes) -> dict[str, Any]:
    return {"entry": await sandbox.folders.entry(decoded(body, _Path).path)}


async def list_folder(sandbox: Sandbox, body: bytes) -> dict[str, Any]:
    said = decoded(body, _Path)
    return {"entries": await sandbox.folders.entries(said.path, said.depth)}


async def make_folder(sandbox: Sandbox, body: bytes) -> dict[str, Any]:
    try:
        return {"entry": await sandbox.folders.make(decoded(body, _Path).path)}
    except FaultError as error:
        if error.fault.code == "exists":
            raise RpcError("already_exists", str(error)) from None
        raise


async def move(sandbox: Sandbox, body: bytes) -> dict[str, Any]:
    said = decoded(body, _Move)
    return {"entry": await sandbox.folders.move(said.source, said.destination)}


async def remove(sandbox: Sandbox, body: bytes) -> dict[str, Any]:
    await sandbox.folders.remove(decoded(body, _Path).path)
    return {}


STREAMS: dict[str, Stream] = {"/process.Process/Start": start, "/process.Process/Connect": connect}
CALLS: dict[str, Call] = {
    "/process.Process/List": processes,
    "/process.Process/SendSignal": send_signal,
    "/filesystem.Filesystem/Stat": stat,
    "/filesystem.Filesystem/ListDir": list_folder,
    "/filesystem.Filesystem/MakeDir": make_folder,
    "/filesystem.Filesystem/Move": move,
    "/filesystem.Filesystem/Remove": remove,
}


# -- whole files ---------------------------------------------------------------------------------------------


async def health(_: Request, sandbox: Sandbox) -> Response:
    """Whether the lease lives: a sandbox whose lease has ended is said to be gone."""
    found = await sandbox.device.health()
    if not found.ok:
        raise RpcError("unavailable", f"the sandbox was not found: {found.detail}")
    return Response(status_code=204)


async def download(request: Request, sandbox: Sandbox) -> Response:
    data = await sandbox.folders.read(request.query_params.get("path", ""))
    return Response(data, media_type="application/octet-stream")


async def upload(request: Request, sandbox: Sandbox) -> Response:
    """Write one file whose bytes are the body, or those of a form, each at its name or at `path`."""
    path = request.query_params.get("path", "")
    if request.headers.get("content-encoding", "identity") != "identity":
        raise RpcError("unimplemented", "files are taken as they are, not compressed")
    data = await _whole(request)
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        return JSONResponse([await sandbox.folders.write(path, data)])
    parts = await _parts(request, data)
    if len(parts) != 1 and path:
        raise UsageError("a path in the address is for one file")
    return JSONResponse([await sandbox.folders.write(path or name, part) for name, part in parts])


async def _whole(request: Request) -> bytes:
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > MAX_FILE + _OVERHEAD:
            raise RpcError("resource_exhausted", f"a file has at most {MAX_FILE >> 20} MiB")
    return bytes(data)


async def _parts(request: Request, data: bytes) -> list[tuple[str, bytes]]:
    """The files of a form, as (name, bytes). Raises UsageError for what is none."""

    async def once() -> AsyncGenerator[bytes, None]:
        yield data

    parser = MultiPartParser(request.headers, once(), max_files=_MOST_FILES, max_fields=0)
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError, ValueError) as error:
        raise UsageError(f"this is no form of files: {error}") from None
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(form.close)
        files = [part for _, part in form.multi_items() if isinstance(part, UploadFile)]
        return [(part.filename or "", await part.read()) for part in files]
