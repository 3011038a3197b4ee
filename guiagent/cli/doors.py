"""`guiagent openenv`, `nemo-gym`, `e2b`: a suite's tasks, or devices, for the clients of others."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from guiagent.cli.common.plain import plain
from guiagent.cli.farm.commands import Pool
from guiagent.errors import MissingProgram, UsageError
from guiagent.storage.atomic import write_file

if TYPE_CHECKING:
    from guiagent.client import FarmClient
    from guiagent.serving import App

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

    tasks = SuiteTasks(suite, split)
    _serve(
        lambda farm: application(Sessions(tasks, farm, devices, max_steps, idle)),
        tasks.devices(devices) if pool is None else None,
        pool,
        http,
        "GUIAGENT_OPENENV_TOKEN",
    )


@app.command("nemo-gym")
def nemo_gym(
    suite: Annotated[str, typer.Argument(help="Suite whose tasks are served, such as lab or miniwob-demo.")],
    devices: Annotated[int, typer.Option(min=1, max=256, help="Devices, and so rollouts at once.")] = 4,
    pool: Pool = None,
    http: Annotated[
        str, typer.Option(metavar="[HOST:]PORT", help="Where to serve; 0 picks a free port.")
    ] = "8703",
    split: Annotated[
        Literal["train", "evaluation"], typer.Option(help="Range of seeds, and which tasks.")
    ] = "train",
    rows: Annotated[
        Path | None, typer.Option(help="Write the data set there (JSON lines), and serve nothing.")
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, max=10_000, help="Seeds of each task in --rows.")] = 8,
    agent: Annotated[str, typer.Option(help="Agent of --rows, as your config names it.")] = "simple_agent",
    max_steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of an episode; by default each task's own.")
    ] = None,
    idle: Annotated[
        float, typer.Option(min=1, help="Seconds after which a rollout that nobody uses ends.")
    ] = 300,
) -> None:
    """Serve a suite's tasks as a resources server of NeMo Gym, on devices started for it or those of --pool.

    Its config has the server with the printed port and the host guiagent:TOKEN@HOST, where the token is
    $GUIAGENT_NEMO_GYM_TOKEN, or a new one, which is printed.
    """
    from eval.doors import nemo_gym as door
    from eval.stepping import SuiteTasks

    tasks = SuiteTasks(suite, split)
    if rows is not None:
        lines = [json.dumps(row) for row in door.rows(tasks, episodes, agent)]
        write_file(rows, "".join(f"{line}\n" for line in lines).encode())
        return print(f"{len(lines)} rows in {plain(str(rows))}")
    _serve(
        lambda farm: door.application(door.Rollouts(tasks, farm, devices, max_steps, idle)),
        tasks.devices(devices) if pool is None else None,
        pool,
        http,
        "GUIAGENT_NEMO_GYM_TOKEN",
        user="guiagent",
    )


@app.command()
def e2b(
    kinds: Annotated[
        list[str] | None,
        typer.Argument(help="Devices to start for it: desktop=2@1024x768; none: those of your running pool."),
    ] = None,
    pool: Pool = None,
    http: Annotated[
        str, typer.Option(metavar="[HOST:]PORT", help="Where to serve; 0 picks a free port.")
    ] = "8702",
    wait: Annotated[float, typer.Option(min=0, max=600, help="Seconds to wait for a free device.")] = 30,
) -> None:
    """Serve the farm's desktops as E2B's sandboxes, for `e2b-desktop` and other clients of E2B's API.

    Its clients read E2B_API_URL and E2B_SANDBOX_URL, which are both the address that is printed, and the key
    E2B_API_KEY: $GUIAGENT_E2B_TOKEN, or a new one, which is printed.
    """
    try:
        import python_multipart  # noqa: F401 (whether it is there)

        from guiagent import serving
        from guiagent.doors.e2b.sandboxes import Sandboxes
        from guiagent.doors.e2b.server import application
    except ModuleNotFoundError as missing:
        raise MissingProgram(
            f"the package {missing.name} is not installed: pip install 'guiagent[e2b]'"
        ) from None
    from guiagent.client import FarmClient
    from guiagent.client.local_pool import endpoint_of, private_pool

    if kinds and pool is not None:
        raise UsageError(f"--pool and {kinds[0]!r} contradict each other: leave one out")
    host, port = serving.address_of(http, "--http")
    key, shown = serving.token_of("GUIAGENT_E2B_TOKEN")
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(contextlib.closing(serving.listen(host, port, "--http")))
        endpoint = stack.enter_context(private_pool(*kinds)) if kinds else endpoint_of(pool)

        async def serve() -> None:
            async with FarmClient(endpoint.url, endpoint.token) as farm:
                await farm.devices()  # a pool that is away is said now
                app = application(Sandboxes(farm, wait), key)
                ready = f"serving  {serving.url_of(listener, host)}{shown}"
                await serving.run(app, listener, lambda: print(ready, flush=True))

        asyncio.run(serve())


def _serve(
    application: "Callable[[FarmClient], App]",
    started: str | None,
    pool: str | None,
    http: str,
    token_variable: str,
    user: str | None = None,
) -> None:
    """Serve an application over the devices `started` for it, or over those of the pool."""
    from guiagent import serving
    from guiagent.client import FarmClient
    from guiagent.client.local_pool import endpoint_of, private_pool

    host, port = serving.address_of(http, "--http")
    token, shown = serving.token_of(token_variable)
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(contextlib.closing(serving.listen(host, port, "--http")))
        endpoint = endpoint_of(pool) if started is None else stack.enter_context(private_pool(started))

        async def serve() -> None:
            async with FarmClient(endpoint.url, endpoint.token) as farm:
                await farm.devices()  # a pool that is away is said now
                app = serving.with_token(application(farm), token, user)
                ready = f"serving  {serving.url_of(listener, host)}{shown}"
                await serving.run(app, listener, lambda: print(ready, flush=True))

        asyncio.run(serve())
