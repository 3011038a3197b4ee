"""Crop and select: a policy points, is shown what lies round its point at full resolution, and points again.

On screens with more pixels than a model sees, the second look has the pixels that the first one lost; Li et
al. 2025 (ScreenSpot-Pro, arXiv:2504.07981) compare such methods.
"""

import asyncio
import io
from collections.abc import Sequence
from typing import Any

import xxhash
from msgspec.structs import replace
from pydantic import ValidationError

from guiagent.actions import ACTIONS, Click, LongPress, MouseDown, Move
from guiagent.frames import rgb_of_device
from guiagent.protocols import Policy, Turn
from guiagent.types import Observation, PolicyOutput

Window = tuple[int, int, int, int]  # left, top, right, bottom in pixels


class ZoomPolicy:
    """A policy that asks `policy` twice a turn; the second time with a window of `share` of each side.

    Where either look gives no point, the first reply stands. The output has the texts and tokens of both, so
    that effort is counted; it is for evaluation on single pictures, and nothing to learn from.
    """

    def __init__(self, policy: Policy, share: float) -> None:
        self._policy = policy
        self._share = share

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        first = await self._policy.act(episode, instruction, history, observation)
        if (point := pointed(first)) is None or not observation.frame:
            return first
        window = window_at(point, (observation.width, observation.height), self._share)
        closer = await asyncio.to_thread(cropped, observation, window)
        look = f"{episode}#{len(history)}"
        try:
            second = await self._policy.act(look, instruction, [], closer)
        finally:
            self._policy.forget(look)
        return _joined(first, second, window)

    def forget(self, episode: str) -> None:
        self._policy.forget(episode)


def pointed(output: PolicyOutput) -> tuple[int, int] | None:
    """The point of a reply's first action; None if that is no pointing action, or there is none."""
    try:
        first = ACTIONS.validate_python(output.actions[:1])
    except ValidationError:
        return None
    match first:
        case [Click() | Move() | LongPress() | MouseDown() as action]:
            return action.x, action.y
    return None


def window_at(point: tuple[int, int], size: tuple[int, int], share: float) -> Window:
    """The window of `share` of each side of a frame with the point in its middle, or as near as it can be."""
    (x, y), (width, height) = point, size
    across, down = max(1, round(width * share)), max(1, round(height * share))
    left, top = (
        min(max(x - across // 2, 0), width - across),
        min(max(y - down // 2, 0), height - down),
    )
    return left, top, left + across, top + down


def cropped(observation: Observation, window: Window) -> Observation:
    """What lies in a window, as a frame of its own without tree and probes, which have the whole's pixels."""
    part = rgb_of_device(observation.frame).crop(window)
    out = io.BytesIO()
    part.save(out, "PNG")
    frame = out.getvalue()
    return replace(
        observation,
        width=part.width,
        height=part.height,
        frame=frame,
        hash=xxhash.xxh3_128_hexdigest(frame),
        media_type="image/png",
        tree=None,
        probes={},
    )


def _joined(first: PolicyOutput, second: PolicyOutput, window: Window) -> PolicyOutput:
    """Both replies as one: the second's point in pixels of the whole frame, or else the first's actions."""
    actions: list[dict[str, Any]] = first.actions
    if (point := pointed(second)) is not None:
        whole = {"x": point[0] + window[0], "y": point[1] + window[1]}
        actions = [{**second.actions[0], **whole}]
    return PolicyOutput(
        f"{first.text}\n\n[in the window {window}]\n{second.text}",
        actions,
        prompt_ids=first.prompt_ids + second.prompt_ids,
        completion_ids=first.completion_ids + second.completion_ids,
        logprobs=first.logprobs + second.logprobs,
        policy_version=min(first.policy_version, second.policy_version),
        fresh=True,
    )
