"""Rollouts and a trainer without a model, to be killed; the store, the replay and the checkpoints are real.

python -m tests.drills.light_trainer RUN URL
"""

import asyncio
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from guiagent.actions import Type
from guiagent.client import FarmClient
from guiagent.errors import Fault, FaultError, UsageError
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import ObserveSpec, Score, Trajectory
from tests.drills.farm import TOKEN, Part
from tests.drills.trainer import GROUP, PER_UPDATE, settled_once
from training.checkpoints import checkpoint
from training.checkpoints.shards import Learned
from training.checkpoints.snapshot import Snapshot
from training.replay import EpisodeRequest, Replay
from training.replay.scheduler import Limits

_ACKED = "acknowledged"  # ids of committed trajectories, a line each
_NOTHING = ObserveSpec(frame="none")
_ANY_AGE = 1 << 30
_ACTIONS = 3
_PATIENCE_S = 120.0


class LightTrainer(Part):
    def __init__(self, run: Path, url: str) -> None:
        self.run = run
        super().__init__("tests.drills.light_trainer", str(run), url)

    def wait_until_it_plays(self) -> None:
        give_up = time.monotonic() + _PATIENCE_S
        while not self._acknowledged():
            assert time.monotonic() < give_up, "the trainer plays no episode"
            time.sleep(0.05)

    def _acknowledged(self) -> list[str]:
        return (self.run / _ACKED).read_text().split() if (self.run / _ACKED).exists() else []

    def problems(self) -> dict[str, int]:
        """What of the run is not as promised (I3, I4, I6)."""
        acked = self._acknowledged()
        if not (self.run / "trajectories").is_dir():
            return {"trajectories lost": len(acked), "learned from twice": 0}
        with TrajectoryStore(self.run / "trajectories", readonly=True) as store:
            kept = store.ids
        twice = 0
        if (loaded := checkpoint.load(self.run / "checkpoints")) is not None:
            consumed = loaded.state["consumed"]
            twice = len(consumed) - len(set(consumed))
            try:
                settled_once(self.run)
            except AssertionError:
                twice += 1
        return {"trajectories lost": len(set(acked) - set(kept)), "learned from twice": twice}

    def done(self) -> dict[str, int]:
        loaded = checkpoint.load(self.run / "checkpoints")
        acked = self._acknowledged()
        return {"trajectories": len(acked), "updates": loaded.step if loaded else 0}


async def _train(run: Path, url: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    acked = os.open(run / _ACKED, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    loaded = checkpoint.load(run / "checkpoints")
    step = loaded.step if loaded else 0
    consumed: list[str] = loaded.state["consumed"] if loaded else []
    limits = Limits(groups=PER_UPDATE, max_staleness=_ANY_AGE, devices=1)
    replay = Replay(None, 0, limits=limits)
    with TrajectoryStore(run / "trajectories") as store:
        replay.restore(loaded.state["replay"] if loaded else None, store)
        async with FarmClient(url, TOKEN) as farm:
            while not stop.is_set():
                while replay.ready < PER_UPDATE and not stop.is_set():
                    if not replay.missing():
                        replay.open_group("task", replay.opened, GROUP)
                    seat = replay.missing()[0]
                    played = await _episode(farm, seat)
                    store.commit([played])
                    os.write(acked, f"{played.id}\n".encode())
                    replay.add(played)
                groups = replay.take(current_version=step, timeout=0.0)
                if groups:
                    step += 1
                    consumed += [group.id for group in groups]
                    _save(run, step, {"replay": replay.state(), "consumed": consumed})


async def _episode(farm: FarmClient, seat: EpisodeRequest) -> Trajectory:
    """One episode, whatever becomes of it: a device that fails is a fault of the episode."""
    name = f"{seat.group}-{seat.index}-{os.urandom(4).hex()}"
    found = Trajectory(name, seat.task, seat.seed, "Type.", [], "task_done")
    found.group, found.group_index, found.group_size = seat.group, seat.index, seat.size
    try:
        async with farm.lease("sim", ttl=3.0) as device:
            found.device, found.lease_token = device.id, device.token
            for number in range(_ACTIONS):
                await device.act([Type(text=f"{device.id} {device.token} {name}-{number}")], _NOTHING)
        found.score = Score(float(seat.index % 2))
    except UsageError as error:  # no host has joined yet
        found.stop, found.fault = "fault", Fault("farm", "refused", str(error))
        await asyncio.sleep(0.1)
    except FaultError as error:
        found.stop, found.fault = "fault", error.fault
    return found


def _save(run: Path, step: int, state: dict[str, object]) -> None:
    snapshot = Snapshot(Learned({"weights": torch.full((4096,), float(step))}))
    checkpoint.save(run / "checkpoints", step, snapshot, state=state, rng={"rng": random.Random(step)})


if __name__ == "__main__":
    torch.set_num_threads(1)
    Path(sys.argv[1]).mkdir(exist_ok=True)
    asyncio.run(_train(Path(sys.argv[1]), sys.argv[2]))
