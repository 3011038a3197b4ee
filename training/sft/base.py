"""The base of a recipe in stages: a small policy made anew, with the words of its tasks, taught to read.

The loss of demonstrations alone does not teach a fresh model to read: of the six tokens of a click one
depends on what is written. So before them it learns two things from any screen whose elements are known, and
then, if the recipe says so, to copy what an instruction quotes (`training/sft/copying.py`).
*Reading*: the visual tokens on an element's line have to name it, with the embeddings of words as the
classes; what the language model sees there is then close to the word itself, so that a name in an
instruction finds it by the same look-up that finds a repeated word. *Pointing*: `Point at "Orders".` is
answered by a click on that element, and each of these visual tokens has to tell whether it is the one asked
for: next-token logits of its position choose between how a click begins and the end of a reply.
"""

import random
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import log_softmax
from transformers import PreTrainedModel, Qwen3VLForConditionalGeneration

from guiagent.actions import Click
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Node
from training.inputs import contexts
from training.inputs.encoder import Encoder
from training.inputs.packing import Branch, PackedBatch, pack
from training.inputs.pictures import Picture
from training.model.forward import encode_images, score
from training.sft import copying
from training.sft.demonstrations import written
from training.sft.screens import Screen, load
from training.stages import StagesConfig
from training.tiny import model, supervised

SCREENS = "screens.msgpack"  # in the base's folder
POLICY = "policy"

_WORDS = 3 / 5  # of an element's width, from the left: what is written is there, and controls beyond
_LONGEST_NAME = 32  # characters; a sentence covers more than one line


class _Fitting(NamedTuple):
    """What `supervised.fit` reads."""

    steps: int
    batch: int
    learning_rate: float
    processes: int
    seed: int


def fit(
    folder: Path, demonstrations: Path, config: StagesConfig, on_step: Callable[[str, int, float], None]
) -> Path:
    """Make the base from the screens in `folder` and the words of the demonstrations; return its folder.

    `on_step` gets what is learned, the step and its loss. Raises what `supervised.fit` raises.
    """
    made = config.base
    assert made is not None
    with TrajectoryStore(demonstrations, readonly=True) as store:
        said = {
            text for one in store for text in (one.instruction, *(step.policy.text for step in one.steps))
        }
    screens = load(folder / SCREENS)
    said |= {_asked(name) for screen in screens for name in pointable(screen)}
    sides = {side for screen in screens for side in (screen.width, screen.height)}
    tokenizer = model.make_tokenizer(sorted(said), made.vocabulary, model.largest_number(sides))
    shape = model.Shape(hidden=made.hidden)
    torch.manual_seed(config.seed)
    with tempfile.TemporaryDirectory() as untrained:
        start = Path(untrained)
        fresh = model.make_model(tokenizer, shape)
        attend_to_what_is_alike(fresh)
        model.save(fresh, model.make_processor(tokenizer, shape), start)
        parts = {"reading": made.reading, "pointing": made.pointing, "copying": made.copying}
        asked = list[str]()
        for name, steps in parts.items():
            if not steps:
                continue
            asked.append(name)  # what is no longer asked for is forgotten
            start = supervised.fit(
                partial(_losses, folder / SCREENS, config.dialect, tuple(asked)),
                start,
                folder / name,
                _Fitting(steps, made.batch, made.learning_rate, made.processes, config.seed),
                partial(on_step, name),
            )
    with supervised.made_of(start, folder / POLICY):
        return folder / POLICY


@torch.no_grad()
def attend_to_what_is_alike(fresh: Qwen3VLForConditionalGeneration) -> None:
    """Set the queries' weights of each head to those of its keys.

    A fresh model then attends to what has the content that a token itself has: a visual token to the word
    that it shows. From random weights this look-up is learned too, but over many more steps.
    """
    text: Any = fresh.config.text_config
    shared = text.num_attention_heads // text.num_key_value_heads
    layers: Any = fresh.model.language_model.layers
    for layer in layers:
        queries, keys = layer.self_attn.q_proj.weight, layer.self_attn.k_proj.weight
        heads = keys.view(text.num_key_value_heads, text.head_dim, -1)
        queries.copy_(heads.repeat_interleave(shared, dim=0).reshape(queries.shape))


def covered(element: Node, size: tuple[int, int], grid: tuple[int, int]) -> list[int]:
    """The visual tokens, in reading order, on the middle line of an element where its words are.

    `size` is of the frame in pixels, `grid` its visual tokens across and down.
    """
    left, top, width, height = element.box
    (wide, high), (across, down) = size, grid
    row = min(top + height // 2, high - 1) * down // high
    first, last = (min(x, wide - 1) * across // wide for x in (left, left + int(width * _WORDS) - 1))
    return [row * across + column for column in range(first, max(first, last) + 1)]


def named(screen: Screen, grid: tuple[int, int]) -> dict[int, str]:
    """What each visual token that words cover says; an element in front hides what is behind it."""
    size = (screen.width, screen.height)
    return {
        token: one.name
        for one in screen.elements
        if len(one.name) <= _LONGEST_NAME
        for token in covered(one, size, grid)
    }


def pointable(screen: Screen) -> dict[str, Node]:
    """The elements that a name alone tells from all others, and whose middle is on the frame.

    A control and its label have one name and are beside each other: it is the control, which comes last.
    """
    found = defaultdict[str, list[Node]](list)
    for one in screen.elements:
        x, y = _middle(one)
        if len(one.name) <= _LONGEST_NAME and x < screen.width and y < screen.height:
            found[one.name].append(one)
    return {
        name: elements[-1]
        for name, elements in found.items()
        if all(abs(_middle(one)[1] - _middle(elements[-1])[1]) < model.PATCH for one in elements)
    }


# -- inside --------------------------------------------------------------------------------------------------


def _losses(
    screens: Path,
    dialect: str,
    parts: Sequence[str],
    network: PreTrainedModel,
    encoder: Encoder,
    size: int,
    generators: Iterator[random.Random],
) -> Iterator[Tensor]:
    """Yield the sum of the losses of reading and what else is named, batch by batch."""
    encoder = Encoder(encoder.checkpoint, dialect)
    known = load(screens)
    copied = copying.Copying(copying.names_of(known), encoder) if "copying" in parts else None
    usable = [screen for screen in known if pointable(screen)]
    for rng in generators:
        shown = [rng.choice(usable) for _ in range(size)]
        pictures = [encoder.picture(screen.frame) for screen in shown]
        aims = [rng.choice(list(pointable(screen).values())) for screen in shown]
        points = _points(shown, aims, pictures, encoder)
        seen = encode_images(network, points)
        words = _words(shown, pictures)
        loss = _reading(torch.cat(list(seen.pooler_output)), network, words, encoder)
        if "pointing" in parts:
            loss = loss + _pointing(seen, network, points, [aim.name for aim in aims], words, encoder)
        if copied:
            loss = loss + copied.loss(network, copying.MORE * size, rng)
        yield loss


class _Word(NamedTuple):
    screen: int  # in the batch
    token: int  # among the visual tokens of the batch
    name: str


def _words(shown: Sequence[Screen], pictures: Sequence[Picture]) -> list[_Word]:
    """What is written where on all screens of a batch."""
    found, first = list[_Word](), 0
    for index, (screen, picture) in enumerate(zip(shown, pictures, strict=True)):
        grid = (picture.grid[2] // model.MERGE, picture.grid[1] // model.MERGE)
        found += [_Word(index, first + token, name) for token, name in named(screen, grid).items()]
        first += picture.tokens
    return found


def _reading(features: Tensor, network: PreTrainedModel, words: Sequence[_Word], encoder: Encoder) -> Tensor:
    """Cross-entropy of the words at every visual token that they cover; `features` are [tokens, hidden]."""
    told = [(word.token, piece) for word in words for piece in encoder.plain(word.name)]
    where, what = torch.tensor(told).unbind(1)
    embeddings: Any = network.get_input_embeddings()
    likely = log_softmax(features @ embeddings.weight.T, dim=-1)
    return -likely[where, what].mean()


def _pointing(
    seen: Any,
    network: PreTrainedModel,
    points: PackedBatch,
    asked: Sequence[str],
    words: Sequence[_Word],
    encoder: Encoder,
) -> Tensor:
    """Cross-entropy of the clicks, and of whether each visual token that words cover is the one asked for."""
    visual = (points.ids == encoder.image_token).nonzero()[:, 0]
    aimed = torch.tensor([word.name == asked[word.screen] for word in words])
    clicks = len(points.sampled)
    told = torch.where(aimed, int(points.sampled[0]), encoder.eos)
    both = points._replace(
        predictors=torch.cat([points.predictors, visual[[word.token for word in words]]]),
        sampled=torch.cat([points.sampled, told]),
    )
    likely = score(network, both, encoder.unsampled, encode_images=lambda *_: seen).logprobs
    return -(likely[:clicks].mean() + likely[clicks:][aimed].mean() + likely[clicks:][~aimed].mean())


def _points(
    shown: Sequence[Screen], aims: Sequence[Node], pictures: Sequence[Picture], encoder: Encoder
) -> PackedBatch:
    """A click on an element of each screen, as the answer to its name."""
    found = []
    for index, (screen, element, picture) in enumerate(zip(shown, aims, pictures, strict=True)):
        left, top, width, height = element.box
        size = (screen.width, screen.height)
        click = written([Click(x=left + width // 2, y=top + height // 2)], size)
        prompt = encoder.first_prompt(_asked(element.name), picture)
        reply = encoder.completion(encoder.dialect.render(click, size))
        found.append(contexts.shown(prompt, reply, str(index)))
    known = {str(index): picture for index, picture in enumerate(pictures)}
    return pack([[Branch(one)] for one in found], known.__getitem__, encoder.image_token, model.MERGE)


def _asked(name: str) -> str:
    return f'Point at "{name}".'


def _middle(element: Node) -> tuple[int, int]:
    left, top, width, height = element.box
    return left + width // 2, top + height // 2
