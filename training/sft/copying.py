"""Copying: what an instruction quotes is typed, token by token.

From demonstrations alone a small model learns which field to open and which button to press, and types
another word than it was told (docs/tiny.md). What it lacks is a look-up of what followed a token before,
which is learned from any text that repeats itself (induction heads: Olsson et al., arXiv 2209.11895). So a
base learns it from instructions alone, on an empty picture of four visual tokens, a tenth of a screen's. It
does so after it has learned to point: before, it gave up the look-up of what is alike that pointing begins
with (`training/sft/base.py`), and on made-to-order apps did not find a row by its name again.
"""

import io
import random
from collections.abc import Sequence
from string import ascii_letters, digits

from PIL import Image
from torch import Tensor
from transformers import PreTrainedModel

from guiagent.actions import Type
from training.inputs import contexts
from training.inputs.encoder import Encoder
from training.inputs.packing import Branch, pack
from training.model.forward import score
from training.sft.screens import Screen
from training.tiny import model

_SIDE = 2 * model.FACTOR  # of the empty picture, in pixels; smaller ones are enlarged
MORE = 2  # copies for each screen of a batch: they are so much shorter
_MADE_UP = 0.5  # share of words that are letters and digits at random, as passwords are
_LONGEST = 6  # characters of such a word


def names_of(screens: Sequence[Screen]) -> list[str]:
    """What is written on the elements of screens, in an order that does not change."""
    return sorted({element.name for screen in screens for element in screen.elements})


def asked(rng: random.Random, names: Sequence[str]) -> tuple[str, str]:
    """An instruction that quotes one word or two, and the one to be typed."""
    first, second = _word(rng, names), _word(rng, names)
    return rng.choice(
        [
            (f'Type "{first}".', first),
            (f'Type the first of "{first}" and "{second}".', first),
            (f'Type the second of "{first}" and "{second}".', second),
        ]
    )


class Copying:
    """What is asked for and what is answered, in a dialect, with the names on screens and made-up words."""

    def __init__(self, names: Sequence[str], encoder: Encoder) -> None:
        self._names = [name for name in names if '"' not in name]
        self._encoder = encoder
        Image.new("RGB", (_SIDE, _SIDE), "white").save(empty := io.BytesIO(), "PNG")
        self._picture = encoder.picture(empty.getvalue())

    def loss(self, network: PreTrainedModel, count: int, rng: random.Random) -> Tensor:
        """Return the mean cross-entropy of the tokens of so many replies."""
        encoder, picture = self._encoder, self._picture
        asking = []
        for _ in range(count):
            instruction, word = asked(rng, self._names)
            prompt = encoder.first_prompt(instruction, picture)
            reply = encoder.completion(encoder.dialect.render([Type(text=word)], (_SIDE, _SIDE)))
            asking.append([Branch(contexts.shown(prompt, reply, "empty"))])
        packed = pack(asking, lambda _: picture, encoder.image_token, model.MERGE)
        return -score(network, packed, encoder.unsampled).logprobs.mean()


def _word(rng: random.Random, names: Sequence[str]) -> str:
    if rng.random() < _MADE_UP:
        return "".join(rng.choices(ascii_letters + digits, k=rng.randint(1, _LONGEST)))
    return rng.choice(names)
