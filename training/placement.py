"""Placement: which GPUs the trainers and engines of a run have, its defaults, and what must hold of it.

Pure: the GPUs of a machine are a number that the caller counted.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from guiagent.errors import UsageError
from training.config import PlacementConfig, TrainConfig

Launch = Literal["process", "torchrun", "ray"]
_SHARED = 0.4  # share of a GPU's memory that a vLLM server has by default beside the trainer, who needs more
PROCESSES = 2  # of torchrun, if nobody says


class Site(NamedTuple):
    """How a run is started, and on what. `gpus` are those that each host shows; None if not known yet."""

    launch: Launch = "process"
    processes: int | None = None  # that share the learner under torchrun; None: as many as placed
    gpus: int | None = 0


def placed(config: TrainConfig, site: Site) -> TrainConfig:
    """Return the config with the placement that the run has: the recipe's, or by default; None without GPUs.

    Raises UsageError if the placement cannot be.
    """
    made = config.model_copy(update={"placement": config.placement or default(config, site)})
    if problem := next(problems(made, site), None):
        raise UsageError(problem)
    return made


def processes(config: TrainConfig, asked: int | None) -> int:
    """Return how many processes `--launch torchrun` starts: as asked, or one for each placed trainer."""
    return asked or (len(config.placement.trainers) if config.placement else PROCESSES)


def launch_of(placement: PlacementConfig | None) -> Launch:
    """Return the way to start a run that has this placement: the least that reaches its GPUs."""
    if placement is None:
        return "process"
    every = [*placement.trainers, *(gpu for engine in placement.engines for gpu in engine)]
    if max(every) >= placement.gpus_per_host:
        return "ray"
    return "torchrun" if len(placement.trainers) > 1 else "process"


def default(config: TrainConfig, site: Site) -> PlacementConfig | None:
    """Place a recipe that does not say: trainers from GPU 0 on, a vLLM server on the GPU after them.

    Where no GPU is left for the server it shares the first one. On Ray nothing has a GPU by default.
    """
    if not site.gpus or site.launch == "ray":
        return None
    count = 1 if site.launch == "process" else site.processes or PROCESSES
    trainers = tuple(range(count))
    if not starts_servers(config):
        return PlacementConfig(trainers=trainers)
    if count < site.gpus:
        return PlacementConfig(trainers=trainers, engines=((count,),))
    return PlacementConfig(trainers=trainers, engines=((0,),), engine_memory=_SHARED)


def starts_servers(config: TrainConfig) -> bool:
    """Whether a run starts vLLM servers of its own."""
    return config.rollout.vllm is not None and not config.rollout.vllm.urls


def problems(config: TrainConfig, site: Site) -> Iterator[str]:
    """Yield what is wrong with a config's placement: one line each, with the way out."""
    placement = config.placement
    if placement is None:
        return
    yield from _of_engines(config, placement, site)
    yield from _of_trainers(config, placement, site)
    yield from _of_memory(placement)
    if site.launch == "ray":
        yield from _on_ray(config, placement)
    elif site.gpus is not None:
        used = {*placement.trainers, *(gpu for engine in placement.engines for gpu in engine)}
        if missing := sorted(gpu for gpu in used if gpu % placement.gpus_per_host >= site.gpus):
            here = f"{site.gpus} here, counted from 0" if site.gpus else "none here"
            yield f"[placement] asks for GPU {missing[0]}, and there are {here}: change it, or leave it out"


def _of_engines(config: TrainConfig, placement: PlacementConfig, site: Site) -> Iterator[str]:
    engines, per_host = placement.engines, placement.gpus_per_host
    if starts_servers(config) and not engines:
        yield "rollout.vllm has no GPU: name those of each server, such as placement.engines = [[1]]"
    if config.rollout.vllm is not None and config.rollout.vllm.urls and engines:
        yield (
            "the servers of rollout.vllm.urls are placed by who starts them: leave out placement.engines, or "
            "the urls"
        )
    for engine in engines:
        if len(set(engine)) < len(engine):
            yield f"placement.engines has one GPU twice in an engine: {list(engine)}"
        if len({gpu // per_host for gpu in engine}) > 1:
            yield (
                f"the GPUs {list(engine)} of an engine are of more than one host: with "
                f"placement.gpus_per_host = {per_host} a host ends after each {per_host}"
            )
        if config.rollout.vllm is None and len(engine) > 1:
            yield f"only a vLLM server takes several GPUs: add rollout.vllm, or give {list(engine)} one each"
    if site.launch == "ray":
        return
    if config.rollout.vllm is None and len(engines) > 1:
        yield "the trainer's process has one engine: name one in placement.engines, or add rollout.vllm"
    if elsewhere := sorted({gpu for engine in engines for gpu in engine if gpu >= per_host}):
        yield (
            f"engines are started on the first host, and GPU {elsewhere[0]} is of another one: use --launch "
            "ray, or start its server there and name it in rollout.vllm.urls"
        )


def _of_trainers(config: TrainConfig, placement: PlacementConfig, site: Site) -> Iterator[str]:
    trainers = placement.trainers
    if twice := [gpu for gpu, count in Counter(trainers).items() if count > 1]:
        yield f"placement.trainers has GPU {twice[0]} twice: NCCL takes one process on a GPU"
    if site.launch == "process" and len(trainers) > 1:
        yield (
            f"placement.trainers names {len(trainers)} GPUs, and one process has one: use --launch torchrun"
        )
    if site.launch == "torchrun" and site.processes not in (None, len(trainers)):
        yield (
            f"--processes {site.processes} is not the number of GPUs in placement.trainers, {len(trainers)}: "
            "leave it out"
        )
    if config.update.optimizer == "adamw8bit" and len(trainers) > 1:
        yield 'update.optimizer "adamw8bit" is for one trainer: set it to "adamw", whose moments are sharded'


def _of_memory(placement: PlacementConfig) -> Iterator[str]:
    """Yield GPUs whose engines ask for more than all of it, or leave nothing to a trainer."""
    engines = Counter(gpu for engine in placement.engines for gpu in engine)
    for gpu, count in sorted(engines.items()):
        asked = count * placement.engine_memory
        if asked > 1 or (asked == 1 and gpu in placement.trainers):
            trainer = " and a trainer" if gpu in placement.trainers else ""
            yield (
                f"GPU {gpu} has {count} engines{trainer}, and they ask for {asked:g} of its memory: lower "
                "placement.engine_memory"
            )


def _on_ray(config: TrainConfig, placement: PlacementConfig) -> Iterator[str]:
    """Yield what Ray cannot do: its actors own whole GPUs, and it chooses which."""
    owners = Counter([*placement.trainers, *(gpu for engine in placement.engines for gpu in engine)])
    if shared := [gpu for gpu, count in owners.items() if count > 1]:
        yield (
            f"on Ray every trainer and engine has its GPUs to itself, and GPU {shared[0]} is placed twice: "
            "give each others, or use --launch torchrun"
        )
    for name in sorted({"engines", "trainers"} & config.ray.model_fields_set):
        if name == "trainers" or placement.engines:
            yield f"[placement] says how many {name} there are: leave out ray.{name}"


def undivided(parallel: int, heads: Mapping[str, int]) -> str | None:
    """Say which heads of a model cannot be divided among `parallel` GPUs of a vLLM server; None: all can.

    Fewer key and value heads than GPUs are repeated on several, if their numbers divide.
    """
    for name, count in heads.items():
        repeated = name.startswith("key") and parallel % count == 0
        if count % parallel and not repeated:
            return (
                f"an engine of placement.engines has {parallel} GPUs, and the model's {count} {name} do not "
                "divide by that: give it another number"
            )
    return None


def heads_of(config: Mapping[str, object]) -> dict[str, int]:
    """Return the numbers of heads of a checkpoint's `config.json`, for `undivided`."""
    found: dict[str, int] = {}
    text, vision = config.get("text_config", config), config.get("vision_config", {})
    named = [
        ("attention heads", text, "num_attention_heads"),
        ("key heads", text, "num_key_value_heads"),
        ("vision heads", vision, "num_heads"),
    ]
    for name, part, key in named:
        if isinstance(part, Mapping) and isinstance(part.get(key), int):
            found[name] = int(part[key])
    return found


def gpu_of(placement: PlacementConfig, rank: int) -> int:
    """Return the GPU of a trainer, as its host counts them."""
    return placement.trainers[rank] % placement.gpus_per_host


def share_of(config: TrainConfig, rank: int) -> float:
    """Return the share of its GPU's memory that a trainer may take: what vLLM servers on it leave."""
    placement = config.placement
    if placement is None or not starts_servers(config):  # an engine in rank 0's process is part of that
        return 1.0
    beside = sum(placement.trainers[rank] in engine for engine in placement.engines)
    return 1.0 - beside * placement.engine_memory


def on_ray(config: TrainConfig) -> tuple[list[int], int, int]:
    """Return the GPUs of each engine, the number of trainers, and the GPUs of each trainer, on Ray."""
    placement = config.placement
    if placement is None:
        return [0] * config.ray.engines, config.ray.trainers, 0
    engines = [len(engine) for engine in placement.engines] or [0] * config.ray.engines
    return engines, len(placement.trainers), 1


def of_engine(config: TrainConfig, number: int) -> TrainConfig:
    """Return the config of one engine on Ray, which sees only its own GPUs and counts them from 0.

    Servers that run already are divided among the engines.
    """
    changes: dict[str, object] = {}
    if config.placement is not None:
        gpus = len(config.placement.engines[number]) if config.placement.engines else 0
        engines = (tuple(range(gpus)),) if gpus else ()
        changes["placement"] = config.placement.model_copy(update={"engines": engines}) if gpus else None
    vllm, (engines_of_run, _, _) = config.rollout.vllm, on_ray(config)
    if vllm is not None and vllm.urls:
        share = vllm.model_copy(update={"urls": vllm.urls[number :: len(engines_of_run)]})
        changes["rollout"] = config.rollout.model_copy(update={"vllm": share})
    return config.model_copy(update=changes)
