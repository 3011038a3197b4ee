"""A trainer of a run on a Ray cluster, as a worker of Ray Train: rank 0 leads the run, the others follow."""

import asyncio
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import ray
import torch
from ray import train as ray_train
from ray.train.collective import broadcast_from_rank_zero
from ray.util.queue import Queue
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from guiagent.errors import InfrastructureError
from rewards.judges.verdicts import Judge
from training.algorithms.algorithm import Algorithm
from training.checkpoints.mirror import RunFolder, hand_over, local_folder, pull, run_folder, set_aside
from training.checkpoints.storage import Storage
from training.config import TrainConfig
from training.distributed.parallel import STEP_TIMEOUT, Distributed, joined
from training.inputs.encoder import Encoder
from training.launch.leading import FollowerRanks, follow, leading
from training.launch.ray_workers import WorkerHost, ray_workers
from training.launch.wiring import train
from training.learner.learner import Learner, LearnerContext
from training.rollout.setup import RolloutWorkers, WorkerContext
from training.train import Trained

OpenJudge = Callable[[], AbstractAsyncContextManager[Judge | None]]

_UPLOAD_S = 300.0  # time to upload what an earlier trainer left on the node


@dataclass(frozen=True)
class Job:
    """What every trainer starts from. `resuming`: earlier trainers made at least one update."""

    config: TrainConfig
    run: str  # a folder or a URL
    engines: list[str]
    hosts: Sequence[WorkerHost]
    open_judge: OpenJudge
    resuming: bool
    reports: Queue  # queue to the driver: updates, the result, warnings as text


def work(job: Job) -> None:
    """Run one trainer: lead on rank 0, follow on the others.

    Raises what `training.launch.wiring.train` raises, LostProcess if another trainer was lost, and
    InfrastructureError if the run's folder is missing when the run is resumed.
    """
    torch.set_num_threads(1)
    with joined_trainers() as ranks:
        if ranks.rank:
            _follow(job, ranks)
        else:
            job.reports.put(_lead(job, ranks))


@contextmanager
def joined_trainers() -> Iterator[Distributed]:
    """Join all of Ray Train's workers, from within one, by `training.distributed.parallel.joined`."""
    context = ray_train.get_context()
    rank, world, local = context.get_world_rank(), context.get_world_size(), context.get_local_rank()
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(local))
    with joined(_meeting(rank, world)) as ranks:
        yield ranks


def _meeting(rank: int, world: int) -> TCPStore:
    """Make the store in which the trainers meet: it listens on rank 0's node, only at the address Ray uses.

    Ray Train's own process group, and every store that PyTorch opens itself, listen on all interfaces.
    """
    address: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    if address.startswith("127."):
        os.environ.update(GLOO_SOCKET_IFNAME="lo", NCCL_SOCKET_IFNAME="lo")
    listener = None
    if rank == 0:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.create_server((address, 0), family=family)
    host, port = broadcast_from_rank_zero(listener.getsockname()[:2] if listener else None)
    served = listener.detach() if listener else None
    return TCPStore(
        host, port, world, rank == 0, STEP_TIMEOUT, wait_for_workers=False, master_listen_fd=served
    )


def _lead(job: Job, ranks: Distributed) -> Trained:
    with _run_folder(job.run, job.reports.put) as folder:
        if job.resuming and not (folder.path / "config.toml").is_file():
            raise InfrastructureError(
                f"the trainer was lost, and {folder.path} is not where another one was started: "
                "keep runs on storage that all nodes share, or at a URL (--run s3://...)"
            )
        if ranks.world > 1:
            _upload(folder)
        with leading(ranks) as followers:
            return asyncio.run(_train(job, folder, followers))


@contextmanager
def _run_folder(run: str, on_warning: Callable[[str], None]) -> Iterator[RunFolder]:
    """Open the run's folder on this node; with a run at a URL, the next trainer may be on any node."""
    if "://" in run and (aside := set_aside(run)):
        on_warning(
            f"{run} went on elsewhere after a trainer was lost on this node; what it left is in {aside}"
        )
    with run_folder(run, on_warning) as folder:
        yield folder
    hand_over(folder.path)


async def _train(job: Job, folder: RunFolder, followers: FollowerRanks) -> Trained:
    launcher = OnRay(job.config, job.engines, job.hosts, followers)
    async with job.open_judge() as judge:
        return await train(job.config, folder, launcher, job.reports.put, judge)


@dataclass(frozen=True)
class OnRay:
    """The launcher on a Ray cluster: workers and engines are actors, and the trainers share the learner."""

    config: TrainConfig
    engines: Sequence[str]  # the names of the engines' hosts
    hosts: Sequence[WorkerHost]
    followers: FollowerRanks

    def open_workers(self, context: WorkerContext) -> AbstractContextManager[RolloutWorkers]:
        return ray_workers(self.engines, self.hosts, context)

    def open_learner(
        self, checkpoint: Path, encoder: Encoder, algorithm: Algorithm, context: LearnerContext
    ) -> Learner:
        return self.followers.open_learner(checkpoint, encoder, algorithm, self.config.update, context)


def _follow(job: Job, ranks: Distributed) -> None:
    if "://" not in job.run:
        follow(job.config, ranks)
        return
    home = local_folder(job.run)
    here = home.with_name(f"{home.name}-{ranks.rank}")  # a killed trainer leaves it to the next one
    try:
        follow(job.config, ranks, partial(fetched, job.run, here))
    finally:
        shutil.rmtree(here, ignore_errors=True)


def fetched(url: str, here: Path, checkpoint: Path) -> Path:
    """Download the checkpoint of that name from the run at `url` into `here`; return its folder."""
    name = f"checkpoints/{checkpoint.name}"
    for other in here.glob("checkpoints/*"):
        if other.name != checkpoint.name:
            shutil.rmtree(other)
    pull(Storage(url), here, under=f"{name}/")
    return here / name


def _upload(folder: RunFolder) -> None:
    """Wait until the checkpoints are at the run's URL, where trainers on other nodes fetch them."""
    patience = time.monotonic() + _UPLOAD_S
    while (mirror := folder.check().get("mirror")) and (folder.path / "checkpoints").is_dir():
        if mirror["rounds"] or time.monotonic() > patience:
            return
        time.sleep(0.1)
