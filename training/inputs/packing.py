"""Packs whole trajectories into one row of tokens: each screenshot once, each token once, no padding.

A trajectory's contexts are branches of a tree. Windows of its history have the system prompt and the
instruction in common, up to the first picture: these are stored once. A branch continues an earlier one from
some token on, and so do its positions, so that every token is computed from exactly the context that it was
sampled from (`training.model.packed_attention`).
"""

from collections.abc import Callable, Sequence
from itertools import pairwise, takewhile
from typing import NamedTuple, Self

import torch
from torch import Tensor

from training.inputs.collate import rope_positions
from training.inputs.contexts import Context
from training.inputs.layout import Layout
from training.inputs.pictures import Picture


class Branch(NamedTuple):
    """A whole context, of which the first `shared` tokens are those of the `parent`-th branch."""

    context: Context
    parent: int = 0
    shared: int = 0


class PackedBatch(NamedTuple):
    """A row of L tokens, N of them sampled: trajectory after trajectory, turn after turn.

    Turns and trajectories are numbered across the pack; `steps` are the turns' indices in their trajectory.
    """

    ids: Tensor  # [L]
    positions: Tensor  # [3, L]
    layout: Layout
    frames: list[str]  # the distinct screenshots, by hash
    pictures: list[Picture]  # of `frames`
    places: (
        Tensor | None
    )  # [image tokens in the row]: index into all pictures' features; None if they are already in order
    predictors: Tensor  # [N]: index in the row of the output that the sampled token was drawn from
    sampled: Tensor  # [N]: token ids
    behaviour: Tensor  # [N]: log-probabilities as sampled
    turns: Tensor  # [N]
    trajectories: Tensor  # [N]
    steps: Tensor  # [N]
    sizes: list[int]  # sampled tokens of each trajectory

    def to(self, device: torch.device) -> Self:
        """Move the tensors that the model needs to `device`; pictures are moved when they are encoded."""
        return self._replace(
            ids=self.ids.to(device),
            positions=self.positions.to(device),
            layout=self.layout.to(device),
            places=None if self.places is None else self.places.to(device),
            predictors=self.predictors.to(device),
            sampled=self.sampled.to(device),
            behaviour=self.behaviour.to(device),
            turns=self.turns.to(device),
            trajectories=self.trajectories.to(device),
            steps=self.steps.to(device),
        )


def tree(contexts: Sequence[Context], image_token: int) -> list[Branch]:
    """Return one trajectory's contexts as branches that store their common text before any picture once."""
    shared = _common_text(contexts, image_token) if len(contexts) > 1 else 0
    return [Branch(contexts[0]), *(Branch(context, 0, shared) for context in contexts[1:])]


def stored_tokens(branches: Sequence[Branch]) -> int:
    """Count the tokens that a trajectory takes in a row."""
    return sum(len(branch.context.ids) - branch.shared for branch in branches)


def bins(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Divide indices into few bins of at most `budget`, by first-fit decreasing; a longer one is alone."""
    filled: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        fits = next((b for b, free in enumerate(room) if lengths[index] <= free), None)
        if fits is None:
            filled.append([index])
            room.append(budget - lengths[index])
        else:
            filled[fits].append(index)
            room[fits] -= lengths[index]
    return filled


def pack(
    trajectories: Sequence[Sequence[Branch]],
    picture: Callable[[str], Picture],
    image_token: int,
    merge: int,
) -> PackedBatch:
    """Pack all trajectories into one row.

    `picture` prepares a screenshot by its hash; `merge` is the vision tower's spatial merge size.
    """
    row = _Row(image_token, merge, picture)
    sizes: list[int] = []
    turns = 0
    for number, branches in enumerate(trajectories):
        before = len(row.sampled)
        row.add(branches, number, turns)
        sizes.append(len(row.sampled) - before)
        turns += 1 + max(branch.context.turns[-1] for branch in branches)
    return row.pack(sizes)


class _Row:
    """A pack under construction."""

    def __init__(self, image_token: int, merge: int, picture: Callable[[str], Picture]) -> None:
        self._image_token, self._merge, self._picture = image_token, merge, picture
        self._length = 0  # of the row so far
        self._ids: list[int] = []
        self._positions: list[Tensor] = []
        self._places: list[Tensor] = []  # of each context
        self._own: list[int] = []  # tokens of each context that no earlier one has
        self._pictures: dict[str, Picture] = {}
        self._features: dict[str, int] = {}  # where each picture's features begin
        self._shown: list[str] = []
        self.sampled: list[int] = []
        self._predictors: list[int] = []
        self._behaviour: list[float] = []
        self._turns: list[tuple[int, int, int]] = []  # turn, trajectory, step

    def add(self, branches: Sequence[Branch], number: int, turns: int) -> None:
        places: list[Tensor] = []
        positions: list[Tensor] = []
        for context, parent, shared in branches:
            new = len(context.ids) - shared
            own = torch.arange(self._length, self._length + new)
            places.append(torch.cat([places[parent][:shared], own]) if shared else own)
            positions.append(self._place(context, positions[parent][:, :shared] if shared else None))
            self._positions.append(positions[-1][:, shared:])
            self._ids += context.ids[shared:]
            self._own.append(new)
            self._length += new
            where = places[-1].tolist()
            for at in range(max(shared, 1), len(context.ids)):
                if context.sampled[at]:
                    self.sampled.append(context.ids[at])
                    self._predictors.append(where[at - 1])
                    self._behaviour.append(context.logprobs[at])
                    self._turns.append((turns + context.turns[at], number, context.turns[at]))
        self._places += places

    def _place(self, context: Context, before: Tensor | None) -> Tensor:
        """Return the positions of a whole context that begins with `before`; note the rest's pictures."""
        shared = 0 if before is None else before.shape[1]
        passed = context.ids[:shared].count(self._image_token)
        grids = []
        for frame in context.frames:
            if frame not in self._pictures:
                self._pictures[frame] = self._picture(frame)
            picture = self._pictures[frame]
            if passed > 0:
                passed -= picture.tokens
            else:
                grids.append(picture.grid)
                self._shown.append(frame)
        start = 0 if before is None else int(before.max()) + 1
        rest = context.ids[shared:]
        if before is not None and not rest:
            return before
        after, _ = rope_positions(rest, grids, self._image_token, self._merge, start)
        return after if before is None else torch.cat([before, after], dim=1)

    def pack(self, sizes: list[int]) -> PackedBatch:
        turns, trajectories, steps = torch.tensor(self._turns, dtype=torch.long).reshape(-1, 3).unbind(1)
        return PackedBatch(
            ids=torch.tensor(self._ids),
            positions=torch.cat(self._positions, dim=1),
            layout=self._layout(),
            frames=list(self._pictures),
            pictures=list(self._pictures.values()),
            places=self._feature_places(),
            predictors=torch.tensor(self._predictors, dtype=torch.long),
            sampled=torch.tensor(self.sampled, dtype=torch.long),
            behaviour=torch.tensor(self._behaviour),
            turns=turns,
            trajectories=trajectories,
            steps=steps,
            sizes=sizes,
        )

    def _layout(self) -> Layout:
        """The contexts, the shortest first if any share tokens, so that equal ones are neighbours."""
        lengths = [len(places) for places in self._places]
        sharing = sum(lengths) > self._length
        order = sorted(range(len(lengths)), key=lengths.__getitem__) if sharing else range(len(lengths))
        starts = torch.tensor([0, *(lengths[index] for index in order)]).cumsum(0, dtype=torch.int32)
        ends = dict(zip(order, starts[1:].tolist(), strict=True))
        return Layout(
            tuple(lengths[index] for index in order),
            starts,
            torch.cat([self._places[index] for index in order]) if sharing else None,
            torch.cat([torch.arange(ends[index] - own, ends[index]) for index, own in enumerate(self._own)])
            if sharing
            else None,
        )

    def _feature_places(self) -> Tensor | None:
        if self._shown == list(self._pictures):
            return None
        ends = torch.tensor([0, *(p.tokens for p in self._pictures.values())]).cumsum(0).tolist()
        begins = dict(zip(self._pictures, pairwise(ends), strict=True))
        return torch.cat([torch.arange(*begins[frame]) for frame in self._shown])


def _common_text(contexts: Sequence[Context], image_token: int) -> int:
    """Count the tokens that all contexts begin with, before any picture or sampled token."""

    def alike(at: int) -> bool:
        token = contexts[0].ids[at]
        return token != image_token and all(c.ids[at] == token and not c.sampled[at] for c in contexts)

    shortest = min(len(context.ids) for context in contexts)
    return sum(1 for _ in takewhile(alike, range(shortest)))
