"""Finds this user's running pool, or starts one that ends with this process."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from guiagent.client.farm import FarmClient
from guiagent.errors import DECODE_ERRORS, GuiAgentError, InfrastructureError, MissingProgram, UsageError
from guiagent.wire import Endpoint

_START_S = 600.0  # a virtual machine's first boot on a host takes minutes without KVM
_STOP_S = 10.0
_POLL_S = 0.05


def state_dir() -> Path:
    """The state folder of this user's pool: $GUIAGENT_HOME, or `guiagent` in $XDG_STATE_HOME, which defaults
    to ~/.local/state."""
    if home := os.environ.get("GUIAGENT_HOME"):
        return Path(home)
    states = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not states.is_absolute():  # its specification has such a one ignored
        states = Path.home() / ".local" / "state"
    return states / "guiagent"


def read_endpoint(folder: Path) -> Endpoint | None:
    """Read the endpoint of the pool with that state folder; None if there is none or another user owns it."""
    path = folder / "endpoint.json"
    try:
        if path.stat().st_uid != os.getuid():
            return None
        return msgspec.json.decode(path.read_bytes(), type=Endpoint)
    except (FileNotFoundError, NotADirectoryError, *DECODE_ERRORS):
        return None


def endpoint_of(pool: str | None) -> Endpoint:
    """The endpoint of a pool: by its URL (token in $GUIAGENT_TOKEN), by its state folder on this machine, or
    for None the pool that this user has running.

    Raises UsageError if there is no endpoint file, or the token is missing.
    """
    if pool is not None and "://" in pool:
        token = os.environ.get("GUIAGENT_TOKEN")
        if not token:
            raise UsageError(f"the pool at {pool} asks for its token: set GUIAGENT_TOKEN")
        return Endpoint(pool.rstrip("/"), token, pid=0)
    folder = state_dir() if pool is None else Path(pool)
    endpoint = read_endpoint(folder)
    if endpoint is None:
        raise UsageError(
            f"no pool of yours is running (no endpoint.json in {folder}): start one with `guiagent up`, or "
            "name one by its address (http://HOST:PORT) or its state folder: --pool"
        )
    return endpoint


async def find_pool() -> Endpoint | None:
    """This user's pool, if one is running and answers."""
    endpoint = read_endpoint(state_dir())
    if endpoint is None:
        return None
    try:
        async with FarmClient(endpoint.url, endpoint.token) as farm:
            await farm.devices()
    except GuiAgentError:
        return None
    return endpoint


@contextlib.contextmanager
def private_pool(*devices: str, port: int = 0) -> Iterator[Endpoint]:
    """Start a private pool in a child process; stop it on leaving.

    `devices` are words as `guiagent up` takes them: "browser=4@1024x768", "desktop", "phone=2". If `setpriv`
    is installed (as on every Debian), the kernel also stops the pool when the thread that started it dies.

    Raises:
        InfrastructureError: the pool does not start; with the last line of its own output.
        MissingProgram: the pool does not start because a program is missing.
    """
    with _child(devices, port) as child:
        while (endpoint := child.endpoint()) is None:
            time.sleep(_POLL_S)
        yield endpoint


@contextlib.asynccontextmanager
async def pool_beside(*devices: str, port: int = 0) -> AsyncIterator[Endpoint]:
    """Do as `private_pool`, in an event loop: who waits for the start can be cancelled."""
    with _child(devices, port) as child:
        while (endpoint := child.endpoint()) is None:  # noqa: ASYNC110  (a file that another process writes)
            await asyncio.sleep(_POLL_S)
        yield endpoint


@dataclass(frozen=True)
class _Child:
    """A pool's process that starts, with its state folder, its output, and when it should be up."""

    process: subprocess.Popen[bytes]
    folder: Path
    log: Path
    give_up: float

    def endpoint(self) -> Endpoint | None:
        """The pool's endpoint once it is up, else None. Raises as `private_pool` if it never will be."""
        if (endpoint := read_endpoint(self.folder)) is not None:
            return endpoint
        if self.process.poll() is not None:
            lines = self.log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
            reason = lines[-1].removeprefix("guiagent: ")
            missing = self.process.returncode == MissingProgram.exit_code
            kind = MissingProgram if missing else InfrastructureError
            raise kind(f"the device pool did not start: {reason}")
        if time.monotonic() > self.give_up:
            raise InfrastructureError(
                f"the device pool did not start within {_START_S:g} s; see what `guiagent up` says"
            )
        return None


@contextlib.contextmanager
def _child(devices: Sequence[str], port: int) -> Iterator[_Child]:
    with tempfile.TemporaryDirectory(prefix="guiagent-pool-") as folder, contextlib.ExitStack() as stack:
        log = Path(folder) / "log"
        setpriv = shutil.which("setpriv")
        follow = [setpriv, "--pdeathsig", "TERM"] if setpriv else []
        up = ["up", *devices, "--state-dir", folder, "--port", str(port)]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*follow, sys.executable, "-m", "guiagent.cli", *up],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # a Ctrl-C here is ours to handle; the pool is stopped in order
            )
        stack.callback(_stop, process)
        yield _Child(process, Path(folder), log, time.monotonic() + _START_S)


def _stop(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
