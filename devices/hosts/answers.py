"""Answers to keyed verbs, kept so that a repeated call is answered without being carried out again."""

from typing import Any

import msgspec
import xxhash

from guiagent.errors import Fault, FaultError
from guiagent.wire import KeyedVerb

_MOST = 64
_BYTES = 16 << 20  # of all but the newest


class Answers:
    """The last answers of one device: at most 64, and 16 MiB beside the newest, which is always kept."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], tuple[bytes, Any, int]] = {}  # by verb and key, oldest first
        self._bytes = 0

    def of(self, message: KeyedVerb[Any]) -> tuple[Any] | None:
        """The answer to a verb that was carried out before, alone in a tuple; else None.

        Raises FaultError ("key_reused") if the key came with other content then.
        """
        if (kept := self._kept.get((message.verb, message.key))) is None:
            return None
        digest, value, _ = kept
        if digest != _digest(message):
            text = f"the idempotency key {message.key!r} was used for another {message.verb}; use a new one"
            raise FaultError(Fault("task", "key_reused", text))
        return (value,)

    def add(self, message: KeyedVerb[Any], value: Any) -> None:
        while self._kept and (len(self._kept) >= _MOST or self._bytes > _BYTES):
            *_, dropped = self._kept.pop(next(iter(self._kept)))
            self._bytes -= dropped
        size = len(msgspec.msgpack.encode(value))
        self._kept[message.verb, message.key] = _digest(message), value, size
        self._bytes += size

    def clear(self) -> None:
        self._kept.clear()
        self._bytes = 0


def _digest(message: KeyedVerb[Any]) -> bytes:
    return xxhash.xxh3_128_digest(msgspec.json.encode(message))
