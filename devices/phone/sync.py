"""adb's file service: stat, list, send, receive (`SYNC.TXT` of adb, and the stat_v2 and ls_v2 forms)."""

import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path

from devices.phone.adbd import Stream
from devices.phone.storage import MAX_FILE, Storage, reason

_CHUNK = 64 << 10
_MAX_PATH = 1024
_HEAD = struct.Struct("<4sI")
_STAT = struct.Struct("<4sIII")
_STAT2 = struct.Struct("<4sIQQIIIIQqqq")
_SHELL_UID = 2000

Changed = Callable[[str], None]


class SyncError(Exception):
    """A refused request; the message goes back to adb."""


async def serve(stream: Stream, storage: Storage, changed: Changed) -> None:
    """Answer requests until adb quits; call `changed(path)` for each file written."""
    while True:
        request, length = _HEAD.unpack(await stream.read_exactly(_HEAD.size))
        if request == b"QUIT":
            return
        if length > _MAX_PATH:
            await _fail(stream, "path too long")
            return
        path = (await stream.read_exactly(length)).decode("utf-8", "surrogateescape")
        match request:
            case b"STAT":
                await stream.write(_stat_v1(storage, path))
            case b"STA2" | b"LST2":
                await stream.write(_stat_v2(request, storage, path))
            case b"LIST":
                await stream.write(_list(storage, path, b"DENT") + struct.pack("<4s4I", b"DONE", 0, 0, 0, 0))
            case b"LIS2":
                await stream.write(_list(storage, path, b"DNT2") + b"DONE" + bytes(_STAT2.size))
            case b"RECV":
                await _receive(stream, storage, path)
            case b"SEND":
                await _send(stream, storage, path, changed)
            case _:
                await _fail(stream, f"unknown request {request!r}")
                return


def _stat_v1(storage: Storage, path: str) -> bytes:
    try:
        found = storage.read(path).lstat()
    except OSError:
        return _STAT.pack(b"STAT", 0, 0, 0)
    return _STAT.pack(b"STAT", found.st_mode, min(found.st_size, 0xFFFFFFFF), int(storage.modified(found)))


def _stat_v2(request: bytes, storage: Storage, path: str) -> bytes:
    try:
        return _packed(request, storage, storage.read(path).lstat())
    except OSError as error:
        return _STAT2.pack(request, error.errno or 5, *[0] * 10)


def _packed(name: bytes, storage: Storage, found: os.stat_result) -> bytes:
    at = int(storage.modified(found))
    return _STAT2.pack(
        name,
        0,
        found.st_dev,
        found.st_ino,
        found.st_mode,
        found.st_nlink,
        _SHELL_UID,
        _SHELL_UID,
        found.st_size,
        *(at, at, at),
    )


def _list(storage: Storage, path: str, kind: bytes) -> bytes:
    entries = bytearray()
    try:
        found = sorted(os.scandir(storage.read(path)), key=lambda entry: entry.name)
    except OSError:
        return b""  # as adbd does: a directory that cannot be read is empty
    for entry in found:
        name, facts = os.fsencode(entry.name), entry.stat(follow_symlinks=False)
        if kind == b"DNT2":
            entries += _packed(kind, storage, facts) + struct.pack("<I", len(name)) + name
        else:
            size = min(facts.st_size, 0xFFFFFFFF)
            entries += (
                struct.pack("<4s4I", kind, facts.st_mode, size, int(storage.modified(facts)), len(name))
                + name
            )
    return bytes(entries)


async def _receive(stream: Stream, storage: Storage, path: str) -> None:
    try:
        file = storage.read(path).open("rb")
    except OSError as error:
        await _fail(stream, f"failed to open: {reason(error)}")
        return
    with file:
        while data := file.read(_CHUNK):
            await stream.write(_HEAD.pack(b"DATA", len(data)) + data)
    await stream.write(_HEAD.pack(b"DONE", 0))


async def _send(stream: Stream, storage: Storage, target: str, changed: Changed) -> None:
    path, _, mode = target.rpartition(",")
    try:
        partial = _open(storage, path, mode)
    except (OSError, SyncError) as error:
        await _drain(stream)
        await _fail(stream, f"couldn't create file: {reason(error) if isinstance(error, OSError) else error}")
        return
    host = storage.write(path)
    try:
        with partial.open("wb") as file:
            modified = await _write_chunks(stream, file.write)
        os.utime(partial, (modified, modified))
        os.replace(partial, host)  # the file appears whole or not at all, even if the stream breaks
    except (OSError, SyncError) as error:
        if isinstance(error, ConnectionError):
            raise
        await _fail(stream, f"couldn't write: {reason(error) if isinstance(error, OSError) else error}")
        return
    finally:
        partial.unlink(missing_ok=True)
    changed(path)
    await stream.write(_HEAD.pack(b"OKAY", 0))


def _open(storage: Storage, path: str, mode: str) -> Path:
    """Temporary file beside the target that collects the data. Raises OSError or SyncError."""
    if not mode.isdecimal() or stat.S_IFMT(int(mode)) not in (0, stat.S_IFREG):
        raise SyncError("only regular files can be sent")
    host = storage.write(path)
    if host.is_dir():
        raise SyncError("Is a directory")
    host.parent.mkdir(parents=True, exist_ok=True)
    return host.with_name(f".{host.name[:200]}.part")


async def _write_chunks(stream: Stream, write: Callable[[bytes], object]) -> int:
    """Pass the sent data to `write` and return the file's modification time. Raises SyncError, OSError."""
    size, failure = 0, None
    while True:
        kind, length = _HEAD.unpack(await stream.read_exactly(_HEAD.size))
        if kind == b"DONE":
            if failure is not None:
                raise failure
            return int(length)
        if kind != b"DATA" or length > _CHUNK:
            raise EOFError  # not adb: the stream ends here
        data = await stream.read_exactly(length)
        size += length
        try:
            if size > MAX_FILE:
                raise SyncError(f"a file may have {MAX_FILE >> 20} MiB")
            if failure is None:
                write(data)
        except (OSError, SyncError) as error:  # raised later: adb listens only after it has sent everything
            failure = error


async def _drain(stream: Stream) -> None:
    await _write_chunks(stream, len)


async def _fail(stream: Stream, message: str) -> None:
    data = message.encode("utf-8", "replace")
    await stream.write(_HEAD.pack(b"FAIL", len(data)) + data)
