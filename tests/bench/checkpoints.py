"""What a checkpoint costs the loop that trains, and a version of the weights the network.

The model is random matrices of the size of a small policy, with AdamW's moments: what is copied, written and
sent does not depend on what they compute.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from tests.bench.rows import Arm, Row, against, interleave, noted, reported
from training.checkpoints import checkpoint
from training.checkpoints.saver import Saver
from training.checkpoints.shards import Learned
from training.checkpoints.snapshot import Snapshot
from training.engine.transfer import prepared

_MATRICES, _SIDE = 24, 1024  # 25 million parameters
_BEAT_S = 0.001
_BUCKET = 32 * 2**20


def rows(rounds: int) -> Iterator[Row]:
    torch.set_num_threads(1)
    learned = _learned()
    size = sum(x.nbytes for x in learned.parameters.values()) * 3
    what = f"a checkpoint of {size / 1e6:.0f} MB"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        beside = Arm(lambda: _pause_ms(learned, root / "beside", beside=True))
        awaited = Arm(lambda: _pause_ms(learned, root / "awaited", beside=False))
        copied = Arm(lambda: _copy_ms(learned))
        interleave(rounds, awaited, beside, copied)
        row = against(
            f"pause of training for {what}, against one awaited", "ms", beside, awaited, 2, less=True
        )
        yield noted(row, "the peer is the same checkpoint, for which the loop waits until it has its name")
        yield reported(f"pause of training for {what} (limit: a copy in memory)", "ms", beside, limit=copied)
        in_thread = Arm(lambda: asyncio.run(_silence_ms(lambda: _beside(learned, root / "silent"))))
        on_loop = Arm(lambda: asyncio.run(_silence_ms(lambda: _on_loop(learned))))
        interleave(rounds, on_loop, in_thread)
        row = reported(f"longest silence of the event loop during {what}", "ms", in_thread, on_loop)
        yield noted(row, "beside: while the weights alone are copied on the event loop itself")
    yield _sent(learned)


def _learned() -> Learned:
    torch.manual_seed(0)
    weights = [torch.nn.Parameter(torch.randn(_SIDE, _SIDE)) for _ in range(_MATRICES)]
    optimizer = torch.optim.AdamW(weights, lr=1e-4, fused=True)
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    return Learned({f"layers.{n}.weight": weight for n, weight in enumerate(weights)}, optimizer)


def _pause_ms(learned: Learned, root: Path, *, beside: bool) -> float:
    """How long the loop stands still for a checkpoint; what is still to be written then is not counted."""
    saver, began = Saver(), time.perf_counter()
    snapshot = Snapshot(learned)
    saver.begin(lambda: checkpoint.save(root, 1, snapshot, state={}, rng={}))
    if not beside:
        saver.settle()
    took = time.perf_counter() - began
    saver.wait()
    saver.settle()
    return 1000 * took


def _copy_ms(learned: Learned) -> float:
    """As many bytes, copied once."""
    assert learned.optimizer is not None
    states = learned.optimizer.state.values()
    moments = [x for values in states for x in values.values() if isinstance(x, Tensor)]
    began = time.perf_counter()
    kept = [x.detach().clone() for x in (*learned.parameters.values(), *moments)]
    took = time.perf_counter() - began
    assert len(kept) > _MATRICES
    return 1000 * took


async def _silence_ms(work: Callable[[], Awaitable[None]]) -> float:
    """The longest time between two heartbeats of an event loop while `work` is done."""
    longest, last = 0.0, time.perf_counter()

    async def beat() -> None:
        nonlocal longest, last
        while True:
            await asyncio.sleep(_BEAT_S)
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    beating = asyncio.create_task(beat())
    await asyncio.sleep(10 * _BEAT_S)
    longest = 0.0
    await work()
    await asyncio.sleep(_BEAT_S)
    beating.cancel()
    return 1000 * longest


async def _beside(learned: Learned, root: Path) -> None:
    saver, snapshot = Saver(), await asyncio.to_thread(Snapshot, learned)
    saver.begin(lambda: checkpoint.save(root, 1, snapshot, state={}, rng={}))
    await asyncio.to_thread(saver.settle)


async def _on_loop(learned: Learned) -> None:
    copies = {name: x.detach().to("cpu", copy=True) for name, x in learned.parameters.items()}
    assert len(copies) == _MATRICES
    await asyncio.sleep(0)


def _sent(learned: Learned) -> Row:
    """Bytes, counted: they are the same on every machine."""
    state = {name: x.detach() for name, x in learned.parameters.items()}
    version = prepared(1, state, dict.fromkeys(state, torch.bfloat16), _BUCKET)
    pieces = [piece.end - piece.start for bucket in version.plan.buckets for piece in bucket]
    row = reported(
        "weights sent to an engine in bfloat16 on another host, a version",
        "MB",
        Arm.of(sum(pieces) / 1e6),
        Arm.of(len(save(state)) / 1e6),
    )
    largest = max(sum(piece.end - piece.start for piece in bucket) for bucket in version.plan.buckets)
    return noted(row, f"buckets of up to {largest / 1e6:.0f} MB; beside: a float32 file of it, sent once")
