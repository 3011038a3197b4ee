"""The in-process engine's vision tower gets the screens of each turn: numbers in them are read back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from numpy.typing import NDArray

from guiagent.episode import PastTurn
from tests.support.canary import canary, number_in
from training.config import HistoryConfig
from training.engine.policy import LocalPolicy
from training.engine.sampling import Sampling
from training.inputs.encoder import Encoder

SIZE = (160, 96)
TURNS = 5
WINDOW = 2


def pictures_of(patches: torch.Tensor, grids: torch.Tensor, patch: int, merge: int) -> list[NDArray[Any]]:
    """Pixels [height, width, 3] of pictures that were cut into patches, as Qwen-VL's processors cut them."""
    found, at = [], 0
    for _, rows, columns in grids.tolist():
        cut = patches[at : at + rows * columns]
        at += rows * columns
        cells = cut.reshape(rows // merge, columns // merge, merge, merge, 3, -1, patch, patch)[
            :, :, :, :, :, 0
        ]
        found.append(cells.permute(0, 2, 5, 1, 3, 6, 4).reshape(rows * patch, columns * patch, 3).numpy())
    return found


@pytest.fixture(params=["full", "anchored", "sliding"])
def policy(request: pytest.FixtureRequest, checkpoint: Path) -> Iterator[LocalPolicy]:
    history = HistoryConfig(kind=request.param, images=WINDOW)
    policy = LocalPolicy(Encoder(checkpoint), Sampling(max_new_tokens=3), history=history, seed=1)
    yield policy
    policy.close()


async def test_the_tower_sees_the_screen_of_every_turn(
    policy: LocalPolicy, request: pytest.FixtureRequest
) -> None:
    tower = policy.engine.model.model.visual
    vision = policy.engine.model.config.vision_config
    seen: list[int] = []

    def look(_: torch.nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        patches, grids = (*given, *named.values())[:2]
        patches = patches.detach().float().cpu()
        pictures = pictures_of(patches, grids, vision.patch_size, vision.spatial_merge_size)
        seen.extend(number_in(picture) for picture in pictures)

    tower.register_forward_pre_hook(look, with_kwargs=True)
    history: list[PastTurn] = []
    newest, told = [], []
    for turn in range(TURNS):
        screen = canary(200 + turn, SIZE)
        seen.clear()
        output = await policy.act("e", "do it", history, screen)
        history.append(PastTurn(screen, output))
        newest.append(seen[-1])
        told.append(list(seen))
    assert newest == [200 + turn for turn in range(TURNS)]
    if policy._history.kind == "sliding":  # what is left of the window is prompted anew
        assert told[-1] == [200 + TURNS - 2, 200 + TURNS - 1]
    else:  # the rest is in the cache
        assert told == [[200 + turn] for turn in range(TURNS)]
