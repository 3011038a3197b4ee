"""Builds padded model inputs from token sequences with pictures: pure functions on lists and tensors."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from training.inputs.encoder import Encoder
from training.inputs.pictures import Picture, pixel_values


class Sample(NamedTuple):
    """A sequence of tokens, and the pictures in it."""

    ids: list[int]
    pictures: list[Picture]


def rope_positions(
    ids: Sequence[int], grids: Sequence[tuple[int, int, int]], image_token: int, merge: int, start: int = 0
) -> tuple[torch.Tensor, int]:
    """Qwen3-VL's positions of `ids` on three axes (time, height, width), [3, length]; the next free position.

    Text counts up on all three axes; a picture's tokens have the positions of its merged grid, and the text
    after it continues behind the grid's longer side (transformers, `Qwen3VLModel.get_rope_index`). `start`
    is the first position.
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


def collate(samples: Sequence[Sample], encoder: Encoder, merge: int) -> dict[str, torch.Tensor]:
    """Build right-padded inputs for a Qwen-VL model: ids, mask, positions, and all pictures in order.

    Training on whole trajectories packs them instead (`training.inputs.packing`).
    """
    length = max(len(sample.ids) for sample in samples)
    shape = (len(samples), length)
    ids = torch.full(shape, encoder.pad)
    attention = torch.zeros(shape, dtype=torch.long)
    positions = torch.zeros((3, *shape), dtype=torch.long)
    for row, sample in enumerate(samples):
        n = len(sample.ids)
        ids[row, :n] = torch.tensor(sample.ids)
        attention[row, :n] = 1
        grids = [picture.grid for picture in sample.pictures]
        positions[:, row, :n] = rope_positions(sample.ids, grids, encoder.image_token, merge)[0]
    pictures = [picture for sample in samples for picture in sample.pictures]
    return {
        "input_ids": ids,
        "attention_mask": attention,
        "position_ids": positions,
        "pixel_values": pixel_values(pictures),
        "image_grid_thw": torch.tensor([picture.grid for picture in pictures]),
    }
