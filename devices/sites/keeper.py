"""Runs a site's server inside its sandbox, carries connections to it, and does what the host's side asks.

Run as a script with one argument, JSON: the server's command (none while data is seeded), its port, its
folder, and the descriptors of two listening unix sockets. Those are the only ways in: the sandbox has no
network but its own loopback. Needs nothing outside the standard library. It ends when the server does, and
says its last lines.
"""

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections import deque
from pathlib import Path
from typing import Any

_CHUNK = 1 << 16
_OUTPUT = 1 << 20  # bytes of a program's output that are passed on
_RETRY_S = 0.02


async def _serve(command: list[str], folder: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        limit=_CHUNK,
    )


async def _tail(output: asyncio.StreamReader) -> bytes:
    """Read to the end; return the last 2000 bytes."""
    last: deque[bytes] = deque(maxlen=2)
    while data := await output.read(2000):
        last.append(data)
    return b"".join(last)[-2000:]


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(_CHUNK):
            target.write(data)
            await target.drain()
        target.write_eof()


class Keeper:
    def __init__(self, port: int, folder: str) -> None:
        self._port = port
        self._folder = folder

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection to the server, which may not listen yet."""
        far: asyncio.StreamWriter | None = None
        try:
            while far is None:
                try:
                    answers, far = await asyncio.open_connection("127.0.0.1", self._port)
                except ConnectionRefusedError:
                    await asyncio.sleep(_RETRY_S)
            await asyncio.gather(_copy(reader, far), _copy(answers, writer))
        except OSError:
            pass  # either end hung up
        finally:
            writer.close()
            if far is not None:
                far.close()

    async def ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of the host: a line of JSON, then `size` bytes where it is a file."""
        with contextlib.suppress(OSError, EOFError):
            request = json.loads(await reader.readline())
            if "put" in request:
                data = await reader.readexactly(request["size"])
                answer = self._put(request["put"], data)
            else:
                answer = await self._run(request["argv"], request["timeout_s"])
            writer.write(json.dumps(answer).encode())
            await writer.drain()
        writer.close()

    def _put(self, path: str, data: bytes) -> dict[str, Any]:
        target = Path(self._folder, path)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        except OSError as error:
            return {"code": 1, "stderr": f"{path}: {error.strerror}"}
        return {"code": 0}

    async def _run(self, argv: list[str], timeout_s: float) -> dict[str, Any]:
        try:
            program = await asyncio.create_subprocess_exec(
                *argv,
                cwd=self._folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            return {"code": 127, "stderr": f"{argv[0]}: {error.strerror}"}
        except ValueError as error:  # a zero byte
            return {"code": 127, "stderr": str(error)}
        assert program.stdout is not None and program.stderr is not None
        # It may close its output long before it ends.
        ended = asyncio.gather(_head(program.stdout), _head(program.stderr), program.wait())
        try:
            stdout, stderr, code = await asyncio.wait_for(ended, timeout_s)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, 9)
            await program.wait()
            return {"code": 124, "stderr": f"not finished within {timeout_s:g} s"}
        return {"code": code, "stdout": stdout, "stderr": stderr}


async def _head(output: asyncio.StreamReader) -> str:
    """Read to the end; return the first MiB as text."""
    head = b""
    while data := await output.read(_CHUNK):
        head += data[: _OUTPUT - len(head)]
    return head.decode(errors="replace")


async def main() -> int:
    told = json.loads(sys.argv[1])
    os.makedirs(os.environ["HOME"], exist_ok=True)
    keeper = Keeper(told["port"], told["folder"])
    web = await asyncio.start_unix_server(keeper.carry, sock=socket.socket(fileno=told["web"]))
    control = await asyncio.start_unix_server(
        keeper.ask, sock=socket.socket(fileno=told["control"]), limit=1 << 24
    )
    async with web, control:
        if not told["command"]:
            await asyncio.Event().wait()
        server = await _serve(told["command"], told["folder"])
        assert server.stdout is not None
        last = asyncio.ensure_future(_tail(server.stdout))
        code = await server.wait()
        with contextlib.suppress(asyncio.TimeoutError):  # what the server started may hold its output open
            sys.stderr.buffer.write(await asyncio.wait_for(asyncio.shield(last), 1.0))
            sys.stderr.flush()
        return code if code > 0 else 1


if __name__ == "__main__":
    os._exit(asyncio.run(main()))
