"""`guiagent image`: build and list the guest images that VMs boot."""

import time
from pathlib import Path
from typing import Annotated

import typer

from guiagent.cli.common.terminal import terminal

app = typer.Typer(help="Make and list the images that VMs boot.", no_args_is_help=True)


@app.command()
def build(
    name: Annotated[
        str, typer.Argument(help="What to build: desktop, or osworld-desktop with applications.")
    ],
    suite: Annotated[str, typer.Option(help="Which Debian.")] = "bookworm",
    include: Annotated[
        list[str] | None, typer.Option(help="A further Debian package; may be repeated.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Its folder; by default where VMs look for it.")] = None,
    again: Annotated[
        bool, typer.Option("--again", help="With today's packages, be it there or not.")
    ] = False,
) -> None:
    """Build a guest image from Debian packages, unless it is there; takes some minutes, and root."""
    from devices.drivers.vm.image import images_dir
    from devices.images.build import IMAGES, is_current
    from devices.images.build import build as make
    from guiagent.errors import UsageError

    if name not in IMAGES:
        raise UsageError(f"there is no image {name!r} to build; there are {', '.join(IMAGES)}")
    console = terminal(highlight=False)
    began = time.monotonic()

    def report(line: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - began), 60)
        console.print(f"{minutes:2}:{seconds:02} {line}", soft_wrap=True)

    folder = output or images_dir() / name
    if not again and is_current(name, folder, suite, include or []):
        report(f"nothing to do: {folder} is there; --again builds it with today's packages")
        return
    manifest = make(name, suite, include or [], folder, report)
    size = sum(file.bytes for file in manifest.files.values()) >> 20
    report(f"done: {folder} ({size} MiB, {len(manifest.packages)} packages)")


@app.command("list")
def images() -> None:
    """The images that were built here."""
    from devices.drivers.vm.image import images_dir, manifest

    for file in sorted(images_dir().glob("*/manifest.json")):
        made = manifest(file.parent)
        print(f"{file.parent.name}  {made.suite}  built {made.built_at}  {file.with_name('disk.qcow2')}")
