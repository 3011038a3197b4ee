"""Starts the programs of devices: a clean environment, a user of their own, no new privileges, limits.

As root every device gets a user id that owns nothing on this machine but the device's folder, so that its
programs read neither the files of this service nor those of other devices. As another user its programs are
this user's; what keeps them from its files is then the sandbox of each driver. The programs of util-linux
that do it become the program in turn, so the process that is started is the one that runs.
"""

import contextlib
import os
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple

from devices import owned, reveal
from guiagent.errors import InfrastructureError, MissingProgram

MEMORY = 2 << 30  # bytes of private data that one process may have
_IDS = range(0x7100_0000, 0x7FFF_0000)  # nobody's; desktops have theirs below
_SHORT_IDS = 4096  # at the end of the ids of a container that has fewer
_FILE = 1 << 30  # bytes of a file that a device writes
_THREADS = 4096  # of all processes of one user
_KEPT = ("LANG", "TZ")
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_OOM_SCORE = 800  # where memory runs out, the kernel ends these first


class Confined(NamedTuple):
    """How to start the programs of one device.

    Attributes:
        command: what comes before a program's own command line.
        environment: all of the environment.
        user: the id that they run under; None for this process's own.
    """

    command: list[str]
    environment: dict[str, str]
    user: int | None


def confine(
    folder: Path,
    reads: Iterable[Path] = (),
    environment: Mapping[str, str] | None = None,
    *,
    allow_unisolated: bool = False,
) -> Confined:
    """Prepare the start of programs whose home is `folder`, and give it to their user with all its content.

    Args:
        folder: private folder of the device.
        reads: folders of programs and libraries that the user must be able to read.
        environment: variables besides PATH, HOME, TMPDIR, LANG and TZ.

    Raises:
        InfrastructureError: this is root, which cannot start programs as another user here.
    """
    told = {"PATH": _PATH, "HOME": str(folder), "TMPDIR": str(folder)}
    told |= {name: os.environ[name] for name in _KEPT if name in os.environ} | dict(environment or {})
    if os.geteuid() != 0:
        return Confined(_bounded(None), told, None)
    places = [place for path in reads for place in _places(path)]
    if missing := why_no_user() or _why_unreadable(places, folder):
        if allow_unisolated:
            return Confined(_bounded(None), told, None)
        raise InfrastructureError(
            f"devices cannot be run as users of their own: {missing}; --allow-unisolated "
            "(GUIAGENT_ALLOW_UNISOLATED=1) runs them as root"
        )
    user = _unused_id()
    for place in [folder, *folder.rglob("*")]:
        os.chown(place, user, user, follow_symlinks=False)
    return Confined([*_reveal([folder, *places]), *_bounded(user)], told, user)


def spawn(
    command: Sequence[str],
    output: int | IO[bytes] = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program of the host's own, as this user, that lives no longer than this thread.

    It gets `own_environment` and `environment`. Raises InfrastructureError if it cannot be started.
    """
    told = own_environment() | dict(environment or {})
    try:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--no-new-privs", "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=told,
            start_new_session=True,
        )
    except OSError as error:
        raise InfrastructureError(f"cannot start {command[0]}: {error.strerror}") from None


def own_environment() -> dict[str, str]:
    """What the host's own programs (adb, QEMU, emulators) get of this process's environment: no secrets."""
    kept = ("PATH", "HOME", "TMPDIR", *_KEPT)
    return {name: value for name, value in os.environ.items() if name in kept or name.startswith("ANDROID_")}


@cache
def why_no_user() -> str:
    """Why root cannot run programs as another user here; "" if it can."""
    if not _ids():
        return "this container has too few user ids"
    user = str(_ids()[-1])
    said = _said(["setpriv", *_as_user(user), "--no-new-privs", "--", "true"])
    return f"{said} (containers: add the capabilities SETUID and SETGID)" if said else ""


@cache
def why_no_namespace() -> str:
    """Why a program started here cannot make user namespaces, which sandboxes are made of; "" if it can."""
    user = _as_user(str(_ids()[-1])) if os.geteuid() == 0 and not why_no_user() else []
    return _said(["setpriv", *user, "--no-new-privs", "--", "unshare", "--user", "--net", "--", "true"])


def _said(command: Sequence[str]) -> str:
    """What a command that does nothing says when it fails; "" if it does not."""
    _require(command[0])
    tried = subprocess.run(
        command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL
    )
    said = (tried.stderr.strip().splitlines() or [f"{command[0]} ended with {tried.returncode}"])[-1][-200:]
    return said if tried.returncode else ""


def _require(program: str) -> None:
    if shutil.which(program) is None:
        raise MissingProgram(f"{program} is missing: apt-get install util-linux")


def _as_user(user: str) -> list[str]:
    return ["--reuid", user, "--regid", user, "--clear-groups"]


def _bounded(user: int | None) -> list[str]:
    limits = [f"--fsize={_FILE}", f"--data={MEMORY}", "--core=0"]
    switch: list[str] = []
    if user is not None:  # else they would be counted with all processes of this user
        limits.append(f"--nproc={_THREADS}")
        switch = _as_user(str(user))
    _require("setpriv")
    return [
        *("choom", "-n", str(_OOM_SCORE), "--", "prlimit", *limits, "--"),
        *("setpriv", "--pdeathsig", "KILL", *switch, "--no-new-privs", "--"),
    ]


@cache
def _ids() -> range:
    """User ids to draw from: those of nobody, as far as this user namespace has them."""
    spans = [
        range(int(first), int(first) + int(count))
        for first, _, count in map(str.split, Path("/proc/self/uid_map").read_text().splitlines())
    ]
    if any(_IDS[0] in span and _IDS[-1] in span for span in spans):
        return _IDS
    longest = max(spans, key=len, default=range(0))
    end = min(longest.stop, 65534)
    return range(end - _SHORT_IDS, end) if end - _SHORT_IDS >= max(longest.start, 1000) else range(0)


def _unused_id() -> int:
    owners = set()
    for folder in owned.folders():
        with contextlib.suppress(FileNotFoundError):  # removed since it was listed
            owners.add(folder.stat(follow_symlinks=False).st_uid)
    while (user := secrets.choice(_ids())) in owners:
        pass
    return user


def _places(path: Path) -> list[Path]:
    """The folder as it is named, and as it is where links in its name lead elsewhere."""
    return list(dict.fromkeys((path.absolute(), path.resolve())))


def _closed(path: Path) -> Path | None:
    """The first folder on the way to `path`, itself left out, that other users may not enter."""
    return next((place for place in reversed(path.parents) if not _is_open(place)), None)


def _is_open(place: Path) -> bool:
    return bool(place.stat().st_mode & stat.S_IXOTH)


def _why_unreadable(places: Sequence[Path], folder: Path) -> str:
    """Why another user cannot be shown these folders, and the folder that will be its own; "" if it can."""
    for place in (*places, folder):
        shut = place if place != folder and not _is_open(place) else _why_no_mount() and _closed(place)
        if shut:
            return f"{place} is closed to other users: move it, or `chmod o+rx {shut}`"
    return ""


@cache
def _why_no_mount() -> str:
    return _said(["unshare", "--mount", "--", "mount", "-t", "tmpfs", "none", tempfile.gettempdir()])


def _reveal(places: Sequence[Path]) -> list[str]:
    """Command that opens the way to these folders, of which the first may be written to; [] if it is open."""
    hidden = {place: closed for place in places if (closed := _closed(place)) is not None}
    if not hidden:
        return []
    plan = reveal.plan(hidden.values(), {place: place != places[0] for place in hidden})
    return [sys.executable, "-I", "-S", reveal.__file__, plan]
