"""Can the small policy read? `python -m tests.bench.reading` fits it anew to screens of the lab, two ways.

*Reading*: the vision tower alone, with the embeddings of words as its classes; what each row says is to be
told from the visual tokens that its words cover. Measured is the share of rows whose label is the likeliest
of all labels of the lab, so that chance is about one in eighty.

*Pointing*: the whole model, supervised on a click on the row that `Point at "Orders".` names. Measured is the
share of clicks, each number the likeliest after the right ones before it, that fall on that row; an agent
that sees where rows are and reads none is right in about one of five.

Screens are drawn from graphs of two ranges, one to fit to and one to measure on. docs/learning.md shows what
it printed.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import log_softmax
from transformers import PreTrainedModel

from devices.lab.layout import Box, layout, scrolled
from devices.lab.picture import picture
from devices.lab.theme import THEMES
from guiagent.actions import Click
from guiagent.intervals import wilson
from guiagent.lab import words
from guiagent.lab.growth import grow
from guiagent.lab.state import BACK, AppState, furthest
from guiagent.lab.world import AppSpec
from training.inputs.contexts import Context
from training.inputs.encoder import Encoder
from training.inputs.packing import Branch, PackedBatch, pack
from training.inputs.pictures import Picture, pixel_values
from training.model.forward import score
from training.model.pretrained import open_model
from training.tiny.demos import GRID
from training.tiny.model import Shape, make_model, make_processor, make_tokenizer, save

SIZE = (160, 224)
LABELS = (*words.SUBJECTS, *words.SWITCHES, *words.FIELDS, *words.FACTS, "Save")
SHOWN, MEASURED = range(2000), range(10_000, 20_000)  # graphs
_SCREENS, _HELD_OUT = 1000, 150
_THEMES = ("paper", "mint", "slate", "rose", "sand", "grape")  # of training
_WORDS = (5, 92)  # where the words of a row are, in pixels from the left, at this size
_RATE, _WARM_UP, _MAX_NORM = 2e-3, 30, 1.0
_POINTS = 2  # of a screen in a batch


class Shown(NamedTuple):
    """A screen as the model takes it, and the rows on it that have a name of their own."""

    rows: list[Box]
    picture: Picture


def screens(graphs: range, count: int, encoder: Encoder) -> Iterator[Shown]:
    """Draw screens of apps at random; the same from the same arguments."""
    rng = random.Random(f"screens/{graphs.start}")
    for _ in range(count):
        depth = rng.randint(2, 4)
        spec = AppSpec(rng.choice(graphs), 2 * depth + 6, depth, theme=rng.choice(_THEMES))
        world = grow(spec)
        state = AppState(app=spec, screen=rng.randrange(len(world.screens)))
        state.top = rng.choice((0, furthest(world.screens[state.screen], spec.rows)))
        boxes = layout(world, state, THEMES[spec.theme], SIZE)
        drawn = picture(boxes, scrolled(world, state), spec.theme, SIZE).convert("RGB")
        rows = [box for box in boxes if box.key not in ("", BACK)]
        names = [box.label for box in rows]
        yield Shown([box for box in rows if names.count(box.label) == 1], encoder.prepare(drawn))


def covered(box: Box, side: int) -> list[int]:
    """The visual tokens, of `side` pixels a side and in reading order, that the words of a row cover."""
    across = SIZE[0] // side
    rows = range(box.top // side, (box.top + box.height - 1) // side + 1)
    columns = range(_WORDS[0] // side, (_WORDS[1] - 1) // side + 1)
    return [row * across + column for row in rows for column in columns]


class Arm:
    """A fresh model of one shape, with a vocabulary of the lab's words."""

    def __init__(self, shape: Shape, seed: int, folder: Path) -> None:
        torch.manual_seed(seed)
        tokenizer = make_tokenizer([f'Point at "{label}".' for label in LABELS])
        save(make_model(tokenizer, shape), make_processor(tokenizer, shape), folder)
        self.shape, self.encoder = shape, Encoder(folder)
        self.model: PreTrainedModel = open_model(folder).float().train()
        self.words = [self.encoder.completion(label)[:-1] for label in LABELS]
        self.shown = list(screens(SHOWN, _SCREENS, self.encoder))
        self.held_out = list(screens(MEASURED, _HELD_OUT, self.encoder))
        self._rng = random.Random(seed)

    def fit(self, steps: int, batch: int, reading: bool, pointing: bool) -> float:
        """Take `steps` optimiser steps on the sum of the losses asked for; return the seconds they took."""
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=_RATE, betas=(0.9, 0.95), weight_decay=0.01)
        parameters, began = list(self.model.parameters()), time.monotonic()
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = _RATE * min(1, (step + 1) / _WARM_UP, 2 * (1 - step / steps))
            some = self._rng.sample(self.shown, batch)
            optimizer.zero_grad()
            if reading:
                self._reading_loss(some).backward()
            if pointing:
                self._pointing_loss(some).backward()
            torch.nn.utils.clip_grad_norm_(parameters, _MAX_NORM)
            optimizer.step()
        return time.monotonic() - began

    @torch.no_grad()
    def read(self) -> tuple[int, int]:
        """How many rows of the screens held out are read right, and of how many."""
        logits, rows = self._logits(self.held_out)
        right = 0
        for label, tokens in rows:
            each = logits[tokens].mean(dim=0)
            likeliest = max(range(len(LABELS)), key=lambda n: float(each[self.words[n]].mean()))
            right += LABELS[likeliest] == label
        return right, len(rows)

    @torch.no_grad()
    def pointed(self) -> tuple[int, int]:
        """How many clicks fall on the row that was named, and of how many."""
        rng = random.Random(0)
        shown = [one for one in self.held_out if one.rows]
        targets = [rng.choice(one.rows) for one in shown]
        seen: list[Tensor] = []
        hook = self.model.get_output_embeddings().register_forward_hook(lambda *given: seen.append(given[2]))
        try:
            packed = self._pack(list(zip(shown, targets, strict=True)))
            score(self.model, packed, self.encoder.unsampled)
        finally:
            hook.remove()
        likeliest = seen[0][0].argmax(dim=-1).tolist()
        right, start = 0, 0
        for target, size in zip(targets, packed.sizes, strict=True):
            numbers = [
                text
                for token in likeliest[start : start + size]
                if (text := self.encoder.decode([token])).isdecimal()
            ]
            right += len(numbers) == 2 and target.has(SIZE[0] // 2, int(numbers[1]))
            start += size
        return right, len(targets)

    # -- inside ----------------------------------------------------------------------------------------------

    def _logits(self, shown: Sequence[Shown]) -> tuple[Tensor, list[tuple[str, list[int]]]]:
        """Log-probabilities of words at every visual token; each row's label and its tokens among them."""
        patches = pixel_values([one.picture for one in shown])
        grids = torch.tensor([one.picture.grid for one in shown])
        output = self.model.get_image_features(patches, grids, return_dict=True)  # type: ignore[operator]
        seen = torch.cat(list(output.pooler_output)) @ self.model.get_input_embeddings().weight.T
        rows, first = [], 0
        for one in shown:
            side = self.shape.patch * self.shape.merge
            rows += [(box.label, [first + token for token in covered(box, side)]) for box in one.rows]
            first += one.picture.tokens
        return log_softmax(seen, dim=-1), rows

    def _reading_loss(self, shown: Sequence[Shown]) -> Tensor:
        """Cross-entropy of the words of every row, at each visual token that they cover."""
        logits, rows = self._logits(shown)
        places = [
            (token, word)
            for label, tokens in rows
            for token in tokens
            for word in self.words[LABELS.index(label)]
        ]
        where, what = torch.tensor(places).unbind(1)
        return -logits[where, what].mean()

    def _pointing_loss(self, shown: Sequence[Shown]) -> Tensor:
        """Cross-entropy of the tokens of clicks on rows that were named."""
        points = [
            (one, box) for one in shown for box in self._rng.sample(one.rows, min(_POINTS, len(one.rows)))
        ]
        return -score(self.model, self._pack(points), self.encoder.unsampled).logprobs.mean()

    def _pack(self, points: Sequence[tuple[Shown, Box]]) -> PackedBatch:
        contexts, pictures = list[Context](), dict[str, Picture]()
        for one, box in points:
            frame = str(id(one))
            pictures[frame] = one.picture
            x, y = (place // GRID * GRID + GRID // 2 for place in box.centre)
            prompt = self.encoder.first_prompt(f'Point at "{box.label}".', one.picture)
            reply = self.encoder.completion(self.encoder.dialect.render([Click(x=x, y=y)], SIZE))
            length = len(prompt) + len(reply)
            sampled = [False] * len(prompt) + [True] * len(reply)
            contexts.append(Context([*prompt, *reply], sampled, [0.0] * length, [0] * length, [frame]))
        branches = [[Branch(context)] for context in contexts]
        return pack(branches, pictures.__getitem__, self.encoder.image_token, self.shape.merge)


class Way(NamedTuple):
    """What is fitted: a shape, whether it learns to read first, and whether it then learns to point."""

    shape: Shape
    reading: bool
    pointing: bool


WAYS = {
    "32 px a token, 2 layers: reads, then points": Way(Shape(), reading=True, pointing=True),
    "32 px a token, 1 layer: reads": Way(Shape(vision_layers=1), reading=True, pointing=False),
    "16 px a token, 2 layers: reads": Way(Shape(merge=1), reading=True, pointing=False),
    "32 px a token, 2 layers: points only": Way(Shape(), reading=False, pointing=True),
}


def line(name: str, what: str, steps: int, seconds: float, right: int, of: int) -> str:
    """A row of the table, with Wilson's interval at 95 %."""
    interval = wilson(right, of)
    share = f"{right / of:.0%} ({100 * interval.low:.0f}–{100 * interval.high:.0f})"
    return f"| {name} | {what} | {steps} | {seconds:.0f} s | {share} of {of} |"


def measure(name: str, way: Way, steps: tuple[int, int], seed: int, batch: int) -> Iterator[str]:
    """Fit one way for so many steps of reading and of pointing; yield a row after each."""
    with tempfile.TemporaryDirectory() as folder:
        arm = Arm(way.shape, seed, Path(folder))
        if way.reading:
            seconds = arm.fit(steps[0], 2 * batch, reading=True, pointing=False)
            yield line(name, "rows read", steps[0], seconds, *arm.read())
        if way.pointing:
            seconds = arm.fit(steps[1], batch, reading=way.reading, pointing=True)
            yield line(name, "rows pointed at", steps[1], seconds, *arm.pointed())
            yield line(name, "rows read, then", steps[1], seconds, *arm.read())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--reading", type=int, default=240, help="steps of reading")
    parser.add_argument("--pointing", type=int, default=400, help="steps of pointing")
    parser.add_argument("--batch", type=int, default=16, help="screens of a step; twice as many when reading")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print("| way | measured on unseen apps | steps | time | right |\n|---|---|---|---|---|", flush=True)
    for name, way in WAYS.items():
        for row in measure(name, way, (asked.reading, asked.pointing), asked.seed, asked.batch):
            print(row, flush=True)


if __name__ == "__main__":
    main()
