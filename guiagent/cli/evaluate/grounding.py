"""`guiagent grounding export`: grounding items rendered on devices of ours, in ScreenSpot's format."""

import asyncio
import shutil
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer

from guiagent.cli.common.terminal import terminal
from guiagent.errors import UsageError
from guiagent.seeds import EVALUATION
from guiagent.wire import Grant

_WAIT_S = 120.0  # until all devices are up
_GRANTS: dict[str, tuple[Grant, ...]] = {"browser": ("exec",), "phone": (), "lab": ()}

app = typer.Typer(help="Items of grounding benchmarks: render ours, in ScreenSpot's format.")


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(help="New folder of the pictures and JSON files.")],
    seed: Annotated[int, typer.Option(min=EVALUATION.start, max=EVALUATION.stop - 1)] = EVALUATION.start,
    screens: Annotated[int, typer.Option(min=1, max=500, help="Screens of each device.")] = 8,
    kinds: Annotated[
        str, typer.Option(help="Of browser, phone and lab, each at three sizes, 4K included.")
    ] = "browser,phone,lab",
) -> None:
    """Render items of our own; `guiagent eval --suite screenspot:FOLDER` runs them."""
    from eval.suites.grounding import PREFIX

    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} has something in it: name a new folder")
    count = render_into(folder, seed, screens, [kind.strip() for kind in kinds.split(",") if kind.strip()])
    said = f"{count} items: guiagent eval --suite {PREFIX}{folder}"
    terminal(highlight=False, soft_wrap=True).print(said)


@app.command()
def render() -> None:
    """Render the items of the suite grounding, unless this version of guiagent has on this machine."""
    from rewards.tasksets.grounding import rendered_folder

    folder = rendered_folder()
    if folder.is_dir():
        return
    terminal(soft_wrap=True).print(f"rendering the items of the suite grounding into {folder}")
    half = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(half, ignore_errors=True)
    render_into(half, EVALUATION.start)
    half.rename(folder)


def render_into(folder: Path, seed: int, screens: int = 8, kinds: list[str] | None = None) -> int:
    """Render items and write them; return how many. Raises UsageError for a kind that has none."""
    from guiagent.client import FarmClient
    from guiagent.client.local_pool import private_pool
    from rewards.tasksets.grounding.items import write_items
    from rewards.tasksets.grounding.render import SIZES, rendered

    chosen = kinds or list(SIZES)
    if unknown := [kind for kind in chosen if kind not in SIZES]:
        raise UsageError(f"no items are rendered on {unknown[0]!r}; known: {', '.join(SIZES)}")

    async def work(words: list[str]) -> int:
        with private_pool(*words) as endpoint:
            async with FarmClient(endpoint.url, endpoint.token) as farm, AsyncExitStack() as held:
                known = (await farm.devices()).devices
                in_order = sorted(known, key=lambda one: (chosen.index(one.kind), one.width, one.height))
                leased = []
                for one in in_order:
                    grants = _GRANTS[one.kind]
                    lease = farm.lease(one.kind, device=one.id, grants=grants, wait=_WAIT_S)
                    leased.append(await held.enter_async_context(lease))
                items = await rendered(leased, folder, seed, screens=screens)
        write_items(folder, items)
        return len(items)

    return asyncio.run(work([f"{kind}=1@{w}x{h}" for kind in chosen for w, h in SIZES[kind]]))
