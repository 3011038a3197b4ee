"""Low-rank adapters on the language model's linear layers (arXiv 2106.09685), by peft.

Only the adapters are trained; every weight of the checkpoint, and the vision tower, stays as it is. `adapted`
puts the adapters inside the model that it is given; `merged` returns the same function as plain weights.
"""

from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig as PeftLora
from peft import PeftModel, get_peft_model, get_peft_model_state_dict
from peft.tuners.lora import LoraLayer
from torch import Tensor
from transformers import PreTrainedModel

from training.config import LoraConfig
from training.distributed.parallel import copied, whole
from training.inputs.checkpoint_files import readable

FOLDER = "adapter"  # beside a checkpoint's weights
_LINEARS = r".*language_model\.layers\.\d+\..*\.(q|k|v|o|gate|up|down)_proj"


def adapted(model: PreTrainedModel, config: LoraConfig, saved: Path | None = None) -> PeftModel:
    """Add trainable adapters to `model` and freeze all else; new adapters, or those in the folder `saved`.

    Raises InfrastructureError if the saved ones cannot be read.
    """
    if saved is not None:
        with readable(saved.parent):
            return PeftModel.from_pretrained(model, str(saved), is_trainable=True)
    lora = PeftLora(r=config.rank, lora_alpha=config.alpha, target_modules=_LINEARS)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # every rank begins with the same adapters
        made: Any = get_peft_model(model, lora)
    assert isinstance(made, PeftModel)
    return made


def saved_state(model: PeftModel) -> dict[str, Tensor]:
    """The adapters' tensors by the names that peft saves them under."""
    state: dict[str, Tensor] = get_peft_model_state_dict(model)
    return state


def merged(model: PreTrainedModel) -> dict[str, Tensor]:
    """Copies of the weights by their checkpoint names, adapters added in, as `copied` makes them."""
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, LoraLayer)}
    weights: dict[str, Tensor] = {}
    plain: dict[int, Tensor] = {}  # a weight with two names is gathered once, and saved once
    for name, tensor in model.state_dict(keep_vars=True).items():
        layer, _, kind = name.partition(".base_layer.")
        if layer in layers:
            weights[f"{layer}.{kind}"] = (
                _with_adapter(layers[layer], tensor) if kind == "weight" else copied(tensor)
            )
        elif ".lora_" not in name:
            if id(tensor) not in plain:
                plain[id(tensor)] = copied(tensor)
            weights[name] = plain[id(tensor)]
    return weights


def _with_adapter(layer: LoraLayer, weight: Tensor) -> Tensor:
    """The base weight plus scaling * B @ A."""
    (name,) = layer.active_adapters
    down, up = layer.lora_A[name].weight, layer.lora_B[name].weight
    assert isinstance(down, Tensor) and isinstance(up, Tensor)
    down, up, base = whole(down), whole(up), whole(weight)
    if base.shape[0] == 0:  # not rank 0 of a sharded model
        return base
    scale: float = layer.scaling[name]
    return (base + (scale * (up @ down)).to(base.dtype)).cpu()
