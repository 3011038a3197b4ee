"""Contexts: the token sequences in which a trajectory's turns were sampled.

A context continues from turn to turn, or from call to call, until one begins a `fresh` one. With the full
history a trajectory is one context; with anchored windows there is one for every W turns; with sliding
windows one more for every turn after the first W. A turn of several calls may have several.
"""

from collections.abc import Sequence
from typing import NamedTuple

from guiagent.types import Call, Step, Trajectory


class Context(NamedTuple):
    """One token sequence: prompt, completion, prompt ... All lists but `frames` have its length."""

    ids: list[int]
    sampled: list[bool]  # the policy's own tokens
    logprobs: list[float]  # as sampled; 0 where not sampled
    turns: list[int]  # the index of the trajectory's step that added the token
    frames: list[str]  # hashes, in the order in which the frames appear in `ids`; one may appear twice


def contexts(trajectory: Trajectory) -> list[Context]:
    """Return the contexts of a trajectory, in order; every sampled token lies in exactly one of them."""
    found: list[Context] = []
    for turn, step in enumerate(trajectory.steps):
        for call in _calls(step, trajectory.steps[: turn + 1]):
            if not found or call.fresh:
                found.append(Context([], [], [], [], []))
            context = found[-1]
            prompt, completion = call.prompt_ids, call.completion_ids
            context.ids.extend([*prompt, *completion])
            context.sampled.extend([False] * len(prompt) + [True] * len(completion))
            context.logprobs.extend([0.0] * len(prompt) + call.logprobs)
            context.turns.extend([turn] * (len(prompt) + len(completion)))
            context.frames.extend(call.frames)
    return found


def shown(prompt: Sequence[int], reply: Sequence[int], frame: str) -> Context:
    """Return the context of one screen and the reply to it, which is to be learned and was not sampled."""
    length = len(prompt) + len(reply)
    own = [False] * len(prompt) + [True] * len(reply)
    return Context([*prompt, *reply], own, [0.0] * length, [0] * length, [frame])


def _calls(step: Step, so_far: Sequence[Step]) -> list[Call]:
    """Return the calls of a step whose tokens are known. A turn that is no list of calls is one, which shows
    the last steps' frames."""
    output = step.policy
    if output.calls:
        return [call for call in output.calls if call.completion_ids]
    frames = [one.frame for one in so_far[max(0, len(so_far) - output.images) :]]
    return [
        Call(
            prompt_ids=output.prompt_ids,
            completion_ids=output.completion_ids,
            logprobs=output.logprobs,
            frames=frames,
            fresh=output.fresh,
        )
    ]
