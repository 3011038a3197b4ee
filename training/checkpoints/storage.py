"""Storage format of a mirrored run at a URL: immutable objects, and manifests that make files of them.

    objects/HASH                         bytes by their xxh3-128, never changed
    manifest-EPOCH-NUMBER-WRITER.json    the objects of every file of the folder: one whole snapshot

A manifest is written after all of its objects and carries its own hash, so a torn one is never used. All
storage is reached through fsspec, by the URL's scheme.
"""

import contextlib
from collections.abc import Iterator
from typing import Annotated, Any

import fsspec  # type: ignore[import-untyped]
import msgspec
import xxhash

from guiagent.errors import DECODE_ERRORS, InfrastructureError, UsageError

PART_BYTES = 64 * 2**20
_MANIFEST_BYTES = 64 * 2**20


class Part(msgspec.Struct, frozen=True, array_like=True):
    """An object: the xxh3-128 of its bytes, hexadecimal, and their number."""

    hash: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    bytes: Annotated[int, msgspec.Meta(ge=1, le=PART_BYTES)]


class Manifest(msgspec.Struct, frozen=True):
    """A snapshot: every file by its path below the run's folder, with "/"."""

    epoch: int
    number: int
    writer: str
    files: dict[str, list[Part]]

    @property
    def order(self) -> tuple[int, int, str]:
        return self.epoch, self.number, self.writer

    @property
    def objects(self) -> set[str]:
        return {part.hash for parts in self.files.values() for part in parts}

    @property
    def name(self) -> str:
        return f"manifest-{self.epoch:06d}-{self.number:09d}-{self.writer}.json"


class Storage:
    """Objects and manifests below a URL.

    Raises:
        UsageError: fsspec has no filesystem for the URL.
    """

    def __init__(self, url: str, **options: Any) -> None:
        self.url = url
        try:
            filesystem, root = fsspec.core.url_to_fs(url, **options)
        except (ValueError, ImportError) as error:
            raise UsageError(f"cannot use {url} as a run's folder: {error}") from None
        self._files: fsspec.AbstractFileSystem = filesystem
        self._root: str = root.rstrip("/")

    def put_part(self, part: Part, data: bytes) -> None:
        self._put(_object(part.hash), data)

    def get_part(self, part: Part) -> bytes:
        """Read an object. Raises FileNotFoundError if it is missing, InfrastructureError if it is damaged."""
        data = self._get(_object(part.hash), part.bytes)
        if len(data) != part.bytes or xxhash.xxh3_128_hexdigest(data) != part.hash:
            raise InfrastructureError(f"object {part.hash} in {self.url} is damaged: restore it from a copy")
        return data

    def remove_part(self, hash: str) -> None:
        self._remove(_object(hash))

    def remove(self, manifest: Manifest) -> None:
        self._remove(manifest.name)

    def publish(self, manifest: Manifest) -> None:
        body = msgspec.json.encode(manifest)
        digest = xxhash.xxh3_128_hexdigest(body)
        self._put(manifest.name, msgspec.json.encode(_Sealed(digest, msgspec.Raw(body))))

    def manifests(self) -> Iterator[Manifest]:
        """The manifests that are whole, the newest first."""
        self._files.invalidate_cache()
        try:
            listed = self._files.ls(self._root, detail=False)
        except FileNotFoundError:
            return
        names = {path.rpartition("/")[2] for path in listed}
        for name in sorted((name for name in names if name.startswith("manifest-")), reverse=True):
            try:
                manifest = _opened(self._get(name, _MANIFEST_BYTES))
            except FileNotFoundError:  # its writer has removed it meanwhile
                continue
            if manifest is not None and manifest.name == name:
                yield manifest

    def newest(self) -> Manifest | None:
        return next(self.manifests(), None)

    def _put(self, name: str, data: bytes) -> None:
        path = f"{self._root}/{name}"
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._files.pipe_file(path, data)

    def _get(self, name: str, limit: int) -> bytes:
        """Read at most `limit` + 1 bytes of a stored file."""
        data: bytes = self._files.cat_file(f"{self._root}/{name}", start=0, end=limit + 1)
        return data

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._files.rm_file(f"{self._root}/{name}")


def _object(hash: str) -> str:
    return f"objects/{hash}"


class _Sealed(msgspec.Struct):
    xxh3_128: str
    manifest: msgspec.Raw


def _opened(data: bytes) -> Manifest | None:
    """The manifest in `data`; None if it is torn or changed."""
    try:
        sealed = msgspec.json.decode(data, type=_Sealed)
        if xxhash.xxh3_128_hexdigest(bytes(sealed.manifest)) != sealed.xxh3_128:
            return None
        return msgspec.json.decode(sealed.manifest, type=Manifest)
    except DECODE_ERRORS:
        return None
