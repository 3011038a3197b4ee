"""The in-process engine: batched sampling for every episode that waits, with the KV cache kept between turns.

`LocalPolicy` is a `guiagent.protocols.Policy`. Episodes call `act` concurrently on the event loop; one worker
thread takes all that wait, runs one batched prefill and decode, and answers them together. What an episode's
earlier turns left in the KV cache is used again, so that a turn encodes only its new screenshot; new weights
make it stale, and the episode's tokens are then encoded afresh. Token ids and log-probabilities are kept
exactly as sampled.
"""

import asyncio
import queue
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

from guiagent.actions import ACTIONS
from guiagent.errors import DialectError
from guiagent.protocols import Turn
from guiagent.types import Observation, PolicyStep
from training.batch import rope_positions
from training.encode import Encoder, Picture
from training.pretrained import open_model

Layers = list[tuple[torch.Tensor, torch.Tensor]]  # per layer: keys and values, [batch, heads, length, size]


class _Kept(NamedTuple):
    """An episode's row of a batch's cache, cut out only if another turn asks for it."""

    layers: Layers
    row: int
    columns: torch.Tensor  # the cache columns that hold this episode's tokens, in order
    pictures: int  # among these tokens
    next_position: int
    version: int

    def take(self) -> Layers:
        return [(k[self.row][:, self.columns], v[self.row][:, self.columns]) for k, v in self.layers]


class _Sampled(NamedTuple):
    """One completion and what the cache keeps of its conversation."""

    ids: list[int]
    logprobs: list[float]
    kept: _Kept


class _Request(NamedTuple):
    """A conversation that waits for its next completion."""

    ids: list[int]
    pictures: list[Picture]
    kept: _Kept | None
    answer: "Future[_Sampled]"


@dataclass
class _Decoding:
    """A batch between two forward passes.

    The cache has the columns [kept tokens, left-padded | new tokens, right-padded | sampled tokens]; padding
    is masked everywhere, so a row computes what it would compute alone.
    """

    cache: DynamicCache
    mask: torch.Tensor  # [batch, columns of the cache]
    next_position: torch.Tensor  # [batch]
    logits: torch.Tensor  # [batch, vocabulary], of the next token


class LocalPolicy:
    """A checkpoint that answers screenshots. Close it when done.

    `temperature` 0 is greedy, and its log-probabilities are all 0: greedy sampling puts all mass on one
    token. Nothing but the KV cache is kept between turns: `history` says what was prompted and sampled
    before.
    """

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
        self.model = open_model(checkpoint)
        self.version = 0
        self.turns = 0
        self.tokens_prefilled = 0
        self._temperature = temperature
        self._max_new_tokens = max_new_tokens
        self._max_batch = max_batch
        self._merge: int = self.model.config.vision_config.spatial_merge_size
        self._generator = torch.Generator().manual_seed(seed)
        self._kept: dict[str, _Kept] = {}
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._weights = threading.Lock()
        self._worker = threading.Thread(target=self._serve, name="policy", daemon=True)
        self._worker.start()

    async def act(
        self, episode: str, instruction: str, history: Sequence[Turn], observation: Observation
    ) -> PolicyStep:
        """Sample the next turn.

        What the model raises reaches every episode of its batch; nothing changed, so it may be tried again.
        """
        if not self._worker.is_alive():
            raise RuntimeError("the policy is closed")
        outputs = [turn.output for turn in history]
        frames = [*(turn.observation.frame for turn in history), observation.frame]
        pictures = [self.encoder.picture(frame) for frame in frames]
        if outputs:
            ended = outputs[-1].completion_ids[-1] == self.encoder.eos
            prompt = self.encoder.next_prompt(pictures[-1], ended=ended)
        else:
            prompt = self.encoder.first_prompt(instruction, pictures[-1])
        context = [token for output in outputs for token in (*output.prompt_ids, *output.completion_ids)]
        kept = self._kept.get(episode) if outputs else None
        request = _Request([*context, *prompt], pictures, kept, Future())
        self._requests.put(request)
        sampled = await asyncio.wrap_future(request.answer)
        self._kept[episode] = sampled.kept
        step = PolicyStep(
            text=self.encoder.decode(sampled.ids),
            prompt_ids=prompt,
            completion_ids=sampled.ids,
            logprobs=sampled.logprobs,
            policy_version=sampled.kept.version,
        )
        try:
            actions = self.encoder.dialect.parse(step.text, (observation.width, observation.height))
            step.actions = ACTIONS.dump_python(actions, mode="json")
        except DialectError as error:
            step.error = str(error)
        return step

    def forget(self, episode: str) -> None:
        self._kept.pop(episode, None)

    def load_weights(self, state: Mapping[str, torch.Tensor], version: int) -> None:
        """Copy new weights in between two batches; turns sampled from now on carry `version`.

        It may wait for a batch, so call it in a thread where there is an event loop.
        """
        with self._weights, torch.no_grad():
            own = self.model.state_dict()
            for name, tensor in state.items():
                own[name].copy_(tensor)
            self.version = version

    def close(self) -> None:
        """End the worker thread. Who waits is answered first, or cancelled if too late."""
        self._requests.put(None)
        self._worker.join()
        while not self._requests.empty():
            if (late := self._requests.get()) is not None:
                late.answer.cancel()

    # -- the worker thread ----------------------------------------------------------------------------------

    def _serve(self) -> None:
        while (first := self._requests.get()) is not None:
            waiting = [first]
            while len(waiting) < self._max_batch and not self._requests.empty():
                request = self._requests.get()
                if request is None:
                    self._requests.put(None)
                    break
                waiting.append(request)
            batch = [request for request in waiting if request.answer.set_running_or_notify_cancel()]
            if not batch:
                continue
            try:
                with self._weights, torch.inference_mode():
                    results = self._generate(batch)
            except Exception as error:  # whatever it is belongs to the episodes that wait, not to this thread
                for request in batch:
                    request.answer.set_exception(error)
            else:
                for request, sampled in zip(batch, results, strict=True):
                    request.answer.set_result(sampled)

    def _generate(self, batch: Sequence[_Request]) -> list[_Sampled]:
        """Sample one completion for each conversation."""
        kept = [request.kept if self._usable(request.kept) else None for request in batch]
        state = self._prefill(batch, kept)
        completions, logprobs = self._decode(state)
        kept_layers = cast(list[DynamicLayer], state.cache.layers)
        layers = cast(Layers, [(layer.keys, layer.values) for layer in kept_layers])
        return [
            _Sampled(
                completions[row],
                logprobs[row],
                _Kept(
                    layers,
                    row,
                    columns=state.mask[row].nonzero()[:, 0],
                    pictures=len(request.pictures),
                    next_position=int(state.next_position[row]),
                    version=self.version,
                ),
            )
            for row, request in enumerate(batch)
        ]

    def _prefill(self, batch: Sequence[_Request], kept: Sequence[_Kept | None]) -> _Decoding:
        """Encode what the cache does not hold yet of each conversation, all in one forward pass."""
        rows = len(batch)
        done = [0 if k is None else len(k.columns) for k in kept]  # tokens of each row that the cache holds
        fresh = [request.ids[n:] for request, n in zip(batch, done, strict=True)]
        past, new = max(done), max(len(tokens) for tokens in fresh)
        self.turns += rows
        self.tokens_prefilled += sum(len(tokens) for tokens in fresh)

        ids = torch.full((rows, new), self.encoder.pad)
        mask = torch.zeros((rows, past + new), dtype=torch.long)
        positions = torch.zeros((3, rows, new), dtype=torch.long)
        next_position = torch.zeros(rows, dtype=torch.long)
        pictures: list[Picture] = []
        for row, (request, k, tokens) in enumerate(zip(batch, kept, fresh, strict=True)):
            n = len(tokens)
            added = request.pictures[0 if k is None else k.pictures :]
            axes, following = rope_positions(
                tokens,
                [picture.grid for picture in added],
                self.encoder.image_token,
                self._merge,
                start=0 if k is None else k.next_position,
            )
            ids[row, :n] = torch.tensor(tokens)
            mask[row, past - done[row] : past + n] = 1
            positions[:, row, :n] = axes
            next_position[row] = following
            pictures += added
        cache = _stack(kept, past)
        shortest = min(len(tokens) for tokens in fresh)
        output = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            pixel_values=torch.cat([picture.patches for picture in pictures]),
            image_grid_thw=torch.tensor([picture.grid for picture in pictures]),
            use_cache=True,
            logits_to_keep=new - shortest + 1,  # the columns that hold some row's last token
        )
        last = torch.tensor([len(tokens) - shortest for tokens in fresh])
        return _Decoding(cache, mask, next_position, output.logits[torch.arange(rows), last])

    def _decode(self, state: _Decoding) -> tuple[list[list[int]], list[list[float]]]:
        """Sample until every row has its end token, or `max_new_tokens`: ids and log-probabilities of each
        row.

        The last token of a row is sampled and not encoded; its next turn begins with it.
        """
        rows = len(state.mask)
        completions: list[list[int]] = [[] for _ in range(rows)]
        logprobs: list[list[float]] = [[] for _ in range(rows)]
        running = torch.ones(rows, dtype=torch.bool)
        for _ in range(self._max_new_tokens - 1):
            tokens = self._extend(completions, logprobs, running, state.logits)
            running &= tokens != self.encoder.eos
            if not running.any():
                return completions, logprobs
            state.mask = torch.cat([state.mask, running.long()[:, None]], dim=1)
            output = self.model(
                input_ids=tokens[:, None],
                attention_mask=state.mask,
                position_ids=state.next_position.view(1, rows, 1).expand(3, rows, 1),
                past_key_values=state.cache,
                use_cache=True,
            )
            state.next_position = state.next_position + running
            state.logits = output.logits[:, -1]
        self._extend(completions, logprobs, running, state.logits)
        return completions, logprobs

    def _extend(
        self,
        completions: list[list[int]],
        logprobs: list[list[float]],
        running: torch.Tensor,
        logits: torch.Tensor,
    ) -> torch.Tensor:
        """Sample one more token for the rows that still run; returns a token for every row."""
        tokens, scores = self._sample(logits)
        for row in running.nonzero()[:, 0].tolist():
            completions[row].append(int(tokens[row]))
            logprobs[row].append(float(scores[row]))
        return tokens

    def _usable(self, kept: _Kept | None) -> bool:
        return kept is not None and kept.version == self.version

    def _sample(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens [batch] and their log-probabilities under the distribution they were drawn from."""
        scores = logits.float()
        scores[:, self.encoder.unsampled] = -torch.inf
        if self._temperature == 0:
            return scores.argmax(dim=-1), torch.zeros(len(scores))
        logprobs = torch.log_softmax(scores / self._temperature, dim=-1)
        tokens = torch.multinomial(logprobs.exp(), 1, generator=self._generator)[:, 0]
        return tokens, logprobs.gather(-1, tokens[:, None])[:, 0]


def _stack(kept: Sequence[_Kept | None], past: int) -> DynamicCache:
    """The episodes' kept keys and values as one left-padded batch cache of `past` columns."""
    cache = DynamicCache()
    found = [None if k is None else k.take() for k in kept]
    example = next((layers for layers in found if layers is not None), [])
    for index, (key, _) in enumerate(example):
        heads, _, size = key.shape
        keys, values = (key.new_zeros(len(kept), heads, past, size) for _ in range(2))
        for row, layers in enumerate(found):
            if layers is not None:
                k, v = layers[index]
                keys[row, :, past - k.shape[1] :] = k
                values[row, :, past - v.shape[1] :] = v
        cache.update(keys, values, index)
    return cache
