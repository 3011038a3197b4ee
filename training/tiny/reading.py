"""Input and output of the small judge's model: a case as tokens and pictures, and one log-odds per screen.

The model sees what `rewards.judges.cases.JudgeInput` holds and nothing else: the instruction, then screen by
screen the picture; for a screen that was touched also the click at its mark, in the words of the small
policy's dialect, and a close-up of the place, with the mark in its middle.

A reading is by Bayes' rule: the log-odds that a click was right are

    log p(click | right) - log p(click | wrong) + prior.

The first term is what the small policy computes and the model inherits from it: where on this screen it would
click to follow the instruction, as the log-likelihood of the click's tokens. The rest is read from one token
after the close-up, which shows to the pixel what was touched: the log-odds of "1" against "0" for the
verdict, of "3" against "2" for the expected outcome while the episode goes on.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from PIL import Image, ImageChops, ImageDraw
from transformers import PreTrainedModel

from guiagent.actions import Click
from guiagent.frames import rgb_of_device
from rewards.judges.cases import JudgeInput, Point, Screen
from training.inputs.collate import Sample, collate
from training.inputs.encoder import Encoder
from training.inputs.pictures import Picture
from training.tiny.demos import GRID

SCREENS = 3  # number of a case's last screens that are shown
_ROWS = 16  # cases per forward pass without gradients
_CLOSE_UP = (96, 64)  # pixels
_NEAR, _FAR = 3, 7  # pixels from a mark where its four arms begin and end: what was touched stays visible
_INK, _PAPER, _BEYOND = (255, 0, 255), (255, 255, 255), (128, 128, 128)


class Shown(NamedTuple):
    """A case as tokens and pictures."""

    ids: list[int]
    pictures: list[Picture]
    ends: list[int]  # for each screen the index into `ids` of the token after which a reading is taken
    clicks: list[range]  # for each screen the indices of the last click's tokens; empty before the first


class Readings(NamedTuple):
    """The model's readings of a batch of cases, case by case and screen by screen: [all screens] each."""

    verdicts: torch.Tensor  # log-odds that the task is met
    expectations: torch.Tensor  # log-odds that the task will be met when the episode ends
    clicks: torch.Tensor  # log-likelihood of the last click
    last: torch.Tensor  # [cases]: index, in the other three, of each case's last screen


def distinct(screens: Sequence[Screen]) -> list[Screen]:
    """Drop the screens that were not touched and equal the one before: waiting shows nothing new."""
    kept: list[Screen] = []
    for screen in screens:
        if not kept or screen.marks or screen.frame != kept[-1].frame:
            kept.append(screen)
    return kept


def close_up(image: Image.Image, mark: Point) -> Image.Image:
    """The surroundings of a mark: a magenta cross, open in the middle, in the centre of the picture."""
    width, height = _CLOSE_UP
    left, top = mark[0] - width // 2, mark[1] - height // 2
    cut = Image.new("RGB", _CLOSE_UP, _BEYOND)
    cut.paste(image, (-left, -top))
    draw = ImageDraw.Draw(cut)
    for dx, dy in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        draw.line([(width // 2 + dx * at, height // 2 + dy * at) for at in (_NEAR, _FAR)], _INK)
    return cut


def shift(image: Image.Image, dx: int, dy: int) -> Image.Image:
    """Move an image right and down by so many pixels; the uncovered part is white."""
    moved = ImageChops.offset(image, dx, dy)
    width, height = image.size
    if dx:
        moved.paste(_PAPER, (0, 0, dx, height) if dx > 0 else (width + dx, 0, width, height))
    if dy:
        moved.paste(_PAPER, (0, 0, width, dy) if dy > 0 else (0, height + dy, width, height))
    return moved


def show(case: JudgeInput, encoder: Encoder, by: tuple[int, int] = (0, 0)) -> Shown:
    """Show the case's last `SCREENS` distinct screens, all shifted `by` so many pixels right and down.

    Raises FaultError (origin "device") if a frame is not a picture.
    """
    ids: list[int] = []
    pictures: list[Picture] = []
    ends: list[int] = []
    clicks: list[range] = []
    click = range(0)

    def add(image: Image.Image) -> None:
        pictures.append(encoder.prepare(image))
        if ids:
            ids.extend(encoder.next_prompt(pictures[-1], ended=ids[-1] == encoder.eos))
        else:
            ids.extend(encoder.first_prompt(case.instruction, pictures[-1]))

    for screen in distinct(case.screens)[-SCREENS:]:
        image = shift(rgb_of_device(screen.frame), *by)
        width, height = image.size
        add(image)
        for x, y in screen.marks:
            mark = min(max(x + by[0], 0), width - 1), min(max(y + by[1], 0), height - 1)
            start = len(ids)
            x, y = (
                at // GRID * GRID + GRID // 2 for at in mark
            )  # the small policy has learned only these numbers
            ids += encoder.completion(encoder.dialect.render([Click(x=x, y=y)], image.size))
            click = range(start, len(ids))
            add(close_up(image, mark))
        ends.append(len(ids) - 1)
        clicks.append(click)
    return Shown(ids, pictures, ends, clicks)


def read(network: PreTrainedModel, encoder: Encoder, batch: Sequence[Shown]) -> Readings:
    """Read a batch in one forward pass; with gradients if they are enabled."""
    merge: int = network.config.vision_config.spatial_merge_size
    inputs = collate([Sample(s.ids, s.pictures) for s in batch], encoder, merge)
    hidden = network.model(**inputs).last_hidden_state
    head: torch.Tensor = network.lm_head.weight
    answers = head[encoder.tokenizer.convert_tokens_to_ids(["0", "1", "2", "3"])]
    rows = torch.tensor([row for row, s in enumerate(batch) for _ in s.ends])
    logits = hidden[rows, torch.tensor([end for s in batch for end in s.ends])] @ answers.T  # [screens, 4]

    screens = [(row, click) for row, s in enumerate(batch) for click in s.clicks]
    places = [(n, row, at) for n, (row, click) in enumerate(screens) for at in click]
    number, row, at = torch.tensor(places, dtype=torch.long).reshape(-1, 3).unbind(dim=1)
    scores = torch.log_softmax(hidden[row, at - 1] @ head.T, dim=-1)
    likelihoods = scores.gather(-1, inputs["input_ids"][row, at][:, None])[:, 0]
    clicks = torch.zeros(len(screens)).index_add(0, number, likelihoods)
    return Readings(
        verdicts=logits[:, 1] - logits[:, 0] + clicks,
        expectations=logits[:, 3] - logits[:, 2] + clicks,
        clicks=clicks,
        last=torch.tensor([len(s.ends) for s in batch]).cumsum(0) - 1,
    )


def verdicts(network: PreTrainedModel, encoder: Encoder, shown: Sequence[Shown]) -> list[float]:
    """The probability that each case's task is met, after its last screen.

    Cases of similar length share a forward pass, so that there is little padding.
    """
    found = [0.0] * len(shown)
    order = sorted(range(len(shown)), key=lambda index: len(shown[index].ids))
    with torch.inference_mode():
        for start in range(0, len(order), _ROWS):
            part = order[start : start + _ROWS]
            made = read(network, encoder, [shown[index] for index in part])
            for index, p in zip(part, made.verdicts[made.last].sigmoid().tolist(), strict=True):
                found[index] = p
    return found
