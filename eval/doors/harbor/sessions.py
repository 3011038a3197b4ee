"""The sessions of Harbor's trials: a rollout each, whose verdict only the verifier's token can ask for.

A trial's container begins its session before the agent starts. While a session waits for its verdict, no
other one plays its task and seed: an agent cannot begin a second try and hand in the better one. A verdict is
kept, so that a verifier that is run again has the same.
"""

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from eval.doors.rollouts import Rollouts, Row, answered, said_in, tools
from guiagent.errors import Fault, FaultError, UsageError
from guiagent.serving import App, Receive, Scope, Send, with_token

_MOST_VERDICTS = 100_000  # that are kept; the oldest are forgotten first
_OF_THE_VERIFIER = ("/solve", "/verdict")


class _Session(BaseModel):
    session: str


class _Call(_Session):
    tool: str
    arguments: dict[str, Any] = {}


class _Claim(_Session, Row):
    pass


class Sessions:
    """Sessions by their names, which are secrets, and the verdicts that were asked for."""

    def __init__(self, rollouts: Rollouts) -> None:
        self.rollouts = rollouts
        self._playing: dict[tuple[str, int], str] = {}  # "" while one begins
        self._verdicts: dict[str, tuple[Row, float | Fault]] = {}

    async def begin(self, row: Row) -> str:
        """Begin a session; its name. Raises UsageError, and FaultError where it has to be tried again."""
        key = (row.task, row.seed)
        name = self._playing.get(key)
        if name is not None and (not name or name in self.rollouts):
            message = (
                f"{row.task} with seed {row.seed} is being played: another session waits for its verdict"
            )
            raise FaultError(Fault("farm", "taken", message, retryable=True))
        self._playing[key] = ""
        try:
            self._playing[key] = await self.rollouts.begin(row)
        except BaseException:
            del self._playing[key]
            raise
        return self._playing[key]

    async def verdict(self, name: str, row: Row) -> float:
        """End a session; the score of its task's check.

        Raises UsageError for a session of another task or seed, and FaultError: a fault is no score.
        """
        if name not in self._verdicts:
            if self._playing.get((row.task, row.seed)) != name or not name:
                raise UsageError(f"no such session of {row.task} with seed {row.seed}")
            self._verdicts[name] = row, await self._scored(name)
            self._playing.pop((row.task, row.seed), None)
            while len(self._verdicts) > _MOST_VERDICTS:
                del self._verdicts[next(iter(self._verdicts))]
        played, found = self._verdicts[name]
        if played != row:
            raise UsageError(f"this session is one of {played.task} with seed {played.seed}")
        if isinstance(found, Fault):
            raise FaultError(found)
        return found

    async def _scored(self, name: str) -> float | Fault:
        rollout = self.rollouts.of(name)
        try:
            return await rollout.score()
        except FaultError as error:
            return error.fault
        finally:
            await self.rollouts.end(name)


def application(sessions: Sessions, token: str, verifiers: str) -> App:
    """The ASGI application for agents, who have `token`, and for verifiers, who have another one."""
    app = _application(sessions)
    for_agents, for_verifiers = with_token(app, token), with_token(app, verifiers)

    async def by_path(scope: Scope, receive: Receive, send: Send) -> None:
        guarded = for_verifiers if scope.get("path") in _OF_THE_VERIFIER else for_agents
        await guarded(scope, receive, send)

    return by_path


def _application(sessions: Sessions) -> FastAPI:
    rollouts = sessions.rollouts

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with rollouts.served():
            yield

    app = FastAPI(lifespan=lifespan, openapi_url=None, redirect_slashes=False)

    @app.get("/tools")
    async def told() -> Response:
        return JSONResponse(tools())

    @app.post("/begin")
    async def begin(request: Request) -> Response:
        async def begun() -> Response:
            row = Row.model_validate(await said_in(request))
            return JSONResponse({"session": await sessions.begin(row)})

        return await answered(begun)

    @app.post("/call")
    async def call(request: Request) -> Response:
        async def carried_out() -> Response:
            asked = _Call.model_validate(await said_in(request))
            rollout = rollouts.of(asked.session)
            text = await rollout.call(asked.tool, asked.arguments)
            return JSONResponse({"text": text, **_shown(rollout.picture)})

        return await answered(carried_out)

    @app.post("/solve")
    async def solve(request: Request) -> Response:
        async def solved() -> Response:
            asked = _Session.model_validate(await said_in(request))
            return JSONResponse({"text": await rollouts.of(asked.session).solve()})

        return await answered(solved)

    @app.post("/verdict")
    async def verdict(request: Request) -> Response:
        async def scored() -> Response:
            claim = _Claim.model_validate(await said_in(request))
            row = Row(task=claim.task, seed=claim.seed)
            return JSONResponse({"reward": await sessions.verdict(claim.session, row)})

        return await answered(scored)

    return app


def _shown(picture: bytes) -> Mapping[str, str]:
    return {"picture": base64.b64encode(picture).decode()} if picture else {}
