"""Sizes of the GPU benchmark: published architectures with random weights, and tiny ones for a rehearsal."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import Qwen2VLImageProcessorPil, Qwen3VLConfig, Qwen3VLForConditionalGeneration

from tests.bench.accelerators import Peak, copied_bytes, matmul_flops, peak_of
from training.config import LoraConfig
from training.inputs.encoder import Encoder
from training.tiny import model as tiny

INSTRUCTION = "Open the second message, and answer that you will be there at nine on Monday."
_TIED = {"tie_word_embeddings": True}
_WINDOWED = {"rope_type": "default", "rope_theta": 5e6, "mrope_interleaved": True}


class Layout(NamedTuple):
    """An episode that is learned from: its turns, and after how many screenshots its history starts anew."""

    turns: int
    window: int
    every: int = 1  # of so many turns, the middle one is measured by itself too


@dataclass(frozen=True)
class Scale:
    """What is measured of one architecture, and how large."""

    name: str
    config: Qwen3VLConfig
    screen: tuple[int, int] = (1920, 1080)  # pixels: 2,040 tokens
    layouts: tuple[Layout, ...] = (Layout(15, 15, every=3), Layout(15, 5))
    tokens: int = 128  # of a reply
    trajectories: int = 2  # of an optimiser step
    batch_tokens: int = 36_864
    lora: LoraConfig | None = None  # None: all weights are trained
    episodes: tuple[int, ...] = (16, 64)  # that sample at once
    decoded: int = 64  # tokens of a reply, where decoding is measured


@dataclass(frozen=True)
class Machine:
    """The device, and what it reaches with products of matrices and with copies alone, measured here."""

    device: torch.device
    name: str  # the driver's
    products: float  # FLOP/s in bfloat16
    bandwidth: float  # bytes a second, read and written
    peak: Peak | None  # of the data sheet

    @property
    def most(self) -> float:
        """FLOP/s that utilisation is a share of: the data sheet's, or else what products reach."""
        return self.peak.flops if self.peak else self.products

    @classmethod
    def measured(cls, rehearsed: bool) -> "Machine":
        """Raises SystemExit with one line where there is no CUDA device and nothing is rehearsed."""
        if rehearsed:
            device, name = torch.device("cpu"), "CPU"
        elif not torch.cuda.is_available():
            raise SystemExit("no CUDA device here")
        else:
            device = torch.device("cuda", 0)
            name = torch.cuda.get_device_name(device)
        side, size = (64, 2**16) if rehearsed else (8192, 2**30)
        return cls(device, name, matmul_flops(device, side), copied_bytes(device, size), peak_of(name))


def qwen3_vl_2b() -> Qwen3VLConfig:
    """The published architecture: 2.1 billion parameters."""
    text = _text(hidden=2048, layers=28, inner=6144, heads=16)
    vision = _vision(depth=24, hidden=1024, inner=4096, out=2048, deepstack=[5, 11, 17])
    return Qwen3VLConfig(text_config=text | _TIED, vision_config=vision, tie_word_embeddings=True)


def qwen3_vl_8b() -> Qwen3VLConfig:
    """The published architecture: 8.8 billion parameters."""
    text = _text(hidden=4096, layers=36, inner=12_288, heads=32)
    vision = _vision(depth=27, hidden=1152, inner=4304, out=4096, deepstack=[8, 16, 24])
    return Qwen3VLConfig(text_config=text, vision_config=vision)


def policy_100m() -> Qwen3VLConfig:
    """A hundred million parameters: as much more than the demo's policy as an hour on a GPU allows."""
    text = _text(hidden=768, layers=12, inner=2304, heads=12) | {"num_key_value_heads": 4, "head_dim": 64}
    text["rope_parameters"] = {**_WINDOWED, "mrope_section": [12, 10, 10]}
    text |= {"vocab_size": 2048, "max_position_embeddings": 8192} | _TIED
    vision = _vision(depth=6, hidden=384, inner=1536, out=768, deepstack=[1, 3]) | {"num_heads": 6}
    return Qwen3VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=True)


def rehearsal(name: str) -> Scale:
    """The small policy's architecture, on small screens, in place of the one of that name."""
    config: Any = tiny.make_model(tiny.make_tokenizer(["x"])).config
    config.text_config.vocab_size = 2048
    return Scale(
        f"{name}, rehearsed",
        config,
        screen=(96, 64),
        layouts=(Layout(4, 4), Layout(4, 2)),
        tokens=6,
        batch_tokens=400,
        lora=LoraConfig(rank=4, alpha=8) if "8B" in name else None,
        episodes=(3,),
        decoded=4,
    )


def checkpoint(folder: Path, scale: Scale, device: torch.device) -> Encoder:
    """Write random weights in bfloat16, as a folder that the learner and the engine open.

    The tokenizer knows a little of the vocabulary only, and is asked for no more.
    """
    save(folder, scale.config, scale.screen, device)
    encoder = Encoder(folder)
    encoder.unsampled = sorted({*encoder.unsampled, encoder.eos})  # every reply has all its tokens
    return encoder


def save(folder: Path, config: Qwen3VLConfig, screen: tuple[int, int], device: torch.device) -> None:
    """Write a policy of random weights with the small policy's tokenizer, for screens of this size."""
    tokenizer = tiny.make_tokenizer([INSTRUCTION])
    token = tokenizer.get_vocab()
    vision: Any = config.vision_config
    config.image_token_id, config.video_token_id = token["<|image_pad|>"], token["<|video_pad|>"]
    config.vision_start_token_id = token["<|vision_start|>"]
    config.vision_end_token_id = token["<|vision_end|>"]
    torch.manual_seed(0)
    with device:
        model = Qwen3VLForConditionalGeneration(config).bfloat16()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    Qwen2VLImageProcessorPil(
        patch_size=vision.patch_size,
        temporal_patch_size=vision.temporal_patch_size,
        merge_size=vision.spatial_merge_size,
        size={"shortest_edge": 4096, "longest_edge": 2 * screen[0] * screen[1]},
    ).save_pretrained(folder)


def _text(*, hidden: int, layers: int, inner: int, heads: int) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151_936,
        "max_position_embeddings": 262_144,
        "rope_parameters": {**_WINDOWED, "mrope_section": [24, 20, 20]},
    }


def _vision(*, depth: int, hidden: int, inner: int, out: int, deepstack: list[int]) -> dict[str, Any]:
    return {
        "depth": depth,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_heads": 16,
        "out_hidden_size": out,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "num_position_embeddings": 2304,
        "deepstack_visual_indexes": deepstack,
    }


SCALES = {
    "2B": Scale("Qwen3-VL-2B", qwen3_vl_2b()),
    "8B": Scale(
        "Qwen3-VL-8B, LoRA",
        qwen3_vl_8b(),
        lora=LoraConfig(),
        layouts=(Layout(15, 15, every=3),),
        trajectories=1,
    ),
}
