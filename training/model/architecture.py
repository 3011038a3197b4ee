"""The sizes of a Qwen-VL model: parameters by part, widths of its layers, bytes of its keys and values.

Pure functions of a model's config. Parameters are counted on the meta device, where a model has shapes and no
memory.
"""

from typing import Any, NamedTuple, Self

import torch
from torch import nn
from transformers import AutoModelForImageTextToText, PretrainedConfig


class Layers(NamedTuple):
    """A stack of equal layers, of text or of vision."""

    layers: int
    hidden: int  # numbers of a token between two layers
    queries: int  # numbers of a token's queries, all heads
    keys: int  # numbers of a token's keys, all heads; its values are as many
    heads: int
    inner: int  # numbers of a token in the middle of the MLP
    gated: bool  # the MLP has a gate (SwiGLU)
    head_norms: bool  # queries and keys are normed, head by head
    layer_norms: bool  # LayerNorm, in place of RMSNorm
    fused: bool  # queries, keys and values are one product, as in a vision tower
    parameters: int  # of one layer


class Architecture(NamedTuple):
    """A vision-language model."""

    name: str
    parameters: int
    text: Layers
    vision: Layers
    tower: int  # parameters of the vision tower: its layers, embedding and mergers
    ends: int  # parameters of neither layers nor tower: embedding, head, last norm
    largest: int  # numbers in the largest tensor
    vocabulary: int
    merge: int  # patches of a screenshot that become one token
    patch: int  # numbers of a patch
    deepstack: int  # layers of the tower that give features of their own
    itemsize: int  # bytes of a parameter as it was saved

    @classmethod
    def of(cls, config: PretrainedConfig) -> Self:
        """Read a Qwen2.5-VL's or Qwen3-VL's config."""
        with torch.device("meta"):
            model = AutoModelForImageTextToText.from_config(config)
        text: Any = config.get_text_config()
        vision: Any = config.vision_config
        language, tower = model.model.language_model, model.model.visual
        size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        of_tower, total = _numbers(tower), _numbers(model)
        dtype = getattr(torch, str(config.dtype or "bfloat16").removeprefix("torch."))
        return cls(
            name=type(model).__name__,
            parameters=total,
            text=Layers(
                layers=text.num_hidden_layers,
                hidden=text.hidden_size,
                queries=text.num_attention_heads * size,
                keys=text.num_key_value_heads * size,
                heads=text.num_attention_heads,
                inner=text.intermediate_size,
                gated=True,
                head_norms=hasattr(language.layers[0].self_attn, "q_norm"),
                layer_norms=False,
                fused=False,
                parameters=_numbers(language.layers[0]),
            ),
            vision=Layers(
                layers=vision.depth,
                hidden=vision.hidden_size,
                queries=vision.hidden_size,
                keys=vision.hidden_size,
                heads=vision.num_heads,
                inner=vision.intermediate_size,
                gated=hasattr(tower.blocks[0].mlp, "gate_proj"),
                head_norms=False,
                layer_norms=isinstance(tower.blocks[0].norm1, nn.LayerNorm),
                fused=True,
                parameters=_numbers(tower.blocks[0]),
            ),
            tower=of_tower,
            ends=total - of_tower - _numbers(language.layers),
            largest=max(p.numel() for p in model.parameters()),
            vocabulary=text.vocab_size,
            merge=vision.spatial_merge_size**2,
            patch=vision.in_channels * vision.temporal_patch_size * vision.patch_size**2,
            deepstack=len(getattr(vision, "deepstack_visual_indexes", None) or ()),
            itemsize=dtype.itemsize,
        )

    def kv_bytes(self, parallel: int = 1) -> int:
        """Return the bytes of a token's keys and values on each of so many GPUs of an engine.

        GPUs divide the heads of keys; more GPUs than heads repeat them.
        """
        text = self.text
        size = text.queries // text.heads
        heads = max(1, text.keys // size // parallel)
        return 2 * text.layers * heads * size * self.itemsize

    def adapters(self, rank: int) -> int:
        """Return the parameters of adapters of this rank on all linear layers of the text (`model.lora`)."""
        text = self.text
        linears = [
            text.hidden + text.queries,
            2 * (text.hidden + text.keys),
            text.queries + text.hidden,
            3 * (text.hidden + text.inner),
        ]
        return rank * text.layers * sum(linears)


def _numbers(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())
