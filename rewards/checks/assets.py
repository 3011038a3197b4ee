"""Assets, files that tasks name by URL: inputs that go to the device, and gold that stays on the host.

They are looked for in a mirror folder (`HOST/PATH`, as `wget -x` lays it out), then in the cache, then
downloaded. A cached file has its SHA-256 beside it and is checked against it before every use, so that a gold
file is the same in every episode or an error.
"""

import asyncio
import hashlib
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import httpx
import msgspec

from guiagent.errors import DECODE_ERRORS, Fault, FaultError, InfrastructureError
from guiagent.storage.atomic import write_file

MAX_ASSET = 512 << 20
_DOWNLOAD_S = 300.0
_SILENCE_S = 30.0


class Record(msgspec.Struct, forbid_unknown_fields=True):
    """The record of a cached file, kept beside it as JSON."""

    url: str
    sha256: str
    bytes: int


@dataclass(frozen=True)
class Assets:
    """Finds or downloads assets. `mirror` is only read; without `download` the network is not used."""

    cache: Path
    mirror: Path | None = None
    download: bool = True

    async def get(self, url: str) -> Path:
        """Return the file at `url` on this host. It keeps the URL's suffix, which metrics look at.

        Raises:
            FaultError: it is in neither folder and cannot be downloaded (origin "task").
            InfrastructureError: the cached file is not the one that was downloaded.
        """
        parts = urlsplit(url)
        place = unquote(parts.path).lstrip("/")
        if parts.scheme not in ("http", "https") or not parts.hostname or not place:
            raise _missing(f"{url!r} is no http(s) address of a file")
        if self.mirror is not None:
            mirrored = self.mirror / parts.hostname / place
            if mirrored.is_file() and mirrored.resolve().is_relative_to(self.mirror.resolve()):
                return mirrored
        name = hashlib.sha256(url.encode()).hexdigest()[:32] + Path(place).suffix[:16]
        cached, record = self.cache / name, self.cache / f"{name}.json"
        if record.is_file():
            return await asyncio.to_thread(_verified, cached, record)
        if not self.download:
            raise _missing(f"{url} is not in {self.cache}" + (f" or {self.mirror}" if self.mirror else ""))
        await asyncio.to_thread(self._fetch, url, cached, record)
        return cached

    def _fetch(self, url: str, cached: Path, record: Path) -> None:
        self.cache.mkdir(parents=True, exist_ok=True)
        digest, size, begun = hashlib.sha256(), 0, time.monotonic()
        with tempfile.TemporaryDirectory(dir=self.cache) as folder:
            partial = Path(folder, "partial")
            try:
                with (
                    partial.open("wb") as file,
                    httpx.stream("GET", url, follow_redirects=True, timeout=_SILENCE_S) as answer,
                ):
                    if answer.status_code != 200:
                        again = answer.status_code >= 500 or answer.status_code == 429
                        raise _missing(f"{url} answered {answer.status_code}", again)
                    for chunk in answer.iter_bytes():
                        size += len(chunk)
                        if size > MAX_ASSET:
                            raise _missing(f"{url} has more than {MAX_ASSET >> 20} MiB")
                        if time.monotonic() - begun > _DOWNLOAD_S:
                            raise _missing(f"{url} took over {_DOWNLOAD_S:g} s", again=True)
                        digest.update(chunk)
                        file.write(chunk)
            except httpx.HTTPError as error:
                raise _missing(f"{url}: {str(error) or type(error).__name__}", again=True) from error
            os.replace(partial, cached)
        write_file(record, msgspec.json.encode(Record(url, digest.hexdigest(), size)))


def _verified(cached: Path, record: Path) -> Path:
    try:
        known = msgspec.json.decode(record.read_bytes(), type=Record)
        with cached.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, *DECODE_ERRORS) as error:
        raise InfrastructureError(f"{cached} cannot be read ({error}); remove {record}") from error
    if found != known.sha256:
        raise InfrastructureError(f"{cached} is not what {known.url} gave; remove it and {record.name}")
    return cached


def _missing(message: str, again: bool = False) -> FaultError:
    return FaultError(Fault("task", "missing_asset", message, retryable=again))
