"""The KV cache of the in-process engine: one slot per conversation, and attention directly on the slots.

A slot holds a conversation's keys and values from its first token on, without padding. A forward pass is
flat: the new tokens of any conversations one after another, each a `Segment`, without padding too;
`AttentionBatch` is its attention, registered with transformers under the name `ATTENTION`. The next turn of a
conversation continues from the same slot; another conversation that begins like it, such as its sibling in a
group, gets a copy of what they share, also after it has ended.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NamedTuple

import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

ATTENTION = "guiagent_slots"
_FIRST_SLOTS, _FIRST_COLUMNS = 8, 256
_MOST_ENDED = 16  # slots of ended conversations; they leave before any other


@dataclass(eq=False)
class Slot:
    """The cached part of one conversation. `ids` and `frames` are those whose keys and values are stored."""

    index: int
    ids: list[int] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    version: int = -1  # of the oldest weights that computed some of it
    busy: bool = False  # a completion is being sampled
    forgotten: bool = False  # drop the slot when its completion ends
    used: int = 0  # when it was last taken; larger is later
    columns: int = 0  # tokens it needs room for: those stored and, while busy, those that may come


class KVCache:
    """Per layer one tensor of keys and one of values, [slots, heads, columns, size], that grow as needed.

    They grow to `max_bytes` at most, and get fewer columns again if that makes room for more slots; then
    conversations lose their slots: first those that have ended, then those that were idle for longest. A
    single conversation gets a slot whatever its length.
    """

    def __init__(
        self, layers: int, heads: int, size: int, *, dtype: torch.dtype, device: torch.device, max_bytes: int
    ) -> None:
        self._max_tokens = max_bytes // (2 * layers * heads * size * dtype.itemsize)
        self._held: dict[str, Slot] = {}
        self._ended: list[Slot] = []  # the latest ended or copied from is last
        self._clock = 0
        none = torch.empty(0, heads, 0, size, dtype=dtype, device=device)
        self.keys, self.values = [none] * layers, [none] * layers

    def __iter__(self) -> Iterator[Slot]:
        return iter((*self._held.values(), *self._ended))

    @property
    def conversations(self) -> set[str]:
        return set(self._held)

    def take(self, conversation: str, columns: int) -> Slot | None:
        """Take the conversation's slot, or a new one, with room for `columns` tokens, and mark it busy.

        None if there is no memory until other completions end.
        """
        slot = self._held.get(conversation)
        if slot is not None and slot.busy:
            return None  # two requests of one conversation run one after the other
        if not self._make_room(columns, keep=conversation):
            return None
        if slot is None:
            taken = {one.index for one in self}
            slot = self._held[conversation] = Slot(
                next(i for i in range(len(self.keys[0])) if i not in taken)
            )
        self._clock += 1
        slot.busy, slot.used, slot.columns = True, self._clock, max(columns, len(slot.ids))
        return slot

    def release(self, conversation: str) -> None:
        """Mark a conversation's completion as ended; its slot is kept for the next turn."""
        slot = self._held[conversation]
        slot.busy, slot.columns = False, len(slot.ids)
        if slot.forgotten:
            self.drop(conversation)

    def drop(self, conversation: str) -> None:
        """End a conversation, at once or when its completion ends; its slot is only lent from then on."""
        slot = self._held.get(conversation)
        if slot is not None and slot.busy:
            slot.forgotten = True
        elif slot is not None:
            self._ended.append(self._held.pop(conversation))
            del self._ended[:-_MOST_ENDED]

    def free_ended(self) -> None:
        """Free the slots of all conversations that have ended: nothing can be taken from them any more."""
        self._ended.clear()

    def wipe(self, conversation: str) -> None:
        """Free a slot that may hold NaNs and zero it: in its next use NaNs would survive masking."""
        slot = self._held.pop(conversation)
        for tensor in (*self.keys, *self.values):
            tensor[slot.index].zero_()

    def copy(self, source: Slot, target: Slot, columns: int) -> None:
        """Copy the first `columns` keys and values of one slot into another."""
        if source in self._ended:
            self._ended.append(self._ended.pop(self._ended.index(source)))
        for tensor in (*self.keys, *self.values):
            tensor[target.index, :, :columns] = tensor[source.index, :, :columns]

    def clear(self) -> None:
        """Free all slots and their memory: after a pass that failed it may hold NaNs."""
        self._held.clear()
        self._ended.clear()
        for tensors in (self.keys, self.values):
            for layer, old in enumerate(tensors):
                tensors[layer] = old.new_empty(0, old.shape[1], 0, old.shape[3])

    def _make_room(self, columns: int, keep: str) -> bool:
        """Resize, or free slots of idle conversations, until `keep` fits; False if busy slots need it all."""
        slots, _, width, _ = self.keys[0].shape
        busy = [one for one in self._held.values() if one.busy]
        if busy and len(busy) + 1 > self._max_tokens // _width(columns, busy):
            return False
        idle = sorted((one.used, name) for name, one in self._held.items() if not one.busy and name != keep)
        while True:
            needed = len(self._held) + len(self._ended) + (keep not in self._held)
            wide = _width(columns, self)
            limit = max(1, self._max_tokens // wide)
            if needed <= limit or not (idle or self._ended):
                break
            if self._ended:
                del self._ended[0]
            else:
                del self._held[idle.pop(0)[1]]
        if wide > width or needed > slots:
            wide = width if wide <= width and needed <= self._max_tokens // width else wide
            limit = max(1, self._max_tokens // wide)
            self._resize(min(limit, max(slots, _FIRST_SLOTS, 1 << (needed - 1).bit_length())), wide)
        return True

    def _resize(self, slots: int, columns: int) -> None:
        """Move the slots to the first places of new tensors, layer by layer."""
        held = sorted(self, key=lambda slot: slot.index)
        for tensors in (self.keys, self.values):
            for layer, old in enumerate(tensors):
                new = old.new_zeros(slots, old.shape[1], columns, old.shape[3])
                for index, slot in enumerate(held):
                    new[index, :, : len(slot.ids)] = old[slot.index, :, : len(slot.ids)]
                tensors[layer] = new
        for index, slot in enumerate(held):
            slot.index = index


def _width(columns: int, others: Iterable[Slot]) -> int:
    """The width of slots with room for `columns` tokens and for `others`: a power of two, at least 256."""
    longest = max([columns, *(one.columns for one in others)])
    return max(_FIRST_COLUMNS, 1 << (longest - 1).bit_length())


class Segment(NamedTuple):
    """The new tokens of one conversation in a pass: `length` tokens after the `start` tokens in its slot."""

    slot: Slot
    start: int
    length: int


class AttentionBatch:
    """The attention of one flat pass, in which a segment sees its own slot only.

    Segments of one token that come first are computed all at once.
    """

    def __init__(self, slots: KVCache, segments: Sequence[Segment]) -> None:
        self._slots = slots
        device = slots.keys[0].device
        self._single = sum(1 for _ in takewhile(lambda segment: segment.length == 1, segments))
        self._long = segments[self._single :]
        lengths = torch.tensor([segment.length for segment in segments])
        index = torch.tensor([segment.slot.index for segment in segments])
        ends = torch.tensor([segment.start + segment.length for segment in segments])
        behind = (ends - lengths.cumsum(0)).repeat_interleave(lengths)  # column less place in the pass
        self._index = index.repeat_interleave(lengths).to(device)
        self._columns = (torch.arange(len(behind)) + behind).to(device)
        if self._single:
            self._chosen, self._places, count = _chosen(index[: self._single])
            self._longest = int(ends[: self._single].max())
            seen = torch.ones(count, dtype=torch.long)
            seen[self._places] = ends[: self._single]
            self._mask = (torch.arange(self._longest) < seen[:, None])[:, None, None].to(device)
            self._places = self._places.to(device)
            if isinstance(self._chosen, torch.Tensor):
                self._chosen = self._chosen.to(device)
        self._causal = [_continued(segment, device) for segment in self._long]

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """Store the new keys and values and attend: from query [1, heads, tokens, size] to the result
        [1, tokens, heads, size]."""
        keys, values = self._slots.keys[layer], self._slots.values[layer]
        keys[self._index, :, self._columns] = key[0].transpose(0, 1)
        values[self._index, :, self._columns] = value[0].transpose(0, 1)
        _, heads, tokens, size = query.shape
        output = query.new_empty(1, tokens, heads, size)
        single = self._single
        if single:  # query heads that share a key head take the place of the query's length
            k, v = (tensor[:, :, : self._longest][self._chosen] for tensor in (keys, values))
            grouped = query.new_zeros(len(k), keys.shape[1], heads // keys.shape[1], size)
            grouped[self._places] = query[0, :, :single].transpose(0, 1).reshape(single, *grouped.shape[1:])
            found = scaled_dot_product_attention(grouped, k, v, attn_mask=self._mask, scale=scale)
            output[0, :single] = found[self._places].reshape(single, heads, size)
        begin = single
        for (slot, start, length), mask in zip(self._long, self._causal, strict=True):
            k, v = (tensor[slot.index : slot.index + 1, :, : start + length] for tensor in (keys, values))
            found = scaled_dot_product_attention(
                query[:, :, begin : begin + length],
                k,
                v,
                attn_mask=mask,
                is_causal=mask is None,
                scale=scale,
                enable_gqa=True,
            )
            output[0, begin : begin + length] = found[0].transpose(0, 1)
            begin += length
        return output


def _chosen(index: torch.Tensor) -> tuple[slice | torch.Tensor, torch.Tensor, int]:
    """A selection of slots that contains those of `index`, their places in the selection, and its size.

    Attending some idle slots in between costs less than copying: up to as many again, the selection is a
    slice.
    """
    first, end = int(index.min()), int(index.max()) + 1
    if end - first <= 2 * len(index):
        return slice(first, end), index - first, end - first
    return index, torch.arange(len(index)), len(index)


def _continued(segment: Segment, device: torch.device) -> torch.Tensor | None:
    """The mask of a segment: True for all tokens up to and including each new one. None if it starts at 0."""
    _, start, length = segment
    if start == 0:
        return None
    if device.type == "cuda":  # the same without a mask tensor, which FlashAttention does not support
        return causal_lower_right(length, start + length)
    return torch.ones(length, start + length, dtype=torch.bool, device=device).tril(start)


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Attend by the `AttentionBatch` that the model was called with (`slots=`), else as transformers does."""
    one: AttentionBatch | None = kwargs.pop("slots", None)
    if one is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    return one.attend(module.layer_idx, query, key, value, kwargs["scaling"]), None


AttentionInterface.register(ATTENTION, _attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
