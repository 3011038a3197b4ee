"""The driver of a run on a Ray cluster: makes its actors, follows its trainer, and replaces a lost one."""

import secrets
from collections.abc import Callable, Sequence
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError

from guiagent.errors import InfrastructureError
from training.config import TrainConfig
from training.launch.ray_engines import EngineHost, raise_bugs
from training.launch.ray_players import PlayersHost
from training.launch.ray_trainer import OpenJudge, TrainerHost
from training.train import Progress, Trained

ENGINE_CPUS, PLAYERS_CPUS, TRAINER_CPUS = 1.0, 0.5, 1.0
_PATIENCE_S = 30.0
_MANY_CALLS = 10_000  # at once, of an actor that waits for others most of the time


def drive(
    config: TrainConfig,
    run: str,
    farm: tuple[str, str],
    on_progress: Callable[[Progress], None],
    on_warning: Callable[[str], None],
    open_judge: OpenJudge,
) -> Trained:
    """What `training.launch.ray.train_on_ray` does on the cluster that this process is connected to."""
    actors: list[Any] = []
    try:
        engines = [f"engine-{secrets.token_hex(8)}" for _ in range(config.ray.engines)]
        for number, name in enumerate(engines):
            host = host_of(EngineHost, ENGINE_CPUS, config.ray.gpus).options(name=name)
            actors.append(host.remote(_of_engine(config, number), secrets.randbits(31)))
        slots = [
            list(range(first, config.rollout.devices, config.ray.workers))
            for first in range(min(config.ray.workers, config.rollout.devices))
        ]
        players = host_of(PlayersHost, PLAYERS_CPUS, 0)
        hosts = [(players.remote(config, farm, engines, share), share) for share in slots]
        actors += [host for host, _ in hosts]
        _wait_for(actors, on_warning)
        for trial in range(config.ray.restarts + 1):
            make: Any = ray.remote(TrainerHost)
            trainer = make.options(num_cpus=TRAINER_CPUS, num_gpus=config.ray.gpus).remote(
                config, run, engines, hosts
            )
            actors.append(trainer)
            try:
                return _followed(trainer.run.remote(open_judge, trial > 0), on_progress, on_warning)
            except RayActorError as error:
                on_warning(f"the trainer was lost ({line(error)}); another one goes on")
        raise InfrastructureError(
            f"the trainer was lost {config.ray.restarts + 1} times; {run} is whole up to its last commit, "
            "and the same command goes on from there"
        )
    finally:
        for actor in actors:
            ray.kill(actor)


def _wait_for(actors: Sequence[Any], on_warning: Callable[[str], None]) -> None:
    """Until all of them run, on nodes that may have to come first; says what it waits for."""
    waiting = [actor.__ray_ready__.remote() for actor in actors]
    while waiting:
        done, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=_PATIENCE_S)
        if waiting:
            cpus = ray.cluster_resources().get("CPU", 0)  # type: ignore[no-untyped-call]
            on_warning(
                f"waiting for {len(waiting)} of {len(actors)} actors to start; the cluster has {cpus:g} CPUs"
            )
        try:
            ray.get(done)
        except RayActorError as error:
            last = str(error).strip().splitlines()[-1].strip()
            raise InfrastructureError(f"an actor of this run cannot start on its node: {last}") from error


def _followed(
    news: Any, on_progress: Callable[[Progress], None], on_warning: Callable[[str], None]
) -> Trained:
    for reference in news:
        try:
            match ray.get(reference):
                case Trained() as trained:
                    return trained
                case Progress() as progress:
                    on_progress(progress)
                case warning:
                    on_warning(warning)
        except RayActorError:
            raise
        except RayError as error:
            raise_bugs(error)
            raise
    raise RuntimeError("the trainer ended without a word")


def host_of(host: type, cpus: float, gpus: float) -> Any:
    """An actor class whose actors are started again, anywhere, as often as they are lost."""
    remote: Any = ray.remote  # whose types know neither of these arguments nor of classes
    return remote(
        num_cpus=cpus,
        num_gpus=gpus,
        max_restarts=-1,
        max_task_retries=0,
        max_concurrency=_MANY_CALLS,
        scheduling_strategy="SPREAD",
    )(host)


def _of_engine(config: TrainConfig, number: int) -> TrainConfig:
    """With several engines each has its share of the vLLM servers that run already."""
    vllm = config.rollout.vllm
    if vllm is None or not vllm.urls:
        return config
    share = vllm.model_copy(update={"urls": vllm.urls[number :: config.ray.engines]})
    return config.model_copy(update={"rollout": config.rollout.model_copy(update={"vllm": share})})


def line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
