"""A suite as a task of inspect_ai (0.3): tasks and seeds as its dataset, leased devices behind its solver.

An episode is played by the same loop as in `guiagent eval`, with inspect's model as the policy, and scored by
the task's own check. What a device or the farm breaks is an error of the sample and never a score, so that
inspect's own `fail_on_error` and `retry_on_error` say what becomes of it.
"""

import base64
from collections.abc import Sequence
from typing import Any

from eval.doors.play import play, told
from eval.stepping import SuiteTasks
from guiagent.client.sync import connect
from guiagent.dialects import Dialect, find_dialect, replies
from guiagent.dialects.prompts import messages
from guiagent.errors import MissingProgram
from guiagent.protocols import Turn
from guiagent.types import Observation, PolicyOutput

_KEPT = "guiagent"  # in a sample's store: what its episode came to


def suite_task(
    suite: str,
    *,
    dialect: str = "json",
    episodes: int = 1,
    devices: int = 4,
    pool: str | None = None,
    max_steps: int | None = None,
    max_images: int | None = 5,
) -> Any:
    """An `inspect_ai.Task` of a suite: each of its tasks on the first `episodes` of its held-out seeds.

    The model speaks `dialect` and sees the last `max_images` screenshots (None: all); an episode has
    `max_steps` turns, or as many as its task allows. `pool` is as for `guiagent.connect`; without one, this
    user's pool is used, or one of `devices` is started that ends with this process. At most `devices` samples
    are played at the same time.

    Raises MissingProgram without the package inspect-ai, UsageError for what there is not.
    """
    try:
        from inspect_ai import Task  # type: ignore[import-not-found]
        from inspect_ai.dataset import MemoryDataset, Sample  # type: ignore[import-not-found]
        from inspect_ai.scorer import mean, scorer, stderr  # type: ignore[import-not-found]
        from inspect_ai.solver import solver  # type: ignore[import-not-found]
        from inspect_ai.util import concurrency  # type: ignore[import-not-found]
    except ImportError:
        raise MissingProgram("inspect_ai is not installed: pip install inspect-ai") from None
    tasks, language = SuiteTasks(suite, "evaluation"), find_dialect(dialect)
    samples = [
        Sample(input=f"{name}, seed {seed}", id=f"{name}/{seed}", metadata={"task": name, "seed": seed})
        for name in tasks.names
        for seed in tasks.seeds(episodes)
    ]

    @solver("guiagent/episode")  # type: ignore[untyped-decorator]
    def episode(suite: str, dialect: str, max_steps: int | None, max_images: int | None) -> Any:
        endpoint = connect(pool, devices=[tasks.devices(devices)]).endpoint

        async def solve(state: Any, generate: Any) -> Any:
            name, seed = state.metadata["task"], state.metadata["seed"]
            policy = _InspectPolicy(state, language, max_images)
            async with concurrency(f"guiagent {suite}", devices):
                played = await play(
                    tasks, name, seed, policy, endpoint, label="inspect_ai", max_steps=max_steps
                )
            state.store.set(_KEPT, told(played))
            if policy.limit is not None:
                raise policy.limit
            return state

        return solve

    @scorer([mean(), stderr(cluster="task")], name="guiagent/check")  # type: ignore[untyped-decorator]
    def check() -> Any:
        from inspect_ai.scorer import Score

        async def score(state: Any, target: Any) -> Any:
            kept = dict(state.store.get(_KEPT, {"score": None, "reason": "the episode did not end"}))
            value, reason = kept.pop("score"), kept.pop("reason")
            if value is None:
                return Score.unscored(explanation=reason, metadata=kept)
            return Score(value=value, explanation=reason, metadata=kept)

        return score

    return Task(
        name=suite,
        dataset=MemoryDataset(samples, name=suite),
        solver=episode(suite, dialect, max_steps, max_images),
        scorer=check(),
        metadata={"suite": suite, "digest": tasks.suite.digest},
    )


class _InspectPolicy:
    """The model of a running sample as a `Policy`; `state` always has the conversation as it was sent.

    A limit that inspect sets ends the episode: its state is scored, and `limit` is to be raised then.
    """

    def __init__(self, state: Any, dialect: Dialect, max_images: int | None) -> None:
        self.limit: BaseException | None = None
        self._state, self._dialect, self._max_images = state, dialect, max_images

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        from inspect_ai.model import ChatMessage, get_model  # type: ignore[import-not-found]
        from inspect_ai.util import LimitExceededError
        from pydantic import TypeAdapter

        conversation = messages(
            self._dialect, instruction, history, observation, image=_image, max_images=self._max_images
        )
        try:
            self._state.messages = TypeAdapter(list[ChatMessage]).validate_python(conversation)
            answered = await get_model().generate(self._state.messages)
            self._state.output = answered
            self._state.messages.append(answered.message)
        except LimitExceededError as limit:
            self.limit = limit
            return PolicyOutput("", error=str(limit))
        output = PolicyOutput(answered.completion)
        replies.read(output, self._dialect, (observation.width, observation.height))
        return output

    def forget(self, episode: str) -> None:
        pass


def _image(observation: Observation) -> dict[str, Any]:
    data = base64.b64encode(observation.frame).decode()
    return {"type": "image", "image": f"data:{observation.media_type};base64,{data}"}
