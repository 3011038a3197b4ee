"""A suite's tasks as a resources server of NeMo Gym (0.4), whose agents act by calling tools.

A session is a rollout on a device of its own: /seed_session begins it, a cookie tells it apart, /verify ends
and scores it. The tools are `look` and the actions of `eval.doors.tools`; a tool's answer is a text, so that
a model sees the elements of the screen. A fault has no score: it is answered 503, which NeMo Gym files as a
failed rollout.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import fmean
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import BaseModel

from eval.doors.rollouts import Rollouts, Row, answered, said_in, tools
from eval.stepping import SuiteTasks
from guiagent.errors import UsageError

PROMPT = "Call look to see your task and the screen. Do it with the tools, and call done when it is done."
_COOKIE = "guiagent_rollout"


def rows(tasks: SuiteTasks, episodes: int, agent: str) -> list[dict[str, Any]]:
    """The rows of a data set for NeMo Gym's agent of this name: every task on its first seeds.

    Raises UsageError where a suite has no tasks to learn from.
    """
    if not tasks.names:
        raise UsageError(f"{tasks.suite.name} has no tasks to learn from: --split evaluation has all")
    functions = [{"type": "function", "strict": False, **tool} for tool in tools()]
    asked = {"input": [{"role": "user", "content": PROMPT}], "tools": functions}
    reference = {"type": "responses_api_agents", "name": agent}
    return [
        {"responses_create_params": asked, "agent_ref": reference, "task": name, "seed": seed}
        for name in tasks.names
        for seed in tasks.seeds(episodes)
    ]


class _Scored(BaseModel):
    reward: float


class _Scores(BaseModel):
    verify_responses: list[_Scored]


def application(rollouts: Rollouts) -> FastAPI:
    """The ASGI application that speaks the wire of NeMo Gym's resources servers."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with rollouts.served():
            yield

    app = FastAPI(lifespan=lifespan, openapi_url=None)

    @app.get("/")
    async def alive() -> dict[str, str]:
        return {"status": "healthy"}

    @app.post("/seed_session")
    async def seed_session(request: Request) -> Response:
        async def begun() -> Response:
            name = await rollouts.begin(Row.model_validate(await said_in(request)))
            response = JSONResponse({})
            response.set_cookie(_COOKIE, name, httponly=True, samesite="strict")
            return response

        return await answered(begun)

    @app.post("/verify")
    async def verify(request: Request) -> Response:
        async def scored() -> Response:
            body, name = await said_in(request), request.cookies.get(_COOKIE)
            rollout = rollouts.of(name)
            try:
                return JSONResponse({**body, "reward": await rollout.score()})
            finally:
                await rollouts.end(str(name))

        return await answered(scored)

    @app.post("/aggregate_metrics")
    async def aggregate_metrics(request: Request) -> Response:
        async def counted() -> Response:
            scores = [one.reward for one in _Scores.model_validate(await said_in(request)).verify_responses]
            metrics = {"rollouts": len(scores), **({"mean/reward": fmean(scores)} if scores else {})}
            return JSONResponse({"agent_metrics": metrics, "key_metrics": metrics})

        return await answered(counted)

    @app.post("/{tool}")
    async def call(tool: str, request: Request) -> Response:
        async def carried_out() -> Response:
            arguments, name = await said_in(request), request.cookies.get(_COOKIE)
            rollout = rollouts.of(name)
            response = PlainTextResponse(await rollout.call(tool, arguments))
            # A client of theirs goes on with the cookies of the last answer alone.
            response.set_cookie(_COOKIE, str(name), httponly=True, samesite="strict")
            return response

        return await answered(carried_out)

    return app
