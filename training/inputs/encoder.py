"""The encoder: turns a conversation into tokens and image patches, one turn at a time.

Nothing is tokenised twice: sampled tokens are kept as they are. A turn's prompt is the text that the chat
template puts between the last completion and the next one, so that `prompt + completion + prompt +
completion ...` is exactly the sequence that the model saw.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import AutoConfig

from guiagent.dialects import Dialect, find_dialect
from guiagent.dialects.coordinates import CoordinateSpace
from guiagent.frames import rgb_of_device
from training.inputs import resizing
from training.inputs.checkpoint_files import open_preparation, readable
from training.inputs.pictures import Normalization, Picture, patchify

_TEXT = "\N{OBJECT REPLACEMENT CHARACTER}"  # placeholder in a rendered template: its text is encoded apart
_REPLY = {"role": "assistant", "content": [{"type": "text", "text": _TEXT}]}
_KEPT_BYTES = 512 * 2**20  # of pictures; one of a full HD screen takes 6 MB


class Encoder:
    """Tokenizer, chat template and image preparation of one checkpoint, and the dialect of its prompts.

    `max_pixels` lowers the checkpoint's own bound on a screenshot's pixels as the model sees it.

    Raises:
        UsageError: there is no such dialect.
        InfrastructureError: the folder holds no checkpoint of a Qwen-VL model, or a damaged one.
    """

    def __init__(self, checkpoint: Path, dialect: str = "ui-tars", max_pixels: int | None = None) -> None:
        self.checkpoint = checkpoint
        self.tokenizer, self.images = open_preparation(checkpoint)
        with readable(checkpoint):
            special = AutoConfig.from_pretrained(checkpoint, local_files_only=True).to_dict()
            images = self.images
            self._patch, self._merge = images.patch_size, images.merge_size
            self._min_pixels, self._max_pixels = images.size["shortest_edge"], images.size["longest_edge"]
            if max_pixels is not None:
                self._max_pixels = max(self._min_pixels, min(self._max_pixels, max_pixels))
            self._normalization = Normalization(
                tuple(images.image_mean), tuple(images.image_std), images.temporal_patch_size
            )
            # Tokens that stand for pictures must never be sampled: the next forward pass would miss their
            # features.
            names = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
            placeholders = {int(special[name]) for name in names}
        self.image_token = int(special["image_token_id"])
        self.eos: int = self.tokenizer.eos_token_id
        self.pad: int = self.tokenizer.pad_token_id
        self.unsampled: list[int] = sorted(placeholders | ({self.pad} - {self.eos}))
        self.dialect = self._dialect(dialect)
        self._kept: OrderedDict[bytes, Picture] = OrderedDict()  # by their frames, latest use last
        self._kept_bytes = 0
        self._keeping = Lock()
        self._encoding = Lock()

    def first_prompt(self, instruction: str, picture: Picture) -> list[int]:
        """Encode the tokens before the first completion: the dialect's prompt and the first picture.

        An instruction can hold any text; names of special tokens in it are encoded as plain text.
        """
        return self.window_prompt(instruction, [], [picture])

    def window_prompt(
        self, instruction: str, replies: Sequence[Sequence[int]], pictures: Sequence[Picture]
    ) -> list[int]:
        """Encode the prompt of a new context in the middle of an episode.

        It holds the dialect's prompt, every earlier reply as it was sampled, and the last screenshots in
        their places. A turn without a screenshot has an assistant message only, as in
        `guiagent.dialects.prompts.messages`.
        """
        oldest = len(replies) + 1 - len(pictures)
        system = self.dialect.system
        turns: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        for turn in range(len(replies) + 1):
            words = [{"type": "text", "text": _TEXT}] if turn == 0 else []
            shown = [{"type": "image"}] if turn >= oldest else []
            if words or shown:
                turns.append({"role": "user", "content": [*words, *shown]})
            if turn < len(replies):
                turns.append(_REPLY)
        return self._filled(turns, [self.plain(self.dialect.prompt(instruction)), *replies], pictures)

    def conversation(self, turns: Sequence[tuple[str, Sequence[Picture | list[int]]]]) -> list[int]:
        """Encode any conversation, whose next reply is to be sampled.

        Each turn is a role and its contents in order: pictures, and texts as tokens, of `plain` or as they
        were sampled.
        """
        texts: list[Sequence[int]] = []
        pictures: list[Picture] = []
        told: list[dict[str, Any]] = []
        for role, contents in turns:
            parts: list[dict[str, Any]] = []
            for content in contents:
                if isinstance(content, Picture):
                    pictures.append(content)
                    parts.append({"type": "image"})
                else:
                    texts.append(content)
                    parts.append({"type": "text", "text": _TEXT})
            told.append({"role": role, "content": parts})
        return self._filled(told, texts, pictures)

    def plain(self, text: str) -> list[int]:
        """Encode text that is not the template's: names of special tokens in it stay plain text."""
        return self._encode(text, named=False)

    def _filled(
        self, turns: list[dict[str, Any]], texts: Sequence[Sequence[int]], pictures: Sequence[Picture]
    ) -> list[int]:
        """Encode what the template makes of `turns`, with these texts and pictures in their places."""
        before, *between = self._render(turns).split(_TEXT)
        left = iter(pictures)
        ids = self._template(before, left)
        for said, text in zip(texts, between, strict=True):
            ended = said[-1:] == [self.eos]
            ids += [
                *said,
                *self._template(text.removeprefix(self.tokenizer.eos_token) if ended else text, left),
            ]
        return ids

    def next_prompt(self, picture: Picture, *, ended: bool) -> list[int]:
        """Encode the tokens between two completions; `ended`: the last one sampled its end token itself."""
        image = {"role": "user", "content": [{"type": "image"}]}
        text = self._render([{"role": "user", "content": "-"}, _REPLY, image]).rpartition(_TEXT)[2]
        return self._template(text.removeprefix(self.tokenizer.eos_token) if ended else text, iter([picture]))

    def completion(self, text: str) -> list[int]:
        """Encode a demonstrated reply and its end token: for supervised fits, never for sampled replies."""
        return [*self.plain(text), self.eos]

    def decode(self, ids: list[int]) -> str:
        """Decode a completion into text, without its end token."""
        return str(self.tokenizer.decode(ids[:-1] if ids and ids[-1] == self.eos else ids))

    def _dialect(self, name: str) -> Dialect:
        """Find the dialect; one with pixels of the resized picture gets this image processor's sizes."""
        dialect = find_dialect(name)
        if dialect.space.kind == "resized":
            factor = self._patch * self._merge
            dialect.space = CoordinateSpace("resized", factor, self._min_pixels, self._max_pixels)
        return dialect

    def picture(self, frame: bytes) -> Picture:
        """Prepare an encoded screenshot for the vision tower; recent ones are cached. Thread-safe."""
        with self._keeping:
            if (known := self._kept.get(frame)) is not None:
                self._kept.move_to_end(frame)
                return known
        made = self.prepare(rgb_of_device(frame))
        with self._keeping:
            if frame not in self._kept:
                self._kept[frame] = made
                self._kept_bytes += made.patches.nbytes
            while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._kept_bytes -= oldest.patches.nbytes
        return made

    def prepare(self, image: Image.Image) -> Picture:
        """Prepare an RGB image for the vision tower."""
        image = self.resized(image)
        patches = patchify(torch.from_numpy(np.array(image)), self._patch, self._merge)
        grid = (1, image.height // self._patch, image.width // self._patch)
        return Picture(patches, grid, grid[1] * grid[2] // self._merge**2, self._normalization)

    def resized(self, image: Image.Image) -> Image.Image:
        """Resize the image to the size that the model's processor would give it, if it has another one."""
        return resizing.resized(image, self._patch, self._merge, self._min_pixels, self._max_pixels)

    def _render(self, messages: list[dict[str, Any]]) -> str:
        return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    def _template(self, text: str, pictures: Iterator[Picture]) -> list[int]:
        """Encode the template's own text, with special tokens.

        Each image placeholder is repeated for every visual token of the next picture.
        """
        ids: list[int] = []
        for token in self._encode(text, named=True):
            ids += [token] * (next(pictures).tokens if token == self.image_token else 1)
        return ids

    def _encode(self, text: str, *, named: bool) -> list[int]:
        """Encode text; `named`: names of special tokens in it are these tokens.

        The tokenizer keeps that as a state which every call sets anew: of two threads at once the one would
        make special tokens of a stranger's text, and the other none of the template's.
        """
        with self._encoding:
            ids = self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=not named)
        return list(ids)
