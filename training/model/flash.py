"""The fastest attention kernels of PyTorch for sequences of any lengths, where they can run."""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

_HALVES = (torch.bfloat16, torch.float16)
_AMPERE = (8, 0)  # the first generation that FlashAttention knows
_HOPPER = (9, 0)  # the first for which cuDNN's attention has kernels of its own
_LONG = 1024  # tokens: sequences of this mean length are worth a call for each length
_ORDER = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]


def varlen_kernel(query: Tensor, sequences: int) -> Any:
    """`torch.nn.attention.varlen.varlen_attn` where it is the best for queries [tokens, heads, size]; else
    None: it cannot run, or the sequences are so long that calls by length are faster (`by_length`)."""
    if query.device.type != "cuda" or query.dtype not in _HALVES or query.shape[-1] % 8:
        return None
    generation = _generation(query.device)
    if generation < _AMPERE or (generation >= _HOPPER and len(query) >= _LONG * sequences):
        return None
    return _kernel()


def by_length(device: torch.device) -> AbstractContextManager[Any]:
    """Prefer cuDNN's kernels within `scaled_dot_product_attention`, which PyTorch asks last of all."""
    return sdpa_kernel(_ORDER, set_priority=True) if device.type == "cuda" else nullcontext()


@cache
def _kernel() -> Any:
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:  # PyTorch before 2.10
        return None
    # That of PyTorch 2.11 does not know fewer key heads than query heads; the first one, no windows either.
    return varlen_attn if {"enable_gqa", "window_size"} <= signature(varlen_attn).parameters.keys() else None


@cache
def _generation(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)
