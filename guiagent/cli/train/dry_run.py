"""`guiagent train --dry-run`: checks what a recipe names and needs, and prints a line for each finding."""

import asyncio
import tomllib

from rich.console import Console

from guiagent import config as configuration
from guiagent.cli.train.recipes import OTHER_RECIPES, recipe_path
from guiagent.errors import UsageError
from training.config import TrainConfig


def dry_run(recipe: str, overrides: list[str], turn_seconds: float) -> None:
    """Print a line per finding. Raises UsageError if something is missing, or for another kind of recipe."""
    path = recipe_path(recipe)
    if tomllib.loads(path.read_text()).keys() & OTHER_RECIPES.keys():
        raise UsageError(f"{path.stem} is no recipe of reinforcement learning: there is no dry run of it")
    config = configuration.load(TrainConfig, path, overrides)
    from training import dry_run as dry

    console = Console(highlight=False)
    findings = asyncio.run(dry.dry_run(config, turn_seconds))
    for finding in findings:
        mark = "[red]missing[/]" if finding.missing else "ok     "
        console.print(f"{mark} {finding.what:10} {finding.missing or finding.found}", soft_wrap=True)
    if missing := [finding.what for finding in findings if finding.missing]:
        raise UsageError(f"{path.stem} cannot run as it stands: {', '.join(missing)}")
