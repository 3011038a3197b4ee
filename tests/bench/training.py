"""Training on whole trajectories: beside TRL's GRPOTrainer, and beside our own model fed step by step."""

import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch

from tests.bench import peers
from tests.bench.packed import apart, checkpoint, frames, trajectory, write
from tests.bench.peers import PeerMissing
from tests.bench.rows import Arm, Row, against, at_least, interleave, noted
from tests.bench.small_vlm import ACTION_TOKENS, TURNS, WINDOW
from training.config import OptimizationConfig
from training.inputs.contexts import contexts
from training.inputs.encoder import Encoder
from training.inputs.packing import Branch, PackedBatch, tree
from training.model.network import Checkpoints, Network, Placement

Figures = Mapping[str, float]

_UPDATES = 5  # optimiser steps in a process, of which the first is not counted
_REPEATS = 3
_LEAST_ROUNDS = 5  # beside TRL: a ratio without its spread says little
_BATCHES = (1, 2, 4, 8)  # samples in a pass of the peer, which are tried
_TRIES = 2
_TIMES, _LESS_MEMORY = 4.0, 1.9
_SAME_GRADIENT = 1e-3


def rows(rounds: int) -> Iterator[Row]:
    for history, window in ((f"anchored every {WINDOW}", WINDOW), ("in full", TURNS)):
        yield from _beside_trl(max(rounds, _LEAST_ROUNDS), history, window)
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


def _beside_trl(rounds: int, history: str, window: int) -> Iterator[Row]:
    """One process a measurement, in turn, so that memory is each one's own.

    Both learn from the same actions after the same tokens and screenshots (`unequal`). The peer takes passes
    of as many samples as are fastest for it, which is tried first.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, _UPDATES, window)
        ours = _Runs(lambda: Path(sys.executable), "tests.bench.packed", folder, _UPDATES, window)
        sizes = {size: _Runs(peers.trl, "tests.bench.peers.trl", folder, size) for size in _BATCHES}
        interleave(_TRIES, *(one.tokens for one in sizes.values()))
        size, peer = max(sizes.items(), key=lambda one: max(one[1].tokens.figures, default=0.0))
        least = min((min(one.memory.figures) for one in sizes.values() if one.memory.figures), default=0.0)
        peer.forget()
        interleave(rounds, ours.tokens, peer.tokens)
    if ours.tokens.missing:
        raise RuntimeError(ours.tokens.missing)
    what = f"training, {TURNS} actions, history {history}"
    against_trl, memory = f"{what}, against TRL", f"{what}, memory above the model, against TRL"
    row = against(against_trl, "action tokens/s", ours.tokens, peer.tokens, _TIMES)
    of_cpu = against(against_trl, "action tokens per CPU second", ours.of_cpu, peer.of_cpu, _TIMES)
    beside = against(memory, "MB at peak", ours.memory, peer.memory, _LESS_MEMORY, less=True)
    if peer.found:
        differing = unequal(ours.found, peer.found)
        if differing:
            raise RuntimeError(f"the peer's work is not ours: {'; '.join(differing)}")
        found = ours.found
        work = f"{found['tokens']:.0f} tokens and {found['images']:.0f} screens of context on both sides"
        noted(row, f"{rounds} rounds; {work}, {found['packed']:.0f} tokens packed")
        noted(row, f"its passes of {size} samples, {peer.found['padding']:.0f} tokens of padding")
        noted(beside, f"in passes of the size that takes least memory, it takes {least:.0f} MB")
    yield from (row, of_cpu, beside)


def unequal(ours: Figures, peer: Figures) -> list[str]:
    """In what two runs' work differs, in words. The first step's gradient is the sharpest look: it is the
    same only if weights, tokens, pictures, positions, advantages and loss are."""
    names = ("actions", "tokens", "images", "threads", "bits")
    found = [f"{name} {ours[name]:g} and {peer[name]:g}" for name in names if ours[name] != peer[name]]
    if not math.isclose(ours["grad_norm"], peer["grad_norm"], rel_tol=_SAME_GRADIENT):
        found.append(f"the gradient's norm {ours['grad_norm']:g} and {peer['grad_norm']:g}")
    return found


class _Runs:
    """A program that trains, and what its runs found."""

    def __init__(self, python: Callable[[], Path], module: str, *arguments: object) -> None:
        self._python, self._module, self._arguments = python, module, arguments
        self.tokens, self.of_cpu, self.memory = Arm(self._run), Arm.of(), Arm.of()
        self.found: Figures = {}

    def forget(self) -> None:
        """What was measured when its settings were tried."""
        self.tokens.figures.clear()
        self.of_cpu.figures.clear()
        self.memory.figures.clear()

    def _run(self) -> float:
        """One run measures all; the first is told by returning it."""
        try:
            self.found = peers.figures(self._python(), self._module, *self._arguments)
        except PeerMissing as error:
            self.of_cpu.missing = self.memory.missing = str(error)
            raise
        tokens = self.found["actions"] * ACTION_TOKENS
        self.of_cpu.figures.append(tokens / self.found["cpu_seconds"])
        self.memory.figures.append(self.found["peak_mb"])
        return tokens / self.found["seconds"]


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
    single = [packed([Branch(step)]) for step in apart(whole)]
    fewer = _tokens(single) / _tokens(together)
    operations = _flops(network, single) / _flops(network, together)

    def measure() -> float:
        pairs = [(_seconds(network, single), _seconds(network, together)) for _ in range(_REPEATS)]
        return statistics.median(slow / fast for slow, fast in pairs) / fewer

    arm = Arm(measure)
    _seconds(network, together)
    interleave(rounds, arm)
    name = f"packed full history of {turns} steps, {fewer:.1f}x fewer tokens"
    row = at_least(name, "of that in time", arm, 0.9)
    return noted(row, f"{operations:.1f}x fewer FLOPs, which is {operations / fewer:.3f} of that")


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
