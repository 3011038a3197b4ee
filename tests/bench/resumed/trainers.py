"""How each trainer is started on a run's folder, and what it still has after it was killed."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from guiagent.storage.trajectories import TrajectoryStore
from tests.bench import peers
from tests.drills import trainer as training_run

OURS = "ours"
_EVERY = 4  # updates that TRL generates for at once, in the setting that is made for throughput


class Trainer(NamedTuple):
    """How to start a trainer, and what it still has."""

    command: Callable[[Path, Path, int], list[str]]  # of a run's folder, a ledger and a last update
    checkpoints: Callable[[Path], list[Path]]  # that a run has, oldest first
    kept: Callable[[Path], Sequence[str]]  # rollouts that it can still learn from
    steps: Callable[[Path, str], list[int]]  # of its log, from its folder or what it printed


def _peer(module: str, pattern: str, *arguments: str) -> Trainer:
    def command(run: Path, ledger: Path, updates: int) -> list[str]:
        return [str(peers.trl()), "-m", module, str(run), str(ledger), str(updates), *arguments]

    def checkpoints(run: Path) -> list[Path]:
        return sorted(run.glob(pattern), key=lambda path: int(path.name.replace("_", "-").split("-")[-1]))

    def steps(run: Path, said: str) -> list[int]:
        found: list[int] = json.loads(said.splitlines()[-1])["steps"]
        return found

    return Trainer(command, checkpoints, lambda run: (), steps)


def _our_command(run: Path, ledger: Path, updates: int) -> list[str]:
    settings = training_run.SMALL | {"checkpoint_minutes": 1e-4, "steps": updates}
    words = [f"--set={name}={value}" for name, value in settings.items()]
    command = ["train", "--recipe", "arpo-demo", "--run", str(run), *words]
    return [sys.executable, "-m", "tests.bench.resumed.ours", str(ledger), *command]


def _our_store(run: Path) -> Sequence[str]:
    with TrajectoryStore(run / "trajectories", readonly=True) as store:
        return store.ids


TRAINERS = {
    OURS: Trainer(
        _our_command,
        lambda run: sorted((run / "checkpoints").glob("step-*")),
        _our_store,
        lambda run, _: [update["step"] for update in training_run.updates(run)],
    ),
    "TRL": _peer("tests.bench.resumed.trl", "checkpoint-*", "1"),
    f"TRL, generating for {_EVERY} updates": _peer("tests.bench.resumed.trl", "checkpoint-*", str(_EVERY)),
    "accelerate": _peer("tests.bench.resumed.loop", "checkpoints/checkpoint_*"),
}
