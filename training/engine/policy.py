"""A policy on any engine: builds an episode's prompts, turn by turn, with the configured history.

Its outputs record all that the model saw: `training.inputs.contexts.contexts` rebuilds from a trajectory the
exact token sequences that were sampled in.
"""

import asyncio
from collections.abc import Sequence

from guiagent.dialects import replies
from guiagent.errors import Fault, FaultError
from guiagent.protocols import Turn
from guiagent.types import Observation, PolicyOutput
from training.config import HistoryConfig
from training.engine.engine import Engine, Request
from training.engine.local import LocalEngine
from training.engine.sampling import Sampling
from training.inputs.encoder import Encoder
from training.inputs.history import addition
from training.model.pretrained import on_accelerator, open_model

FULL_HISTORY = HistoryConfig()
_SAMPLING = Sampling()


class EnginePolicy:
    """A `Policy` that samples each turn from `engine`, with the history that `history` configures.

    It has no state of its own: the past turns themselves record what was prompted and sampled.
    """

    def __init__(self, encoder: Encoder, engine: Engine, history: HistoryConfig = FULL_HISTORY) -> None:
        self.encoder = encoder
        self.engine = engine
        self._history = history

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyOutput:
        """Sample the next turn.

        Raises what the engine's `generate` raises, and FaultError for an instruction with pictures.
        """
        if observation.given:
            message = "a checkpoint is shown no pictures of an instruction: serve it, and name the server"
            raise FaultError(Fault("policy", "unsupported", message))
        outputs = [turn.output for turn in history]
        frames = [*(turn.observation.frame for turn in history), observation.frame]
        await asyncio.to_thread(self.encoder.picture, observation.frame)  # cached, without blocking the loop
        added = addition(self.encoder, self._history, instruction, outputs, frames)
        ids, shown = ([], []) if added.fresh else _context(outputs, frames)
        request = Request(episode, [*ids, *added.prompt_ids], [*shown, *frames[len(frames) - added.images :]])
        sampled = await self.engine.generate(request)
        step = PolicyOutput(
            text=self.encoder.decode(sampled.ids),
            prompt_ids=added.prompt_ids,
            completion_ids=sampled.ids,
            logprobs=sampled.logprobs,
            policy_version=min(version for _, version in sampled.versions),
            versions=sampled.versions if len(sampled.versions) > 1 else [],
            images=added.images,
            fresh=added.fresh,
        )
        replies.read(step, self.encoder.dialect, (observation.width, observation.height))
        return step

    def forget(self, episode: str) -> None:
        self.engine.forget(episode)

    def close(self) -> None:
        self.engine.close()


class LocalPolicy(EnginePolicy):
    """A policy that samples the checkpoint of `encoder` in this process. Close it when done."""

    engine: LocalEngine

    def __init__(
        self,
        encoder: Encoder,
        sampling: Sampling = _SAMPLING,
        *,
        history: HistoryConfig = FULL_HISTORY,
        seed: int = 0,
        max_batch: int = 64,
    ) -> None:
        """Raises InfrastructureError if the checkpoint has no weights, or damaged ones."""
        model = on_accelerator(open_model(encoder.checkpoint))
        engine = LocalEngine(model, encoder, sampling, seed=seed, max_batch=max_batch)
        super().__init__(encoder, engine, history)


def _context(outputs: Sequence[PolicyOutput], frames: Sequence[bytes]) -> tuple[list[int], list[bytes]]:
    """The tokens of the context that the next turn continues, and the frames in it."""
    first = max((turn for turn, output in enumerate(outputs) if output.fresh), default=0)
    ids = [token for output in outputs[first:] for token in (*output.prompt_ids, *output.completion_ids)]
    return ids, list(frames[max(0, first + 1 - outputs[first].images) if outputs else 0 : len(outputs)])
