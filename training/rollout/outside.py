"""Episodes of an outside agent: a program of its own that calls our policy through the proxy.

The program is started for every episode, with the base address and key of its session in the variables that
OpenAI's clients read, the instruction, and the leased device: `$GUIAGENT_DEVICE_URL` for screenshots and
actions, and `$GUIAGENT_CDP_URL` where the device speaks the DevTools protocol.
"""

import asyncio
import contextlib
import os
import secrets
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Self

from msgspec.structs import replace
from pydantic import ValidationError

from guiagent.actions import ACTIONS, Action
from guiagent.client import LeasedDevice
from guiagent.episode import ending_of, scored, split_at_end
from guiagent.errors import Fault, FaultError, UsageError, first_error
from guiagent.protocols import Task
from guiagent.types import Ending, Observation, ObserveSpec, StopReason, Trajectory
from training.config import AgentConfig
from training.engine.policy import EnginePolicy
from training.proxy.server import Proxy, serving
from training.proxy.session import Session
from training.proxy.upstream import EngineUpstream
from training.replay import EpisodeRequest

_KEPT = (
    "PATH",
    "HOME",
    "LANG",
    "TZ",
    "TMPDIR",
    "PYTHONPATH",
    "VIRTUAL_ENV",
)  # of the environment: no secrets
_LAST_WORDS = 2_000  # bytes of an agent's output that a fault looks at
_ROUNDS = 20
_POLL_S = 0.02
MODEL = "policy"


class OutsideAgents:
    """Plays episodes by the program of `config`, which calls the model of `policy` through a proxy here.

    `close` ends the proxy. One episode is played at a time.
    """

    def __init__(self, config: AgentConfig, policy: EnginePolicy) -> None:
        self._config = config
        self._key = secrets.token_urlsafe(24)
        self._proxy = Proxy(EngineUpstream(policy.encoder, policy.engine), self._key, (MODEL,))
        self._held = contextlib.AsyncExitStack()
        self._url: str | None = None

    async def play(
        self,
        task: Task,
        device: LeasedDevice,
        request: EpisodeRequest,
        *,
        keep_frame: Callable[[bytes], str],
        spec: ObserveSpec,
        max_steps: int,
    ) -> Trajectory:
        """Play an episode, of `max_steps` turns at most, and let the task's check score what it left.

        The agent's failures that are no words of the policy are faults of origin "policy", never a score:
        "agent_missing" (the program cannot be started), "agent_crashed" (it ended with an error) and
        "agent_timeout". So is what failed below it: the device's faults, and those of the engine.
        """
        if self._url is None:
            self._url = await self._held.enter_async_context(serving(self._proxy))
        begun, name = time.perf_counter(), secrets.token_hex(8)
        trajectory = Trajectory(
            id=name,
            task=task.id,
            seed=task.seed,
            instruction="",
            steps=[],
            stop="agent_done",
            group=request.group,
            group_index=request.index,
            group_size=request.size,
            started=time.time(),
        )
        session = Session(name, keep_frame, max_steps)
        trajectory.steps = session.steps
        asked = replace(spec, probes={**spec.probes, **task.probes})
        try:
            trajectory.instruction, shown = await task.setup(device, asked)
            screen = _Screen(task, device, session, asked, shown)
            self._proxy.sessions[name], self._proxy.screens[name] = session, screen
            try:
                trajectory.stop = await self._run(session, screen, device, trajectory.instruction)
            finally:
                self._proxy.close_session(name)
            async with screen.acting:  # an action under way ends before the state is looked at
                shown = await device.observe(asked)
            trajectory.final_frame = keep_frame(shown.frame)
            trajectory.ending = screen.ending
            trajectory.score = await scored(task, device, shown, screen.ending)
            with contextlib.suppress(FaultError):  # the score stands; the next reset meets the same fault
                await task.teardown(device)
        except FaultError as error:
            trajectory.stop, trajectory.fault = "fault", error.fault
        trajectory.seconds = time.perf_counter() - begun
        return trajectory

    async def close(self) -> None:
        self._url = None
        await self._held.aclose()

    async def _run(
        self, session: Session, screen: "_Screen", device: LeasedDevice, instruction: str
    ) -> StopReason:
        """Run the program until it ends, the episode is over, or its time is; return why it stopped."""
        base = f"{self._url}/s/{session.name}/v1"
        told = {
            "OPENAI_BASE_URL": base,
            "OPENAI_API_KEY": self._key,
            "OPENAI_MODEL": MODEL,
            "GUIAGENT_INSTRUCTION": instruction,
            "GUIAGENT_DEVICE_URL": f"{base}/device",
        }
        async with contextlib.AsyncExitStack() as held:
            if "cdp" in device.features:
                port = await held.enter_async_context(device.forward("cdp"))
                told["GUIAGENT_CDP_URL"] = f"http://127.0.0.1:{port}"
            program = await held.enter_async_context(_Program.started(self._config, told))
            over = asyncio.create_task(session.over.wait())
            ended = asyncio.create_task(program.end())
            waiting = {over, ended}
            try:
                await asyncio.wait(
                    waiting, timeout=self._config.timeout_s, return_when=asyncio.FIRST_COMPLETED
                )
                if session.fault is not None:
                    raise FaultError(session.fault)
                if session.over.is_set():
                    return screen.stop
                if not ended.done():
                    raise _fault("agent_timeout", f"no end within {self._config.timeout_s:g} s")
                if code := ended.result():
                    raise _fault("agent_crashed", f"it ended with {code}: {await program.last_line()}")
                return "agent_done"
            finally:
                for task in waiting:
                    task.cancel()
                await asyncio.gather(*waiting, return_exceptions=True)


class _Screen:
    """The device as an agent may use it: frames and actions, no probes and no reset."""

    def __init__(
        self, task: Task, device: LeasedDevice, session: Session, spec: ObserveSpec, shown: Observation
    ) -> None:
        self.acting = asyncio.Lock()
        self.ending = Ending()
        self.stop: StopReason = "max_steps"
        self._task, self._device, self._session, self._spec = task, device, session, spec
        self._shown = shown

    async def observe(self) -> Observation:
        """Show the screen as it is. Raises FaultError, which is then the episode's."""
        with self._noting():
            self._shown = await self._device.observe(self._spec)
        return self._shown

    async def act(self, body: bytes) -> tuple[Observation, bool]:
        try:
            actions = ACTIONS.validate_json(body)
        except ValidationError as error:
            raise UsageError(f"nothing was done: action {first_error(error.errors())}") from None
        async with self.acting:
            return await self._act(actions)

    async def _act(self, actions: list[Action]) -> tuple[Observation, bool]:
        session = self._session
        if session.over.is_set():
            raise UsageError("the episode is over: nothing was done")
        done, ends = split_at_end(actions)
        session.acting(len(actions))
        began = time.perf_counter()
        if done:
            with self._noting():
                self._shown = await self._device.act(done, self._spec)
        spent = (time.perf_counter() - began) * 1000
        session.acted(ACTIONS.dump_python([*done, *ends], mode="json"), self._shown.action_error, spent)
        if done and self._task.ended(self._shown):
            self.stop = "task_done"
            session.over.set()
        elif ends:
            self.stop, self.ending = "agent_done", ending_of(ends)
            session.over.set()
        return self._shown, session.over.is_set()

    @contextlib.contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except FaultError as error:
            self._session.fault = self._session.fault or error.fault
            self._session.over.set()
            raise


class _Program:
    """A program in a process group of its own, which ends with its context, or with this process.

    With its context also ends what it started outside its group, as long as that has its environment.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._said = b""
        self._reading = asyncio.create_task(self._read())

    @classmethod
    @contextlib.asynccontextmanager
    async def started(cls, config: AgentConfig, told: Mapping[str, str]) -> AsyncIterator[Self]:
        """Start the program with this environment. Raises FaultError "agent_missing" if that fails."""
        kept = {name: os.environ[name] for name in (*_KEPT, *config.environment) if name in os.environ}
        try:
            process = await asyncio.create_subprocess_exec(
                "setpriv", "--pdeathsig", "KILL", "--no-new-privs", "--", *config.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=kept | dict(told),
                cwd=Path.cwd(),
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise _fault("agent_missing", f"{config.command[0]} cannot be started: {error}") from None
        program = cls(process)
        try:
            yield program
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            await asyncio.to_thread(_end_all_with, f"OPENAI_BASE_URL={told['OPENAI_BASE_URL']}".encode())
            program._reading.cancel()
            await asyncio.gather(program._reading, return_exceptions=True)

    async def end(self) -> int:
        """Wait until the program itself ends, whatever still holds its output; return its code."""
        # `Process.wait` waits for the end of the output as well, which others may hold.
        while (code := self._process.returncode) is None:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)
        return code

    async def last_line(self) -> str:
        """The last line that it printed, of what fits into a fault."""
        await asyncio.wait({self._reading}, timeout=1.0)
        lines = self._said.decode(errors="replace").split("\n")
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "it said nothing")

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while chunk := await self._process.stdout.read(65536):
            self._said = (self._said + chunk)[-_LAST_WORDS:]


def _end_all_with(variable: bytes) -> None:
    """Kill every process whose environment has this variable: an episode's address is no other's."""
    for _ in range(_ROUNDS):  # one that is being killed may have started another
        found = [pid for pid in _pids() if variable in _environment(pid)]
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            return


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is another user's
        return []


def _fault(code: str, message: str) -> FaultError:
    return FaultError(Fault("policy", code, f"the outside agent: {message}"))
