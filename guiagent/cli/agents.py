"""`guiagent agent`: a policy on the farm's devices, for other agents (A2A) and for editors (ACP)."""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from guiagent.cli.farm.commands import Pool
from guiagent.errors import MissingProgram, UsageError

if TYPE_CHECKING:
    from guiagent.cli.common.policy import PolicySettings
    from guiagent.doors.errands import Settings
    from guiagent.wire import Endpoint

app = typer.Typer()


@app.command()
def agent(
    protocol: Annotated[
        Literal["a2a", "acp"],
        typer.Argument(help="a2a: for agents, over HTTP; acp: for an editor."),
    ],
    policy: Annotated[str, typer.Option(help="Checkpoint folder, tiny, or http://HOST:PORT/v1#MODEL.")],
    kinds: Annotated[
        list[str] | None,
        typer.Argument(help="Devices to start for it: browser=2 phone; none: those of your running pool."),
    ] = None,
    pool: Pool = None,
    http: Annotated[
        str, typer.Option(metavar="[HOST:]PORT", help="Where A2A is served; 0 picks a free port.")
    ] = "8703",
    device: Annotated[
        str | None, typer.Option(help="Kind that tasks are carried out on; by default the first one named.")
    ] = None,
    url: Annotated[str, typer.Option(help="Page or app that is opened before a task.")] = "",
    egress: Annotated[
        list[str] | None, typer.Option(help="What devices may reach; public by default.")
    ] = None,
    max_steps: Annotated[int, typer.Option(min=1, max=1000, help="Turns of the policy for a message.")] = 50,
    max_seconds: Annotated[float, typer.Option(min=1, help="Seconds for a message.")] = 600,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens for a message, of a policy that reports them.")
    ] = None,
    wait: Annotated[float, typer.Option(min=0, max=600, help="Seconds to wait for a free device.")] = 30,
    idle: Annotated[
        float, typer.Option(min=1, max=86_400, help="Seconds that a device is kept for the next message.")
    ] = 300,
    longest: Annotated[
        int, typer.Option("--picture", min=64, max=4096, help="Pixels of a picture's longer side.")
    ] = 1280,
    temperature: Annotated[
        float, typer.Option(help="Sampling temperature of the policy; 0 is greedy.")
    ] = 0.0,
    dialect: Annotated[
        str, typer.Option(help="Action language of the policy: `guiagent dialects list`.")
    ] = "ui-tars",
    images: Annotated[
        int | None, typer.Option(min=1, help="Show the policy only so many of the last screenshots.")
    ] = None,
) -> None:
    """Let other agents and editors hand tasks in words to a policy, which carries them out on leased devices.

    Over HTTP the token is $GUIAGENT_AGENT_TOKEN, or a new one, which is printed.
    """
    try:
        if protocol == "acp":
            import acp  # noqa: F401 (whether it is there)
        else:
            import a2a.server.routes  # noqa: F401

            from guiagent import serving  # noqa: F401
    except ModuleNotFoundError as missing:
        raise MissingProgram(
            f"the package {missing.name} is not installed: pip install 'guiagent[{protocol}]'"
        ) from None
    from guiagent.agent import Limits
    from guiagent.cli.common.policy import PolicySettings, history_of
    from guiagent.client.local_pool import endpoint_of, private_pool
    from guiagent.doors.errands import Settings

    if kinds and pool is not None:
        raise UsageError(f"--pool and {kinds[0]!r} contradict each other: leave one out")
    settings = Settings(
        kind=device or (kind_of(kinds[0]) if kinds else "browser"),
        egress=tuple(egress or ("public",)),
        start=url,
        limits=Limits(max_steps, max_seconds, max_tokens),
        wait_s=wait,
        idle_s=idle,
        longest=longest,
    )
    model = PolicySettings(temperature=temperature, dialect=dialect, history=history_of(images))
    with contextlib.ExitStack() as stack:
        endpoint = stack.enter_context(private_pool(*kinds)) if kinds else endpoint_of(pool)
        if protocol == "acp":
            asyncio.run(_to_an_editor(endpoint, policy, model, settings))
        else:
            asyncio.run(_to_agents(endpoint, policy, model, settings, http))


def kind_of(word: str) -> str:
    """The kind of a word that names devices, such as "browser=2@1280x800"."""
    return word.partition("=")[0].partition("@")[0].partition(":")[0].partition(",")[0]


async def _to_an_editor(
    endpoint: "Endpoint", policy: str, model: "PolicySettings", settings: "Settings"
) -> None:
    from guiagent.cli.common.policy import open_policy
    from guiagent.client import FarmClient
    from guiagent.doors import acp
    from guiagent.doors.errands import Desk

    async with FarmClient(endpoint.url, endpoint.token) as farm, open_policy(policy, model) as agent:
        await farm.devices()  # a pool that is away is said now
        await acp.over_stdio(Desk(farm, agent, settings))


async def _to_agents(
    endpoint: "Endpoint", policy: str, model: "PolicySettings", settings: "Settings", http: str
) -> None:
    from guiagent import serving
    from guiagent.cli.common.policy import open_policy
    from guiagent.client import FarmClient
    from guiagent.doors import a2a
    from guiagent.doors.errands import Desk

    host, port = serving.address_of(http, "--http")
    token, shown = serving.token_of("GUIAGENT_AGENT_TOKEN")
    with contextlib.closing(serving.listen(host, port, "--http")) as listener:
        async with FarmClient(endpoint.url, endpoint.token) as farm, open_policy(policy, model) as agent:
            await farm.devices()  # a pool that is away is said now
            url = serving.url_of(listener, host)
            app = a2a.application(Desk(farm, agent, settings), f"{url}/", token)
            await serving.run(app, listener, lambda: print(f"serving  {url}{shown}", flush=True))
