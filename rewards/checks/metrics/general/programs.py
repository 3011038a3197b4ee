"""Metric that runs the agent's program, in a sandbox and nowhere else."""

import contextlib
import math
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from guiagent import sandbox
from guiagent.errors import InfrastructureError
from rewards.checks import interpreter
from rewards.checks.metrics.general.reading import contents, of_task, zero_if_unreadable
from rewards.checks.programs import program, suite

_SECONDS = 30  # of processor time, for the program and for the suite
_PATIENCE = 5  # times as long may pass, on a busy machine
_DISK, _FILE = 16 << 20, 1 << 20  # bytes that a program may write: together, and into one file
_MAX_SAID = 1 << 10


@zero_if_unreadable
def check_python_file_by_test_suite(
    result: Path | Sequence[Path | None], expected: Path, test_function_name: str = "test"
) -> float:
    """The result of a function of the suite `expected` on the agent's modules, cut to [0, 1].

    The suite imports them by their file names. One path stands for all Python files beside it: OSWorld's
    getter gives the first of several and keeps the others in its folder. A suite that fails, exits or works
    for more than 30 seconds scores 0.

    Raises:
        InfrastructureError: the suite cannot be read or tests what it cannot from another process, this
            machine has no sandboxes, or it lacks a package that the tasks' programs need.
    """
    of_task(contents, expected)
    files = sorted(result.parent.glob("*.py")) if isinstance(result, Path) else result
    modules = {path.name: path for path in files if path is not None and path.is_file()}
    verdict = _verdict(modules, expected, test_function_name)
    if verdict in suite.PACKAGES:
        raise InfrastructureError(f"the task's program needs {verdict}: pip install {verdict}")
    if verdict == suite.NO_PROGRAM:
        raise InfrastructureError("the sandbox of the agent's program did not start; try again")
    if verdict == suite.TOO_HARD:
        raise InfrastructureError("the task's suite hands objects of its own to the program, which cannot be")
    try:
        score = float(verdict)
    except ValueError:
        return 0.0
    return min(1.0, max(0.0, score)) if math.isfinite(score) else 0.0


def _verdict(modules: Mapping[str, Path], expected: Path, function: str) -> str:
    """What the suite's sandbox says of the program in another; "" if the suite fails or takes too long."""
    limits = {"AS": 1 << 30, "CPU": _SECONDS, "FSIZE": _FILE, "NPROC": 64}
    stems = [name.removesuffix(".py") for name in modules]
    tested = interpreter.plan(program.__name__, (), _DISK, limits, modules)
    testing = interpreter.plan(
        suite.__name__, (expected.name, function, *stems), _DISK, limits, {expected.name: expected}
    )
    with contextlib.ExitStack() as stack:
        ours, theirs = map(stack.enter_context, socket.socketpair())
        _started(stack, tested, theirs, subprocess.DEVNULL)
        running = _started(stack, testing, ours, subprocess.PIPE)
        ours.close()
        theirs.close()
        try:
            said, _ = running.communicate(timeout=_PATIENCE * _SECONDS)
        except subprocess.TimeoutExpired:
            return ""
        return said[:_MAX_SAID].decode(errors="replace")


def _started(
    stack: contextlib.ExitStack, plan: sandbox.Plan, given: socket.socket, output: int
) -> "subprocess.Popen[bytes]":
    process = stack.enter_context(
        subprocess.Popen(
            sandbox.command(plan), stdin=given.fileno(), stdout=output, stderr=subprocess.DEVNULL
        )
    )
    stack.callback(process.kill)
    return process
