"""`guiagent profile`: list and delete the named browser profiles that this machine keeps."""

from typing import Annotated

import typer

app = typer.Typer(help="List and delete named browser profiles of this machine.", no_args_is_help=True)


@app.command("list")
def show() -> None:
    """Each profile and the megabytes that it takes; a tenant's is called TENANT.NAME."""
    from devices.drivers.browser import profiles

    for profile in profiles.kept():
        print(f"{profile.name}\t{profile.size / 1e6:.1f} MB")


@app.command()
def delete(name: Annotated[str, typer.Argument(help="As `guiagent profile list` shows it.")]) -> None:
    """Remove a profile that no browser uses."""
    from devices.drivers.browser import profiles

    profiles.delete(name)
