"""Images of sites: the data folder as a site's seed program left it, made once for each version of a site.

An image is a folder below the state folder, named by a digest of all that made it. Instances lay an overlay
over it, so that none copies it and none changes it.
"""

import asyncio
import fcntl
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import xxhash

from devices import foreign
from devices.sites.instance import Instance
from devices.sites.site import DATA, SHARED, Site, home, inside, is_installed
from guiagent.client.local_pool import state_dir
from guiagent.errors import Fault, FaultError, MissingProgram

_MOST = 256 << 20  # bytes of an image
_RETRY_S = 0.05


async def image(site: Site) -> Path:
    """The folder of the site's image, which is made if it is not there yet.

    Raises:
        MissingProgram: the application is not installed.
        FaultError: it could not be seeded.
    """
    if not is_installed(site.name):
        raise MissingProgram(f"the site {site.name} is not installed: scripts/sites {site.name}")
    root = state_dir() / "sites"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = root / f"{site.name}-{await asyncio.to_thread(digest, site)}"
    with (root / f"{site.name}.lock").open("wb") as lock:
        await _lock(lock)
        if not place.is_dir():
            await _make(site, place)
    return place


async def _lock(file: IO[bytes]) -> None:
    """Wait for the lock without a thread: those that wait must not keep one from who makes the image."""
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await asyncio.sleep(_RETRY_S)
        else:
            return


def digest(site: Site) -> str:
    """Digest of all that an image is made of: definition, seed program, our files, application."""
    program = site.seed(DATA)
    whole = xxhash.xxh3_64(repr((site.title, program.argv, sorted(program.environment.items()))).encode())
    for name, content in _ours(site):
        whole.update(f"{name}\0{len(content)}\0".encode())
        whole.update(content)
    return whole.hexdigest()


def _ours(site: Site) -> Iterator[tuple[str, bytes]]:
    yield "installed", (home(site.name) / "installed").read_bytes()
    for folder in (inside(site.name), SHARED):
        for name in sorted(foreign.sizes(folder)) if folder.is_dir() else []:
            if "__pycache__" not in name:
                yield name, (folder / name).read_bytes()


async def _make(site: Site, place: Path) -> None:
    empty, making = place.with_name(f".{place.name}.empty"), place.with_name(f".{place.name}.new")
    for folder in (empty, making):
        shutil.rmtree(folder, ignore_errors=True)
    empty.mkdir()
    empty.chmod(0o777)
    try:
        program = site.seed(DATA)
        async with await Instance.start(site, empty, serves=False) as instance:
            done = await instance.exec(program.argv, site.seed_s)
            if done.code:
                said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1][-300:]
                message = f"the seed program of the site {site.name} ended with {done.code}: {said}"
                raise FaultError(Fault("device", "site_seed", message))
            await asyncio.to_thread(foreign.copy, instance.data, making, _MOST)
        await asyncio.to_thread(_open, making)
        making.rename(place)
    finally:
        for folder in (empty, making):
            shutil.rmtree(folder, ignore_errors=True)


def _open(folder: Path) -> None:
    """Let every user write: where owners cannot be mapped, a site's user is another one than this."""
    for place in (folder, *folder.rglob("*")):
        place.chmod(0o777 if place.is_dir() else 0o666)
