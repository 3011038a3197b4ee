"""Training on whole trajectories: beside TRL's GRPOTrainer, and beside our own model fed step by step."""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from guiagent.types import Trajectory
from tests.bench import peers
from tests.bench.packed import checkpoint, frames, trajectory
from tests.bench.peers import PeerMissing
from tests.bench.rows import Arm, Row, against, at_least, interleave, noted
from tests.bench.small_vlm import ACTION_TOKENS, TURNS, WINDOW
from training.config import OptimizationConfig
from training.inputs.contexts import Context, contexts
from training.inputs.encoder import Encoder
from training.inputs.packing import Branch, PackedBatch, tree
from training.model.network import Checkpoints, Network, Placement

_STEPS = 4  # optimiser steps in a process; the first one more, which is not counted
_REPEATS = 3


def rows(rounds: int) -> Iterator[Row]:
    yield from _beside_trl(rounds)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        encoder = Encoder(checkpoint(Path(folder)))
        network = Network(
            Checkpoints(encoder.checkpoint, encoder.checkpoint),
            encoder,
            OptimizationConfig(),
            Placement(torch.device("cpu")),
        )
        for turns in (TURNS, 2 * TURNS):
            yield _beside_steps(rounds, network, encoder, turns)


def _beside_trl(rounds: int) -> Iterator[Row]:
    """One process a measurement, so that memory is each one's own. Action tokens are as many on all sides."""
    ours = _Runs(lambda: Path(sys.executable), "tests.bench.packed")
    same = _Runs(peers.trl, "tests.bench.peers.trl", "growing")
    full = _Runs(peers.trl, "tests.bench.peers.trl", "full")
    interleave(rounds, ours.tokens, same.tokens, full.tokens)
    if ours.tokens.missing:
        raise RuntimeError(ours.tokens.missing)
    name = f"training, {TURNS} actions"
    row = against(f"{name}, same contexts, against TRL", "action tokens/s", ours.tokens, same.tokens, 2.4)
    yield noted(row, f"{ours.screens} screens for its {same.screens}")
    row = against(
        f"{name}, against TRL with {WINDOW} screens an action", "action tokens/s", ours.tokens, full.tokens, 3
    )
    yield noted(row, f"{ours.screens} screens for its {full.screens}")
    name = f"{name}, same contexts, memory above the model, against TRL"
    yield against(name, "MB at peak", ours.memory, same.memory, 1.9, less=True)


class _Runs:
    """A program that trains, and what its runs found. A screen counts for every action whose context shows
    it."""

    def __init__(self, python: Callable[[], Path], module: str, *arguments: str) -> None:
        self._python, self._module, self._arguments = python, module, arguments
        self.tokens, self.memory = Arm(self._run), Arm(self._run)
        self.screens = 0

    def _run(self) -> float:
        """One run measures both; the first is told by returning it."""
        try:
            found = peers.figures(self._python(), self._module, _STEPS, *self._arguments)
        except PeerMissing as error:
            self.memory.missing = str(error)
            raise
        self.screens = int(found["images"])
        self.memory.figures.append(found["peak_mb"])
        return TURNS * ACTION_TOKENS / found["seconds"]


def _beside_steps(rounds: int, network: Network, encoder: Encoder, turns: int) -> Row:
    """Forward and backward pass of an episode with its full history, packed and step by step; no padding in
    either.

    The goal is set by tokens, of which packing saves more than of operations: attention is quadratic, so the
    steps' shorter rows have less of it a token, and the instruction, which every step repeats, is no screen.
    The note says what would be reached if time went by operations alone; below it, packing loses something.
    """
    screens = frames(turns)
    whole = trajectory(encoder, screens, turns, None)

    def packed(branches: list[Branch]) -> PackedBatch:
        return network.pack([branches], screens.__getitem__)

    together = [packed(tree(contexts(whole), encoder.image_token))]
    apart = [packed([Branch(step)]) for step in _steps(whole)]
    fewer = _tokens(apart) / _tokens(together)
    operations = _flops(network, apart) / _flops(network, together)

    def measure() -> float:
        pairs = [(_seconds(network, apart), _seconds(network, together)) for _ in range(_REPEATS)]
        return statistics.median(slow / fast for slow, fast in pairs) / fewer

    arm = Arm(measure)
    _seconds(network, together)
    interleave(rounds, arm)
    name = f"packed full history of {turns} steps, {fewer:.1f}x fewer tokens"
    row = at_least(name, "of that in time", arm, 0.9)
    return noted(row, f"{operations:.1f}x fewer FLOPs, which is {operations / fewer:.3f} of that")


def _steps(whole: Trajectory) -> Iterator[Context]:
    """Each step as a sequence of its own: all that came before it, and what it sampled."""
    (context,) = contexts(whole)
    for turn in range(len(whole.steps)):
        end = len(context.turns) - context.turns[::-1].index(turn)
        own = [s and t == turn for s, t in zip(context.sampled, context.turns, strict=True)]
        yield Context(
            context.ids[:end],
            own[:end],
            context.logprobs[:end],
            context.turns[:end],
            context.frames[: turn + 1],
        )


def _tokens(packs: list[PackedBatch]) -> int:
    return sum(len(one.ids) for one in packs)


def _flops(network: Network, packs: list[PackedBatch]) -> float:
    return sum(network.flops(one) for one in packs)


def _seconds(network: Network, packs: list[PackedBatch]) -> float:
    began = time.perf_counter()
    for one in packs:
        (-network.score(one).logprobs.sum()).backward()
    seconds = time.perf_counter() - began
    network.model.zero_grad()
    return seconds
