"""The states of optimisers and random generators as tensors and JSON."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from training.distributed.parallel import sharded_like, whole

OptimizerState = tuple[
    dict[str, Tensor], dict[str, Any]
]  # tensors by "<parameter>.<name>", and as JSON the rest
Generator = random.Random | np.random.Generator | torch.Generator


def optimizer_state(optimizer: Optimizer) -> OptimizerState:
    """An optimiser's state as tensors, by "<parameter>.<name>", and as JSON: all else in its state dict.

    Collective if its parameters are sharded; only rank 0 has the tensors then.
    """
    saved = Optimizer.state_dict(optimizer)  # bitsandbytes' own nests its tensors in one more dictionary
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, dict[str, Any]] = {}
    for parameter, values in saved["state"].items():
        for name, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"{parameter}.{name}"] = whole(value).contiguous()
            else:
                numbers.setdefault(str(parameter), {})[name] = value
    return tensors, {"state": numbers, "param_groups": saved["param_groups"]}


def restore_optimizer(optimizer: Optimizer, tensors: dict[str, Tensor], rest: dict[str, Any]) -> None:
    """Load what `optimizer_state` returned into an optimiser over the same parameters in the same order."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Any]] = {int(key): dict(values) for key, values in rest["state"].items()}
    for key, tensor in tensors.items():
        number, name = key.split(".", 1)
        state.setdefault(int(number), {})[name] = sharded_like(tensor, parameters[int(number)])
    optimizer.load_state_dict({"state": state, "param_groups": groups_from(rest["param_groups"])})


def groups_from(saved: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An optimiser's groups of parameters, which have been through JSON: there a pair becomes a list."""
    return [
        {key: tuple(value) if key == "betas" else value for key, value in group.items()} for group in saved
    ]


def rng_state(rng: Mapping[str, Generator]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The states of random generators, by their names: torch's as tensors, Python's and numpy's as JSON."""
    tensors = {name: g.get_state() for name, g in rng.items() if isinstance(g, torch.Generator)}
    numbers: dict[str, Any] = {}
    for name, generator in rng.items():
        if isinstance(generator, random.Random):
            numbers[name] = generator.getstate()
        elif isinstance(generator, np.random.Generator):
            numbers[name] = generator.bit_generator.state
    return tensors, numbers


def restore_rng(rng: Mapping[str, Generator], tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
    """Restore generators from what `rng_state` returned, which may have been through JSON."""
    for name, generator in rng.items():
        if isinstance(generator, torch.Generator):
            generator.set_state(tensors[name])
        elif isinstance(generator, random.Random):
            version, internal, gauss = numbers[name]
            generator.setstate((version, tuple(internal), gauss))
        else:
            generator.bit_generator.state = numbers[name]
