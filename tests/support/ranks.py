"""A learner of several processes, for tests: `python -m tests.support.ranks FOLDER`, once for every $RANK.

FOLDER holds the source (a trajectory store), `alone` (checkpoints of one process, a folder for each
algorithm) and "work.json". Rank 0 leaves its checkpoints in `together`, those of runs that began alone in
`went on`, and what it measured in "found.json".
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import torch

from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Trajectory
from training.algorithms import find_algorithm
from training.checkpoints import checkpoint
from training.config import TrainConfig
from training.distributed.parallel import Distributed, LostProcess, joined
from training.inputs.encoder import Encoder
from training.launch.leading import follow, leading
from training.learner.labels import Labels
from training.learner.learner import Learner, LearnerContext
from training.learner.signals import SignalSources
from training.replay import Group

SCHEDULE = (
    ((0, 1, 2, 3), (4, 5, 6, 7)),
    ((0, 1, 6),),
    ((4, 5, 6, 7),),
)  # members by their number in the source
LAST = ((0, 1, 2, 3),)  # the step after the resume
LONE = ((1,),)  # leaves a process with nothing


ADAPTERS = " with adapters"  # after an algorithm's name


def config_of(run: str) -> TrainConfig:
    update = {"algorithm": run.removesuffix(ADAPTERS), "learning_rate": 1e-4, "batch_tokens": 400}
    lora = {"lora": {"rank": 4, "alpha": 8}} if run.endswith(ADAPTERS) else {}
    return TrainConfig.model_validate({"update": update | lora})


def groups_of(members: Sequence[Sequence[int]], source: Sequence[Trajectory]) -> list[Group]:
    chosen = [tuple(source[number] for number in numbers) for numbers in members]
    return [Group(f"g{n}", "task", n, one, one, staleness=0) for n, one in enumerate(chosen)]


def labels_of(trajectory: Trajectory) -> Labels:
    """As a step judge may have them, whom only rank 0 has heard: they are not those of the outcome."""
    return tuple("wrong" if step % 2 else "correct" for step in range(len(trajectory.steps)))


LABELLED = LearnerContext(sources=SignalSources(labels_of))


def learn(learner: Learner, store: TrajectoryStore, root: Path, *, lone: bool) -> list[dict[str, float]]:
    """The schedule, and a checkpoint after it; the metrics of every step."""
    source = list(store)
    steps = [*SCHEDULE, LONE] if lone else SCHEDULE
    found = [learner.step(groups_of(members, source), store.frame).metrics for members in steps]
    _save(learner, root, len(steps))
    return found


def go_on(
    open_learner: Callable[..., Learner],
    start: Path,
    algorithm: str,
    store: TrajectoryStore,
    root: Path,
    to: Path,
) -> dict[str, float]:
    """One more step from the checkpoint in `root`, and a checkpoint of it in `to`; the step's metrics."""
    loaded = checkpoint.load(root)
    assert loaded is not None
    update = config_of(algorithm).update
    named, encoder = find_algorithm(update.algorithm), Encoder(loaded.model)
    learner = open_learner(loaded.opens(start), encoder, named, update, LABELLED)
    learner.load(loaded)
    metrics = learner.step(groups_of(LAST, list(store)), store.frame).metrics
    _save(learner, to, loaded.step + 1)
    return metrics


def _save(learner: Learner, root: Path, step: int) -> None:
    checkpoint.save(root, step, learner.snapshot(), state={"learner": learner.state()}, rng={})


def furthest(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """The largest difference but for one value in 100,000.

    Half-precision tensors, which adapters were added to, may be rounded either way. Adam divides a gradient
    by its own size: where it is next to nothing, the order of a sum decides on a step of any size up to the
    learning rate. That befalls single values; what is summed wrongly moves all of them.
    """
    assert one.keys() == other.keys()

    def distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        rounding = 2**-7 * a.float().abs() if a.dtype == torch.bfloat16 else 0.0
        return ((a.float() - b.float()).abs() - rounding).flatten()

    all_of_them = torch.cat([distance(one[name], other[name]) for name in one])
    return float(all_of_them.topk(len(all_of_them) // 100_000 + 1).values[-1])


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    work: Mapping[str, Any] = json.loads((folder / "work.json").read_text())
    with joined((folder / "rendezvous").as_uri()) as ranks:
        for algorithm in work["algorithms"]:
            if ranks.rank:
                follow(config_of(algorithm), ranks)
                follow(config_of(algorithm), ranks)
            else:
                _lead(folder, Path(work["checkpoint"]), algorithm, ranks)
        if ranks.rank:
            os.kill(os.getpid(), signal.SIGKILL)
        _miss(folder, Path(work["checkpoint"]), ranks)


def _lead(folder: Path, start: Path, algorithm: str, ranks: Distributed) -> None:
    config = config_of(algorithm)
    with TrajectoryStore(folder / "source", readonly=True) as store:
        with leading(ranks) as followers:
            named = find_algorithm(config.update.algorithm)
            learner = followers.open_learner(start, Encoder(start), named, config.update, LABELLED)
            steps = learn(learner, store, folder / "together" / algorithm, lone=algorithm == "dart_paper")
        with leading(ranks) as followers:
            last = go_on(
                followers.open_learner,
                start,
                algorithm,
                store,
                folder / "alone" / algorithm,
                folder / "went on" / algorithm,
            )
    _write(folder, algorithm, [*steps, last])


def learn_on_ray(checkpoint: Path, folder: Path) -> None:
    """What each of several trainers does on Ray; rank 0 writes "found.json"."""
    from training.launch.ray_trainer import joined_trainers

    torch.set_num_threads(1)
    config = config_of("arpo")
    with joined_trainers() as ranks:
        if ranks.rank:
            follow(config, ranks)
            return
        with TrajectoryStore(folder / "source", readonly=True) as store, leading(ranks) as followers:
            learner = followers.open_learner(
                checkpoint, Encoder(checkpoint), find_algorithm("arpo"), config.update
            )
            steps = learn(learner, store, folder / "together", lone=False)
        _write(folder, "steps", steps)
        _write(folder, "world", ranks.world)
        _write(folder, "listening", listening([psutil.Process()]))


def listening(processes: Sequence[psutil.Process]) -> list[str]:
    """The addresses at which they listen."""
    found = set()
    for process in processes:
        try:
            connections = process.net_connections(kind="inet")
        except psutil.Error:  # it ended meanwhile
            continue
        found |= {one.laddr.ip for one in connections if one.status == psutil.CONN_LISTEN}
    return sorted(found)


def _miss(folder: Path, start: Path, ranks: Distributed) -> None:
    """Whoever should learn with us is dead."""
    try:
        with leading(ranks) as followers:
            followers.open_learner(
                start, Encoder(start), find_algorithm("arpo"), config_of("arpo").update
            ).weights()
    except LostProcess as lost:
        _write(folder, "lost", str(lost))


def _write(folder: Path, name: str, found: Any) -> None:
    path = folder / "found.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(before | {name: found}))


if __name__ == "__main__":
    main()
