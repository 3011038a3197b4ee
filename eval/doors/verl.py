"""A suite's tasks for verl (0.9): an agent loop that plays them on leased devices, and rows of its data set.

An episode is played by the loop of `guiagent eval`, in verl's own worker. The model is verl's: its processor
encodes prompt and screenshots, its servers sample, and its continuous tokens keep what was sampled, so that
nothing is tokenised twice. The reward is the task's own check. A fault is raised and never a reward: verl
then has no trajectory of that rollout.
"""

import asyncio
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple
from uuid import uuid4

from PIL import Image

from eval.doors.play import play, told
from eval.doors.tools import untagged
from eval.stepping import SuiteTasks
from guiagent.client.sync import connect
from guiagent.dialects import find_dialect, replies
from guiagent.dialects.coordinates import CoordinateSpace
from guiagent.dialects.prompts import Message, messages
from guiagent.errors import Fault, FaultError, InfrastructureError, MissingProgram, UsageError
from guiagent.frames import rgb_of_device
from guiagent.protocols import Turn
from guiagent.types import Observation, PolicyOutput
from guiagent.wire import Endpoint

try:
    from verl.experimental.agent_loop import AgentLoopBase, AgentLoopOutput  # type: ignore[import-not-found]
except ImportError:
    raise MissingProgram("verl is not installed: pip install verl") from None

_KEPT = "guiagent"  # in a trajectory's extra fields: what its episode came to


def rows(tasks: SuiteTasks, episodes: int = 1, agent: str = "guiagent") -> list[dict[str, Any]]:
    """The rows of a data set, for `datasets.Dataset.from_list(...).to_parquet(...)`: every task on its first
    seeds, for the agent loop of this name. The model is not shown a row's `prompt`: its first turn is what
    the task says once it is set up.

    Raises UsageError where a suite has no tasks to learn from.
    """
    if not tasks.names:
        raise UsageError(f"{tasks.suite.name} has no tasks to learn from: split 'evaluation' has all")
    played = [(name, seed) for name in tasks.names for seed in tasks.seeds(episodes)]
    return [
        {
            "data_source": tasks.suite.name,
            "agent_name": agent,
            "prompt": [{"role": "user", "content": f"{name}, seed {seed}"}],
            "extra_info": {"index": index, "task": name, "seed": seed},
        }
        for index, (name, seed) in enumerate(played)
    ]


class GuiAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """A rollout of verl's: a task on a leased device. Name it in a file that verl's config names, in
    `actor_rollout_ref.rollout.agent.agent_loop_config_path`; what stands beside `_target_` comes here:

        - name: guiagent
          _target_: eval.doors.verl.GuiAgentLoop
          suite: lab

    `split` "train" has a suite's training tasks and their seeds. The model speaks `dialect`, sees all
    screenshots, and has `reply_tokens` a reply; an episode has `max_steps` turns, or as many as its task
    allows, and ends, scored as it is, before a screenshot that `response_length` has no room for. Each of
    verl's workers holds up to `devices` at the same time, of `pool` (as for `guiagent.connect`; its token
    is in $GUIAGENT_TOKEN); without one, of this user's pool, or of one that it starts for itself.
    """

    def __init__(
        self,
        *args: Any,
        suite: str,
        split: str = "train",
        dialect: str = "json",
        reply_tokens: int = 512,
        max_steps: int | None = None,
        devices: int = 4,
        pool: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._assert_mm_supported(True)
        self.tasks, self.dialect = SuiteTasks(suite, split), find_dialect(dialect)
        self.reply_tokens, self._max_steps = reply_tokens, max_steps
        if self.dialect.space.kind == "resized":
            self.dialect.space = _space(self.processor.image_processor, self.mm_processor_kwargs)
        self._places = _places(pool, self.tasks.devices(devices), devices)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Play the row's task. Raises InfrastructureError for a fault, or a check that could not tell."""
        name, seed = row["extra_info"]["task"], int(row["extra_info"]["seed"])
        rollout = _Rollout(self, sampling_params, int(row.get("priority", 0)))
        try:
            async with self._places.free:
                played = await play(
                    *(self.tasks, name, seed, rollout, self._places.endpoint),
                    label="verl",
                    max_steps=self._max_steps,
                )
        except FaultError as error:  # raised as a plain error, which crosses processes
            raise InfrastructureError(f"no reward for {name}, seed {seed}: {error}") from error
        came_to = told(played)
        if came_to["score"] is None:
            raise InfrastructureError(f"no reward for {name}, seed {seed}: {came_to['reason']}")
        begun = len(rollout.ids) - len(rollout.mask)
        return AgentLoopOutput(
            prompt_ids=rollout.ids[:begun],
            response_ids=rollout.ids[begun:],
            response_mask=rollout.mask,
            response_logprobs=rollout.logprobs,
            multi_modal_data={"images": rollout.images},
            mm_processor_kwargs=self._get_mm_processor_kwargs(),
            reward_score=came_to["score"],
            num_turns=2 * len(played.steps),
            metrics={
                "generate_sequences": sum(step.policy_ms for step in played.steps) / 1000,
                "tool_calls": sum(step.device_ms for step in played.steps) / 1000,
            },
            extra_fields={**rollout.extra, "turn_scores": [], "tool_rewards": [], _KEPT: came_to},
        )


class _Rollout:
    """The model of a running episode as a `Policy`, and the tokens that it was shown and that it sampled."""

    def __init__(self, loop: GuiAgentLoop, sampling: dict[str, Any], priority: int) -> None:
        self.ids: list[int] = []  # of the whole conversation
        self.mask: list[int] = []  # of what follows the prompt: 1 for sampled tokens
        self.logprobs: list[float] | None = [] if sampling.get("logprobs") else None  # beside the mask
        self.images: list[Image.Image] = []
        self.extra: dict[str, Any] = {}
        self._loop, self._sampling, self._priority = loop, sampling, priority
        self._request = uuid4().hex  # the same for all turns, which then go to the same server
        self._said: list[Message] = []

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        if not await self._show(instruction, history, observation):
            return PolicyOutput("", error="the conversation has no room for another screenshot")
        output = PolicyOutput(await self._sample())
        replies.read(output, self._loop.dialect, (observation.width, observation.height))
        return output

    def forget(self, episode: str) -> None:
        pass

    async def _show(self, instruction: str, history: Sequence[Turn], observation: Observation) -> bool:
        """Add a turn of the user's, unless the response has no room for it and a reply."""
        loop, picture = self._loop, rgb_of_device(observation.frame)
        turns = messages(
            *(loop.dialect, untagged(instruction), history, observation),
            image=lambda _: {"type": "image", "image": picture},
        )
        if not history:
            self._said = turns
            self.ids = await loop.ct_build_initial_tokens(turns, images=[picture])
        else:
            said = [*self._said, turns[-1]]
            merged, mask, logprobs = await loop.ct_merge_context_msg(
                self._said, said, self.ids, self.mask, self.logprobs
            )
            if len(mask) >= loop.rollout_config.response_length:
                return False
            self._said, self.ids, self.mask, self.logprobs = said, merged.token_ids, mask, logprobs
        self.images.append(picture)
        return True

    async def _sample(self) -> str:
        loop = self._loop
        room = loop.rollout_config.response_length - len(self.mask)
        sampled = await loop.server_manager.generate(
            request_id=self._request,
            prompt_ids=self.ids,
            sampling_params={**self._sampling, "max_tokens": min(loop.reply_tokens, room)},
            image_data=self.images,
            mm_processor_kwargs=loop._get_mm_processor_kwargs(),
            priority=self._priority,
        )
        if sampled.stop_reason in ("aborted", "abort"):
            raise FaultError(Fault("policy", "aborted", "the server ended a reply before its end"))
        merged, self.mask, self.logprobs = await loop.ct_merge_assistant_token(
            *(self.ids, sampled.token_ids, self.mask, self.logprobs),
            assistant_logprobs=None if self.logprobs is None else sampled.log_probs,
        )
        self.ids = merged.token_ids
        # Which versions of the weights sampled: the first one of the first reply, the last one of the last.
        newest = sampled.extra_fields.get("max_global_steps")
        self.extra = {**sampled.extra_fields, **self.extra, "max_global_steps": newest}
        text = str(loop.tokenizer.decode(sampled.token_ids, skip_special_tokens=True))
        self._said.append({"role": "assistant", "content": [{"type": "text", "text": text}]})
        return text


class _Places(NamedTuple):
    endpoint: Endpoint
    free: asyncio.Semaphore


@cache
def _places(pool: str | None, devices: str, most: int) -> _Places:
    """The pool of this process, and its places for rollouts at the same time."""
    return _Places(connect(pool, devices=[devices]).endpoint, asyncio.Semaphore(most))


def _space(images: Any, asked: dict[str, Any]) -> CoordinateSpace:
    """Pixels of the pictures that this image processor makes; verl's config may ask for other bounds."""
    least, most = images.size["shortest_edge"], images.size["longest_edge"]
    factor = images.patch_size * images.merge_size
    return CoordinateSpace("resized", factor, asked.get("min_pixels", least), asked.get("max_pixels", most))
