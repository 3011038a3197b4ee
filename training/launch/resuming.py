"""What a start in a run's folder means: a new run, the next session of one, or nothing left to do.

All of it is read before a device is started, and nothing is written. `training.launch.wiring` looks again.
"""

import fcntl
import json
import os
from pathlib import Path
from typing import NamedTuple

from guiagent.errors import InfrastructureError
from guiagent.storage.trajectories import TrajectoryStore
from training.checkpoints import checkpoint
from training.config import TrainConfig
from training.identity import require_same
from training.train import Trained, budgets_spent


class Standing(NamedTuple):
    """Where a run stands before a session: the step that it goes on from, or its result if it is finished."""

    step: int  # of the newest checkpoint; 0 if there is none
    finished: Trained | None


def standing(config: TrainConfig, run: Path) -> Standing:
    """Say what is left to do in `run`.

    Raises UsageError if `run` was begun with a config of another identity, and InfrastructureError if another
    process trains in it, or its checkpoints are all damaged.
    """
    require_same(run, config)
    _require_free(run)
    newest = os.path.basename(os.path.realpath(run / "checkpoints" / "latest"))
    step = newest.removeprefix("step-").partition(".")[0]
    return Standing(int(step) if step.isdecimal() else 0, finished(config, run))


def finished(config: TrainConfig, run: Path) -> Trained | None:
    """Return what the newest checkpoint of `run` has, if one of the config's budgets is used up; else None.

    Raises InfrastructureError if there are checkpoints, and none of them is whole.
    """
    trajectories = run / "trajectories"
    if not trajectories.is_dir():
        return None
    with TrajectoryStore(trajectories, readonly=True) as store:
        env_steps = sum(len(one.steps) for one in store if one.group) if config.env_steps is not None else 0
        if not _spent(config, run / "checkpoints" / "latest", env_steps):
            return None  # by what is read without looking at every byte of the checkpoint
        loaded = checkpoint.load(run / "checkpoints")
        if loaded is None or not (loaded.model / "config.json").is_file():
            return None
        seconds = float(loaded.state["seconds"])
        if not budgets_spent(config, loaded.step, seconds, env_steps):
            return None
        return Trained(loaded.model, loaded.step, seconds, len(store), loaded.refused)


def _spent(config: TrainConfig, newest: Path, env_steps: int) -> bool:
    """Whether a budget seems to be used up; also True if the newest checkpoint cannot be read."""
    try:
        saved = json.loads((newest / "state.json").read_bytes())
        return bool(budgets_spent(config, int(saved["step"]), float(saved["state"]["seconds"]), env_steps))
    except FileNotFoundError:
        return newest.is_symlink()
    except (OSError, ValueError, KeyError, TypeError):
        return True


def _require_free(run: Path) -> None:
    """Raise InfrastructureError if another process holds the lock of the run's trajectory store."""
    try:
        file = (run / "trajectories" / "lock").open("rb")
    except OSError:
        return  # there is none yet, or the store will say what is wrong with it
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InfrastructureError(
                f"another process trains in {run}: wait for it, stop it (Ctrl-C saves), or name another --run"
            ) from None
