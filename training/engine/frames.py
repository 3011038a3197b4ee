"""Send each screenshot to a host once, and refer to it by its hash afterwards.

The name of a screenshot is the xxh3-128 of its bytes, as in a trajectory store. The client sends the last
screenshot of a context, which is usually new, and only names those before it. The host answers `Missing` if
it does not have some of them (any more): then they are sent too. So a turn costs one message with one
screenshot in it, and a second message after a restart or an eviction. What arrives is checked against its
name.

A part of this runs in vLLM's environment: it imports nothing of the trainer.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import xxhash

MAX_BYTES = 8 * 2**30  # memory of a host's cache: some thousand screenshots of full HD

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Missing:
    """The answer of a host that lacks some of the frames it was asked about."""

    names: list[str]


def name_of(frame: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(frame)


async def ask_with_frames(
    names: Sequence[str], ask: Callable[[set[str]], Awaitable[Answer | Missing]]
) -> Answer | Missing:
    """Call `ask` with the names of the frames to send until the host has all; return its answer.

    It is asked with the last frame, then also with those that were missing, then, if others were evicted
    meanwhile, with all. The result is `Missing` only if some did not arrive whole even then.
    """
    every = set(names)
    sent = every - set(names[:-1])
    answer = await ask(sent)
    if isinstance(answer, Missing):
        answer = await ask(sent | set(answer.names) & every)
    if isinstance(answer, Missing):
        answer = await ask(every)
    return answer


class FrameCache:
    """The most recently used frames of a host, at most `max_bytes` of them."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._frames: OrderedDict[str, bytes] = OrderedDict()  # latest use last

    def take(self, names: Sequence[str], sent: Mapping[str, bytes]) -> dict[str, bytes] | Missing:
        """The frames of these names, or `Missing`. Frames in `sent` are kept if their hash is their name."""
        for name in set(names) & sent.keys() - self._frames.keys():
            if name_of(sent[name]) == name:
                self._frames[name] = sent[name]
                self._bytes += len(sent[name])
        missing = [name for name in dict.fromkeys(names) if name not in self._frames]
        found = {name: self._frames[name] for name in names if name in self._frames}
        for name in found:
            self._frames.move_to_end(name)
        while self._bytes > self._max_bytes:
            _, oldest = self._frames.popitem(last=False)
            self._bytes -= len(oldest)
        return Missing(missing) if missing else found
