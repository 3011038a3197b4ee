"""Attention of a Qwen-VL vision tower: all screenshots, or all windows of them, in one call a layer.

The library's own loop calls `scaled_dot_product_attention` once for each screenshot or window (a full HD
screen has 170 windows), and waits for the GPU three times per layer to learn their lengths. Here all of them
go to one variable-length FlashAttention kernel on a GPU in half precision; elsewhere, and on Hopper where
they are long, neighbours of equal length share a call.
"""

from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel

from training.model.flash import by_length, varlen_kernel

# The library passes all segments at once only to what it takes for FlashAttention, judging by the name.
_NAME = "guiagent_flash_segments"


def use(model: PreTrainedModel) -> None:
    """Switch the vision tower of a Qwen-VL model to this attention."""
    model.set_attn_implementation({"vision_config": _NAME})


def _segments(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    cu_seq_lens_q: Tensor,
    max_length_q: int,
    scaling: float,
    **rest: Any,
) -> tuple[Tensor, None]:
    """`query`, `key` and `value` are [1, heads, L, size], the result is [1, L, heads, size].

    `cu_seq_lens_q` [segments + 1] holds the segments' bounds, from 0 to L; a patch sees all of its segment
    and nothing else.
    """
    starts = cu_seq_lens_q
    q, k, v = (x[0].transpose(0, 1).to(value.dtype) for x in (query, key, value))  # [L, heads, size]
    kernel = varlen_kernel(q, len(starts) - 1)
    if kernel is not None:
        return kernel(q, k, v, starts, starts, max_length_q, max_length_q, scale=scaling)[None], None
    parts: list[Tensor] = []
    start = 0
    for length, equal in groupby(starts.diff().tolist()):
        count = len(list(equal))
        block = slice(start, start + count * length)
        queries, keys, values = (x[block].unflatten(0, (count, length)).transpose(1, 2) for x in (q, k, v))
        with by_length(q.device):
            found = scaled_dot_product_attention(queries, keys, values, scale=scaling)
        parts.append(found.transpose(1, 2).flatten(0, 1))
        start = block.stop
    return torch.cat(parts)[None], None


AttentionInterface.register(_NAME, torch.compiler.disable(_segments))
