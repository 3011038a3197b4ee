"""Crop and select: windows, the way back to the whole frame, what counts where a look gives no point."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from guiagent.policies import ZoomPolicy
from guiagent.policies.zooming import cropped, pointed, window_at
from guiagent.protocols import Turn
from guiagent.types import Observation, PolicyOutput

RED = (255, 0, 0)


def screen(width: int, height: int, spot: tuple[int, int]) -> Observation:
    """A grey frame with a red square of 12 pixels round a spot."""
    picture = Image.new("RGB", (width, height), (90, 90, 90))
    picture.paste(RED, (spot[0] - 6, spot[1] - 6, spot[0] + 6, spot[1] + 6))
    out = io.BytesIO()
    picture.save(out, "PNG")
    return Observation(width, height, "h", "image/png", out.getvalue(), probes={"oracle": "secret"})


class Coarse:
    """Finds the red square, but can only name points of a grid of 16 by 16: the eyes of a small model."""

    def __init__(self, silent: Sequence[str] = ()) -> None:
        self.silent = silent
        self.seen: list[Observation] = []
        self.forgotten: list[str] = []

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        self.seen.append(observation)
        if episode in self.silent:
            return PolicyOutput("nothing", [], "no action")
        with Image.open(io.BytesIO(observation.frame)) as picture:
            row, column = np.argwhere(np.all(np.asarray(picture) == RED, axis=2)).mean(axis=0)
        across, down = observation.width / 16, observation.height / 16
        x, y = int((column // across + 0.5) * across), int((row // down + 0.5) * down)
        click: dict[str, Any] = {"type": "click", "x": x, "y": y, "button": "left"}
        return PolicyOutput(f"{x},{y}", [click], None, [1, 2], [3], [-0.5])

    def forget(self, episode: str) -> None:
        self.forgotten.append(episode)


async def test_a_second_look_finds_what_the_first_one_blurs() -> None:
    shown, spot = screen(1280, 800, (1003, 611)), (1003, 611)
    once = pointed(await Coarse().act("e", "", [], shown))
    policy = Coarse()
    output = await ZoomPolicy(policy, 0.2).act("e", "", [], shown)
    twice = pointed(output)
    assert once and twice
    assert max(abs(once[0] - spot[0]), abs(once[1] - spot[1])) > 12
    assert abs(twice[0] - spot[0]) <= 9 and abs(twice[1] - spot[1]) <= 9  # half a cell, rounded
    first, second = policy.seen
    assert (first.width, second.width, second.height) == (1280, 256, 160)
    assert second.probes == {} and second.hash != first.hash
    assert output.completion_ids == [3, 3] and len(output.logprobs) == 2 and len(output.prompt_ids) == 4
    assert policy.forgotten == ["e#0"]


async def test_where_a_look_gives_no_point_the_first_reply_stands() -> None:
    shown = screen(320, 200, (100, 100))
    alone = await Coarse().act("e", "", [], shown)
    blind = await ZoomPolicy(Coarse(silent=["e#0"]), 0.3).act("e", "", [], shown)
    assert blind.actions == alone.actions and blind.completion_ids == [3]
    silent = Coarse(silent=["e"])
    assert (await ZoomPolicy(silent, 0.3).act("e", "", [], shown)).error == "no action"
    assert len(silent.seen) == 1


@given(st.data(), st.integers(2, 4000), st.integers(2, 4000), st.floats(0.05, 0.95))
def test_a_window_lies_in_the_frame_and_holds_the_point(
    data: st.DataObject, width: int, height: int, share: float
) -> None:
    x, y = data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))
    left, top, right, bottom = window_at((x, y), (width, height), share)
    assert 0 <= left <= x < right <= width and 0 <= top <= y < bottom <= height
    assert (right - left, bottom - top) == (max(1, round(width * share)), max(1, round(height * share)))


@pytest.mark.parametrize(
    "actions", [[], [{"type": "wait"}], [{"type": "click", "x": -3, "y": 0}], [{"a": 1}]]
)
def test_only_a_valid_pointing_action_is_a_point(actions: list[dict[str, Any]]) -> None:
    assert pointed(PolicyOutput("", actions)) is None


def test_a_crop_is_the_pixels_of_the_frame() -> None:
    part = cropped(screen(100, 80, (50, 40)), (44, 34, 56, 46))
    with Image.open(io.BytesIO(part.frame)) as picture:
        assert picture.size == (12, 12) and np.all(np.asarray(picture) == RED)
