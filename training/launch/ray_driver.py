"""The driver of a run on a Ray cluster: makes actors, has Ray Train start the trainers, replaces lost ones.

Ray Train places the trainers, starts them together and ends them all when one ends. Whether they are started
again is decided here: Ray Train itself would also restart them after a mistake in the recipe.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError
from ray.train import ControllerError, FailureConfig, RunConfig, ScalingConfig, WorkerGroupError
from ray.train.backend import Backend
from ray.train.torch import TorchConfig, TorchTrainer
from ray.train.v2._internal.exceptions import WorkerGroupStartupTimeoutError
from ray.util.queue import Queue
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from guiagent.errors import GuiAgentError, InfrastructureError
from training import placement
from training.config import TrainConfig
from training.distributed.parallel import LostProcess
from training.launch.ray_engines import EngineHost
from training.launch.ray_trainer import Job, OpenJudge, work
from training.launch.ray_workers import RolloutHost
from training.metrics.observer import Progress
from training.train import Trained

ENGINE_CPUS, WORKER_CPUS, TRAINER_CPUS = 1.0, 0.5, 1.0
_PATIENCE_S = 30.0
_FAREWELL_S = 10.0  # time for engines to clean up
_NEVER: dict[str, Any] = {"max_failures": 0, "controller_failure_limit": 0, "max_preemption_failures": 0}
_MANY_CALLS = 10_000  # calls at once to an actor: most of them wait for others


async def drive(
    config: TrainConfig,
    run: str,
    farm: tuple[str, str],
    on_progress: Callable[[Progress], None],
    on_warning: Callable[[str], None],
    open_judge: OpenJudge,
    scratch: Path,
) -> Trained:
    """Run `training.launch.ray.train_on_ray` on the cluster that this process is connected to.

    Ray Train keeps its own state in `scratch`, a local folder.
    """
    actors: list[Any] = []
    engines: list[str] = []
    reports = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": _here()})
    try:
        if unused := _unused_gpus(config):
            on_warning(unused)
        of_engines, _, _ = placement.on_ray(config)
        engines = [f"engine-{secrets.token_hex(8)}" for _ in of_engines]
        for number, (name, gpus) in enumerate(zip(engines, of_engines, strict=True)):
            host = host_of(EngineHost, ENGINE_CPUS, gpus).options(name=name)
            actors.append(host.remote(placement.of_engine(config, number), secrets.randbits(31)))
        slots = [
            list(range(first, config.rollout.devices, config.ray.workers))
            for first in range(min(config.ray.workers, config.rollout.devices))
        ]
        workers = host_of(RolloutHost, WORKER_CPUS, 0)
        hosts = [(workers.remote(config, farm, engines, share), share) for share in slots]
        actors += [host for host, _ in hosts]
        await _wait_for(actors, on_warning)
        begun = False

        def progress(update: Progress) -> None:
            nonlocal begun
            begun = True
            on_progress(update)

        lost = 0
        while lost <= config.ray.restarts:
            job = Job(config, run, engines, hosts, open_judge, begun, reports)
            try:
                return await _trained(job, progress, on_warning, scratch)
            except NoRoom:
                on_warning(f"waiting for room for {_wanted(config)}; the cluster has {_resources()}")
            except LostTrainer as error:
                lost += 1
                successor = "; another one goes on" if lost <= config.ray.restarts else ""
                on_warning(f"the trainer was lost ({error}){successor}")
        raise InfrastructureError(
            f"the trainer was lost {lost} times; {run} is whole up to its last commit, "
            "and the same command goes on from there"
        )
    finally:
        reports.shutdown(force=True)
        ended = [actor.close.remote() for actor in actors[: len(engines)]]
        if ended:
            ray.wait(ended, num_returns=len(ended), timeout=_FAREWELL_S)
        for actor in actors:
            ray.kill(actor)


class NoRoom(Exception):
    """The cluster does not have room for all trainers at once yet."""


class LostTrainer(Exception):
    """A trainer was lost, and none of them reported an error."""


async def _trained(
    job: Job, on_progress: Callable[[Progress], None], on_warning: Callable[[str], None], scratch: Path
) -> Trained:
    """Start all trainers once and wait for the result. Raises what they raise, NoRoom and LostTrainer."""
    fitting = ThreadPoolExecutor(1)
    # In a thread Ray Train does not handle Ctrl-C. If cancelled, it ends with the connection to the cluster.
    ended = asyncio.wrap_future(fitting.submit(trainers(lambda: work(job), job.config, scratch).fit))
    fitting.shutdown(wait=False)
    ended.add_done_callback(lambda _: None if ended.cancelled() else job.reports.put(None))
    trained: Trained | None = None
    try:
        while (news := await job.reports.get_async()) is not None:
            match news:
                case Trained():
                    trained = news
                case Progress():
                    on_progress(news)
                case warning:
                    on_warning(warning)
    finally:
        ended.cancel()
    if trained is not None:  # whatever happened to the trainers after that
        return trained
    try:
        await ended
    except ControllerError as error:
        if isinstance(error.controller_failure, WorkerGroupStartupTimeoutError):
            raise NoRoom from error
        raise LostTrainer(line(error.controller_failure)) from error
    except WorkerGroupError as error:
        raise _failure(error.worker_failures) from error
    except RayActorError as error:  # one of Ray Train's own actors
        raise LostTrainer(line(error)) from error
    raise RuntimeError("the trainers ended without a word")


def _failure(errors: Mapping[int, Exception]) -> Exception:
    """Choose the error to raise from those of an attempt, by rank.

    A LostProcess only says that another trainer was lost, so any other error comes first.
    """
    lost = [error for error in errors.values() if _is_lost(error)]
    if lost:
        return LostTrainer(line(lost[0]))
    said = [error for error in errors.values() if not isinstance(error, LostProcess)]
    ours = [error for error in said if isinstance(error, GuiAgentError)]
    return next(iter([*ours, *said]), None) or LostTrainer(line(errors[min(errors)]))


def _is_lost(error: Exception) -> bool:
    """Whether Ray reports a lost process or node, rather than an error that an actor raised."""
    return type(error).__module__.startswith("ray.") and not isinstance(error, RayTaskError)


class _OwnGroup(TorchConfig):
    """Keeps Ray Train from making a process group: `training.launch.ray_trainer` makes a less exposed one."""

    @property
    def backend_cls(self) -> type[Backend]:
        return _SharedDevices


class _SharedDevices(Backend):
    share_cuda_visible_devices = True  # among a node's trainers; $LOCAL_RANK selects one


def trainers(loop: Callable[[], None], config: TrainConfig, scratch: Path) -> TorchTrainer:
    """Make a Ray Train job that runs `loop` once in every trainer."""
    _, workers, gpus = placement.on_ray(config)
    resources = {"CPU": TRAINER_CPUS} | ({"GPU": float(gpus)} if gpus else {})
    return TorchTrainer(
        loop,
        torch_config=_OwnGroup(),
        scaling_config=ScalingConfig(num_workers=workers, use_gpu=gpus > 0, resources_per_worker=resources),
        run_config=RunConfig(
            name="train",
            storage_path=str(scratch),
            failure_config=FailureConfig(**_NEVER),
        ),
    )


async def _wait_for(actors: Sequence[Any], on_warning: Callable[[str], None]) -> None:
    """Wait until all actors run, on nodes that may still have to join; warn about what it waits for."""
    waiting = {asyncio.wrap_future(actor.__ray_ready__.remote().future()) for actor in actors}
    while waiting:
        done, waiting = await asyncio.wait(waiting, timeout=_PATIENCE_S)
        if waiting:
            many = f"{len(waiting)} of {len(actors)} actors"
            on_warning(f"waiting for {many} to start; the cluster has {_resources()}")
        for started in done:
            try:
                started.result()
            except RayActorError as error:
                last = str(error).strip().splitlines()[-1].strip()
                raise InfrastructureError(f"an actor of this run cannot start on its node: {last}") from error


def _wanted(config: TrainConfig) -> str:
    _, workers, gpus = placement.on_ray(config)
    return f"{workers} trainers{' with a GPU each' if gpus else ''}"


def _unused_gpus(config: TrainConfig) -> str | None:
    """Warn of a cluster with GPUs and a recipe that places nothing on them."""
    has = int(ray.cluster_resources().get("GPU", 0))  # type: ignore[no-untyped-call]
    if config.placement is not None or not has:
        return None
    return f"the cluster has {has} GPUs, and without [placement] the recipe uses none of them"


def _resources() -> str:
    has = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return f"{has.get('CPU', 0):g} CPUs and {has.get('GPU', 0):g} GPUs"


def _here() -> NodeAffinitySchedulingStrategy:
    """Place an actor on this process's node: the run does not outlive this process anyway."""
    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)


def host_of(host: type, cpus: float, gpus: float) -> Any:
    """Make an actor class whose actors are started again, on any node, whenever they are lost."""
    remote: Any = ray.remote  # its type hints lack these arguments, and classes
    return remote(
        num_cpus=cpus,
        num_gpus=gpus,
        max_restarts=-1,
        max_task_retries=0,
        max_concurrency=_MANY_CALLS,
        scheduling_strategy="SPREAD",
    )(host)


def line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
