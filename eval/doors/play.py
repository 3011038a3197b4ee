"""Whole episodes of a suite's tasks, for runners of others that bring the model and keep the result."""

from typing import Any

import xxhash

from eval.stepping import SuiteTasks
from guiagent.client import FarmClient
from guiagent.episode import run_episode
from guiagent.errors import FaultError
from guiagent.protocols import Policy
from guiagent.types import ObserveSpec, Trajectory
from guiagent.wire import Endpoint


async def play(
    tasks: SuiteTasks,
    name: str,
    seed: int,
    policy: Policy,
    endpoint: Endpoint,
    *,
    label: str,
    max_steps: int | None = None,
) -> Trajectory:
    """An episode by the agent loop of `guiagent eval`, on a device leased for it. Raises FaultError."""
    task = tasks.exactly(name, seed)
    async with FarmClient(endpoint.url, endpoint.token) as farm, tasks.lease(farm, label) as device:
        played = await run_episode(
            task,
            device,
            policy,
            keep_frame=xxhash.xxh3_128_hexdigest,
            spec=ObserveSpec(),
            max_steps=max_steps,
        )
    if played.fault is not None:
        raise FaultError(played.fault)
    return played


def told(played: Trajectory) -> dict[str, Any]:
    """What an episode came to, as plain data. `score` is None where the check could not tell."""
    score, errors = played.score, [step.policy.error for step in played.steps if step.policy.error]
    return {
        "score": None if score is None else score.value,
        "reason": "" if score is None else score.reason,
        "instruction": played.instruction,
        "stop": played.stop,
        "steps": len(played.steps),
        "answer": played.ending.answer,
        "error": errors[-1] if errors else None,
    }
