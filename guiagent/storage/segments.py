"""The format of a trajectory store's segments: entries of frames and trajectories, and what makes one whole.

A segment `segment-000001.log` is a sequence of entries, each a header and a payload. The header is
little-endian: the marker `GTJ1`, the kind (u8), the payload's length (u32), and its xxh3-64 seeded with the
kind (u64). A frame's payload is the xxh3-128 of its bytes and the bytes; a trajectory's is a msgpack
`Trajectory`, and all its frames are stored before it.
"""

import re
import struct
from pathlib import Path

import xxhash

SEGMENT = re.compile(r"segment-([0-9]{6})\.log")
MARKER = b"GTJ1"
HEADER = struct.Struct("<4sBIQ")
FRAME, TRAJECTORY = 1, 2
HASH_BYTES = 16


def segment_name(number: int) -> str:
    return f"segment-{number:06d}.log"


def entry(kind: int, payload: bytes) -> bytes:
    checksum = xxhash.xxh3_64_intdigest(payload, seed=kind)
    return HEADER.pack(MARKER, kind, len(payload), checksum) + payload


def valid(data: bytes, offset: int) -> memoryview | None:
    """The payload of the entry at `offset`; None if no whole, undamaged entry begins there."""
    if offset + HEADER.size > len(data):
        return None
    marker, kind, length, checksum = HEADER.unpack_from(data, offset)
    payload = memoryview(data)[offset + HEADER.size :][:length]
    if marker != MARKER or kind not in (FRAME, TRAJECTORY) or len(payload) != length:
        return None
    return payload if xxhash.xxh3_64_intdigest(payload, seed=kind) == checksum else None


def whole_entries(segment: Path, offset: int) -> int:
    """The number of bytes of whole entries in a segment from `offset` on, where an entry begins.

    What follows them is a commit in progress, or a torn one.
    """
    with segment.open("rb") as file:
        file.seek(offset)
        data = file.read()
    end = 0
    while (payload := valid(data, end)) is not None:
        end += HEADER.size + len(payload)
    return end
