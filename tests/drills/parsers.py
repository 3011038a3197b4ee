"""Drill of every parser of bytes that others made: any bytes give a value or the parser's own errors.

Inputs are good ones with edits, and any others; while one is parsed no code may be compiled or run, no
process started, no file written, and it may not take longer than a second of processor time.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.drills.episode_targets import episode_files
from tests.drills.parser_targets import Target, targets
from tests.drills.tally import Tally

_SLOW_S = 1.0
_ROUND = 200  # inputs between two looks at the clock
_FORBIDDEN = (
    *(
        "exec",
        "subprocess.Popen",
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "os.fork",
        "os.remove",
        "os.rename",
    ),
    *("os.mkdir", "os.rmdir", "socket.connect", "socket.bind", "ctypes.dlopen", "import"),
)
_BITS = (
    *(
        b"\0",
        b"\xff",
        b"\r\n",
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b"'",
        b"(",
        b")",
        b"9" * 40,
        b"-1",
        b"1e999",
        b"%s",
    ),
    *(b"\xed\xa0\x80", b"\xf0\x9f\x92\xa9", b"__import__", b"null", b"NaN", b"../", b"&amp;", b"<!DOCTYPE"),
)


class Watch:
    """What the interpreter did while `on`, by its audit events."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.on:
            return
        writes = event == "open" and isinstance(args[2], int) and args[2] & 0b11
        if writes or event in _FORBIDDEN:
            self.seen.append(f"{event} {args[:2]!r}"[:200])

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        self.on = True
        try:
            yield
        finally:
            self.on = False


_WATCH: Watch | None = None


def parsers(folder: Path, n: int) -> Tally:
    """`n` seconds for each parser."""
    tally = Tally.looking_for("inputs", "other errors", "forbidden events", "slow", "good ones refused")
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        for target in [*targets(folder, loop), *episode_files(folder)]:
            tally.did("parsers")
            _warm(target)
            for data in target.good:
                if not _once(target, data, tally) and target.reads_good:
                    tally.fail("good ones refused", f"{target.name}: {data[:80]!r}")
            ends = time.monotonic() + n
            number = 0
            while time.monotonic() < ends:
                _round(target, number, _ROUND, tally)
                number += 1
    return tally


def fixed(folder: Path, inputs: int) -> Tally:
    """The same inputs for every parser at every call, as a test wants them."""
    tally = Tally.looking_for("inputs", "other errors", "forbidden events", "slow", "good ones refused")
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        for target in [*targets(folder, loop), *episode_files(folder)]:
            _warm(target)
            _round(target, 0, inputs, tally)
    return tally


def _warm(target: Target) -> None:
    """Import what parsing needs, which nobody watches."""
    for data in (*target.good, b"", b"\xff" * 40):
        target.prepare(data)
        with contextlib.suppress(Exception):
            target.parse(data)


def _round(target: Target, number: int, inputs: int, tally: Tally) -> None:
    @seed(number)
    @settings(
        max_examples=inputs,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=_edited(target.good))
    def once(data: bytes) -> None:
        _once(target, data, tally)

    once()


def _edited(good: tuple[bytes, ...]) -> st.SearchStrategy[bytes]:
    """Good inputs with up to eight edits, and inputs that are anything."""
    edit = st.tuples(st.integers(0, 1 << 16), st.integers(0, 3), st.sampled_from(_BITS), st.integers(0, 255))
    edited = st.builds(_with_edits, st.sampled_from(good), st.lists(edit, max_size=8))
    return st.one_of(edited, edited, st.binary(max_size=400), st.text(max_size=200).map(_bytes))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _with_edits(data: bytes, edits: list[tuple[int, int, bytes, int]]) -> bytes:
    made = bytearray(data)
    for place, kind, bits, value in edits:
        at = place % (len(made) + 1)
        match kind:
            case 0:
                made[at:at] = bits
            case 1:
                made[at : at + 1] = bytes([value])
            case 2:
                del made[at : at + value]
            case _:
                made[at:at] = made[: value + 1]
    return bytes(made)


def _once(target: Target, data: bytes, tally: Tally) -> bool:
    """Whether the parser took the input."""
    global _WATCH
    _WATCH = _WATCH or Watch()
    tally.did("inputs")
    target.prepare(data)
    began = time.thread_time()
    took = False
    _WATCH.seen.clear()
    try:
        with _WATCH.watching():
            target.parse(data)
        took = True
        tally.did("read")
    except target.errors:
        pass
    except Exception as error:
        kind = f"{target.name}: {type(error).__name__}"
        told = any(kind in words for words in tally.said)
        tally.fail("other errors", "" if told else f"{kind} {error!s:.120} for {data[:120]!r}")
    if time.thread_time() - began > _SLOW_S:
        tally.fail("slow", f"{target.name}: {time.thread_time() - began:.1f} s for {data[:120]!r}")
    if forbidden := [one for one in _WATCH.seen if not one.startswith(target.allowed)]:
        tally.fail("forbidden events", f"{target.name}: {forbidden[0]} for {data[:120]!r}")
    return took
