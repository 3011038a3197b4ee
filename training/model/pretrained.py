"""Open the model of a Hugging Face checkpoint, or raise a one-line error that says what is wrong with it."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForImageTextToText, PreTrainedModel

from training.inputs.checkpoint_files import readable
from training.model import vision_attention


def open_model(checkpoint: Path) -> PreTrainedModel:
    """Open the model in the precision it was saved in, in evaluation mode.

    Raises InfrastructureError if there is none, it is damaged, or it lacks weights: transformers would fill
    those with random numbers.
    """
    with readable(checkpoint):
        opened: Any = AutoModelForImageTextToText.from_pretrained(
            checkpoint, local_files_only=True, use_safetensors=True, output_loading_info=True
        )
        model, loaded = opened
        if missing := sorted(loaded["missing_keys"]):
            raise ValueError(f"it lacks {len(missing)} weights, such as {missing[0]}")
    assert isinstance(model, PreTrainedModel)
    _project_patches_by_matrix(model)
    vision_attention.use(model)
    return model


def on_accelerator(model: PreTrainedModel, gpu: int | None = None) -> PreTrainedModel:
    """Move the model to a GPU, by default the one that this thread works on.

    Where there is none it stays, and float16 becomes float32, which a CPU computes faster.
    """
    if not torch.cuda.is_available():
        return model.float() if model.dtype == torch.float16 else model
    device = torch.device("cuda", torch.cuda.current_device() if gpu is None else gpu)
    moved: PreTrainedModel = model.to(device)  # type: ignore[arg-type]
    return moved


def _project_patches_by_matrix(model: PreTrainedModel) -> None:
    """Run the patch embedding as the matrix product it is.

    Patches do not overlap, and on a CPU the library's convolution over single patches takes half again as
    long as the rest of a small vision tower.
    """
    projection = model.model.visual.patch_embed.proj

    def product(patches: torch.Tensor) -> torch.Tensor:
        rows = torch.nn.functional.linear(patches.flatten(1), projection.weight.flatten(1), projection.bias)
        return rows[..., None, None, None]

    projection.forward = product
