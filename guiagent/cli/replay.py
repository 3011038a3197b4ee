"""`guiagent replay`: stored episodes as a page, or one of them again on a device."""

from pathlib import Path
from typing import Annotated

import typer

from guiagent.errors import UsageError

app = typer.Typer()

_DEVICE = "On a device (--on)"


@app.command()
def replay(
    run: Annotated[Path, typer.Argument(help="Folder of a run, an evaluation or a trajectory store.")],
    episode: Annotated[
        str | None, typer.Option(help="Only the episode whose id is this, or begins with it.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The page; replay.html in the folder by default.")] = None,
    finish: Annotated[
        bool, typer.Option("--finish", help="End the record of a lease whose holder is gone.")
    ] = False,
    on: Annotated[
        str | None,
        typer.Option(
            help="Repeat the episode's actions on this device of the farm, or on one of this kind.",
            rich_help_panel=_DEVICE,
        ),
    ] = None,
    heal: Annotated[
        bool,
        typer.Option(
            "--heal",
            help="Where the screen differs, aim at the element that was hit; else it stops there.",
            rich_help_panel=_DEVICE,
        ),
    ] = False,
    patience: Annotated[
        float,
        typer.Option(
            min=0, help="Seconds that a screen may take to look as recorded.", rich_help_panel=_DEVICE
        ),
    ] = 2.0,
    steps: Annotated[
        int | None,
        typer.Option(min=0, help="Repeat only so many steps.", rich_help_panel=_DEVICE),
    ] = None,
    branch: Annotated[
        bool,
        typer.Option(
            "--branch",
            help="Keep the device where it stops, for `guiagent do` and its kin; its name is printed.",
            rich_help_panel=_DEVICE,
        ),
    ] = False,
    policy: Annotated[
        str | None,
        typer.Option(
            help="Let a policy go on where it stops: a checkpoint folder, tiny, http://HOST:PORT/v1#MODEL.",
            rich_help_panel=_DEVICE,
        ),
    ] = None,
    dialect: Annotated[
        str, typer.Option(help="Action language of that policy.", rich_help_panel=_DEVICE)
    ] = "ui-tars",
    max_steps: Annotated[
        int, typer.Option(min=1, help="Largest number of that policy's turns.", rich_help_panel=_DEVICE)
    ] = 15,
    taskset: Annotated[
        str | None,
        typer.Option(help="Of the episode's task, if the folder does not say it.", rich_help_panel=_DEVICE),
    ] = None,
    pool: Annotated[
        str | None,
        typer.Option(
            envvar="GUIAGENT_POOL",
            help="The farm: address or state folder; else your running one, else one of its own.",
            rich_help_panel=_DEVICE,
        ),
    ] = None,
) -> None:
    """Write a page of stored episodes: actions on the screens, texts, scores, groups side by side.

    With --on, repeat an episode on a device instead, compare the screens, and stop at the first that differs.
    It ends with 0 if all of it came out again and with 1 if it did not. $GUIAGENT_SECRET is typed where the
    record of a lease did not keep what was typed.
    """
    from guiagent.cli.evaluate.repeat import Wish, repeat
    from guiagent.cli.evaluate.replay import write

    if on is None:
        if heal or branch or policy is not None or steps is not None:
            raise UsageError("name a device or a kind of device to repeat the episode on: --on browser")
        write(run, episode, out, finish)
        return
    if episode is None:
        raise UsageError("say which episode: --episode ID, as the page of `guiagent replay` shows it")
    if branch and policy is not None:
        raise UsageError("either you go on with the device (--branch), or a policy does (--policy)")
    wish = Wish(on, pool, heal, patience, steps, branch, policy, dialect, max_steps, taskset)
    raise typer.Exit(repeat(run, episode, wish))
