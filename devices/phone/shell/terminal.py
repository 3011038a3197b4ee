"""A shell without a script: line by line from a program, or with echo and a prompt for a person."""

import asyncio

from devices.phone.shell.session import Input, Nothing, Output, Session

_MAX_LINE = 4096
_INTERRUPT, _END, _ERASE = b"\x03", b"\x04", (b"\x7f", b"\x08")


async def run_lines(session: Session, stdin: Input, stdout: Output, stderr: Output) -> int:
    """Every line that comes in is run; the exit code is the last one's."""
    rest = b""
    while not session.ended and (chunk := await stdin.read()):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            await session.run(line.decode("utf-8", "surrogateescape"), Nothing(), stdout, stderr)
            if session.ended:
                break
        if len(rest) > _MAX_LINE:
            break
    if rest and not session.ended:
        await session.run(rest.decode("utf-8", "surrogateescape"), Nothing(), stdout, stderr)
    return session.code


class Terminal:
    """Echoes what is typed, since adb puts the person's own terminal in raw mode."""

    def __init__(self, session: Session, stdin: Input, stdout: Output) -> None:
        self._session = session
        self._stdin = stdin
        self._stdout = stdout

    async def run(self) -> int:
        line = b""
        await self._prompt()
        while not self._session.ended and (chunk := await self._stdin.read()):
            for byte in (chunk[index : index + 1] for index in range(len(chunk))):
                if byte in (b"\r", b"\n"):
                    await self._stdout.write(b"\r\n")
                    await self._execute(line)
                    line = b""
                elif byte in _ERASE:
                    await self._stdout.write(b"\b \b" if line else b"")
                    line = line[:-1]
                elif byte == _INTERRUPT:
                    await self._stdout.write(b"^C\r\n")
                    line = b""
                    await self._prompt()
                elif byte == _END and not line:
                    return self._session.code
                elif len(line) < _MAX_LINE and byte >= b" ":
                    await self._stdout.write(byte)
                    line += byte
                if self._session.ended:
                    break
        return self._session.code

    async def _execute(self, line: bytes) -> None:
        script = line.decode("utf-8", "surrogateescape")
        running = asyncio.create_task(self._session.run(script, Nothing(), self, self))
        interrupted = asyncio.create_task(self._interrupted())
        try:
            await asyncio.wait((running, interrupted), return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                await self._stdout.write(b"^C\r\n")
        finally:
            running.cancel()
            interrupted.cancel()
            await asyncio.gather(running, interrupted, return_exceptions=True)
        if not self._session.ended:
            await self._prompt()

    async def _interrupted(self) -> None:
        while (chunk := await self._stdin.read()) and _INTERRUPT not in chunk:
            pass

    async def write(self, data: bytes) -> None:
        await self._stdout.write(data.replace(b"\n", b"\r\n"))

    async def _prompt(self) -> None:
        await self._stdout.write(f"virtual:{self._session.cwd} $ ".encode())
