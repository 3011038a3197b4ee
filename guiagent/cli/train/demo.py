"""`guiagent demo`: trains and evaluates the small policy; see `guiagent.cli.train.experiment`."""

from pathlib import Path

from eval.suites import find_suite
from guiagent import config as configuration
from guiagent.cli.common.terminal import terminal
from guiagent.cli.train.experiment import Experiment
from guiagent.cli.train.launch import TrainHere, require_possible
from guiagent.cli.train.recipes import recipe_path
from training.checkpoints.mirror import RunFolder
from training.config import TrainConfig

_RECIPE, _SUITE = "arpo-demo", "miniwob-demo"


def demo(run: Path, minutes: float | None, episodes: int, port: int, overrides: list[str]) -> None:
    """Carry out the recipe arpo-demo as an experiment, with a live page at `port`."""
    if minutes is not None:
        overrides = [*overrides, f"minutes={minutes}"]
    config = configuration.load(TrainConfig, recipe_path(_RECIPE), overrides)
    require_possible(config)
    title = "Online RL of a small policy on MiniWoB++"
    train = TrainHere(config, RunFolder(run))
    Experiment(title, config, run, find_suite(_SUITE), episodes, train, port).conduct(terminal())
