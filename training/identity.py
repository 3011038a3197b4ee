"""The identity of a run: its config less its budgets, what only watches it, and the machine that it runs on.

A run's folder belongs to one identity. Another learning rate, algorithm, policy or set of tasks is another
run: it would go on with what is left of the first one (optimiser, replay, curriculum, reference), and call
that its own.
"""

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from guiagent import config as configuration
from guiagent.errors import UsageError

CONFIG = "config.toml"  # of a run's folder

_BUDGETS = {"steps", "minutes", "env_steps", "checkpoint_minutes"}
_WATCHING = {"evaluation", "health", "tracker", "validate_every", "planner"}  # the last: `guiagent seeds`
_MACHINE = {
    *("ray", "placement", "device.farm", "rollout.devices", "platforms.devices"),
    *("rollout.vllm.urls", "rollout.vllm.max_model_len"),
    *("update.batch_tokens", "update.gradient_checkpointing", "update.compile"),
}
_SERVERS = {  # how a judge's model is reached, but not which one it is
    f"{judge}.{key}"
    for judge in ("judge", "step_judge")
    for key in (
        *("url", "key_env", "timeout_s", "attempts", "concurrency"),
        *("max_requests", "max_total_tokens", "cache"),
    )
}

OUTSIDE = frozenset(_BUDGETS | _WATCHING | _MACHINE | _SERVERS)
"""Keys that may change between two sessions of a run."""

_MOST_NAMED = 8


def require_same(run: Path, config: BaseModel) -> None:
    """Raise UsageError, which names the keys, if `run` was begun with a config of another identity.

    A key that the folder's config lacks, since it is younger, counts as its default. A path below the folder
    itself, or below that of the recipe whose stage the run is, may be elsewhere than it was: it is where the
    folder was before it was moved.
    """
    path = run / CONFIG
    if not path.is_file():
        return
    begun = configuration.load(type(config), path, ignoring=OUTSIDE)
    differences = configuration.differences(begun, config, ignoring=OUTSIDE)
    if changed := [one for one in differences if not _moved(run, one)]:
        raise UsageError(
            f"{run} was begun with another config: {_named(changed)}; go on with its own values, or begin "
            f"another run with these from its weights: --fork-from {run} --run ANOTHER"
        )


def claim(run: Path, config: BaseModel) -> None:
    """Write the config into the run's folder, if it has none or one of the same identity.

    Raises UsageError for a run of another identity, and InfrastructureError if it cannot be written.
    """
    require_same(run, config)
    configuration.save(config, run / CONFIG)


def _moved(run: Path, changed: configuration.Difference) -> bool:
    """Whether a key has the same place in a folder that lay elsewhere when the run began."""
    if not (isinstance(changed.one, str) and isinstance(changed.other, str)):
        return False
    home = run.parent if (run.parent / CONFIG).is_file() else run  # a recipe in stages has a config, too
    home, now = home.resolve(), Path(changed.other).resolve()
    if not now.is_relative_to(home):
        return False
    within = now.relative_to(home).parts
    return Path(changed.one).parts[-len(within) :] == within


def _named(changed: Sequence[configuration.Difference]) -> str:
    more = f", and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
    return ", ".join(map(str, changed[:_MOST_NAMED])) + more
