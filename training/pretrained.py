"""Opening a Hugging Face checkpoint: its model and its processor, or one line that says what is wrong."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from safetensors import SafetensorError
from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer, PreTrainedModel

from guiagent.errors import InfrastructureError
from training import vision_attention
from training.config import require_checkpoint

transformers.logging.set_verbosity_error()  # its notes on deprecations are for its own developers
transformers.logging.disable_progress_bar()

_PREPARATION = {
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "merges.txt",
    "preprocessor_config.json",
    "processor_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "video_preprocessor_config.json",
    "vocab.json",
}


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
    vision_attention.use(model)
    return model


def on_accelerator(model: PreTrainedModel) -> PreTrainedModel:
    """The model on the first GPU, where there is one."""
    return model.to("cuda") if torch.cuda.is_available() else model  # type: ignore[arg-type]


def _project_patches_by_matrix(model: PreTrainedModel) -> None:
    """Run the patch embedding as the matrix product it is: patches do not overlap, and on a CPU the library's
    convolution over single patches takes half again as long as the rest of a small vision tower."""
    projection = model.model.visual.patch_embed.proj

    def product(patches: torch.Tensor) -> torch.Tensor:
        rows = torch.nn.functional.linear(patches.flatten(1), projection.weight.flatten(1), projection.bias)
        return rows[..., None, None, None]

    projection.forward = product


class Preparation(NamedTuple):
    """What turns text and pictures into a model's inputs. Not the library's one processor for both: those of
    the Qwen-VL models also demand a video processor, and with it torchvision."""

    tokenizer: Any  # with the chat template
    images: Any


def open_preparation(checkpoint: Path) -> Preparation:
    """The tokenizer and the image processor of a checkpoint. Raises as `open_model`."""
    with readable(checkpoint):
        tokenizer = AutoTokenizer.from_pretrained(checkpoint, local_files_only=True)
        images = AutoImageProcessor.from_pretrained(checkpoint, local_files_only=True)
        if tokenizer.chat_template is None:  # older checkpoints keep it in a file of its own
            tokenizer.chat_template = json.loads((checkpoint / "chat_template.json").read_bytes())[
                "chat_template"
            ]
        return Preparation(tokenizer, images)


def preparation_files(checkpoint: Path) -> dict[str, bytes]:
    """Everything of `checkpoint` beside weights and model config, by name: what a folder needs to be a
    checkpoint of its own. In memory, because a run that goes on outlives the checkpoint it went on from."""
    with readable(checkpoint):
        return {file.name: file.read_bytes() for file in checkpoint.iterdir() if file.name in _PREPARATION}


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
