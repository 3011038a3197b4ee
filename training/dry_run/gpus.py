"""What every GPU of a run holds over a step: a row for each, from its placement and the model's sizes."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from training.config import PlacementConfig, TrainConfig
from training.dry_run import memory
from training.dry_run.finding import Finding
from training.dry_run.memory import RESERVE, Learner, Pass
from training.engine.factory import cache_bytes
from training.model.architecture import Architecture

GIB = 2**30
_SHARE_OF_FREE = 0.25  # of the memory that is free when it starts, for an engine beside the trainer


@dataclass(frozen=True)
class GpuRow:
    """Bytes on a GPU at the peak of a step; equal GPUs have one row."""

    gpus: tuple[int, ...]
    parts: tuple[str, ...] = ()  # "trainer", "vLLM", "engine"
    weights: int = 0
    gradients: int = 0
    moments: int = 0
    others: int = 0  # a frozen copy, kept features of screenshots, whole layers of FSDP
    activations: int = 0
    logits: int = 0
    cache: int = 0  # keys and values, and the passes of an engine that takes a share

    @property
    def total(self) -> int:
        """All of it, and the reserve for CUDA itself."""
        numbers = (self.weights, self.gradients, self.moments, self.others)
        return sum(numbers) + self.activations + self.logits + self.cache + RESERVE


class Run(NamedTuple):
    """What the rows are computed from."""

    config: TrainConfig
    placement: PlacementConfig
    sizes: Architecture
    learner: Learner
    longest: Pass
    gib: float  # memory of each GPU


@dataclass
class _Uses:
    rows: dict[int, GpuRow] = field(default_factory=dict)

    def add(self, gpu: int, part: str, **more: int) -> None:
        row = self.rows.get(gpu, GpuRow((gpu,)))
        sums = {name: getattr(row, name) + number for name, number in more.items()}
        self.rows[gpu] = replace(row, parts=(*row.parts, part), **sums)


def rows(run: Run) -> list[GpuRow]:
    """Return a row for every GPU that the run uses, equal ones together."""
    uses, sizes, placement = _Uses(), run.sizes, run.placement
    held = memory.held(sizes, run.learner)
    peak = memory.peak(sizes, run.learner, run.longest)
    for gpu in placement.trainers:
        uses.add(
            gpu,
            "trainer",
            weights=held.weights,
            gradients=held.gradients,
            moments=held.moments,
            others=held.others + peak.gathered,
            activations=peak.kept + peak.layer,
            logits=peak.logits,
        )
    whole = sizes.itemsize * sizes.parameters
    vllm = run.config.rollout.vllm
    for engine in placement.engines:
        for gpu in engine:
            weights, share = whole // len(engine), int(placement.engine_memory * run.gib * GIB)
            kept = share - weights if vllm is not None else cache_bytes(share, weights)
            uses.add(gpu, "vLLM" if vllm is not None else "engine", weights=weights, cache=max(0, kept))
    if vllm is None and not placement.engines:  # it starts before the trainer, and takes of what is free
        free = int(run.gib * GIB) - whole
        uses.add(placement.trainers[0], "engine", weights=whole, cache=max(0, int(_SHARE_OF_FREE * free)))
    return _joined(uses.rows[gpu] for gpu in sorted(uses.rows))


def _joined(found: Iterator[GpuRow]) -> list[GpuRow]:
    joined: list[GpuRow] = []
    for row in found:
        if joined and replace(joined[-1], gpus=()) == replace(row, gpus=()):
            joined[-1] = replace(joined[-1], gpus=(*joined[-1].gpus, *row.gpus))
        else:
            joined.append(row)
    return joined


def findings(run: Run, found: list[GpuRow], longest_context: int) -> Iterator[Finding]:
    """Yield lines on what the rows mean: the pass that was counted, caches, weight updates, what is over."""
    sizes, points = run.sizes, memory.phases(run.sizes, run.learner, run.longest)
    peak = max(points, key=lambda point: point.total)
    others = ", ".join(f"{gib(point.total)} in {point.name}" for point in points if point is not peak)
    yield Finding(
        "pass",
        f"{run.longest.tokens:,} tokens, {run.longest.sampled:,} of them sampled: {gib(peak.total)} at its "
        f"peak, in {peak.name} ({gib(peak.kept)} kept by all layers, {gib(peak.layer)} by one); {others}",
    )
    for engine in run.placement.engines[:1]:
        yield _engine(run, engine, longest_context)
    whole = 4 * sizes.parameters
    yield Finding(
        "update",
        f"{gib(4 * sizes.largest)} on a trainer's GPU, a tensor at a time; {gib(whole)} of main memory where "
        "the run is, for a copy in float32",
    )
    for row in found:
        if row.total > run.gib * GIB:
            yield Finding("memory", missing=_over(run, row))


def _engine(run: Run, engine: tuple[int, ...], longest_context: int) -> Finding:
    whole = run.sizes.itemsize * run.sizes.parameters
    weights, share = whole // len(engine), int(run.placement.engine_memory * run.gib * GIB)
    token = run.sizes.kv_bytes(len(engine))
    left = share - weights
    needed = token * longest_context
    said = f"{token / 1024:,.0f} KiB of keys and values a token on each GPU of an engine"
    if left < needed:
        return Finding(
            "cache",
            missing=f"{said}: a context of {longest_context:,} tokens takes {gib(needed)}, and "
            f"placement.engine_memory leaves {gib(max(0, left))} beside the weights: raise it, or give the "
            "engine more GPUs",
        )
    return Finding(
        "cache", f"{said}: room for up to {left // needed:,} contexts of {longest_context:,} tokens"
    )


def _over(run: Run, row: GpuRow) -> str:
    """Say what is over, with a way out that helps."""
    update = run.config.update
    ways = []
    if "trainer" in row.parts:
        if not update.gradient_checkpointing:
            ways.append("set update.gradient_checkpointing")
        if update.precision == "float32":
            ways.append('set update.precision = "bfloat16"')
        if row.activations + row.logits > run.gib * GIB / 4:
            ways.append("lower update.batch_tokens")
        if len(row.parts) > 1:
            ways.append("give the engine a GPU of its own in [placement]")
        if row.weights + row.gradients + row.moments > run.gib * GIB / 4:
            ways.append("place more trainers")
    ways = ways or ["lower placement.engine_memory, or give the engine more GPUs"]
    return f"GPU {numbers(row.gpus)} needs {gib(row.total)}, and has {run.gib:g} GiB: {', or '.join(ways)}"


def gib(count: int) -> str:
    return f"{count / GIB:,.1f} GiB"


def numbers(gpus: tuple[int, ...]) -> str:
    """Write GPUs as ranges: "0-3, 8"."""
    ranges: list[list[int]] = []
    for gpu in gpus:
        if ranges and gpu == ranges[-1][-1] + 1:
            ranges[-1].append(gpu)
        else:
            ranges.append([gpu])
    return ", ".join(str(some[0]) if len(some) == 1 else f"{some[0]}-{some[-1]}" for some in ranges)
