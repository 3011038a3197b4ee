"""Screenshots by name: what a host was shown once is named to it, and not sent again.

A name is the xxh3-128 of the bytes, as in a trajectory store. Who asks sends the last screenshot of a
context, which as a rule is new, and names those before it. Who is asked answers `Missing` where it never had
one, or has it no more: then they are sent too. A turn so costs one message with one screenshot in it, and a
second one after a restart or an eviction. What arrives is checked against its name.

A part of this runs in vLLM's environment: it imports nothing of the trainer.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import xxhash

MAX_BYTES = 8 * 2**30  # of a host's memory, where that many are shown: some thousand of full HD

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Missing:
    """The answer of a host that lacks some of the frames it was asked about."""

    names: list[str]


def name_of(frame: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(frame)


async def show(
    names: Sequence[str], ask: Callable[[set[str]], Awaitable[Answer | Missing]]
) -> Answer | Missing:
    """The answer to `ask`, which is given the names of the frames that it is to send: the last, those that
    are missing too, and, where others were evicted meanwhile, all.

    `Missing` only where even then some did not arrive whole.
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
    """The frames that a host was shown lately, `max_bytes` of them at most."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._frames: OrderedDict[str, bytes] = OrderedDict()  # latest use last

    def take(self, names: Sequence[str], sent: Mapping[str, bytes]) -> dict[str, bytes] | Missing:
        """The frames of these names. What of them was sent is kept, unless it is not what its name says."""
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
