"""`guiagent openenv`, `guiagent e2b`: a suite's tasks, or devices, for the clients of others."""

import asyncio
import contextlib
from typing import Annotated, Literal

import typer

from guiagent.cli.farm.commands import Pool
from guiagent.errors import MissingProgram, UsageError

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
    token, shown = serving.token_of("GUIAGENT_OPENENV_TOKEN")
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
                app = serving.with_token(application(sessions), token)
                await serving.run(app, listener, lambda: print(ready, flush=True))

        asyncio.run(serve())


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
