"""Token sequences with pictures to padded model inputs. Pure functions on lists and tensors."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from training.encode import Encoder, Picture


class Sample(NamedTuple):
    """One trajectory as one sequence: prompt, completion, prompt, completion ...

    `sampled[i]` says that `ids[i]` came out of the policy; `logprobs[i]` is its log-probability then (0
    elsewhere).
    """

    ids: list[int]
    sampled: list[bool]
    logprobs: list[float]
    pictures: list[Picture]


class Batch(NamedTuple):
    """`inputs` go to the model as they are; the rest is [batch, length], right-padded."""

    inputs: dict[str, Any]
    ids: torch.Tensor
    sampled: torch.Tensor
    logprobs: torch.Tensor


def rope_positions(
    ids: Sequence[int], grids: Sequence[tuple[int, int, int]], image_token: int, merge: int, start: int = 0
) -> tuple[torch.Tensor, int]:
    """Qwen3-VL's three position axes (time, height, width) of `ids`: [3, length], and the next free position.

    Text counts up on all three; a picture's tokens sit on its merged grid, and the text after it goes on
    behind the grid's longer side (transformers, `Qwen3VLModel.get_rope_index`). `start` continues an earlier
    sequence.
    """
    axes: list[torch.Tensor] = []
    position, index, remaining = start, 0, iter(grids)
    while index < len(ids):
        if ids[index] == image_token:
            _, rows, columns = next(remaining)
            rows, columns = rows // merge, columns // merge
            h, w = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
            axes.append(torch.stack([torch.zeros_like(h), h, w]).reshape(3, -1) + position)
            position += max(rows, columns)
            index += rows * columns
        else:
            end = index
            while end < len(ids) and ids[end] != image_token:
                end += 1
            axes.append((torch.arange(end - index) + position).expand(3, -1))
            position += end - index
            index = end
    return torch.cat(axes, dim=1), position


def collate(samples: Sequence[Sample], encoder: Encoder, merge: int) -> Batch:
    """Right-padded inputs for a Qwen-VL model, with positions; the pictures of all samples, in order."""
    length = max(len(sample.ids) for sample in samples)
    shape = (len(samples), length)
    ids = torch.full(shape, encoder.pad)
    attention = torch.zeros(shape, dtype=torch.long)
    sampled = torch.zeros(shape, dtype=torch.bool)
    logprobs = torch.zeros(shape)
    positions = torch.zeros((3, *shape), dtype=torch.long)
    for row, sample in enumerate(samples):
        n = len(sample.ids)
        ids[row, :n] = torch.tensor(sample.ids)
        attention[row, :n] = 1
        sampled[row, :n] = torch.tensor(sample.sampled)
        logprobs[row, :n] = torch.tensor(sample.logprobs)
        grids = [picture.grid for picture in sample.pictures]
        positions[:, row, :n] = rope_positions(sample.ids, grids, encoder.image_token, merge)[0]
    pictures = [picture for sample in samples for picture in sample.pictures]
    inputs = {
        "input_ids": ids,
        "attention_mask": attention,
        "position_ids": positions,
        "pixel_values": torch.cat([picture.patches for picture in pictures]),
        "image_grid_thw": torch.tensor([picture.grid for picture in pictures]),
    }
    return Batch(inputs, ids, sampled, logprobs)


def sampled_logprobs(
    logits: torch.Tensor, batch: Batch, unsampled: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probability, with gradient, and entropy in nats, without, of the sampled tokens: [batch, length]
    each.

    Both are of the distribution that the engine draws from: the tokens in `unsampled` have no share of it.
    What was not sampled is 0, and costs nothing: only the sampled tokens' logits are normalised.
    """
    drawn = logits[:, :-1][batch.sampled[:, 1:]].float()  # [sampled tokens, vocabulary]
    drawn[:, unsampled] = -torch.inf
    scores = torch.log_softmax(drawn, dim=-1)
    logprobs = scores.gather(-1, batch.ids[batch.sampled][:, None])[:, 0]
    p = scores.detach().exp()
    entropy = -torch.xlogy(p, p).sum(dim=-1)
    zeros = torch.zeros_like(batch.logprobs)
    return zeros.masked_scatter(batch.sampled, logprobs), zeros.masked_scatter(batch.sampled, entropy)
