"""`guiagent demo`: trains and evaluates the small policy; see `guiagent.cli.train.experiment`.

In minutes on pages and made-to-order apps; with hours to spend, on phones, too.
"""

from pathlib import Path
from typing import NamedTuple

from eval.suites.demo import DEMO_APPS, DEMO_PAGES, DEMO_PHONE, DEMO_ROUNDS
from eval.suites.suite import Suite
from guiagent import config as configuration
from guiagent.cli.common.terminal import terminal
from guiagent.cli.train.experiment import Experiment
from guiagent.cli.train.launch import TrainHere, require_possible
from guiagent.cli.train.recipes import recipe_path
from guiagent.errors import UsageError
from training.checkpoints.mirror import RunFolder
from training.config import TrainConfig


class _Tier(NamedTuple):
    recipe: str
    title: str
    run: Path
    suites: tuple[Suite, ...]


_MINUTES = _Tier(
    "demo",
    "Online RL of a small policy on pages and apps",
    Path("runs/demo"),
    (DEMO_ROUNDS, DEMO_APPS),
)
_HOURS = _Tier(
    "everywhere",
    "Online RL of one small policy on several platforms",
    Path("runs/demo-hours"),
    (DEMO_PAGES, DEMO_APPS, DEMO_PHONE),
)


def demo(
    run: Path | None,
    minutes: float | None,
    hours: float | None,
    episodes: int,
    port: int,
    overrides: list[str],
) -> None:
    """Carry out the recipe demo, or for `hours` everywhere, as an experiment with a live page at `port`.

    Raises UsageError if both minutes and hours are given, and what `require_possible` raises.
    """
    if minutes is not None and hours is not None:
        raise UsageError(
            "--minutes is of the short demo, --hours of the one with phones, too: give one of them"
        )
    tier = _MINUTES if hours is None else _HOURS
    if (trained := minutes if hours is None else 60 * hours) is not None:
        overrides = [*overrides, f"minutes={trained}"]
    config = configuration.load(TrainConfig, recipe_path(tier.recipe), overrides)
    require_possible(config)
    run = tier.run if run is None else run
    train = TrainHere(config, RunFolder(run))
    Experiment(tier.title, config, run, tier.suites, episodes, train, port).conduct(terminal())
