"""Reading what a site keeps, while it runs: files as of one moment, and SQLite databases with their journals.

Every process of the site is stopped while files are copied, so that what is read is what a power cut at that
moment would have left, which SQLite recovers from by itself. The site's programs are not asked. What they
wrote is a stranger's: no link is followed, sizes are bounded, and a process of its own works journals in.
"""

import io
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from devices import foreign, namespaces, owned, processes
from devices.sites import recovery
from devices.sites.site import Site
from guiagent.errors import Fault, FaultError

KIND = "recovery"
_MOST = 64 << 20  # bytes of a file, or of all files of a folder
_FILES = 10_000
_JOURNALS = ("-wal", "-journal")
_RECOVERY_S = 30.0
_EPOCH = (1980, 1, 1, 0, 0, 0)
_MAGIC = b"SQLite format 3\0"


def read(site: Site, pid: int, data: Path, path: str) -> bytes:
    """Read a file, database or folder ("name/", as a ZIP archive) that a check may read.

    Args:
        site: whose it is.
        pid: the outer end of its sandbox.
        data: its data folder as this process sees it.
        path: relative to the data folder.

    Raises:
        FaultError: (origin "task") the site has no such file, it is too large, or is none that checks read.
    """
    parts = PurePosixPath(path).parts
    if path in site.databases:
        names = [path, *(path + journal for journal in _JOURNALS)]
        found = _frozen(pid, lambda: {name: _file(data, name) for name in names})
        main = found[path]
        if main is None:
            raise _missing(site, path)
        return _recovered(main, {name[len(path) :]: content for name, content in found.items() if content})
    if not any(path == name or (name.endswith("/") and path.startswith(name)) for name in site.files):
        readable = ", ".join((*site.databases, *site.files)) or "nothing"
        raise _bad(f"{path[:80]!r} of the site {site.name} is not for checks to read; they read {readable}")
    if ".." in parts or "\0" in path:
        raise _bad(f"{path[:80]!r} is no path below the data folder")
    if path.endswith("/"):
        return _archive(_frozen(pid, lambda: _folder(data, parts)))
    content = _frozen(pid, lambda: {path: _file(data, path)})[path]
    if content is None:
        raise _missing(site, path)
    return content


def _frozen(pid: int, look: Callable[[], dict[str, bytes | None]]) -> dict[str, bytes | None]:
    try:
        with namespaces.frozen(pid):
            return look()
    except OSError as error:
        raise FaultError(Fault("device", "site_unreadable", f"the site's files: {error}", True)) from error


def _file(folder: Path, path: str) -> bytes | None:
    """Content of a file; None if there is none. Raises FaultError if it is too large."""
    parts = PurePosixPath(path).parts
    if not foreign.is_file(folder, parts):
        return None
    try:
        return foreign.read(folder, parts, _MOST)
    except OSError as error:
        raise FaultError(Fault("task", "too_large", f"{path}: {error}")) from None


def _folder(data: Path, parts: Sequence[str]) -> dict[str, bytes | None]:
    if not foreign.is_folder(data, parts):
        return {}
    folder = data.joinpath(*parts)  # nobody can put a link there now: who could is stopped
    sizes = foreign.sizes(folder)
    if len(sizes) > _FILES or sum(sizes.values()) > _MOST:
        raise FaultError(Fault("task", "too_large", f"a folder of more than {_MOST} bytes or {_FILES} files"))
    return {name: _file(folder, name) for name in sizes}


def _archive(files: Mapping[str, bytes | None]) -> bytes:
    """A ZIP archive that is the same for the same files."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), files[name] or b"")
    return whole.getvalue()


def _recovered(main: bytes, files: Mapping[str, bytes]) -> bytes:
    """A database as one file, in rollback mode, which can be opened from memory."""
    if files.keys() - {""}:
        folder = owned.create_folder(KIND)
        try:
            for journal, content in files.items():
                (folder / f"copy{journal}").write_bytes(content)
            _recover(folder)
            main = foreign.read(folder, ["copy"], 2 * _MOST)
        except (OSError, subprocess.SubprocessError) as error:
            message = f"a database of the site cannot be recovered: {type(error).__name__}"
            raise FaultError(Fault("device", "site_unreadable", message, True)) from error
        finally:
            owned.remove_folder(folder)
    if not main.startswith(_MAGIC):
        return main  # empty, or none: a check has to stand that
    # https://www.sqlite.org/fileformat2.html : versions for writing and reading; 2 wants a journal beside it
    return main[:18] + b"\1\1" + main[20:]


def _recover(folder: Path) -> None:
    script = Path(recovery.__file__)
    confined = processes.confine(folder, [Path(sys.base_prefix), script.parent], allow_unisolated=True)
    subprocess.run(
        [*confined.command, sys.executable, "-I", "-S", str(script), str(folder / "copy")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_RECOVERY_S,
        check=True,
        env=confined.environment,
    )


def _missing(site: Site, path: str) -> FaultError:
    return FaultError(Fault("task", "missing_file", f"the site {site.name} has no file {path[:200]}"))


def _bad(message: str) -> FaultError:
    return FaultError(Fault("task", "bad_path", message))
