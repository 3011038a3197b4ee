"""The in-process engine: continuous batching over episodes, with the KV cache kept between turns.

Episodes send requests concurrently on the event loop; one worker thread owns the model. Each of its passes
samples one token for every completion in progress and encodes the prompts of those that joined meanwhile, so
that no request waits for another's completion to end. What a conversation's slot holds of its context is not
encoded again: a turn encodes its new screenshot only. New weights are loaded between two passes. They make
the slots stale for later turns, while completions in progress continue and record which version sampled which
tokens.

Token ids and log-probabilities are kept exactly as sampled. On an accelerator the model, its cache and its
sampling live there; no test of ours has run on one.
"""

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain, takewhile
from typing import Any

import torch
from transformers import PreTrainedModel

from guiagent.errors import Fault, FaultError, InfrastructureError
from training.engine.engine import Completion, EngineStats, Request, not_finite
from training.engine.kv_cache import ATTENTION, AttentionBatch, KVCache, Segment, Slot
from training.engine.sampling import Sampling, draw
from training.inputs.collate import rope_positions
from training.inputs.encoder import Encoder
from training.inputs.pictures import Picture, pixel_values

_CPU_CACHE_BYTES = 4 * 2**30
_PROMPTS_AT_ONCE = 16_384  # about as many prompt tokens in a pass: bounds its memory and how long others wait
_NO_SLOT = Slot(-1)
_SAMPLING = Sampling()


@dataclass(eq=False)
class _Sequence:
    """A completion that waits or is in progress."""

    request: Request
    pictures: list[Picture]
    limit: int  # tokens
    answer: "Future[Completion]" = field(default_factory=Future)
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[tuple[int, int]] = field(default_factory=list)
    slot: Slot = _NO_SLOT
    next_position: int = 0  # of the next token that is encoded


@dataclass(frozen=True)
class _Weights:
    state: Mapping[str, torch.Tensor]
    version: int
    done: "Future[None]" = field(default_factory=Future)


class LocalEngine:
    """An `Engine` that samples from `model` in a thread of its own. Close it when done.

    Log-probabilities are the policy's own, whatever `sampling` draws (`training.engine.sampling`). At most
    `max_batch` completions are in progress at once, and slots take at most `max_cache_bytes`: by default
    4 GiB, or on a GPU, which a learner may share later, a quarter of its free memory.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        encoder: Encoder,
        sampling: Sampling = _SAMPLING,
        *,
        seed: int = 0,
        max_batch: int = 64,
        max_cache_bytes: int | None = None,
    ) -> None:
        text = model.config.text_config
        model.set_attn_implementation({"text_config": ATTENTION})
        self.model = model
        self.stats = EngineStats()  # replaced by the engine's thread
        self.passes = 0  # forward passes
        self.rows = 0  # completions in progress, summed over the passes
        self._encoder = encoder
        self._version = 0
        self._sampling = sampling
        self._max_batch = max_batch
        self._max_context: int = text.max_position_embeddings
        self._merge: int = model.config.vision_config.spatial_merge_size
        self._generator = torch.Generator(model.device).manual_seed(seed)
        self._slots = KVCache(
            text.num_hidden_layers,
            text.num_key_value_heads,
            getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads,
            dtype=model.dtype,
            device=model.device,
            max_bytes=_cache_bytes(model.device) if max_cache_bytes is None else max_cache_bytes,
        )
        # A str is a conversation to forget, None the end.
        self._inbox: queue.SimpleQueue[_Sequence | _Weights | str | None] = queue.SimpleQueue()
        self._waiting: deque[_Sequence] = deque()
        self._running: list[_Sequence] = []
        self._accepts = True  # what is put into the inbox until it ends is answered
        self._lock = threading.Lock()  # held while `_accepts` is read or changed
        self._died: Exception | None = None
        self._worker = threading.Thread(target=self._serve, name="engine", daemon=True)
        self._worker.start()

    @property
    def version(self) -> int:
        return self._version

    async def generate(self, request: Request) -> Completion:
        """Sample a completion: tokens up to and including the end token, at most `max_new_tokens`.

        An exception of the model is raised for every completion in progress; the weights did not change, so
        the request may be tried again. Raises FaultError (origin "policy") if the context is too long.
        """
        limit = min(self._sampling.max_new_tokens, self._max_context - len(request.ids))
        if limit < 1:
            message = (
                f"{len(request.ids)} tokens, and the model knows {self._max_context}; show fewer screenshots"
            )
            raise FaultError(Fault("policy", "context_too_long", message))
        pictures = await asyncio.to_thread(lambda: [self._encoder.picture(f) for f in request.frames])
        row = _Sequence(request, pictures, limit)
        self._put(row)
        return await asyncio.wrap_future(row.answer)

    def forget(self, conversation: str) -> None:
        self._inbox.put(conversation)

    def load_weights(self, state: Mapping[str, torch.Tensor], version: int) -> None:
        """Copy new weights into the model between two passes. Blocks until then: call it in a thread.

        Raises InfrastructureError, and changes nothing, if a tensor is missing, or its name or shape is not
        the model's.
        """
        weights = _Weights(state, version)
        self._put(weights)
        weights.done.result()

    def close(self) -> None:
        """End the worker thread. Waiting requests are answered first, those that come late are cancelled."""
        self._inbox.put(None)
        self._worker.join()

    def _put(self, message: _Sequence | _Weights) -> None:
        with self._lock:
            if not self._accepts:
                raise RuntimeError("the engine is closed") from self._died
            self._inbox.put(message)

    # -- the worker thread ----------------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            self._work()
        except Exception as error:  # a bug of ours: raised for all that wait
            self._died = error
        with self._lock:
            self._accepts = False
        late: list[Future[Any]] = [row.answer for row in (*self._running, *self._waiting)]
        while not self._inbox.empty():
            match self._inbox.get():
                case _Sequence(answer=answer) | _Weights(done=answer):
                    late.append(answer)
        for answer in late:
            if self._died is None:
                answer.cancel()
            elif answer.set_running_or_notify_cancel():
                answer.set_exception(self._died)

    def _work(self) -> None:
        is_open = True
        while is_open or self._waiting or self._running:
            while is_open and (not (self._waiting or self._running) or not self._inbox.empty()):
                is_open = self._receive(self._inbox.get())
            began, cpu = time.perf_counter(), time.thread_time()
            try:
                with torch.inference_mode():
                    self._leave_if_cancelled()
                    self._join()
                    if self._running:
                        self._step()
            except Exception as error:  # raised for the waiting episodes; the thread goes on
                self._fail(error)
            self._count(busy_s=time.perf_counter() - began, cpu_s=time.thread_time() - cpu)

    def _receive(self, message: _Sequence | _Weights | str | None) -> bool:
        """Handle one message; False if it says to close."""
        match message:
            case _Sequence():
                self._waiting.append(message)
            case _Weights():
                try:
                    _copy(message.state, self.model.state_dict(keep_vars=True))
                except Exception as error:
                    message.done.set_exception(error)
                else:
                    self._version = message.version
                    self._slots.free_ended()
                    message.done.set_result(None)
            case str():
                self._slots.drop(message)
        return message is not None

    def _leave_if_cancelled(self) -> None:
        for row in [row for row in self._running if row.answer.cancelled()]:
            self._running.remove(row)
            self._slots.release(row.request.conversation)
        self._waiting = deque(row for row in self._waiting if not row.answer.cancelled())

    def _join(self) -> None:
        """Let waiting requests join, in order, while the batch, the slots and one pass have room for them."""
        prompts = 0  # tokens
        while self._waiting and len(self._running) < self._max_batch and prompts < _PROMPTS_AT_ONCE:
            row = self._waiting[0]
            slot = self._slots.take(row.request.conversation, len(row.request.ids) + row.limit)
            if slot is None:
                return
            row.slot = slot
            prompts += len(row.request.ids) - len(slot.ids)
            self._running.append(self._waiting.popleft())

    def _step(self) -> None:
        """Sample the next token of every row in one forward pass.

        A completion's last token is sampled but not encoded; the next turn begins with it.
        """
        self._running.sort(key=lambda row: (not row.ids, row.slot.index))
        segments, tokens, positions, pictures = [], [], [], []
        for row in self._running:
            if row.ids:
                added, axes = [row.ids[-1]], torch.full((3, 1), row.next_position)
                row.next_position += 1
            else:
                added, axes, shown = self._prompt(row)
                pictures += shown
            segments.append(Segment(row.slot, len(row.slot.ids), len(added)))
            tokens.append(added)
            positions.append(axes)
        logits = self._forward(segments, list(chain(*tokens)), positions, pictures)
        self.passes += 1
        self.rows += len(self._running)
        for row, added, sampled in zip(self._running.copy(), tokens, self._sample(logits), strict=True):
            if sampled is None:
                self._give_up(row)
                continue
            row.slot.ids += added
            if not row.versions or row.versions[-1][1] != self._version:
                row.versions.append((len(row.ids), self._version))
            row.ids.append(sampled[0])
            row.logprobs.append(sampled[1])
        self._answer(
            [row for row in self._running if row.ids[-1] == self._encoder.eos or len(row.ids) == row.limit]
        )

    def _prompt(self, row: _Sequence) -> tuple[list[int], torch.Tensor, list[Picture]]:
        """The tokens, positions and pictures of the row's context that its slot does not hold yet.

        The slot is cut to the common part, or gets it from another conversation with the same beginning, such
        as a sibling of the group.
        """
        ids, slot = row.request.ids, row.slot
        length, shown = self._common(row, slot)
        if length == 0:
            donor = max(self._slots, key=lambda other: self._common(row, other))
            length, shown = self._common(row, donor)
            self._slots.copy(donor, slot, length)
        slot.ids, slot.frames, slot.version = ids[:length], row.request.frames, self._version
        grids = [picture.grid for picture in row.pictures]
        axes, row.next_position = rope_positions(ids, grids, self._encoder.image_token, self._merge)
        self._count(prompt_tokens=len(ids), cached_tokens=length)
        return ids[length:], axes[:, length:], row.pictures[shown:]

    def _common(self, row: _Sequence, slot: Slot) -> tuple[int, int]:
        """The numbers of tokens and pictures of the row's context that the slot holds; at least one token is
        left to encode."""
        if slot.version != self._version:
            return 0, 0
        ids, frames = row.request.ids, row.request.frames
        length = _shared(ids[:-1], slot.ids)
        same = sum(
            1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(frames, slot.frames, strict=False))
        )
        begin = 0
        for number, picture in enumerate(row.pictures):
            begin = ids.index(self._encoder.image_token, begin)
            if number >= same or begin + picture.tokens > length:
                return min(length, begin), number
            begin += picture.tokens
        return length, len(frames)

    def _forward(
        self,
        segments: Sequence[Segment],
        tokens: list[int],
        positions: Sequence[torch.Tensor],
        pictures: Sequence[Picture],
    ) -> torch.Tensor:
        """Logits [segments, vocabulary] of the token that follows each segment."""
        device = self.model.device
        inputs = {}
        if pictures:
            inputs["pixel_values"] = pixel_values(pictures, device)
            inputs["image_grid_thw"] = torch.tensor([picture.grid for picture in pictures], device=device)
        last = torch.tensor([segment.length for segment in segments]).cumsum(0) - 1
        output = self.model(
            input_ids=torch.tensor([tokens], device=device),
            position_ids=torch.cat(list(positions), dim=1)[:, None].to(device),
            logits_to_keep=last.to(device),
            use_cache=False,
            slots=AttentionBatch(self._slots, segments),
            **inputs,
        )
        logits: torch.Tensor = output.logits[0]
        return logits

    def _sample(self, logits: torch.Tensor) -> list[tuple[int, float] | None]:
        """A token for each row, with its log-probability under the policy; None if its logits are not
        finite."""
        self._count(sampled_tokens=len(logits))
        scores = logits.float()
        scores[:, self._encoder.unsampled] = -torch.inf
        finite = scores.amax(dim=-1).isfinite()
        scores[~finite] = 0  # drawn from and thrown away: torch.multinomial fails on NaN
        so_far = [row.ids for row in self._running]
        tokens, logprobs = draw(scores, so_far, self._sampling, self._generator)
        sampled = zip(tokens.tolist(), logprobs.tolist(), strict=True)
        return [one if sound else None for one, sound in zip(sampled, finite.tolist(), strict=True)]

    def _answer(self, done: Sequence[_Sequence]) -> None:
        for row in done:
            self._running.remove(row)
            self._slots.release(row.request.conversation)
            if row.answer.set_running_or_notify_cancel():
                row.answer.set_result(Completion(row.ids, row.logprobs, row.versions))

    def _give_up(self, row: _Sequence) -> None:
        """End a row whose logits are not finite, and wipe its slot, which may hold NaNs too."""
        self._running.remove(row)
        self._slots.wipe(row.request.conversation)
        if row.answer.set_running_or_notify_cancel():
            row.answer.set_exception(not_finite("the engine"))

    def _fail(self, error: Exception) -> None:
        """Fail all completions in progress or, if there are none, the first that waits."""
        failed, self._running = self._running, []
        if not failed and self._waiting:
            failed = [self._waiting.popleft()]
        self._slots.clear()
        for row in failed:
            if row.answer.set_running_or_notify_cancel():
                row.answer.set_exception(error)

    def _count(self, **more: float) -> None:
        self.stats = self.stats._replace(**{name: getattr(self.stats, name) + n for name, n in more.items()})


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of two contexts' common beginning, in tokens."""
    shortest = min(len(one), len(other))
    if one[:shortest] == other[:shortest]:
        return shortest
    return next(i for i in range(shortest) if one[i] != other[i])


def _copy(state: Mapping[str, torch.Tensor], own: dict[str, torch.Tensor]) -> None:
    """Copy `state` into the model's tensors, all or none. Of a tied tensor in `own` one name is enough."""
    for name, tensor in state.items():
        if name not in own or own[name].shape != tensor.shape:
            found = tuple(own[name].shape) if name in own else "none"
            raise InfrastructureError(
                f"new weights do not fit the engine's model: {name} is {tuple(tensor.shape)}, its own {found}"
            )
    given = {id(own[name]) for name in state}
    if missing := [name for name in own if id(own[name]) not in given]:
        raise InfrastructureError(
            f"new weights do not fit the engine's model: {missing[0]} is missing ({len(missing)} in all)"
        )
    with torch.no_grad():
        for name, tensor in state.items():
            own[name].copy_(tensor)


def _cache_bytes(device: torch.device) -> int:
    if device.type != "cuda":
        return _CPU_CACHE_BYTES
    free, _ = torch.cuda.mem_get_info(device)
    return free // 4
