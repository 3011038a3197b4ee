"""The optimisers that a recipe can name."""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import Literal

import torch
from torch.distributed.tensor import DTensor
from torch.nn import Parameter
from torch.optim import Optimizer

from guiagent.errors import InfrastructureError, UsageError

_log = logging.getLogger(__name__)
_BETAS = (0.9, 0.95)


def make(
    name: Literal["adamw", "adamw8bit"],
    parameters: Iterable[Parameter],
    learning_rate: float,
    weight_decay: float = 0.0,
) -> Optimizer:
    """Make AdamW; "adamw8bit" is that of bitsandbytes, with two moments of 8 bits each (arXiv 2110.02861).

    Raises InfrastructureError if bitsandbytes is not installed, and UsageError for "adamw8bit" with a
    sharded model, which bitsandbytes does not support.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    if name == "adamw8bit" and any(isinstance(parameter, DTensor) for parameter in trained):
        raise UsageError(
            'update.optimizer = "adamw8bit" is for one process; set it to "adamw", whose moments are sharded'
        )
    kind = partial(torch.optim.AdamW, fused=True) if name == "adamw" else _eight_bit()
    return kind(trained, lr=learning_rate, betas=_BETAS, weight_decay=weight_decay)


def hold(optimizer: Optimizer, learning_rate: float, weight_decay: float) -> None:
    """Give a restored optimiser the numbers of the config, and log a warning if it came with others."""
    for group in optimizer.param_groups:
        for name, wanted in (("lr", learning_rate), ("weight_decay", weight_decay)):
            if group[name] != wanted:
                _log.warning(
                    "warning   the checkpoint has %s %g; the run goes on with %g", name, group[name], wanted
                )
                group[name] = wanted


def _eight_bit() -> Callable[..., Optimizer]:
    try:
        found: Callable[..., Optimizer] = import_module("bitsandbytes.optim").AdamW8bit
    except ImportError:
        raise InfrastructureError(
            "update.optimizer adamw8bit needs bitsandbytes: pip install bitsandbytes, or set it to adamw"
        ) from None
    return found
