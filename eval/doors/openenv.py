"""A suite's tasks over OpenEnv's wire (0.10): what its `GenericEnvClient` and any client in JSON can drive.

A WebSocket on /ws is a session: a device of its own, one episode after the other, given back when it closes.
Over HTTP a session begins with /reset and goes on with the `episode_id` that it returned. An action is one of
`guiagent.actions` as an object; an observation has the screen as base64.
"""

import asyncio
import base64
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from eval.stepping import Episode, SuiteTasks
from guiagent.actions import ACTION
from guiagent.client import FarmClient
from guiagent.errors import GuiAgentError, UsageError
from guiagent.types import Observation

_MAX_BODY = 1 << 20
_SWEEP_S = 5.0


class Begin(BaseModel):
    """What a reset may say. Without a task the seed chooses one; without a seed, chance does."""

    model_config = ConfigDict(extra="forbid")
    seed: int | None = Field(default=None, ge=0, lt=1 << 53)
    task: str | None = Field(default=None, max_length=300)
    episode_id: str | None = Field(default=None, max_length=255)


class Seen(BaseModel):
    """An observation. `screen` is the picture now, in base64; x and y of actions are its pixels."""

    instruction: str
    task: str
    seed: int
    screen: str
    media_type: str
    width: int
    height: int
    url: str | None = None
    title: str | None = None
    action_error: str | None = None
    score: float | None = None
    fault: dict[str, str] | None = None
    metadata: dict[str, JsonValue] = {}


class State(BaseModel):
    episode_id: str | None = None
    step_count: int = 0
    task: str | None = None
    seed: int | None = None
    done: bool = False


class Session:
    """One client's device and its episode. Its calls are carried out one at a time."""

    def __init__(self, tasks: SuiteTasks, client: FarmClient, max_steps: int | None) -> None:
        self.state = State()
        self.used = time.monotonic()  # when a call began or ended
        self._tasks = tasks
        self._episode = Episode(tasks.slot(client, "openenv"), max_steps)
        self._shown: Observation | None = None
        self._instruction = ""
        self._turn = asyncio.Lock()

    @property
    def busy(self) -> bool:
        return self._turn.locked()

    async def reset(self, data: Any) -> dict[str, Any]:
        said = Begin.model_validate(data)
        number = secrets.randbelow(1 << 31) if said.seed is None else said.seed
        name, seed = (said.task, number) if said.task is not None else self._tasks.drawn(number)
        self._tasks.require(name)
        async with self._turn:
            self.state.done = True  # should the next one fail to begin
            self._instruction, self._shown = await self._episode.reset(self._tasks.task(name, seed))
            identity = said.episode_id or secrets.token_urlsafe(16)
            self.state = State(episode_id=identity, task=name, seed=number)
            return self._told(None, False, {})

    async def step(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise UsageError("a step's data is an action: an object with its type")
        said = {
            key: value for key, value in data.items() if key != "metadata"
        }  # every action of OpenEnv's has it
        action = ACTION.validate_python(said)
        async with self._turn:
            if self._shown is None or self.state.done:
                raise UsageError("reset first: there is no episode, or it has ended")
            made = await self._episode.step([action])
            if not made.shown.unchanged:
                self._shown = made.shown
            self.state.step_count += 1
            self.used = time.monotonic()
            self.state.done = made.terminated or made.truncated
            reward = None if "fault" in made.info else made.reward
            return self._told(reward, self.state.done, made.info)

    def _told(self, reward: float | None, done: bool, info: dict[str, Any]) -> dict[str, Any]:
        shown, state = self._shown, self.state
        assert shown is not None and state.task is not None and state.seed is not None
        seen = Seen(
            instruction=self._instruction,
            task=state.task,
            seed=state.seed,
            screen=base64.b64encode(shown.frame).decode(),
            media_type=shown.media_type,
            width=shown.width,
            height=shown.height,
            url=shown.url,
            title=shown.title,
            action_error=info.get("action_error"),
            score=info.get("score"),
            fault=info.get("fault"),
            metadata={"episode_id": state.episode_id},
        )
        return {"observation": seen.model_dump(mode="json"), "reward": reward, "done": done}

    async def close(self) -> None:
        async with self._turn:
            self.state.done = True
            await self._episode.close()


class _Full(Exception):
    """There are as many sessions as devices."""


class Sessions:
    """The sessions that are open: at most `most`; those over HTTP end after `idle_s` idle seconds."""

    def __init__(
        self, tasks: SuiteTasks, client: FarmClient, most: int, max_steps: int | None, idle_s: float
    ) -> None:
        self.tasks, self.most, self._client = tasks, most, client
        self._max_steps, self._idle_s = max_steps, idle_s
        self._open: set[Session] = set()
        self._by_episode: dict[str, Session] = {}

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        session = self._new()
        try:
            yield session
        finally:
            await self._end(session)

    async def reset(self, data: Any) -> dict[str, Any]:
        """Begin an episode over HTTP, on the session that has its `episode_id` or on a new one."""
        known = Begin.model_validate(data).episode_id
        session = self._by_episode.pop(known, None) if known else None
        session = session or self._new()
        try:
            told = await session.reset(data)
        except BaseException:
            await self._end(session)
            raise
        session.used = time.monotonic()
        identity = session.state.episode_id or ""
        if identity in self._by_episode:  # two resets chose the same name at the same time
            await self._end(self._by_episode[identity])
        self._by_episode[identity] = session
        return told

    def of(self, episode: Any) -> Session:
        session = self._by_episode.get(episode) if isinstance(episode, str) else None
        if session is None:
            raise UsageError("no such episode: send the episode_id that /reset returned in metadata")
        session.used = time.monotonic()
        return session

    async def sweep(self) -> None:
        """End what is idle, for ever."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            late = time.monotonic() - self._idle_s
            for session in [one for one in self._by_episode.values() if one.used < late and not one.busy]:
                await self._end(session)

    async def close(self) -> None:
        for session in list(self._open):
            await self._end(session)

    def _new(self) -> Session:
        if len(self._open) >= self.most:
            raise _Full(f"all {self.most} sessions are taken")
        session = Session(self.tasks, self._client, self._max_steps)
        self._open.add(session)
        return session

    async def _end(self, session: Session) -> None:
        self._by_episode = {key: one for key, one in self._by_episode.items() if one is not session}
        try:
            await session.close()
        except GuiAgentError:
            pass  # the pool takes the device back when its lease runs out, or no longer knows of it
        finally:
            self._open.discard(session)


def application(sessions: Sessions) -> FastAPI:
    """The ASGI application that speaks OpenEnv's wire."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(sessions.sweep())
        try:
            yield
        finally:
            sweeping.cancel()
            await sessions.close()

    app = FastAPI(lifespan=lifespan, openapi_url=None)
    suite = sessions.tasks.suite

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "healthy"}

    @app.get("/metadata")
    async def metadata() -> dict[str, str]:
        told = f"{len(sessions.tasks.names)} tasks of the suite {suite.name} on a leased {suite.device}"
        return {"name": f"guiagent-{suite.name}", "description": told}

    @app.get("/schema")
    async def schema() -> dict[str, Any]:
        models: dict[str, type[BaseModel]] = {"observation": Seen, "state": State, "reset_observation": Seen}
        return {"action": ACTION.json_schema()} | {k: m.model_json_schema() for k, m in models.items()}

    @app.post("/reset")
    async def reset(request: Request) -> JSONResponse:
        return await _answered(request, sessions.reset)

    @app.post("/step")
    async def step(request: Request) -> JSONResponse:
        async def carried_out(data: Any) -> dict[str, Any]:
            if not isinstance(data, dict):
                raise UsageError("a step is an object with an action and an episode_id")
            return await sessions.of(data.get("episode_id")).step(data.get("action"))

        return await _answered(request, carried_out)

    @app.get("/state")
    async def state(request: Request) -> JSONResponse:
        try:
            return JSONResponse(sessions.of(request.query_params.get("episode_id")).state.model_dump())
        except UsageError as error:
            return JSONResponse({"detail": str(error)}, 404)

    @app.websocket("/ws")
    async def ws(socket: WebSocket) -> None:
        await socket.accept()
        try:
            async with sessions.session() as session:
                async for message in socket.iter_text():
                    answer = await _message(session, message)
                    if answer is None:
                        break
                    await socket.send_text(json.dumps(answer))
            await socket.close()
        except _Full as full:
            await socket.send_text(json.dumps(_error("CAPACITY_REACHED", str(full))))
            await socket.close()
        except WebSocketDisconnect:
            pass

    return app


async def _message(session: Session, text: str) -> dict[str, Any] | None:
    """The answer to a message over the WebSocket; None closes it."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return _error("INVALID_JSON", "this is no JSON")
    kind = said.get("type") if isinstance(said, dict) else None
    try:
        match kind:
            case "reset":
                return {"type": "observation", "data": await session.reset(said.get("data") or {})}
            case "step":
                return {"type": "observation", "data": await session.step(said.get("data"))}
            case "state":
                return {"type": "state", "data": session.state.model_dump()}
            case "close":
                return None
    except ValidationError as error:
        return _error("VALIDATION_ERROR", _line(error))
    except (
        GuiAgentError
    ) as error:  # a fault among them: the session is kept, its next reset gets another device
        return _error("EXECUTION_ERROR", str(error))
    return _error("UNKNOWN_TYPE", "the type of a message is reset, step, state or close")


async def _answered(request: Request, work: Any) -> JSONResponse:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MAX_BODY:
            return JSONResponse({"detail": f"a request has at most {_MAX_BODY} bytes"}, 413)
    try:
        return JSONResponse(await work(json.loads(body or b"{}")))
    except ValidationError as error:
        return JSONResponse({"detail": _line(error)}, 422)
    except (ValueError, RecursionError):
        return JSONResponse({"detail": "this is no JSON"}, 422)
    except _Full as full:
        return JSONResponse({"detail": str(full)}, 503)
    except UsageError as error:
        return JSONResponse({"detail": str(error)}, 422)
    except GuiAgentError as error:
        return JSONResponse({"detail": str(error)}, 502)


def _error(code: str, message: str) -> dict[str, Any]:
    return {"type": "error", "data": {"code": code, "message": message}}


def _line(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'value'}: {first['msg']}"
