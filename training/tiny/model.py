"""The small policy's architecture, tokenizer and processor: an ordinary Qwen3-VL checkpoint, only small.

Its vocabulary is made for its tasks. Whole pieces of the dialect are single tokens (the prompt's constant
preamble, the words of an action before its point, every number up to the largest coordinate), instructions
are byte-level BPE learned from the tasks' own words, and bytes are the fall-back, so that any text can be
encoded.
"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GenerationConfig,
    PaddleOCRVLProcessor,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    ProcessorMixin,
    Qwen2VLImageProcessorPil,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)

from guiagent.dialects.ui_tars import UiTars
from training.model.pretrained import open_model

PATCH, MERGE = 16, 2
FACTOR = PATCH * MERGE  # the side of one visual token, in pixels
LAYERS, VISION_HIDDEN = 4, 96
_HEAD = 32  # width of an attention head
_LARGEST_NUMBER = 223  # of the shipped policy, whose pages are 160 x 224 as it sees them


class Shape(NamedTuple):
    """The shape of a small policy: `merge` times `merge` patches of `patch` pixels are one visual token."""

    patch: int = PATCH
    merge: int = MERGE
    vision_layers: int = 2
    hidden: int = 128  # width of the language model, a multiple of 64


SHIPPED = Shape()


_SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
_CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ c['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def largest_number(sides: Iterable[int]) -> int:
    """The largest coordinate on screens with sides of these lengths, in pixels as the model sees them."""
    return max(-(-side // FACTOR) for side in sides) * FACTOR - 1


def make_tokenizer(
    instructions: Iterable[str], vocabulary: int = 768, largest: int = _LARGEST_NUMBER
) -> PreTrainedTokenizerFast:
    """Byte-level BPE over `instructions` plus the dialect's pieces; `vocabulary` counts the BPE part.

    Every number up to `largest` is one token.
    """
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(_SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(instructions, trainer)
    pieces = ["user\n", "assistant\n", UiTars.preamble, "Action: click(start_box='(", ")')"]
    pieces += [str(number) for number in range(largest + 1)]
    bpe.add_tokens([AddedToken(piece, normalized=False) for piece in pieces])
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=_CHAT_TEMPLATE,
        model_max_length=2048,
        extra_special_tokens={
            "image_token": "<|image_pad|>",
            "video_token": "<|video_pad|>",
            "vision_start_token": "<|vision_start|>",
            "vision_end_token": "<|vision_end|>",
        },
    )


def make_model(tokenizer: PreTrainedTokenizerFast, shape: Shape = SHIPPED) -> Qwen3VLForConditionalGeneration:
    """A freshly initialised model (seed it with torch.manual_seed) whose vocabulary is the tokenizer's."""
    token: dict[str, int] = tokenizer.get_vocab()
    text = {
        "hidden_size": shape.hidden,
        "intermediate_size": 3 * shape.hidden,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": shape.hidden // _HEAD,
        "num_key_value_heads": shape.hidden // _HEAD // 2,
        "head_dim": _HEAD,
        "vocab_size": len(tokenizer),
        "max_position_embeddings": 2048,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "mrope_section": [4, 6, 6],
            "mrope_interleaved": True,
        },
        "tie_word_embeddings": True,
        "bos_token_id": token["<|endoftext|>"],
        "eos_token_id": token["<|im_end|>"],
        "pad_token_id": token["<|endoftext|>"],
    }
    vision = {
        "depth": shape.vision_layers,
        "hidden_size": VISION_HIDDEN,
        "intermediate_size": 2 * VISION_HIDDEN,
        "num_heads": 4,
        "out_hidden_size": shape.hidden,
        "patch_size": shape.patch,
        "spatial_merge_size": shape.merge,
        "temporal_patch_size": 1,
        "num_position_embeddings": 256,
        "deepstack_visual_indexes": [0],
    }
    config = Qwen3VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=token["<|image_pad|>"],
        video_token_id=token["<|video_pad|>"],
        vision_start_token_id=token["<|vision_start|>"],
        vision_end_token_id=token["<|vision_end|>"],
        tie_word_embeddings=True,
    )
    model = Qwen3VLForConditionalGeneration(config)
    _initialise(model)
    model.generation_config = GenerationConfig(
        eos_token_id=token["<|im_end|>"], pad_token_id=token["<|endoftext|>"], do_sample=True
    )
    return model


def _initialise(model: Qwen3VLForConditionalGeneration) -> None:
    """Initialise weights at a scale for narrow layers, and positions that differ from the first step on.

    The library's standard deviation of 0.02 suits layers a thousand wide; here every matrix gets
    1/sqrt(fan-in), and the vision tower's position table starts as sines and cosines of the height and width,
    octaves apart.
    """
    for name, weight in model.named_parameters():
        if weight.ndim >= 2 and "pos_embed" not in name:
            fan_in = weight.numel() // weight.shape[0]
            std = 0.5 if "embed_tokens" in name else fan_in**-0.5
            torch.nn.init.normal_(weight, std=std)
    table = model.model.visual.pos_embed.weight
    side = math.isqrt(table.shape[0])
    grid = torch.linspace(0, 1, side)
    y, x = torch.meshgrid(grid, grid, indexing="ij")
    waves = []
    for octave in range(table.shape[1] // 4):
        angle = math.pi * 2 ** (octave * 20 / table.shape[1])
        waves += [(axis * angle).sin() for axis in (x, y)] + [(axis * angle).cos() for axis in (x, y)]
    with torch.no_grad():
        table.copy_(0.5 * torch.stack(waves, dim=-1).reshape(table.shape))


def make_processor(tokenizer: PreTrainedTokenizerFast, shape: Shape = SHIPPED) -> PaddleOCRVLProcessor:
    """A processor that makes the same inputs as Qwen-VL's own.

    `Qwen3VLProcessor` would also demand a video processor, and with it torchvision; this class of
    transformers expands image tokens by the same grid and needs neither.
    """
    images = Qwen2VLImageProcessorPil(
        patch_size=shape.patch,
        temporal_patch_size=1,
        merge_size=shape.merge,
        size={"shortest_edge": 4 * FACTOR**2, "longest_edge": 512 * FACTOR**2},
        # White is 0, so that empty parts of a page are zero and grey buttons stand out: with the usual mean
        # of 0.5 the model saw no button at all after 2,000 steps.
        image_mean=[1.0] * 3,
        image_std=[0.25] * 3,
    )
    return PaddleOCRVLProcessor(image_processor=images, tokenizer=tokenizer, chat_template=_CHAT_TEMPLATE)


def save(model: PreTrainedModel, processor: ProcessorMixin, directory: Path) -> None:
    """Write an ordinary Hugging Face folder."""
    model.save_pretrained(directory)
    processor.save_pretrained(directory)


def halve(directory: Path) -> None:
    """Convert a folder's weights to half precision, in which they are shipped: readings change in the third
    digit."""
    open_model(directory).half().save_pretrained(directory)
