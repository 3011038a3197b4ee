"""`guiagent train --dry-run`: checks what a recipe names and needs, in a line each, and a table of GPUs."""

import asyncio
import tomllib
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from guiagent import config as configuration
from guiagent.cli.common.terminal import terminal
from guiagent.cli.train import Launch
from guiagent.cli.train.recipes import OTHER_RECIPES, recipe_path
from guiagent.errors import UsageError
from training.config import TrainConfig

if TYPE_CHECKING:
    from training.dry_run.check import Machine
    from training.dry_run.gpus import GpuRow

_GIB = 2**30


def dry_run(recipe: str, overrides: list[str], machine: "Machine") -> None:
    """Print a line per finding. Raises UsageError if something is missing, or for another kind of recipe."""
    path = recipe_path(recipe)
    if tomllib.loads(path.read_text()).keys() & OTHER_RECIPES.keys():
        raise UsageError(f"{path.stem} is no recipe of reinforcement learning: there is no dry run of it")
    config = configuration.load(TrainConfig, path, overrides)
    from training.dry_run.check import dry_run as checked

    console = terminal(highlight=False)
    found = asyncio.run(checked(config, machine))
    for finding in found.findings:
        mark = Text("missing", "red") if finding.missing else "ok     "
        console.print(mark, f" {finding.what:10} ", finding.missing or finding.found, sep="", soft_wrap=True)
    if found.gpus:
        console.print(table(found.gpus, machine.gib))
    if missing := list(dict.fromkeys(finding.what for finding in found.findings if finding.missing)):
        raise UsageError(f"{path.stem} cannot run as it stands: {', '.join(missing)}")


def table(rows: "list[GpuRow]", gib: float) -> Table:
    """Make the table of what each GPU holds at the peak of a step, in GiB."""
    from training.dry_run.gpus import numbers

    made = Table(title=f"GiB on each GPU at the peak of a step, of {gib:g}", title_justify="left", box=None)
    made.add_column("GPU")
    made.add_column("")
    names = ("weights", "gradients", "moments", "others", "activations", "logits", "cache", "total")
    for name in names:
        made.add_column(name, justify="right")
    for row in rows:
        figures = [f"{getattr(row, name) / _GIB:.1f}" if getattr(row, name) else "-" for name in names]
        total = Text(figures.pop(), "red" if row.total > gib * _GIB else "")
        made.add_row(numbers(row.gpus), " + ".join(row.parts), *figures, total)
    return made


def machine_of(
    launch: Launch | None, processes: int | None, gpus: int | None, gib: float | None, turn_seconds: float
) -> "Machine":
    """Return what a recipe is to run on: as said, or the GPUs here, or on paper where there are none."""
    import torch

    from training.dry_run.check import GPU_GIB, Machine

    here = torch.cuda.device_count()
    if gib is None:
        gib = torch.cuda.get_device_properties(0).total_memory / _GIB if here else GPU_GIB
    return Machine(launch, processes, here or None if gpus is None else gpus, gib, turn_seconds)
