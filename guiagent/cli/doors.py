"""`guiagent openenv`, `nemo-gym`, `harbor`, `e2b`: a suite's tasks, or devices, for the clients of others."""

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
    from guiagent import serving

    tasks = SuiteTasks(suite, split)
    token, shown = serving.token_of("GUIAGENT_OPENENV_TOKEN")
    _serve(
        lambda farm: serving.with_token(application(Sessions(tasks, farm, devices, max_steps, idle)), token),
        tasks.devices(devices) if pool is None else None,
        pool,
        http,
        shown,
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
    from eval.doors.rollouts import Rollouts
    from eval.stepping import SuiteTasks
    from guiagent import serving

    tasks = SuiteTasks(suite, split)
    if rows is not None:
        lines = [json.dumps(row) for row in door.rows(tasks, episodes, agent)]
        write_file(rows, "".join(f"{line}\n" for line in lines).encode())
        return print(f"{len(lines)} rows in {plain(str(rows))}")
    token, shown = serving.token_of("GUIAGENT_NEMO_GYM_TOKEN")

    def served(farm: "FarmClient") -> "App":
        own = Rollouts(
            *(tasks, farm, devices, max_steps, idle), door="nemo-gym", at_once="num_samples_in_parallel"
        )
        return serving.with_token(door.application(own), token, user="guiagent")

    _serve(served, tasks.devices(devices) if pool is None else None, pool, http, shown)


@app.command()
def harbor(
    suite: Annotated[str, typer.Argument(help="Suite whose tasks are served, such as lab or miniwob-demo.")],
    devices: Annotated[int, typer.Option(min=1, max=256, help="Devices, and so trials at once.")] = 4,
    pool: Pool = None,
    http: Annotated[
        str, typer.Option(metavar="[HOST:]PORT", help="Where to serve; 0 picks a free port.")
    ] = "8704",
    split: Annotated[
        Literal["train", "evaluation"], typer.Option(help="Range of seeds, and which tasks.")
    ] = "train",
    out: Annotated[
        Path | None, typer.Option(help="Write the task folders into this new one, and serve nothing.")
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, max=10_000, help="Seeds of each task in --out.")] = 8,
    seconds: Annotated[float, typer.Option(min=1, help="Time of an agent for a task of --out.")] = 900,
    max_steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of an episode; by default each task's own.")
    ] = None,
    idle: Annotated[
        float,
        typer.Option(min=1, help="Seconds after which an unused session ends; more than an agent's time."),
    ] = 1800,
) -> None:
    """Write a suite's tasks as Harbor's task folders, or serve the devices that their agents act on.

    Where Harbor runs, GUIAGENT_HARBOR_URL is this server as containers reach it, and the two tokens are
    GUIAGENT_HARBOR_TOKEN and GUIAGENT_HARBOR_VERDICT_TOKEN: given here, or new ones, which are printed.
    """
    from eval.doors.harbor import folders
    from eval.doors.harbor.sessions import Sessions, application
    from eval.doors.rollouts import Rollouts
    from eval.stepping import SuiteTasks
    from guiagent import serving

    tasks = SuiteTasks(suite, split)
    if out is not None:
        return print(f"{folders.write(tasks, episodes, seconds, out)} task folders in {plain(str(out))}")
    token, shown = serving.token_of("GUIAGENT_HARBOR_TOKEN")
    verdicts, also = serving.token_of("GUIAGENT_HARBOR_VERDICT_TOKEN")
    if token == verdicts:
        raise UsageError("GUIAGENT_HARBOR_TOKEN is what agents have: the verifier needs another one")

    def served(farm: "FarmClient") -> "App":
        own = Rollouts(
            *(tasks, farm, devices, max_steps, idle), door="harbor", at_once="--n-concurrent", frame="png"
        )
        return application(Sessions(own), token, verdicts)

    started = tasks.devices(devices) if pool is None else None
    _serve(served, started, pool, http, shown + also.replace("token", "verdict token"))


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
    told: str,
) -> None:
    """Serve an application, which checks tokens, over the devices `started` for it or those of the pool.

    `told` is printed behind its address.
    """
    from guiagent import serving
    from guiagent.client import FarmClient
    from guiagent.client.local_pool import endpoint_of, private_pool

    host, port = serving.address_of(http, "--http")
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(contextlib.closing(serving.listen(host, port, "--http")))
        endpoint = endpoint_of(pool) if started is None else stack.enter_context(private_pool(started))

        async def serve() -> None:
            async with FarmClient(endpoint.url, endpoint.token) as farm:
                await farm.devices()  # a pool that is away is said now
                ready = f"serving  {serving.url_of(listener, host)}{told}"
                await serving.run(application(farm), listener, lambda: print(ready, flush=True))

        asyncio.run(serve())
