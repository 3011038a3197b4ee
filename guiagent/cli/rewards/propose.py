"""`guiagent propose` and `guiagent synthesize`: make tasks, validate them, record why any is refused."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from guiagent.errors import InfrastructureError

app = typer.Typer()


@contextmanager
def _installed() -> Iterator[None]:
    """Turn a missing optional package into an InfrastructureError that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InfrastructureError(f"{error.name} is not installed: pip install 'guiagent[checks]'") from None


Url = Annotated[str | None, typer.Option(help="Address of a model server that speaks OpenAI's API.")]
Model = Annotated[str, typer.Option(help="Name of the model at the server.")]


@app.command()
def propose(
    preset: Annotated[
        str,
        typer.Option(help="Proposer: zerogui, pae, cues, backward, seagent, webrl; grammar needs no model."),
    ],
    book: Annotated[
        Path, typer.Option(help="File of proposals and outcomes (JSON lines), to which is added.")
    ],
    device: Annotated[str, typer.Option(help="Kind of device: browser, phone or desktop.")] = "browser",
    n: Annotated[int, typer.Option("--n", min=1, help="Number of proposals to accept.")] = 20,
    url: Url = None,
    model: Model = "",
    start: Annotated[str | None, typer.Option(help="Page or app to start from.")] = None,
    examples: Annotated[Path | None, typer.Option(help="File of example instructions, one per line.")] = None,
    demonstration: Annotated[
        Path | None, typer.Option(help="File that tells in words what a user does there.")
    ] = None,
    avoid: Annotated[
        Path | None,
        typer.Option(help="File of instructions not to propose, such as those of evaluation, one per line."),
    ] = None,
    run: Annotated[
        Path | None, typer.Option(help="Run whose episodes cues and backward take as exploration.")
    ] = None,
    embed: Annotated[str, typer.Option(help="Embedding model of the server, to find duplicates with.")] = "",
    policy: Annotated[
        str | None,
        typer.Option(
            help="Policy that tries accepted proposals: checkpoint folder, tiny, http://H:P/v1#MODEL."
        ),
    ] = None,
    trials: Annotated[int, typer.Option(min=2, help="Trials of each proposal by that policy.")] = 8,
    devices: Annotated[
        int, typer.Option(min=1, max=256, help="Devices for trials, and so trials at once.")
    ] = 1,
    judge: Annotated[
        Path | None, typer.Option(help="TOML file with url, model and preset; by default the small judge.")
    ] = None,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Largest number of turns of a trial.")] = None,
    dialect: Annotated[str, typer.Option(help="Action language of that policy.")] = "ui-tars",
    width: Annotated[
        int | None, typer.Option(min=64, max=4096, help="Width of the screen in pixels.")
    ] = None,
    height: Annotated[
        int | None, typer.Option(min=64, max=4096, help="Height of the screen in pixels.")
    ] = None,
) -> None:
    """Propose tasks for a device, and write to a book which are accepted and why others are refused.

    With --policy a policy tries each accepted task, and tasks that it never or always solves are refused.
    Training on a book writes the same outcomes. After an interruption the same command continues.
    """
    with _installed():
        from guiagent.cli.rewards.proposing import ProposeArgs
        from guiagent.cli.rewards.proposing import propose as begin
        from guiagent.cli.rewards.trying import Trying

    tried = None if policy is None else Trying(policy, dialect, trials, devices, judge, max_steps)
    begin(
        ProposeArgs(
            preset, book, device, n, url, model, start, examples, demonstration, avoid, run, embed, tried,
            width, height,
        )
    )  # fmt: skip


@app.command()
def synthesize(
    device: Annotated[str, typer.Option(help="Kind of device: phone or desktop.")],
    out: Annotated[Path, typer.Option(help="File of verified tasks (JSON lines), to which is added.")],
    n: Annotated[int, typer.Option("--n", min=1, help="Number of tasks to accept.")] = 20,
    url: Url = None,
    model: Model = "",
) -> None:
    """Make tasks from templates or by a model, each with a state check that is proved on a real device.

    Train on them as the taskset "synthetic:FILE". Refused tasks and the reasons are in FILE.refused.jsonl.
    """
    with _installed():
        from guiagent.cli.rewards.synthesizing import synthesize as begin

    begin(device, out, n, url, model)
