"""`guiagent openenv`: a suite's tasks for the clients of others."""

import asyncio
import contextlib
import os
import secrets
from typing import Annotated, Literal

import typer

from guiagent.cli.farm.commands import Pool

app = typer.Typer()


@app.command()
def openenv(
    suite: Annotated[str, typer.Argument(help="Suite whose tasks are served, such as lab or miniwob-demo.")],
    devices: Annotated[int, typer.Option(min=1, max=256, help="Devices, and so sessions at once.")] = 4,
    pool: Pool = None,
    http: Annotated[
        str, typer.Option(metavar="[HOST:]PORT", help="Where to serve; 0 picks a free port.")
    ] = "8701",
    split: Annotated[
        Literal["train", "evaluation"], typer.Option(help="Range of seeds, and which tasks.")
    ] = "train",
    max_steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of an episode; by default each task's own.")
    ] = None,
    idle: Annotated[
        float, typer.Option(min=1, help="Seconds after which an unused session over HTTP ends.")
    ] = 300,
) -> None:
    """Serve a suite's tasks over OpenEnv's wire, on devices started for it or on those of --pool.

    The token is $GUIAGENT_OPENENV_TOKEN, or a new one, which is printed.
    """
    from eval.doors.openenv import Sessions, application
    from eval.stepping import SuiteTasks
    from guiagent import serving
    from guiagent.client import FarmClient
    from guiagent.client.local_pool import endpoint_of, private_pool

    tasks = SuiteTasks(suite, split)
    host, port = serving.address_of(http, "--http")
    token = os.environ.get("GUIAGENT_OPENENV_TOKEN") or secrets.token_urlsafe(24)
    shown = "" if "GUIAGENT_OPENENV_TOKEN" in os.environ else f"  token {token}"
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(contextlib.closing(serving.listen(host, port, "--http")))
        endpoint = (
            stack.enter_context(private_pool(tasks.devices(devices))) if pool is None else endpoint_of(pool)
        )

        async def serve() -> None:
            async with FarmClient(endpoint.url, endpoint.token) as farm:
                await farm.devices()  # a pool that is away is said now
                sessions = Sessions(tasks, farm, devices, max_steps, idle)
                ready = f"serving  {serving.url_of(listener, host)}{shown}"
                await serving.run(application(sessions), listener, token, lambda: print(ready, flush=True))

        asyncio.run(serve())
