"""The commands that show a farm and drive its devices: ps, lease, do, shot and others."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()

Pool = Annotated[
    str | None,
    typer.Option(
        envvar="GUIAGENT_POOL",
        help="Its address, with $GUIAGENT_TOKEN, or its state folder; else your running pool.",
    ),
]
Device = Annotated[str, typer.Argument(help="Its name as `guiagent ps` shows it.")]
Reason = Annotated[str, typer.Option(help="Shown with the device.")]


@app.command()
def ps(
    pool: Pool = None,
    json: Annotated[bool, typer.Option("--json", help="As the API has it.")] = False,
) -> None:
    """Every device of the farm: state, holder, rate, faults; and who waits for one."""
    from guiagent.cli.farm import devices

    devices.ps(pool, json)


@app.command()
def lease(
    kind: Annotated[str, typer.Argument(help="browser, desktop, vm, phone, android.")] = "browser",
    pool: Pool = None,
    needs: Annotated[list[str] | None, typer.Option(help="What it has to do: a11y, shell, 1080p ...")] = None,
    grant: Annotated[list[str] | None, typer.Option(help="exec, shell or files.")] = None,
    egress: Annotated[list[str] | None, typer.Option(help="What it may reach; public by default.")] = None,
    ttl: Annotated[float, typer.Option(help="Seconds it is kept after the last command.")] = 3600.0,
    wait: Annotated[float, typer.Option(help="Seconds to wait for a free one.")] = 30.0,
    record: Annotated[
        Path | None,
        typer.Option(help="Folder of a record of what is done and seen, for `guiagent replay`."),
    ] = None,
) -> None:
    """Take a device, for the commands that follow; its name is printed."""
    from guiagent.cli.farm import devices

    devices.lease(pool, kind, needs or [], grant or [], egress or ["public"], ttl, wait, record)


@app.command()
def release(device: Device, pool: Pool = None) -> None:
    """Give a device back that `guiagent lease` took."""
    from guiagent.cli.farm import devices

    devices.release(pool, device)


@app.command()
def shot(
    device: Device,
    file: Annotated[Path, typer.Argument(help="A .png or .jpg to write.")],
    pool: Pool = None,
) -> None:
    """Save what a device shows: of one you hold afresh, else the last frame the pool saw."""
    from guiagent.cli.farm import devices

    devices.shot(pool, device, file)


@app.command("do")
def act(
    device: Device,
    action: Annotated[
        list[str],
        typer.Argument(help="click X Y, type TEXT, key Control a, open URL ... or an action's JSON."),
    ],
    pool: Pool = None,
) -> None:
    """Execute one action on a device you hold. Fields go in order, or as name=value."""
    from guiagent.cli.farm import devices

    devices.act(pool, device, action)


@app.command()
def elements(
    device: Device,
    text: Annotated[str | None, typer.Argument(help="Only what is called so.")] = None,
    role: Annotated[str | None, typer.Option(help="Only these: button, textbox, link ...")] = None,
    pool: Pool = None,
) -> None:
    """Print what shows on a device you hold, a line for each element: role, where to click it, name."""
    from guiagent.cli.farm import devices

    devices.elements(pool, device, text, role)


@app.command("click-on")
def click_on(
    device: Device,
    text: Annotated[str, typer.Argument(help="What the element is called.")],
    role: Annotated[str | None, typer.Option(help="If several are called so: button, link ...")] = None,
    nth: Annotated[int, typer.Option(help="Which of several, from 0.")] = 0,
    pool: Pool = None,
) -> None:
    """Click on an element of a device you hold, by its name."""
    from guiagent.cli.farm import devices

    devices.click_on(pool, device, text, role, nth)


@app.command("exec")
def execute(
    device: Device,
    command: Annotated[list[str], typer.Argument(help="A program and its arguments.")],
    pool: Pool = None,
    timeout: Annotated[float, typer.Option(help="Seconds.")] = 30.0,
) -> None:
    """Run a program on a device you hold; ends with its exit code. The lease needs --grant shell."""
    from guiagent.cli.farm import devices

    raise typer.Exit(devices.execute(pool, device, command, timeout))


@app.command()
def reset(
    device: Device,
    pool: Pool = None,
    url: Annotated[str, typer.Option(help="The page to begin at.")] = "about:blank",
    seed: Annotated[int, typer.Option(help="Of what the device sets up by chance.")] = 0,
    snapshot: Annotated[str | None, typer.Option(help="A state kept before.")] = None,
) -> None:
    """Bring a device you hold back to a clean state."""
    from guiagent.cli.farm import devices

    devices.reset(pool, device, url, seed, snapshot)


@app.command()
def forward(
    device: Device,
    service: Annotated[str, typer.Argument(help="adb, osworld or cdp.")],
    pool: Pool = None,
) -> None:
    """Open a port of this machine that leads to a service of a device you hold, until interrupted."""
    from guiagent.cli.farm import devices

    devices.forward(pool, device, service)


@app.command()
def logs(device: Device, pool: Pool = None) -> None:
    """What happened on a device, a line for each event."""
    from guiagent.cli.farm import devices

    devices.logs(pool, device)


@app.command()
def quarantine(device: Device, reason: Reason, pool: Pool = None) -> None:
    """Take a device out of service at once; its lease ends with the reason."""
    from guiagent.cli.farm import devices

    devices.mark(pool, device, "quarantine", reason)


@app.command()
def drain(device: Device, pool: Pool = None, reason: Reason = "") -> None:
    """Take a device out of service once its holder is done."""
    from guiagent.cli.farm import devices

    devices.mark(pool, device, "drain", reason)


@app.command()
def restore(device: Device, pool: Pool = None) -> None:
    """Put a device back into service."""
    from guiagent.cli.farm import devices

    devices.mark(pool, device, "restore", "")


@app.command()
def approvals(pool: Pool = None) -> None:
    """What agents want to do and wait for somebody to approve, a line each."""
    from guiagent.cli.farm import devices

    devices.approvals(pool)


@app.command()
def wanted(pool: Pool = None) -> None:
    """The agents that have asked for a person, a line each; the live page is where to help."""
    from guiagent.cli.farm import devices

    devices.wanted(pool)


@app.command(name="give-back")
def give_back(
    name: Annotated[str, typer.Argument(help="As `guiagent wanted` shows it.")],
    pool: Pool = None,
    refuse: Annotated[bool, typer.Option("--refuse", help="Refuse to help.")] = False,
    note: Annotated[str, typer.Option(help="What the agent is told.")] = "",
) -> None:
    """Give a device back to the agent that asked for a person."""
    from guiagent.cli.farm import devices

    devices.give_back(pool, name, refuse, note)


@app.command()
def approve(
    name: Annotated[str, typer.Argument(help="As `guiagent approvals` shows it.")],
    pool: Pool = None,
    refuse: Annotated[bool, typer.Option("--refuse", help="Refuse it instead.")] = False,
) -> None:
    """Let an agent do what it waits for, or refuse it."""
    from guiagent.cli.farm import devices

    devices.decide(pool, name, not refuse)
