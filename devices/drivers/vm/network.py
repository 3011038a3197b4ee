"""Network namespaces that the VMs of this process run in, one each; see `gate.py` for why."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

from devices import processes
from devices.drivers.vm import gate
from guiagent.errors import Fault, FaultError, InfrastructureError


class _Way(NamedTuple):
    """Commands that start a gate which can make namespaces, and that enter one: FILE of the process PID."""

    unshare: list[str]
    enter: list[str]


_AS_ROOT = _Way(["unshare", "--net", "--"], ["nsenter", "--net=/proc/PID/fd/FILE", "--"])
_AS_USER = _Way(
    ["unshare", "--user", "--map-root-user", "--net", "--"],
    ["nsenter", "--target=PID", "--user", "--preserve-credentials", "--net=/proc/PID/fd/FILE", "--"],
)
_NONE = _Way([], [])
_MISSING = (
    "VMs need a network namespace each, and none can be made here (in most containers): without, every "
    "process of this machine reaches the guests' servers, which have no password, and guests cannot get out. "
    "To run them all the same: --allow-unisolated"
)


class Network:
    """One gate process and its namespaces. Methods block for milliseconds; call them in a thread.

    Attributes:
        allow_unisolated: run VMs without namespaces where none can be made.
    """

    def __init__(self) -> None:
        self.allow_unisolated = False
        self._lock = threading.Lock()
        self._gate: subprocess.Popen[str] | None = None
        self._way = _NONE

    @property
    def private(self) -> bool:
        return self._way is not _NONE

    def make(self, name: str, proxy: Path | None = None) -> list[str]:
        """Make a namespace, and return the command prefix that starts a program inside.

        There the port `gate.PROXY_PORT` leads to the unix socket `proxy`. The prefix is empty if there are no
        namespaces here and `allow_unisolated` is set; then nothing leads to the proxy.

        Raises InfrastructureError if there are none, FaultError if the gate fails.
        """
        with self._lock:
            pid = self._running().pid
            file = self._answer("make", name, *([str(proxy)] if proxy else []))
            return [word.replace("PID", str(pid)).replace("FILE", file) for word in self._way.enter]

    def publish(self, name: str, port: int, path: Path) -> None:
        """Connect the unix socket `path` to the loopback `port` of a namespace. Raises FaultError."""
        with self._lock:
            self._answer("open", name, str(port), str(path))

    def remove(self, name: str) -> None:
        """Close the ways into and out of a namespace, which ends with its last process. Raises FaultError."""
        with self._lock:
            if self._gate is not None and self._gate.poll() is None:
                self._answer("close", name)

    def _answer(self, *order: str) -> str:
        """Give the gate an order and return what it answers besides that it is done."""
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write("\t".join(order) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline().strip()
        except BrokenPipeError:
            answer = ""
        done, _, rest = answer.partition(" ")
        if done != gate.DONE:
            ended = "the process that leads to the guests ended; VMs started from now on are well"
            raise FaultError(Fault("device", "crashed", answer or ended, retryable=True))
        return rest

    def _running(self) -> "subprocess.Popen[str]":
        if self._gate is None or self._gate.poll() is not None:
            self._gate = self._start()
        return self._gate

    def _start(self) -> "subprocess.Popen[str]":
        for way in (_AS_ROOT if os.geteuid() == 0 else _AS_USER, _NONE):
            if way is _NONE and not self.allow_unisolated:
                raise InfrastructureError(_MISSING)
            process = subprocess.Popen(
                [*way.unshare, sys.executable, "-I", "-S", str(gate.__file__), *_mode(way)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=processes.own_environment(),
                text=True,
                start_new_session=True,
            )
            assert process.stdout is not None
            if process.stdout.readline():
                self._way = way
                return process
            process.wait()
        message = f"{sys.executable} cannot run {gate.__file__}"
        raise FaultError(Fault("device", "start_failed", message, retryable=True))


def _mode(way: _Way) -> list[str]:
    return [gate.SHARED] if way is _NONE else []


NETWORK = Network()
