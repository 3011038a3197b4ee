"""One sandbox that computes metrics, each in a process that is ended with all that it started.

It has imported the parsers already, and forks for one metric after the other. The process with the agent's
files gets a copy of them, a limit of processor time and a pipe for what it has to say; not the connection to
the host.
"""

import contextlib
import ctypes
import gc
import json
import os
import resource
import shutil
import signal
import socket
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from guiagent.errors import InfrastructureError
from rewards import checks
from rewards.checks import metrics
from rewards.checks.archives import MAX_FILE
from rewards.checks.grading import parcels
from rewards.checks.grading.parcels import MAX_FILES, MAX_SAID

_PROGRAM_S = 130  # of processor time, for a program that a metric runs, such as ffmpeg
_MAX_WORDS = 2000  # characters of a message
_TEMPORARY = ("/tmp", "/dev/shm")
_PR_SET_DUMPABLE = 4


def main() -> None:
    """Serve the host at the other end of standard input until it is gone."""
    host = socket.socket(fileno=os.dup(0))
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    ctypes.CDLL(None).prctl(
        _PR_SET_DUMPABLE, 0, 0, 0, 0
    )  # its children have its user id: they may not read it
    for module in sorted({place.partition(":")[0] for place in metrics.METRICS.values()}):
        with contextlib.suppress(ImportError):  # a metric that needs it says so
            import_module(f"{metrics.__name__}.{module}")
    gc.freeze()  # what is there is not looked through in every fork
    host.sendall(b"\n")
    while True:
        word, descriptors, _, _ = socket.recv_fds(host, 1, MAX_FILES + 1)
        if not word:
            return
        status, said = _computed(host, descriptors)
        host.sendall(json.dumps({"status": status, "said": said}).encode() + b"\n")


def _computed(host: socket.socket, descriptors: Sequence[int]) -> tuple[int, str]:
    """Compute one metric in a process and return its exit code, as subprocess has it, and what it said."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            host.close()
            os.close(reading)
            said = json.dumps(_said(*descriptors)).encode()
            os.write(writing, said if len(said) <= MAX_SAID else b'{"kind": "exceeded"}')
        finally:
            os._exit(0)
    for descriptor in (writing, *descriptors):
        os.close(descriptor)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # what it left running: all here but this process
    os.set_blocking(reading, False)
    with open(reading, "rb") as pipe:
        said = pipe.read(MAX_SAID) or b""
    for place in _TEMPORARY:
        _empty(Path(place))
    return os.waitstatus_to_exitcode(status), said.decode(errors="replace")


def _said(request: int, *files: int) -> dict[str, Any]:
    try:
        with open(request, "rb") as file:
            names, asked = map(json.loads, file)
        resource.setrlimit(resource.RLIMIT_CPU, (asked["seconds"], _PROGRAM_S))
        with _copies(names, files) as paths:
            arguments, options = parcels.unpacked(asked["given"], paths.__getitem__)
            module, function = asked["function"].split(":")
            value = getattr(import_module(f"{checks.__name__}.{module}"), function)(*arguments, **options)
            return {"kind": "value", "value": value if isinstance(value, list | None) else float(value)}
    except (MemoryError, RecursionError):
        return {"kind": "exceeded"}
    except InfrastructureError as error:
        return {"kind": "infrastructure", "words": str(error)[:_MAX_WORDS]}
    except Exception as error:
        return {"kind": "broken", "words": f"{type(error).__name__}: {error}"[:_MAX_WORDS]}


@contextlib.contextmanager
def _copies(names: Sequence[tuple[int, str, bool]], files: Sequence[int]) -> Iterator[list[Path]]:
    """Copies of the files under their names, those of one folder in one folder.

    A copy has at most one byte more than is read of a file, so that what is too large stays so.
    """
    given = iter(files)
    with TemporaryDirectory() as top:
        paths = []
        for folder, name, exists in names:
            path = Path(top, str(folder), name)
            path.parent.mkdir(exist_ok=True)
            paths.append(path)
            if exists:
                with open(next(given), "rb") as source, path.open("xb") as copy:
                    _copy(source.fileno(), copy.fileno())
        yield paths


def _copy(source: int, target: int) -> None:
    done = 0
    # From the beginning: the descriptor's place is shared with the host, which may have to ask twice.
    while done <= MAX_FILE and (sent := os.sendfile(target, source, done, MAX_FILE + 1 - done)):
        done += sent


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
