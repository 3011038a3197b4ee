"""Forward passes over this process's share of the samples, and what they find of whole trajectories."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from training.config import UpdateConfig
from training.distributed.parallel import shares
from training.distributed.ranks import ProcessGroup
from training.inputs.packing import Branch, PackedBatch
from training.inputs.pieces import Piece
from training.learner.frames import DealtFrames
from training.learner.microbatches import passes
from training.learner.samples import TrainingSample
from training.losses.segments import firsts
from training.model.forward import Scores
from training.model.network import Network


class Computed(NamedTuple):
    """A forward pass: pieces of samples, and their pack on the model's device. Blank without pieces."""

    parts: list[tuple[TrainingSample, Piece]]
    pack: PackedBatch


class Found(NamedTuple):
    """What forward passes found of a trajectory's N sampled tokens, in order."""

    logprobs: Tensor  # [N] float32
    entropy: Tensor  # [N] float32, nats
    hidden: Tensor | None  # [turns with sampled tokens, size], as `Scores.hidden`


class Scorer:
    """A network's forward passes, shared by all processes of `ranks`. All methods are collective."""

    def __init__(self, network: Network, config: UpdateConfig, ranks: ProcessGroup) -> None:
        self._network, self._config, self._ranks = network, config, ranks

    def share(self, samples: Sequence[TrainingSample], frames: DealtFrames) -> None:
        """Divide samples among the processes, which get the screenshots that theirs show."""
        shown: list[set[str]] = []
        for rank, own in enumerate(shares([sample.cost for sample in samples], self._ranks.world)):
            for index in own:
                samples[index].mine = rank == self._ranks.rank
            steps = [step for index in own for step in samples[index].trajectory.steps]
            shown.append(set().union(*(step.frames for step in steps)))
        frames.deal(shown)

    def passes(
        self,
        samples: Sequence[TrainingSample],
        frames: DealtFrames,
        trees: Sequence[list[Branch]] | None = None,
    ) -> Iterator[Computed]:
        """Yield the forward passes of this process's samples, or of `trees`, other branches of each."""
        own = [index for index, sample in enumerate(samples) if sample.mine]
        found = passes(
            [sample.branches for sample in samples] if trees is None else trees,
            own,
            lambda some: self._network.pack(some, frames),
            budget=self._config.batch_tokens,
            ranks=self._ranks,
            ahead=self._network.device.type != "cpu",
        )
        for one in found:
            parts = [(samples[part.member], part.piece) for part in one.parts]
            yield Computed(parts, one.pack.to(self._network.device))

    @torch.no_grad()
    def scores(
        self,
        samples: Sequence[TrainingSample],
        frames: DealtFrames,
        trees: Sequence[list[Branch]] | None = None,
        *,
        hidden: bool = False,
    ) -> dict[int, Found]:
        """Score this process's samples under the present weights: by the `id` of the sample."""
        return self._scores(
            self.passes(samples, frames, trees), lambda pack: self._network.score(pack, hidden=hidden)
        )

    def reference(self, samples: Sequence[TrainingSample], frames: DealtFrames) -> dict[int, Tensor]:
        """Return the log-probabilities of this process's samples under the run's first policy, by `id`."""

        def score(pack: PackedBatch) -> Scores:
            logprobs = self._network.reference_logprobs(pack)
            return Scores(logprobs, torch.zeros_like(logprobs), None)

        return {key: one.logprobs for key, one in self._scores(self.passes(samples, frames), score).items()}

    def gather(
        self, samples: Sequence[TrainingSample], own: Mapping[int, Tensor], width: int
    ) -> list[Tensor]:
        """Gather [steps, width] of each sample from the one process that has it to all of them."""
        device = self._network.device
        shapes = [(len(sample.tokens), width) for sample in samples]
        known = [
            own[id(sample)].reshape(shape) if id(sample) in own else torch.zeros(shape, device=device)
            for sample, shape in zip(samples, shapes, strict=True)
        ]
        if self._ranks.world == 1 or not known:
            return known
        flat = self._ranks.sum(torch.cat(known).flatten().tolist())
        whole = torch.tensor(flat, device=device).reshape(-1, width)
        return list(whole.split([steps for steps, _ in shapes]))

    def _scores(
        self, computed: Iterator[Computed], score: Callable[[PackedBatch], Scores]
    ) -> dict[int, Found]:
        """Put together what the passes find of each trajectory; its pieces may come in any order."""
        found: dict[int, list[tuple[int, Found]]] = {}
        for parts, pack in computed:
            scores = score(pack)
            logprobs, entropy = scores.logprobs.split(pack.sizes), scores.entropy.split(pack.sizes)
            hidden: Sequence[Tensor | None] = [None] * len(parts)
            if scores.hidden is not None:
                turns = pack.trajectories[firsts(pack.turns)].bincount(minlength=len(pack.sizes))
                hidden = scores.hidden.split(turns.tolist())
            for number, (sample, piece) in enumerate(parts):
                one = Found(logprobs[number], entropy[number], hidden[number])
                found.setdefault(id(sample), []).append((piece.begin, one))
        return {key: _together([one for _, one in sorted(parts, key=_begin)]) for key, parts in found.items()}


def _begin(part: tuple[int, Found]) -> int:
    return part[0]


def _together(parts: Sequence[Found]) -> Found:
    if len(parts) == 1:
        return parts[0]
    states = [one.hidden for one in parts if one.hidden is not None]
    return Found(
        torch.cat([one.logprobs for one in parts]),
        torch.cat([one.entropy for one in parts]),
        torch.cat(states) if states else None,
    )
