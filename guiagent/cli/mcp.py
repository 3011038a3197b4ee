"""`guiagent mcp`: the farm's devices as tools of the Model Context Protocol."""

import asyncio
import contextlib
from typing import Annotated, Literal

import typer

from guiagent.cli.farm.commands import Pool
from guiagent.errors import MissingProgram, UsageError

app = typer.Typer()


@app.command()
def mcp(
    kinds: Annotated[
        list[str] | None,
        typer.Argument(help="Devices to start for it: browser phone=2; none: those of your running pool."),
    ] = None,
    pool: Pool = None,
    http: Annotated[
        str | None,
        typer.Option(metavar="[HOST:]PORT", help="Serve streamable HTTP there instead of stdin and stdout."),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Only look at devices.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Kinds that may be leased; all by default.")] = None,
    egress: Annotated[
        list[str] | None, typer.Option(help="What devices may reach; public by default.")
    ] = None,
    longest: Annotated[
        int, typer.Option("--picture", min=64, max=4096, help="Pixels of a picture's longer side.")
    ] = 1280,
    keep: Annotated[int, typer.Option(min=1, max=1000, help="Pictures that can be read again.")] = 8,
    pictures: Annotated[
        Literal["inline", "reference"], typer.Option(help="Give pictures, or links to them.")
    ] = "inline",
    idle: Annotated[
        float, typer.Option(min=1, help="Seconds after which an unused device is given back.")
    ] = 300,
) -> None:
    """Serve the farm's devices to a client of the Model Context Protocol.

    Over HTTP the token is $GUIAGENT_MCP_TOKEN, or a new one, which is printed.
    """
    try:
        from guiagent import serving
        from guiagent.mcp import serve
        from guiagent.mcp.server import Settings
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("mcp", "mcp_types", "uvicorn"):
            raise
        raise MissingProgram("the package mcp is not installed: pip install 'guiagent[mcp]'") from None
    from guiagent.client.local_pool import endpoint_of, private_pool

    if kinds and pool is not None:
        raise UsageError(f"--pool and {kinds[0]!r} contradict each other: leave one out")
    settings = Settings(
        longest=longest,
        keep=keep,
        by_reference=pictures == "reference",
        read_only=read_only,
        kinds=tuple(only or ()),
        egress=tuple(egress or ("public",)),
        idle_s=idle,
    )
    with contextlib.ExitStack() as stack:
        endpoint = stack.enter_context(private_pool(*kinds)) if kinds else endpoint_of(pool)
        if http is None:
            asyncio.run(serve.over_stdio(endpoint, settings))
            return
        host, port = serving.address_of(http, "--http")
        token, shown = serving.token_of("GUIAGENT_MCP_TOKEN")

        def announce(address: str) -> None:
            print(f"serving  {address}{shown}", flush=True)

        asyncio.run(serve.over_http(endpoint, settings, host, port, token, announce))
