"""The host's end of the sandboxes that compute metrics: some are kept, since one takes a second to start."""

import asyncio
import atexit
import contextlib
import json
import os
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from guiagent import sandbox
from guiagent.errors import DECODE_ERRORS, GuiAgentError, InfrastructureError
from rewards.checks import interpreter, metrics
from rewards.checks.grading import parcels
from rewards.checks.grading.parcels import MAX_FILES, MAX_SAID

WORKER = "rewards.checks.grading.worker"  # which imports all that parsers need
SECONDS = 60  # of processor time for a metric
PATIENCE_S = 300.0  # of wall time, on a busy machine
_START_S = 60.0
_DISK = 2 << 30  # bytes of copies, and of what metrics unpack
_LIMITS = {"AS": 4 << 30, "FSIZE": 1 << 30, "NPROC": 64}
_MOST = max(4, os.cpu_count() or 1)
_MAX_ANSWER = 8 * MAX_SAID

Value = float | list[str] | None


class Exceeded(GuiAgentError):
    """A check took more time or memory than it may, or its process broke over a file."""


class Ungraded(InfrastructureError):
    """This machine cannot compute metrics."""


class _Said(msgspec.Struct):
    """What a metric's process says; the agent's file may have taken it over."""

    kind: Literal["value", "exceeded", "infrastructure", "broken"]
    value: Value = None
    words: str = ""


class _Answer(msgspec.Struct):
    status: int
    said: str


async def grade(metric: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> float:
    """Compute a metric in a sandbox; raises as `computed` does."""
    value = await computed(f"metrics.{metrics.METRICS[metric]}", arguments, options)
    if not isinstance(value, float):
        raise Exceeded("its process said no number")
    return value


async def computed(function: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Value:
    """Call a "module:function" of the checks in a sandbox, on copies of the files named and of those beside.

    Raises:
        Exceeded: it took too much time or memory, or its process broke.
        Ungraded: this machine has no sandboxes, or none starts.
        InfrastructureError: the metric says that a file that the task expects cannot be read.
        RuntimeError: the metric failed otherwise.
    """
    using = _Using()
    try:
        return await asyncio.to_thread(using.computed, function, arguments, options)
    except asyncio.CancelledError:
        using.cancel()
        raise


class _Using:
    """One use of a worker, which another thread may cancel."""

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._cancelled = False

    def computed(self, function: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> Value:
        files = _Files()
        try:
            given = parcels.packed([list(arguments), dict(options)], files.number)
            letter = json.dumps({"function": function, "given": given, "seconds": SECONDS})
        except RecursionError as error:
            raise Exceeded("what the agent made is nested too deeply") from error
        with files.opened() as (names, descriptors):
            text = f"{json.dumps(names)}\n{letter}".encode()
            for _ in range(2):  # one that was kept may have died meanwhile
                with contextlib.suppress(EOFError):
                    return self._asked(text, descriptors)
        raise Exceeded("the process that computed it was ended twice")

    def cancel(self) -> None:
        self._cancelled = True
        if self._worker is not None:
            self._worker.kill()

    def _asked(self, request: bytes, descriptors: Sequence[int]) -> Value:
        with _places:
            self._worker = one = _take()
            try:
                if self._cancelled:
                    raise Exceeded("it was cancelled")
                answer = one.ask(request, descriptors)
            except BaseException:
                one.close()
                raise
            _idle.append(one)
        return _value(answer)


def _value(answer: _Answer) -> Value:
    """The value that an answer holds; raises as `computed` does."""
    if answer.status != 0:
        ended = f"signal {-answer.status}" if answer.status < 0 else f"status {answer.status}"
        raise Exceeded(f"its process ended with {ended}; it may use {SECONDS} s of processor time")
    try:
        said = msgspec.json.decode(answer.said, type=_Said)
    except DECODE_ERRORS as error:
        raise Exceeded(f"its process said what cannot be read: {error}") from error
    match said.kind:
        case "value":
            return said.value
        case "exceeded":
            raise Exceeded(f"it needs more than {_LIMITS['AS'] >> 30} GiB of memory, or says too much")
        case "infrastructure":
            raise InfrastructureError(said.words)
        case "broken":
            raise RuntimeError(said.words)


class Worker:
    """The host's end of one sandbox. Raises Ungraded if it does not start."""

    def __init__(self) -> None:
        try:
            plan = interpreter.plan(WORKER, (), _DISK, _LIMITS, {})
        except InfrastructureError as error:
            raise Ungraded(str(error)) from error
        self._host, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                sandbox.command(plan),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._host.settimeout(_START_S)
        try:
            if self._host.recv(1) != b"\n":
                raise Ungraded("the sandbox that computes metrics ended at its start")
        except TimeoutError as error:
            raise Ungraded("the sandbox that computes metrics does not start") from error
        except BaseException:
            self.close()
            raise

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: bytes, descriptors: Sequence[int]) -> _Answer:
        """Send one request and wait for its answer. Raises Exceeded, or EOFError if the sandbox has ended."""
        self._host.settimeout(PATIENCE_S)
        try:
            with open(os.memfd_create("request"), "w+b") as letter:
                letter.write(request)
                letter.flush()
                letter.seek(0)
                socket.send_fds(self._host, [b"\n"], [letter.fileno(), *descriptors])
            said = b""
            while not said.endswith(b"\n"):
                part = self._host.recv(1 << 16)
                if not part:
                    raise EOFError
                said += part
                if len(said) > _MAX_ANSWER:
                    raise Exceeded("its process says too much")
            return msgspec.json.decode(said, type=_Answer)
        except TimeoutError as error:
            raise Exceeded(f"it took more than {PATIENCE_S:g} s") from error
        except (OSError, *DECODE_ERRORS) as error:
            raise EOFError from error

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._host.close()


_idle: deque[Worker] = deque()
_places = threading.BoundedSemaphore(_MOST)


def prepare() -> None:
    """Start a worker if none is there, which takes seconds. Raises Ungraded."""
    if not any(one.running for one in _idle) and _places.acquire(blocking=False):
        try:
            _idle.append(_take())
        finally:
            _places.release()


def _take() -> Worker:
    while True:
        try:
            one = _idle.pop()
        except IndexError:
            return Worker()
        if one.running:
            return one
        one.close()


@atexit.register
def _close() -> None:
    for one in _idle:
        one.close()


class _Files:
    """The files that arguments name, in the order of their numbers, and those beside them."""

    def __init__(self) -> None:
        self._paths: list[Path] = []

    def number(self, path: Path) -> int:
        if path not in self._paths:
            self._paths.append(path)
        return self._paths.index(path)

    @contextlib.contextmanager
    def opened(self) -> Iterator[tuple[list[tuple[int, str, bool]], list[int]]]:
        """Their names, as the worker reads them, and a descriptor for each that is a plain file."""
        beside = {
            path
            for folder in {path.parent for path in self._paths}
            if folder.is_dir()
            for path in folder.iterdir()
        }
        paths = [*self._paths, *sorted(beside - set(self._paths))][:MAX_FILES]
        if len(self._paths) > MAX_FILES:
            raise Exceeded(f"it is given more than {MAX_FILES} files")
        folders = list(dict.fromkeys(path.parent for path in paths))
        names, descriptors = [], []
        with contextlib.ExitStack() as stack:
            for path in paths:
                exists = path.is_file()
                if exists:
                    descriptors.append(stack.enter_context(path.open("rb")).fileno())
                names.append((folders.index(path.parent), path.name, exists))
            yield names, descriptors
