"""The in-process engine: batched sampling for every episode that waits, KV cache kept between an episode's turns.

`LocalPolicy` is a `guiagent.protocols.Policy`. Episodes call `act` concurrently on the event loop; one worker thread
takes all that wait, runs one batched prefill and decode, and answers them together. What an episode's earlier turns
left in the KV cache is used again, so that a turn encodes only its new screenshot; new weights make it stale, and the
episode's tokens are then encoded afresh. Token ids and log-probabilities are kept exactly as sampled.
"""

import asyncio
import queue
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForImageTextToText
from transformers.cache_utils import DynamicCache

from guiagent.errors import DialectError
from guiagent.protocols import Turn
from guiagent.types import Observation, PolicyStep
from training.batch import rope_positions
from training.encode import Encoder, Picture

Layers = list[tuple[torch.Tensor, torch.Tensor]]  # per layer: keys and values, [batch, heads, length, size]


@dataclass
class _Kept:
    """One episode's rows of a batch's cache, cut out only if another turn asks for them."""

    layers: Layers
    row: int
    columns: torch.Tensor  # the cache columns that hold this episode's tokens, in order
    version: int

    def take(self) -> Layers:
        return [(k[self.row][:, self.columns], v[self.row][:, self.columns]) for k, v in self.layers]


@dataclass
class _Episode:
    ids: list[int] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    kept: _Kept | None = None


@dataclass
class _Request:
    episode: _Episode
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[tuple[list[int], list[float], int]]"



class LocalPolicy:
    """A checkpoint that answers screenshots; `temperature` 0 is greedy. Close it when done."""

    def __init__(
        self,
        checkpoint: Path,
        *,
        temperature: float = 1.0,
        max_new_tokens: int = 32,
        max_batch: int = 64,
        seed: int = 0,
    ) -> None:
        self.encoder = Encoder(checkpoint)
        self.model = AutoModelForImageTextToText.from_pretrained(checkpoint, local_files_only=True).eval()
        self.version = 0
        self.turns = 0
        self.tokens_prefilled = 0
        self._temperature = temperature
        self._max_new_tokens = max_new_tokens
        self._max_batch = max_batch
        self._merge: int = self.model.config.vision_config.spatial_merge_size
        self._generator = torch.Generator().manual_seed(seed)
        self._episodes: dict[str, _Episode] = {}
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._weights = threading.Lock()
        self._worker = threading.Thread(target=self._serve, name="policy", daemon=True)
        self._worker.start()

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyStep:
        """Sample the next turn. The conversation is kept here by `episode`; `history` is not encoded again."""
        picture = self.encoder.picture(observation.frame)
        state = self._episodes.get(episode)
        if state is None:
            state = self._episodes[episode] = _Episode()
            prompt = self.encoder.first_prompt(instruction, picture)
        else:
            prompt = self.encoder.next_prompt(picture, ended=state.ids[-1] == self.encoder.eos)
        state.ids += prompt
        state.pictures.append(picture)
        loop = asyncio.get_running_loop()
        request = _Request(state, loop, loop.create_future())
        self._requests.put(request)
        completion, logprobs, version = await request.future
        text = self.encoder.decode(completion)
        step = PolicyStep(
            text=text,
            prompt_ids=prompt,
            completion_ids=completion,
            logprobs=logprobs,
            policy_version=version,
        )
        try:
            actions = self.encoder.dialect.parse(text, (observation.width, observation.height))
            step.actions = [action.model_dump() for action in actions]
        except DialectError as error:
            step.error = str(error)
        return step

    def forget(self, episode: str) -> None:
        self._episodes.pop(episode, None)

    def load_weights(self, state: Mapping[str, torch.Tensor], version: int) -> None:
        """Copy new weights in between two batches; turns sampled from now on carry `version`."""
        with self._weights, torch.no_grad():
            own = self.model.state_dict()
            for name, tensor in state.items():
                own[name].copy_(tensor)
            self.version = version

    def close(self) -> None:
        self._requests.put(None)
        self._worker.join()

    # -- the worker thread ------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while (first := self._requests.get()) is not None:
            batch = [first]
            while len(batch) < self._max_batch and not self._requests.empty():
                request = self._requests.get()
                if request is None:
                    self._requests.put(None)
                    break
                batch.append(request)
            try:
                with self._weights, torch.inference_mode():
                    results = self._generate([request.episode for request in batch])
                    version = self.version
            except Exception as error:  # whatever it is belongs to the episodes that wait, not to this thread
                for request in batch:
                    request.loop.call_soon_threadsafe(_fail, request.future, error)
                continue
            for request, (ids, logprobs) in zip(batch, results, strict=True):
                request.loop.call_soon_threadsafe(_resolve, request.future, (ids, logprobs, version))

    def _generate(self, episodes: Sequence[_Episode]) -> list[tuple[list[int], list[float]]]:
        """Sample one completion for each episode and append it to the episode's ids.

        The batch cache has the columns [kept tokens, left-padded | new tokens, right-padded | sampled tokens]; padding
        is masked everywhere, so a row computes what it would compute alone.
        """
        rows = len(episodes)
        kept = [self._usable(episode) for episode in episodes]
        done = [0 if k is None else len(k.columns) for k in kept]  # tokens of each row the cache holds already
        fresh = [episode.ids[n:] for episode, n in zip(episodes, done, strict=True)]
        past, new = max(done), max(len(ids) for ids in fresh)
        self.turns += rows
        self.tokens_prefilled += sum(len(ids) for ids in fresh)

        ids = torch.full((rows, new), self.encoder.pad)
        mask = torch.zeros((rows, past + new), dtype=torch.long)
        positions = torch.zeros((3, rows, new), dtype=torch.long)
        next_position = torch.zeros(rows, dtype=torch.long)
        pictures: list[Picture] = []
        for row, (episode, tokens) in enumerate(zip(episodes, fresh, strict=True)):
            n = len(tokens)
            ids[row, :n] = torch.tensor(tokens)
            mask[row, past - done[row] : past + n] = 1
            grids = [picture.grid for picture in episode.pictures]
            axes, next_position[row] = rope_positions(episode.ids, grids, self.encoder.image_token, self._merge)
            positions[:, row, :n] = axes[:, done[row] :]
            pictures += episode.pictures[-1:] if done[row] else episode.pictures
        cache = _stack(kept, past)
        output = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            pixel_values=torch.cat([picture.patches for picture in pictures]),
            image_grid_thw=torch.tensor([picture.grid for picture in pictures]),
            use_cache=True,
            logits_to_keep=_last_columns(fresh, new),
        )
        last = torch.tensor([len(tokens) for tokens in fresh]) - 1
        logits = output.logits[torch.arange(rows), last - (new - output.logits.shape[1])]

        completions: list[list[int]] = [[] for _ in range(rows)]
        logprobs: list[list[float]] = [[] for _ in range(rows)]
        running = torch.ones(rows, dtype=torch.bool)
        for _ in range(self._max_new_tokens):
            tokens, scores = self._sample(logits)
            for row in running.nonzero()[:, 0].tolist():
                completions[row].append(int(tokens[row]))
                logprobs[row].append(float(scores[row]))
            running &= tokens != self.encoder.eos
            if not running.any() or len(completions[0]) == self._max_new_tokens:
                break
            mask = torch.cat([mask, running.long()[:, None]], dim=1)
            step_positions = next_position.view(1, rows, 1).expand(3, rows, 1)
            next_position = next_position + 1
            output = self.model(
                input_ids=tokens[:, None],
                attention_mask=mask,
                position_ids=step_positions,
                past_key_values=cache,
                use_cache=True,
            )
            logits = output.logits[:, -1]

        layers = [(layer.keys, layer.values) for layer in cache.layers]
        for row, (episode, completion) in enumerate(zip(episodes, completions, strict=True)):
            episode.ids += completion
            episode.kept = _Kept(layers, row, mask[row].nonzero()[:, 0], self.version)
        return list(zip(completions, logprobs, strict=True))

    def _usable(self, episode: _Episode) -> _Kept | None:
        return episode.kept if episode.kept is not None and episode.kept.version == self.version else None

    def _sample(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens [batch] and their log-probabilities under the distribution they were drawn from."""
        scores = logits.float()
        scores[:, self.encoder.unsampled] = -torch.inf
        if self._temperature == 0:
            tokens = scores.argmax(dim=-1)
            return tokens, torch.zeros(len(tokens))
        logprobs = torch.log_softmax(scores / self._temperature, dim=-1)
        tokens = torch.multinomial(logprobs.exp(), 1, generator=self._generator)[:, 0]
        return tokens, logprobs.gather(-1, tokens[:, None])[:, 0]


def _stack(kept: Sequence[_Kept | None], past: int) -> DynamicCache:
    """The episodes' kept keys and values as one left-padded batch cache of `past` columns."""
    cache = DynamicCache()
    found = [k.take() if k is not None else None for k in kept]
    example = next((layers for layers in found if layers is not None), None)
    if example is None:
        return cache
    for index, (key, _) in enumerate(example):
        heads, _, size = key.shape
        keys, values = (torch.zeros(len(kept), heads, past, size) for _ in range(2))
        for row, layers in enumerate(found):
            if layers is not None:
                k, v = layers[index]
                keys[row, :, past - k.shape[1] :] = k
                values[row, :, past - v.shape[1] :] = v
        cache.update(keys, values, index)
    return cache


def _last_columns(fresh: Sequence[Sequence[int]], new: int) -> int:
    """How many trailing columns of the prefill hold every row's last token: only these need logits."""
    return new - min(len(tokens) for tokens in fresh) + 1


def _resolve(future: "asyncio.Future[Any]", value: object) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: "asyncio.Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
