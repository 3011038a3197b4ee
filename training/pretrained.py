"""Opening a Hugging Face checkpoint: its model and its processor, or one line that says what is wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from transformers import AutoModelForImageTextToText, AutoProcessor, PreTrainedModel

from guiagent.errors import InfrastructureError
from training.config import require_checkpoint

transformers.logging.set_verbosity_error()  # its notes on deprecations are for its own developers
transformers.logging.disable_progress_bar()


def open_model(checkpoint: Path) -> PreTrainedModel:
    """The model, in the precision it was saved in and in evaluation mode.

    Raises InfrastructureError where there is none, or it is damaged, or it lacks weights: transformers would
    fill those with random numbers.
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
    return model


def _project_patches_by_matrix(model: PreTrainedModel) -> None:
    """Run the patch embedding as the matrix product it is: patches do not overlap, and on a CPU the library's
    convolution over single patches takes half again as long as the rest of a small vision tower."""
    projection = model.model.visual.patch_embed.proj

    def product(patches: torch.Tensor) -> torch.Tensor:
        rows = torch.nn.functional.linear(patches.flatten(1), projection.weight.flatten(1), projection.bias)
        return rows[..., None, None, None]

    projection.forward = product


def open_processor(checkpoint: Path) -> Any:
    """The tokenizer, image processor and chat template, as one `ProcessorMixin`. Raises as `open_model`."""
    with readable(checkpoint):
        return AutoProcessor.from_pretrained(checkpoint, local_files_only=True)


@contextmanager
def readable(checkpoint: Path) -> Iterator[None]:
    """Turns what reading a checkpoint can raise into an InfrastructureError that names it."""
    require_checkpoint(checkpoint)
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        first_line = str(error).strip().partition("\n")[0] or type(error).__name__
        reason = f"there is no {first_line}" if isinstance(error, KeyError) else first_line
        raise InfrastructureError(
            f"the checkpoint at {checkpoint} cannot be used: {reason[:200]}; restore it from a copy"
        ) from error
