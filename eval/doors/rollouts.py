"""Rollouts of a suite's tasks on leased devices, for doors whose agents act by calling tools.

A rollout has a device of its own and a name that nobody can guess. Its tools are `look` and the actions of
`eval.doors.tools`; a tool's answer is a text with the elements of the screen. A fault has no score.
"""

import asyncio
import inspect
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal, cast

from fastapi import Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, TypeAdapter, ValidationError, validate_call

from eval.doors.tools import ActionTools, elements, untagged
from eval.stepping import Episode, Stepped, SuiteTasks
from guiagent.actions import Action
from guiagent.client import FarmClient
from guiagent.errors import Fault, FaultError, GuiAgentError, UsageError, first_error
from guiagent.types import Observation

_MOST_BODY = 16 << 20  # a request may have a whole conversation
_SWEEP_S = 5.0


class _Words(ActionTools):
    """The actions that calls of the tools name."""

    def _do(self, action: Action) -> Action:
        return action


_TOOLS: dict[str, Callable[..., Action]] = {
    name: method for name, method in inspect.getmembers(_Words(), inspect.ismethod) if name[0] != "_"
}


def tools() -> list[dict[str, Any]]:
    """The tools as name, description and `parameters`, a JSON Schema."""
    look = {"type": "object", "properties": {}, "additionalProperties": False}
    told = [("look", "See the task and the elements of the screen.", look)]
    told += [
        (name, inspect.getdoc(method) or "", TypeAdapter(cast(Any, method)).json_schema())
        for name, method in _TOOLS.items()
    ]
    return [{"name": name, "description": said, "parameters": schema} for name, said, schema in told]


class Row(BaseModel):
    """Which task a rollout plays."""

    task: str
    seed: int


class Rollout:
    """One task on one leased device. Its calls are carried out one at a time."""

    def __init__(self, episode: Episode) -> None:
        self.used = time.monotonic()  # when a call began or ended
        self._episode = episode
        self._turn = asyncio.Lock()
        self._instruction = ""
        self._shown: Observation | None = None
        self.picture = b""  # of the screen; none where rollouts have no frames
        self._over = False
        self._reward = 0.0
        self._fault: Fault | None = None

    @property
    def busy(self) -> bool:
        return self._turn.locked()

    @property
    def over(self) -> bool:
        return self._over

    async def begin(self, tasks: SuiteTasks, row: Row) -> None:
        task = tasks.exactly(row.task, row.seed)
        async with self._call():
            self._instruction, self._shown = await self._episode.reset(task)
            self.picture = self._shown.frame

    async def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """Carry a call of a tool out and return what a model is told.

        Raises FaultError, and UsageError, in one line, for what is no call.
        """
        return await (self.look() if tool == "look" else self.act(_action(tool, arguments)))

    async def look(self) -> str:
        async with self._call():
            return self._told(self._instruction)

    async def act(self, action: Action) -> str:
        """Carry an action out and return what a model is told. Raises FaultError."""
        async with self._call():
            self._unless_over()
            made = await self._episode.step([action])
            self._note(made)
            if self._over:
                return "The task has ended."
            return self._told(made.info.get("action_error", ""))

    async def solve(self) -> str:
        """Have the task's own oracle carry it out. Raises UsageError where it has none, and FaultError."""
        async with self._call():
            self._unless_over()
            self._note(await self._episode.solve())
            return "The task has ended."

    async def score(self) -> float:
        """The score of the task's check; a rollout that is not over ends here. Raises FaultError."""
        async with self._call():
            if not self._over:
                self._note(await self._episode.finish())
            return self._reward

    async def close(self) -> None:
        """Give the device back. A rollout that is not over has no score from then on."""
        async with self._turn:
            if not self._over:
                self._over, self._fault = True, Fault("farm", "ended", "this rollout was ended")
            with suppress(GuiAgentError):  # the pool takes the device back when the lease runs out
                await self._episode.close()

    @asynccontextmanager
    async def _call(self) -> AsyncIterator[None]:
        async with self._turn:
            self._unless_at_fault()
            try:
                yield
            finally:
                self.used = time.monotonic()

    def _unless_over(self) -> None:
        if self._over:
            raise UsageError("the task has ended: nothing was done")

    def _note(self, made: Stepped) -> None:
        self._shown = made.shown
        self.picture = made.shown.frame or self.picture
        self._over = made.terminated or made.truncated
        if fault := made.info.get("fault"):
            self._fault = Fault(**fault)
        self._reward = made.reward
        self._unless_at_fault()

    def _unless_at_fault(self) -> None:
        if self._fault is not None:
            raise FaultError(self._fault)

    def _told(self, said: str) -> str:
        assert self._shown is not None
        return "\n\n".join(part for part in (untagged(said), elements(self._shown)) if part)


class Rollouts:
    """The rollouts that go on: at most `most`; one that nobody uses for `idle_s` seconds ends.

    `door` labels their leases; `at_once` is the client's own word for how many it plays at the same time.
    """

    def __init__(
        self,
        tasks: SuiteTasks,
        client: FarmClient,
        most: int,
        max_steps: int | None,
        idle_s: float,
        *,
        door: str,
        at_once: str,
        frame: Literal["none", "png"] = "none",
    ) -> None:
        self._tasks, self._client, self._most = tasks, client, most
        self._max_steps, self._idle_s = max_steps, idle_s
        self._door, self._at_once, self._frame = door, at_once, frame
        self._going: dict[str, Rollout] = {}

    async def begin(self, row: Row) -> str:
        """Begin a rollout; its name. Raises FaultError where there is no room, or no device can begin it."""
        if len(self._going) >= self._most:
            message = f"all {self._most} devices are taken: {self._at_once}={self._most} at most"
            raise FaultError(Fault("farm", "no_room", message, retryable=True))
        name = secrets.token_urlsafe(24)
        slot = self._tasks.slot(self._client, self._door)
        rollout = Rollout(Episode(slot, self._max_steps, self._frame, tree=True))
        self._going[name] = rollout
        try:
            await rollout.begin(self._tasks, row)
        except BaseException:
            await self.end(name)
            raise
        return name

    def of(self, name: str | None) -> Rollout:
        rollout = self._going.get(name) if name else None
        if rollout is None:
            raise UsageError("no such rollout: it has ended, or was never begun")
        rollout.used = time.monotonic()
        return rollout

    def __contains__(self, name: str) -> bool:
        return name in self._going

    async def end(self, name: str) -> None:
        """End a rollout, whose place is free once its device was given back."""
        rollout = self._going.get(name)
        if rollout is not None:
            try:
                await rollout.close()
            finally:
                self._going.pop(name, None)

    async def sweep(self) -> None:
        """End what nobody uses, for ever."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            late = time.monotonic() - self._idle_s
            for name in [key for key, one in self._going.items() if one.used < late and not one.busy]:
                await self.end(name)

    async def close(self) -> None:
        for name in list(self._going):
            await self.end(name)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """End what nobody uses until the end of the block, and then the rest."""
        sweeping = asyncio.create_task(self.sweep())
        try:
            yield
        finally:
            sweeping.cancel()
            await self.close()


def _action(tool: str, arguments: dict[str, Any]) -> Action:
    """The action that a call names. Raises UsageError, in one line, for what is none."""
    method = _TOOLS.get(tool)
    if method is None:
        raise UsageError(f"there is no tool {tool[:40]!r}: look, {', '.join(_TOOLS)}")
    try:
        return validate_call(method)(**arguments)
    except ValidationError as error:
        raise UsageError(f"{tool}: {first_error(error.errors())}") from None


async def said_in(request: Request) -> dict[str, Any]:
    """The object that a request has. Raises UsageError for anything else, and for one that is too long."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BODY:
            raise UsageError(f"a request has at most {_MOST_BODY} bytes")
    return TypeAdapter(dict[str, Any]).validate_json(bytes(body) or b"{}")


async def answered(work: Callable[[], Awaitable[Response]]) -> Response:
    """What `work` answers; else a line: 422 for what is no request, 503 for a fault."""
    try:
        return await work()
    except ValidationError as error:
        return PlainTextResponse(first_error(error.errors()), 422)
    except UsageError as error:
        return PlainTextResponse(str(error), 422)
    except GuiAgentError as error:
        return PlainTextResponse(str(error), 503)
