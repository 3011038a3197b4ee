"""Screenshots as a vision tower takes them: kept as bytes, normalised where the model computes."""

from collections.abc import Sequence
from typing import NamedTuple

import torch


class Normalization(NamedTuple):
    """What a checkpoint's image processor makes of a byte of a colour: (byte / 255 - mean) / std."""

    mean: tuple[float, ...]  # of each colour
    std: tuple[float, ...]
    temporal: int  # frames that a patch spans: a still picture is repeated so often


class Picture(NamedTuple):
    """One frame, cut into patches.

    `patches` is uint8 [grid_h * grid_w, colours * patch * patch], an eighth of the bytes that the tower
    reads; `grid` is (1, grid_h, grid_w) in patches; `tokens` is how many placeholders it fills in the
    language model.
    """

    patches: torch.Tensor
    grid: tuple[int, int, int]
    tokens: int
    normalization: Normalization


def pixel_values(pictures: Sequence[Picture], device: torch.device | None = None) -> torch.Tensor:
    """Return the tower's input of one or more pictures of one checkpoint, computed on `device`.

    It is float32 [patches of all, colours * temporal * patch * patch].
    """
    mean, std, temporal = pictures[0].normalization
    patches = torch.cat([picture.patches for picture in pictures]).to(device)
    means, stds = (torch.tensor(x, device=device)[:, None] for x in (mean, std))
    values: torch.Tensor = (patches.unflatten(1, (len(mean), -1)).float() / 255 - means) / stds
    return values[:, :, None].expand(-1, -1, temporal, -1).flatten(1)


def patchify(pixels: torch.Tensor, patch: int, merge: int) -> torch.Tensor:
    """Cut [height, width, colours] into [patches, colours * patch * patch], merged ones adjacent.

    The order is that of transformers' Qwen2-VL image processor.
    """
    height, width, colours = pixels.shape
    rows, columns = height // patch, width // patch
    blocks = pixels.reshape(rows // merge, merge, patch, columns // merge, merge, patch, colours)
    return blocks.permute(0, 3, 1, 4, 6, 2, 5).reshape(rows * columns, colours * patch * patch)
