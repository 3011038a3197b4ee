"""Programs that run on a device while other things are done with it.

The farm's `exec` ends with its program, and nothing else is done meanwhile. So a program is started apart
from it, in a session of its own that writes into a folder of the device, and is asked for in short calls.
"""

import asyncio
import base64
import binascii
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field

from guiagent.errors import Fault, FaultError, UsageError
from guiagent.protocols import Shell

MOST_S = 86_400.0  # that a program may run
_CALL_S = 20.0
_CHUNK = 256 << 10  # bytes of a stream that one call brings
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.03, 1.0
_FIRST_LOOKS = 10  # most programs end within them, and so within the first call
_MOST = 256  # programs of a sandbox that are remembered

# $1: where to start. Its exit code appears as a whole file once all of its output is written.
_START = r"""
cd "$1" && folder=$(mktemp -d) || exit 97
shift
: >"$folder/out"; : >"$folder/err"
setsid /bin/sh -c '"$@" >"$0/out" 2>"$0/err" </dev/null
echo $? >"$0/part"; mv "$0/part" "$0/code"' "$folder" "$@" >/dev/null 2>&1 </dev/null &
echo "$! $folder"
"""
# $1: folder, $2: process, $3 and $4: bytes of out and err that are known, $5: bytes to send at most,
# $6: looks to wait.
_ASK = r"""
looks=$6
while [ ! -e "$1/code" ] && kill -0 "$2" 2>/dev/null && [ "$looks" -gt 0 ]; do
    looks=$((looks - 1)); sleep 0.02
done
alive=; kill -0 "$2" 2>/dev/null && alive=running
cat "$1/code" 2>/dev/null || echo "${alive:-killed}"
tail -c "+$(($3 + 1))" "$1/out" | head -c "$5" | base64 -w 0; echo
tail -c "+$(($4 + 1))" "$1/err" | head -c "$5" | base64 -w 0; echo
"""
_KILLED = 137  # as shells report SIGKILL
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


@dataclass(slots=True)
class Program:
    """One program. `out` and `err` count the bytes of its output that somebody was given."""

    pid: int
    folder: str
    command: Sequence[str]
    tag: str | None = None
    out: int = 0
    err: int = 0
    code: int | None = None  # once it has ended
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Programs:
    """The programs of one device, by the process id that each has there."""

    def __init__(self, device: Shell) -> None:
        self._device = device
        self._all: dict[int, Program] = {}

    async def start(
        self,
        command: Sequence[str],
        folder: str,
        environment: Mapping[str, str],
        timeout_s: float | None,
        tag: str | None = None,
    ) -> Program:
        """Start a program in a folder of the device; it is killed after `timeout_s`. Raises UsageError."""
        wrong = next((name for name in environment if not _NAME.fullmatch(name)), None)
        if wrong is not None:
            raise UsageError(f"{wrong[:60]!r} is no name of a variable")
        if any("\0" in word for word in (*command, folder, *environment.values())):
            raise UsageError("no word of a command can have a NUL byte")
        limit = min(timeout_s or MOST_S, MOST_S)
        variables = [f"{name}={value}" for name, value in environment.items()]
        limited = ["timeout", "-s", "KILL", f"{limit:.3f}", "env", *variables, *command]
        said = await self._device.exec(["/bin/sh", "-c", _START, "sh", folder, *limited], _CALL_S)
        pid, _, own = said.stdout.strip().partition(" ")
        if said.code or not pid.isdecimal():
            raise UsageError(f"the program cannot be started in {folder}: {said.stderr.strip()[-300:]}")
        program = Program(int(pid), own, tuple(command), tag)
        self._all[program.pid] = program
        self._forget()
        return program

    def of(self, pid: int) -> Program | None:
        return self._all.get(pid)

    async def running(self) -> list[Program]:
        """The programs that have not ended, as far as anybody asked."""
        return [program for program in self._all.values() if program.code is None]

    async def kill(self, program: Program, signal: str) -> None:
        """Send a signal ("KILL", "TERM") to the program and all that it has started in its session.

        Raises FaultError (code "not_found") if there is nothing left of it.
        """
        gone = FaultError(Fault("task", "not_found", f"there is no process {program.pid} any more"))
        if program.code is not None:  # pkill still finds what nobody has waited for yet
            raise gone
        said = await self._device.exec(["pkill", f"-{signal}", "-s", str(program.pid)], _CALL_S)
        if said.code == 1:
            raise gone
        if said.code:
            raise FaultError(Fault("task", "refused", f"pkill: {said.stderr.strip()[-300:]}"))

    async def output(self, program: Program) -> AsyncGenerator[tuple[str, bytes], None]:
        """What a program writes from where the last reader left off, as ("stdout" or "stderr", bytes).

        It ends with the program. One reader at a time: a second one waits for the first.
        """
        pause, looks = _FIRST_PAUSE_S, _FIRST_LOOKS
        async with program.turn:
            while program.code is None:
                code, out, err = await self._ask(program, looks)
                looks = 0  # each of them keeps other callers from the device
                program.out += len(out)
                program.err += len(err)
                for name, part in (("stdout", out), ("stderr", err)):
                    if part:
                        yield name, part
                if len(out) == _CHUNK or len(err) == _CHUNK:
                    continue
                program.code = code
                if code is None:
                    pause = _FIRST_PAUSE_S if out or err else min(pause * 1.5, _LONGEST_PAUSE_S)
                    await asyncio.sleep(pause)

    async def _ask(self, program: Program, looks: int) -> tuple[int | None, bytes, bytes]:
        words = [program.folder, program.pid, program.out, program.err, _CHUNK, looks]
        said = await self._device.exec(["/bin/sh", "-c", _ASK, "sh", *map(str, words)], _CALL_S)
        try:
            state, out, err = said.stdout.split("\n")[:3]
            code = None if state == "running" else _KILLED if state == "killed" else int(state)
            return code, base64.b64decode(out, validate=True), base64.b64decode(err, validate=True)
        except (ValueError, binascii.Error):
            text = f"the device says nothing of program {program.pid}: {said.stderr.strip()[-300:]}"
            raise FaultError(Fault("device", "protocol", text)) from None

    def _forget(self) -> None:
        """Forget the oldest programs that have ended, then the oldest."""
        order = sorted(self._all, key=lambda pid: self._all[pid].code is None)
        for pid in order[: max(0, len(order) - _MOST)]:
            del self._all[pid]
