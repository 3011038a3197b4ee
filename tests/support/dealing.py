"""Steps of a learner of several processes, and what they send: `python -m tests.support.dealing FOLDER`.

Once for every $RANK. FOLDER holds the source (a trajectory store) and "work.json". Rank 0 leaves the metrics
of the steps, the weights, and what it sent to the others.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from guiagent.storage.trajectories import TrajectoryStore
from tests.support.ranks import SCHEDULE, config_of, groups_of, labels_of
from training.algorithms import find_algorithm
from training.distributed.parallel import Distributed, joined
from training.inputs.encoder import Encoder
from training.launch.leading import follow, leading
from training.learner.learner import Learner, LearnerContext
from training.learner.signals import SignalSources
from training.tiny.progress import ProgressEstimator

CONTEXT = LearnerContext(sources=SignalSources(labels_of, ProgressEstimator))


def counted(ranks: Distributed, sent: dict[str, list[int]], told: list[bytes]) -> None:
    """Note the bytes of every message to one rank in `sent`, and every message to all in `told`."""
    scatter, send = ranks.scatter, ranks.send

    def scattered(message: Callable[[int], bytes]) -> bytes:
        def made(rank: int) -> bytes:
            data = message(rank)
            sent.setdefault(str(rank), []).append(len(data))
            return data

        return scatter(made)

    def broadcast(message: bytes) -> None:
        told.append(message)
        send(message)

    ranks.scatter, ranks.send = scattered, broadcast  # type: ignore[method-assign]


def steps(learner: Learner, store: TrajectoryStore) -> list[dict[str, float]]:
    source = list(store)
    return [learner.step(groups_of(members, source), store.frame).metrics for members in SCHEDULE]


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    work: dict[str, Any] = json.loads((folder / "work.json").read_text())
    config, start = config_of(work["algorithm"]), Path(work["checkpoint"])
    with joined((folder / "rendezvous").as_uri()) as ranks:
        if ranks.rank:
            follow(config, ranks)
            return
        sent: dict[str, list[int]] = {}
        told: list[bytes] = []
        counted(ranks, sent, told)
        with TrajectoryStore(folder / "source", readonly=True) as store, leading(ranks) as followers:
            named = find_algorithm(config.update.algorithm)
            learner = followers.open_learner(start, Encoder(start), named, config.update, CONTEXT)
            metrics = steps(learner, store)
            weights = {name: tensor.clone() for name, tensor in learner.weights().items()}  # some are tied
            save_file(weights, folder / "weights.safetensors")
        pictures = sum(message.count(b"\x89PNG") for message in told)
        found = {"metrics": metrics, "sent": sent, "told": sum(map(len, told)), "pictures told": pictures}
        (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
