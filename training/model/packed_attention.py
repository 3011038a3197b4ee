"""Attention over packed contexts: in one row, every token sees its own context's past and nothing else.

Registered with transformers as "packed"; `use` makes a model's language part run it. Without a `layout` it is
plain causal attention, so the model still serves padded batches.

No mask is built. A context whose beginning is stored once for several contexts is gathered whole for the
attention only, as a plain causal sequence: gathered keys and queries cost next to nothing beside the layers
that ran once. On a GPU in half precision all contexts go to one variable-length FlashAttention kernel
(PyTorch 2.13: that of 2.11 knows no grouped heads); elsewhere, and on Hopper where they are long, neighbours
of equal length go together to `scaled_dot_product_attention`.
"""

from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from training.inputs.layout import Layout
from training.model.flash import by_length, varlen_kernel

_NAME = "packed"


def use(model: PreTrainedModel) -> None:
    """Switch the language part of a Qwen-VL model to packed attention; its vision tower keeps its own."""
    if model.config.text_config._attn_implementation != _NAME:
        model.set_attn_implementation({"text_config": _NAME})


def _packed(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    layout: Layout | None = None,
    scaling: float | None = None,
    **rest: Any,
) -> tuple[Tensor, None]:
    """`query` is [1, heads, L, size], `key` and `value` may have fewer heads; the result is [1, L, heads,
    size]."""
    if layout is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **rest)
    # [L, heads, size]; under autocast a norm or the rotation may have left queries and keys in float32
    q, k, v = (x[0].transpose(0, 1).to(value.dtype) for x in (query, key, value))
    if layout.places is not None:
        q, k, v = (x.index_select(0, layout.places) for x in (q, k, v))
    kernel = varlen_kernel(q, len(layout.lengths))
    if kernel is None:
        with by_length(q.device):
            out = _by_length(q, k, v, layout, scaling)
    else:
        starts, longest, causal = layout.starts, max(layout.lengths), (-1, 0)
        out = kernel(
            q, k, v, starts, starts, longest, longest, scale=scaling, window_size=causal, enable_gqa=True
        )
    if layout.kept is not None:
        out = out.index_select(0, layout.kept)
    return out[None], None


def _by_length(q: Tensor, k: Tensor, v: Tensor, layout: Layout, scaling: float | None) -> Tensor:
    runs = [(length, len(list(equal))) for length, equal in groupby(layout.lengths)]
    # Split at once: the gradient of each slice would be as long as the whole row.
    blocks = zip(*(x.split([length * count for length, count in runs]) for x in (q, k, v)), strict=True)
    parts: list[Tensor] = []
    for (length, count), block in zip(runs, blocks, strict=True):
        query, key, value = (x.unflatten(0, (count, length)).transpose(1, 2) for x in block)
        out = scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling, enable_gqa=True)
        parts.append(out.transpose(1, 2).flatten(0, 1))
    return parts[0] if len(parts) == 1 else torch.cat(parts)


# Not compiled: lengths differ from pack to pack, and each pack would compile it anew.
AttentionInterface.register(_NAME, torch.compiler.disable(_packed))
AttentionMaskInterface.register(_NAME, sdpa_mask)
