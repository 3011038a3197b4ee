"""Log-probability and entropy of every sampled token of a pack, in one forward pass.

The model is called only through its own `forward` and `get_image_features`, so that what wraps them
(sharding, autocast) applies to all of it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from training.inputs.packing import PackedBatch
from training.inputs.pictures import pixel_values
from training.model import packed_attention

LOGITS_AT_ONCE = 2**27  # float32 numbers: half a GiB


class Scores(NamedTuple):
    """Results for the N sampled tokens of a pack."""

    logprobs: Tensor  # [N] float32, under the distribution that the engine draws from
    entropy: Tensor  # [N] float32, nats, of that distribution
    hidden: Tensor | None  # [turns, size]: the last layer's output before each turn's first sampled token


Look = Callable[[PreTrainedModel, PackedBatch], Any]
"""Returns a vision tower's output for the distinct screenshots of a pack."""


def encode_images(model: PreTrainedModel, pack: PackedBatch) -> Any:
    """Run every distinct screenshot of a pack through the vision tower, once."""
    device = pack.ids.device
    patches = pixel_values(pack.pictures, device)
    grids = torch.tensor([picture.grid for picture in pack.pictures], device=device)
    looking: Any = model.get_image_features
    return looking(patches, grids, return_dict=True)


def score(
    model: PreTrainedModel,
    pack: PackedBatch,
    unsampled: Sequence[int],
    *,
    temperature: float = 1.0,
    entropy_gradient: bool = False,
    hidden: bool = False,
    encode_images: Look = encode_images,
) -> Scores:
    """Score the sampled tokens of `pack` under a Qwen2.5-VL or Qwen3-VL model.

    The tokens in `unsampled` are never drawn, and have no share of the distribution. Logits are computed for
    the sampled tokens only; if they are many (a large vocabulary), their float32 form is computed part by
    part, and again in the backward pass. The entropy has a gradient only with `entropy_gradient`.
    """
    packed_attention.use(model)
    pack = pack.to(model.device)
    seen: list[Tensor] = []
    head = model.get_output_embeddings()
    hook = head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        output = model(
            input_ids=pack.ids[None],
            position_ids=pack.positions[:, None],
            mm_encoder_outputs={"image": _placed(encode_images(model, pack), pack.places)}
            if pack.pictures
            else None,
            logits_to_keep=pack.predictors,
            layout=pack.layout,
            use_cache=False,
        )
    finally:
        hook.remove()
    logprobs, entropy = drawn(output.logits[0], pack.sampled, unsampled, temperature, entropy_gradient)
    return Scores(logprobs, entropy, seen[0][0, _firsts(pack.turns)] if hidden else None)


def drawn(
    logits: Tensor, sampled: Tensor, unsampled: Sequence[int], temperature: float, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    """Return log-probability and entropy of each sampled token: [N], from logits [N, vocabulary].

    Many logits become float32 part by part, and again in the backward pass.
    """

    def draw(logits: Tensor, sampled: Tensor) -> tuple[Tensor, Tensor]:
        return _drawn(logits, sampled, unsampled, temperature, entropy_gradient)

    rows = max(1, LOGITS_AT_ONCE // logits.shape[-1])
    if len(logits) <= rows:
        return draw(logits, sampled)
    parts = [
        checkpoint(draw, *part, use_reentrant=False)
        for part in zip(logits.split(rows), sampled.split(rows), strict=True)
    ]
    logprobs, entropy = (torch.cat(column) for column in zip(*parts, strict=True))
    return logprobs, entropy


def _drawn(
    logits: Tensor, sampled: Tensor, unsampled: Sequence[int], temperature: float, entropy_gradient: bool
) -> tuple[Tensor, Tensor]:
    never = torch.tensor(unsampled, dtype=torch.long, device=logits.device)
    drawn = (logits.float() / temperature).index_fill(-1, never, -torch.inf)
    logp = torch.log_softmax(drawn, dim=-1)
    logprobs = logp.gather(-1, sampled[:, None])[:, 0]
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        finite = logp.index_fill(-1, never, 0.0)
        entropy = -(logp.exp() * finite).sum(dim=-1)
    return logprobs, entropy


def _firsts(turns: Tensor) -> Tensor:
    """Indices of each turn's first token, from the turn number of every token."""
    begins = torch.ones_like(turns, dtype=torch.bool)
    begins[1:] = turns[1:] != turns[:-1]
    return begins.nonzero()[:, 0]


def _placed(output: Any, places: Tensor | None) -> Any:
    """Repeat the vision tower's output, and its deepstack layers', for every place that shows a picture."""
    if places is None:
        return output
    output.pooler_output = [torch.cat(list(output.pooler_output))[places]]
    if getattr(output, "deepstack_features", None) is not None:
        output.deepstack_features = [[torch.cat(list(layer))[places]] for layer in output.deepstack_features]
    return output
