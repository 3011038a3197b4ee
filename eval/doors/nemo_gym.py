"""A suite's tasks as a resources server of NeMo Gym (0.4), whose agents act by calling tools.

A session is a rollout on a device of its own: /seed_session begins it, a cookie tells it apart, /verify ends
and scores it. The tools are `look` and the actions of `eval.doors.tools`; a tool's answer is a text, so that
a model sees the elements of the screen. A fault has no score: it is answered 503, which NeMo Gym files as a
failed rollout.
"""

import asyncio
import inspect
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from statistics import fmean
from typing import Any, cast

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel, TypeAdapter, ValidationError, validate_call

from eval.doors.tools import ActionTools, elements, untagged
from eval.stepping import Episode, Stepped, SuiteTasks
from guiagent.actions import Action
from guiagent.client import FarmClient
from guiagent.errors import Fault, FaultError, GuiAgentError, UsageError, first_error
from guiagent.types import Observation

PROMPT = "Call look to see your task and the screen. Do it with the tools, and call done when it is done."
_COOKIE = "guiagent_rollout"
_MOST_BODY = 16 << 20  # /verify has the whole conversation
_SWEEP_S = 5.0


class _Words(ActionTools):
    """The actions that calls of the tools name."""

    def _do(self, action: Action) -> Action:
        return action


_TOOLS: dict[str, Callable[..., Action]] = {
    name: method for name, method in inspect.getmembers(_Words(), inspect.ismethod) if name[0] != "_"
}


def tools() -> list[dict[str, Any]]:
    """The tools in the form of OpenAI's Responses API."""
    look = {"type": "object", "properties": {}, "additionalProperties": False}
    told = [("look", "See the task and the elements of the screen.", look)]
    told += [
        (name, inspect.getdoc(method) or "", TypeAdapter(cast(Any, method)).json_schema())
        for name, method in _TOOLS.items()
    ]
    return [
        {"type": "function", "name": name, "description": said, "parameters": schema, "strict": False}
        for name, said, schema in told
    ]


def rows(tasks: SuiteTasks, episodes: int, agent: str) -> list[dict[str, Any]]:
    """The rows of a data set for NeMo Gym's agent of this name: every task on its first seeds.

    Raises UsageError where a suite has no tasks to learn from.
    """
    if not tasks.names:
        raise UsageError(f"{tasks.suite.name} has no tasks to learn from: --split evaluation has all")
    asked = {"input": [{"role": "user", "content": PROMPT}], "tools": tools()}
    reference = {"type": "responses_api_agents", "name": agent}
    return [
        {"responses_create_params": asked, "agent_ref": reference, "task": name, "seed": seed}
        for name in tasks.names
        for seed in tasks.seeds(episodes)
    ]


class Row(BaseModel):
    task: str
    seed: int


class _Scored(BaseModel):
    reward: float


class _Scores(BaseModel):
    verify_responses: list[_Scored]


class Rollout:
    """One task on one leased device. Its calls are carried out one at a time."""

    def __init__(self, episode: Episode) -> None:
        self.used = time.monotonic()  # when a call began or ended
        self._episode = episode
        self._turn = asyncio.Lock()
        self._instruction = ""
        self._shown: Observation | None = None
        self._over = False
        self._reward = 0.0
        self._fault: Fault | None = None

    @property
    def busy(self) -> bool:
        return self._turn.locked()

    async def begin(self, tasks: SuiteTasks, row: Row) -> None:
        task = tasks.exactly(row.task, row.seed)
        async with self._call():
            self._instruction, self._shown = await self._episode.reset(task)

    async def look(self) -> str:
        async with self._call():
            return self._told(self._instruction)

    async def act(self, action: Action) -> str:
        """Carry an action out and return what a model is told. Raises FaultError."""
        async with self._call():
            if self._over:
                raise UsageError("the task has ended: nothing was done")
            made = await self._episode.step([action])
            self._note(made)
            if self._over:
                return "The task has ended."
            return self._told(made.info.get("action_error", ""))

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

    def _note(self, made: Stepped) -> None:
        self._shown = made.shown
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
    """The rollouts that go on: at most `most`; one that nobody uses for `idle_s` seconds ends."""

    def __init__(
        self, tasks: SuiteTasks, client: FarmClient, most: int, max_steps: int | None, idle_s: float
    ) -> None:
        self._tasks, self._client, self._most = tasks, client, most
        self._max_steps, self._idle_s = max_steps, idle_s
        self._going: dict[str, Rollout] = {}

    async def begin(self, row: Row) -> str:
        """Begin a rollout; its name. Raises FaultError where there is no room, or no device can begin it."""
        if len(self._going) >= self._most:
            message = f"all {self._most} devices are taken: num_samples_in_parallel={self._most} at most"
            raise FaultError(Fault("farm", "no_room", message, retryable=True))
        name = secrets.token_urlsafe(24)
        slot = self._tasks.slot(self._client, "nemo-gym")
        rollout = Rollout(Episode(slot, self._max_steps, "none", tree=True))
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
            raise UsageError("no such rollout: /seed_session begins one, and its cookie names it")
        rollout.used = time.monotonic()
        return rollout

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


def application(rollouts: Rollouts) -> FastAPI:
    """The ASGI application that speaks the wire of NeMo Gym's resources servers."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(rollouts.sweep())
        try:
            yield
        finally:
            sweeping.cancel()
            await rollouts.close()

    app = FastAPI(lifespan=lifespan, openapi_url=None)

    @app.get("/")
    async def alive() -> dict[str, str]:
        return {"status": "healthy"}

    @app.post("/seed_session")
    async def seed_session(request: Request) -> Response:
        async def begun() -> Response:
            name = await rollouts.begin(Row.model_validate(await _said(request)))
            response = JSONResponse({})
            response.set_cookie(_COOKIE, name, httponly=True, samesite="strict")
            return response

        return await _answered(begun)

    @app.post("/verify")
    async def verify(request: Request) -> Response:
        async def scored() -> Response:
            body, name = await _said(request), request.cookies.get(_COOKIE)
            rollout = rollouts.of(name)
            try:
                return JSONResponse({**body, "reward": await rollout.score()})
            finally:
                await rollouts.end(str(name))

        return await _answered(scored)

    @app.post("/aggregate_metrics")
    async def aggregate_metrics(request: Request) -> Response:
        async def counted() -> Response:
            scores = [one.reward for one in _Scores.model_validate(await _said(request)).verify_responses]
            metrics = {"rollouts": len(scores), **({"mean/reward": fmean(scores)} if scores else {})}
            return JSONResponse({"agent_metrics": metrics, "key_metrics": metrics})

        return await _answered(counted)

    @app.post("/{tool}")
    async def call(tool: str, request: Request) -> Response:
        async def carried_out() -> Response:
            arguments, name = await _said(request), request.cookies.get(_COOKIE)
            rollout = rollouts.of(name)
            told = await (rollout.look() if tool == "look" else rollout.act(_action(tool, arguments)))
            response = PlainTextResponse(told)
            # A client of theirs goes on with the cookies of the last answer alone.
            response.set_cookie(_COOKIE, str(name), httponly=True, samesite="strict")
            return response

        return await _answered(carried_out)

    return app


def _action(tool: str, arguments: dict[str, Any]) -> Action:
    """The action that a call names. Raises UsageError, in one line, for what is none."""
    method = _TOOLS.get(tool)
    if method is None:
        raise UsageError(f"there is no tool {tool[:40]!r}: look, {', '.join(_TOOLS)}")
    try:
        return validate_call(method)(**arguments)
    except ValidationError as error:
        raise UsageError(f"{tool}: {first_error(error.errors())}") from None


async def _said(request: Request) -> dict[str, Any]:
    """The object that a request has. Raises UsageError for anything else, and for one that is too long."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BODY:
            raise UsageError(f"a request has at most {_MOST_BODY} bytes")
    return TypeAdapter(dict[str, Any]).validate_json(bytes(body) or b"{}")


async def _answered(work: Callable[[], Awaitable[Response]]) -> Response:
    try:
        return await work()
    except ValidationError as error:
        return PlainTextResponse(first_error(error.errors()), 422)
    except UsageError as error:
        return PlainTextResponse(str(error), 422)
    except GuiAgentError as error:
        return PlainTextResponse(str(error), 503)
