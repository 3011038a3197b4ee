"""The optimisers that a recipe can name."""

from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import Literal

import torch
from torch.nn import Parameter
from torch.optim import Optimizer

from guiagent.errors import InfrastructureError

_BETAS = (0.9, 0.95)
_EIGHT_BIT = ("bitsandbytes.optim", "torchao.optim")


def make(
    name: Literal["adamw", "adamw8bit"],
    parameters: Iterable[Parameter],
    learning_rate: float,
    weight_decay: float = 0.0,
) -> Optimizer:
    """AdamW; "adamw8bit" keeps its two moments in 8 bits each (arXiv 2110.02861).

    Raises InfrastructureError where nothing that has the 8-bit form is installed.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    kind = partial(torch.optim.AdamW, fused=True) if name == "adamw" else _eight_bit()
    return kind(trained, lr=learning_rate, betas=_BETAS, weight_decay=weight_decay)


def _eight_bit() -> Callable[..., Optimizer]:
    for package in _EIGHT_BIT:
        try:
            found: Callable[..., Optimizer] = import_module(package).AdamW8bit
        except ImportError:
            continue
        return found
    raise InfrastructureError(
        "update.optimizer adamw8bit needs bitsandbytes or torchao: pip install bitsandbytes, "
        "or set it to adamw"
    )
