"""`guiagent train --recipe sft-successes`: supervised fine-tuning of a policy on the trajectories of a store.

Each time a trajectory is learned from, the number of screenshots in its history is drawn anew, and it is
prompted as in a rollout under that history: HiconAgent's dynamic context sampling (arXiv 2512.01763), so that
the policy learns with long and short histories.

Deviations: the paper draws lengths in the rollouts of RL, with a bias that changes during training; here they
are drawn for demonstrations, all equally likely. The paper's other half, anchor-guided compression, is left
out: there a second branch loses the older screenshots after an early layer, inside the model, and an
alignment loss ties it to the first branch in the updates of RL.

A run is a folder. A run that was killed continues bit-identically from its newest checkpoint: what a step
learns depends only on the step and on the trajectories that the store had when the run began.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch

from guiagent.errors import StoppedError, UsageError
from guiagent.storage.trajectories import TrajectoryStore
from training.checkpoints import checkpoint
from training.checkpoints.shards import Learned
from training.config import HistoryConfig, SftConfig, checkpoint_folder
from training.distributed.parallel import Distributed, shares
from training.distributed.ranks import ProcessGroup, SingleProcess
from training.identity import claim, require_same
from training.inputs.contexts import Context
from training.inputs.encoder import Encoder
from training.inputs.packing import tree
from training.learner import optimizers
from training.learner.fitting import Fit, Schedule, claimed
from training.learner.microbatches import Pass, passes
from training.metrics.gpu import GpuMeter
from training.metrics.memory import resident_mb
from training.metrics.writer import Metrics
from training.model.freed import give_back
from training.model.network import Checkpoints, Network, Placement
from training.sft.data import Draw, demonstration, drawn, split


class Progress(NamedTuple):
    """Progress after an optimiser step; losses are in nats per token."""

    step: int
    steps: int
    loss: float  # loss of this step
    held_out_loss: float | None  # last measured held-out loss; None if nothing is held out
    tokens_per_second: float  # packed tokens, over all processes


class Fitted(NamedTuple):
    """A finished run."""

    policy: Path  # the final checkpoint's Hugging Face folder
    step: int
    refused: tuple[str, ...]  # damaged checkpoints that were passed over on the way
    before: bool  # whether it was finished when it was started


def fine_tune(
    config: SftConfig,
    run: Path,
    on_progress: Callable[[Progress], None],
    ranks: Distributed | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Fitted | None:
    """Fine-tune in the folder `run` until `config.steps`; continue an interrupted run.

    A run that is finished is left as it is. When `stop()` is true in any process, the run is saved and ends.

    The loss is the cross-entropy of the replies, a mean over the tokens of an optimiser step. A reply without
    a valid action is shown but not learned. With `ranks`, all processes share each step; the first one writes
    and reports, and the others return None.

    Raises:
        UsageError: there is no store, nothing in it to learn from, or an episode on an evaluation seed; or
            the folder's run was begun with a config of another identity.
        InfrastructureError: there is no checkpoint, something is damaged, or the disk is full.
        DivergedError: five steps in a row had a non-finite loss or gradient. The last checkpoint is older.
        StoppedError: it was `stop`, and all is saved.
    """
    require_same(run, config)
    with ExitStack() as held:
        return SftTrainer(config, run, held, on_progress, ranks, stop).run()


class SftTrainer:
    """One process's share of a fine-tuning run, continued from the newest checkpoint."""

    def __init__(
        self,
        config: SftConfig,
        run: Path,
        held: ExitStack,
        on_progress: Callable[[Progress], None],
        ranks: Distributed | None,
        stop: Callable[[], bool],
    ) -> None:
        began_with = checkpoint_folder(config.policy)
        self._config, self._on_progress, self._stop = config, on_progress, stop
        self._ranks: ProcessGroup = ranks or SingleProcess()
        self._store = held.enter_context(TrajectoryStore(config.store, readonly=True))
        if self._ranks.rank == 0:
            held.enter_context(claimed(run / "checkpoints"))
        # All processes and all sessions take the same trajectories of a store that may grow. This collective
        # also makes them wait until rank 0 has locked the folder, so that all load the same checkpoint.
        here = -int(self._ranks.largest([-len(self._store)])[0])
        loaded = checkpoint.load(run / "checkpoints")
        self._known: int = loaded.state["trajectories"] if loaded else here
        if self._known > here:
            raise UsageError(
                f"{config.store} has {here} trajectories, and the run in {run} began with {self._known}: "
                "give it the same store, or begin another run in a folder of its own"
            )
        known = islice(self._store, self._known)
        self._taught, self._held_out = split(known, config.successes_only, config.held_out)
        if not self._taught:
            kind = "successful episode" if config.successes_only else "episode"
            raise UsageError(f"there is no {kind} with replies in {config.store} to learn from")
        self._encoder, self._gpu = Encoder(began_with, config.dialect, config.max_pixels), GpuMeter()
        update = config.update
        self._network = Network(
            Checkpoints(loaded.opens(began_with) if loaded else began_with, began_with),
            self._encoder,
            update,
            Placement.over(ranks, update.precision) if ranks else Placement(),
        )
        self._parameters = [one for one in self._network.model.parameters() if one.requires_grad]
        self._optimizer = optimizers.make(
            update.optimizer, self._parameters, update.learning_rate, update.weight_decay
        )
        self._fit = Fit(
            run / "checkpoints",
            Learned(self._network.trained, self._optimizer),
            self._network,
            Schedule(config.steps, update.learning_rate, update.max_grad_norm, config.checkpoint_minutes),
            loaded,
            self._ranks.writers,
        )
        held.callback(self._fit.wait)
        self._loaded = loaded
        self._read: float | None = loaded.state["held_out_loss"] if loaded else None
        self._metrics: Metrics | None = None
        if self._ranks.rank == 0:
            claim(run, config)
            self._metrics = Metrics(run, loaded.step if loaded else -1, config.tracker)
            held.callback(self._metrics.close)

    def run(self) -> Fitted | None:
        fit = self._fit
        if self._loaded is None and self._held_out:
            self._read = self._measure()
            self._log({"step": 0, "held_out_loss": self._read})
        before, stopping = fit.step >= fit.steps, False
        while fit.step < fit.steps and not stopping:
            due, stopping = self._learn()
            if due or stopping or fit.step == fit.steps:
                fit.save({"trajectories": self._known, "held_out_loss": self._read})
        saved = fit.finish() or (self._loaded.path if self._loaded else None)
        if stopping and fit.step < fit.steps:
            raise StoppedError(f"stopped at step {fit.step}, saved in {saved}; the same command goes on")
        if self._ranks.rank or saved is None:
            return None
        return Fitted(saved / "model", fit.step, self._loaded.refused if self._loaded else (), before)

    def _learn(self) -> tuple[bool, bool]:
        """Take and log one optimiser step; return whether a checkpoint is due, and whether to stop.

        Both are the same in all processes.
        """
        began = time.perf_counter()
        config, ranks, fit = self._config, self._ranks, self._fit
        draws = drawn(self._taught, config.images, config.batch, fit.step, config.seed)
        examples = self._share(draws)
        tokens = ranks.sum([_learned(examples)])[0]
        loss = packed = flops = 0.0
        self._optimizer.zero_grad()
        for parts, pack in self._passes(examples):
            part = -self._network.score(pack).logprobs.sum() / tokens
            (part * bool(parts)).backward()
            if parts:
                loss += float(part.detach())
                packed += len(pack.ids)
                flops += self._network.flops(pack)
        loss, packed, flops, due, stopping = ranks.sum([loss, packed, flops, fit.due, self._stop()])
        taken = fit.update(self._parameters, loss)
        give_back()
        seconds = time.perf_counter() - began
        if self._held_out and (fit.step % config.validate_every == 0 or fit.step == fit.steps):
            self._read = self._measure()
        self._log(
            {
                "step": fit.step,
                "steps": fit.steps,
                "seconds": fit.seconds,
                "epoch": fit.step * config.batch / len(self._taught),
                "loss": loss,
                "held_out_loss": self._read,
                "learning_rate": taken.learning_rate,
                "grad_norm": taken.norm,
                "skipped_updates": float(not taken.finite),
                "history_lengths": dict(sorted(Counter(str(draw.images) for draw in draws).items())),
                "trained_tokens": tokens,
                "packed_tokens": packed,
                "packed_tokens_per_second": packed / seconds,
                "model_flops": flops,
                "learner_seconds": seconds,
                "memory_mb": resident_mb(),
            }
            | self._gpu.figures()
        )
        if ranks.rank == 0:
            self._on_progress(Progress(fit.step, fit.steps, loss, self._read, packed / seconds))
        return due > 0, stopping > 0

    @torch.no_grad()
    def _measure(self) -> float:
        """Measure the held-out loss; each trajectory has always the same length of history."""
        lengths, loss, tokens = self._config.images, 0.0, 0.0
        draws = [Draw(place, lengths[i % len(lengths)]) for i, place in enumerate(self._held_out)]
        for start in range(0, len(draws), self._config.batch):
            examples = self._share(draws[start : start + self._config.batch])
            tokens += _learned(examples)
            for parts, pack in self._passes(examples):
                loss -= bool(parts) * float(self._network.score(pack).logprobs.sum())
        loss, tokens = self._ranks.sum([loss, tokens])
        return loss / tokens

    def _share(self, draws: Sequence[Draw]) -> list[list[Context]]:
        """Return this process's examples."""
        found = [next(self._store.read(draw.ordinal)) for draw in draws]
        mine = shares([float(len(one.steps)) for one in found], self._ranks.world)[self._ranks.rank]
        examples = []
        for i in mine:
            history = HistoryConfig(kind=self._config.history, images=draws[i].images)
            examples.append(demonstration(found[i], history, self._encoder, self._store.frame))
        return examples

    def _passes(self, examples: Sequence[list[Context]]) -> Iterator[Pass]:
        return passes(
            [tree(example, self._encoder.image_token) for example in examples],
            range(len(examples)),
            lambda some: self._network.pack(some, self._store.frame),
            budget=self._config.update.batch_tokens,
            ranks=self._ranks,
            ahead=self._network.device.type != "cpu",
        )

    def _log(self, figures: dict[str, Any]) -> None:
        if self._metrics is not None:
            self._metrics.update(figures)


def _learned(examples: Sequence[list[Context]]) -> int:
    """Count the tokens that have a loss."""
    return sum(sum(context.sampled) for example in examples for context in example)
