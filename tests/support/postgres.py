"""A real PostgreSQL for tests: its own cluster in a temporary folder, reached through a socket there."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import psycopg

from guiagent.cli.common.memory import descendants


def programs() -> Path | None:
    """The folder with `initdb` and `postgres`; None where this machine has no server."""
    folders = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    if (found := shutil.which("initdb")) is not None:
        folders.append(Path(found).resolve().parent)
    return next((folder for folder in folders if (folder / "postgres").exists()), None)


MISSING = "there is no PostgreSQL server here; apt-get install postgresql"


class Server:
    """One running cluster. It refuses to run as root, so root starts it as `postgres` or else `nobody`."""

    def __init__(self, bin: Path, folder: Path, primary: Self | None = None) -> None:
        self._bin = bin
        self._data = folder / "data"
        self._user = _unprivileged() if os.geteuid() == 0 else None
        self.folder = folder
        if self._user is not None:
            shutil.chown(folder, self._user)
        if primary is None:
            self._run("initdb", "-D", self._data, "-U", "farm", "-A", "trust", "-E", "UTF8", "--no-sync")
        else:
            source = ["-h", primary.folder, "-U", "farm", "-c", "fast"]
            self._run("pg_basebackup", "-D", self._data, "-R", "--no-sync", *source)
        with (self._data / "postgresql.conf").open("a") as settings:
            settings.write(f"listen_addresses = ''\nunix_socket_directories = '{folder}'\n")
            settings.write("max_connections = 40\nshared_buffers = 16MB\n")
        self.start()

    @classmethod
    def clone(cls, bin: Path, folder: Path, primary: Self) -> Self:
        """A running standby of `primary`, which follows it until it is promoted."""
        return cls(bin, folder, primary)

    def url(self, name: str = "postgres") -> str:
        return f"postgresql://farm@/{name}?host={self.folder}"

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """The URL of a fresh database, dropped again at the end whoever is still connected."""
        with psycopg.connect(self.url(), autocommit=True) as admin:
            name = f"farm_{os.urandom(4).hex()}"
            admin.execute(f"CREATE DATABASE {name}".encode())
        yield self.url(name)
        with psycopg.connect(self.url(), autocommit=True) as admin:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    def start(self) -> None:
        self._run("pg_ctl", "-D", self._data, "-l", self._data / "log", "-w", "start")

    @contextlib.contextmanager
    def crashed(self) -> Iterator[None]:
        """Stopped as by a power cut: no session is told, and recovery replays the log at the end of this."""
        self.cut()
        try:
            yield
        finally:
            self.start()

    def cut(self) -> None:
        """Stop as by a power cut."""
        self._run("pg_ctl", "-D", self._data, "-m", "immediate", "-w", "stop")

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        """Every process of it stopped, as on a disk or a machine that hangs; its sessions stay open."""
        postmaster = int((self._data / "postmaster.pid").read_text().split()[0])
        stopped = descendants(postmaster)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)

    def promote(self) -> None:
        """Make a primary of a standby."""
        self._run("pg_ctl", "-D", self._data, "-w", "promote")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self._data, "-m", "fast", "-w", "stop")

    def _run(self, program: str, *arguments: str | Path) -> None:
        # Into a file: the server inherits it, and a pipe would stay open as long as the server runs.
        with tempfile.TemporaryFile("w+") as said:
            command = [self._bin / program, *arguments]
            code = subprocess.run(command, user=self._user, stdout=said, stderr=said, cwd="/").returncode
            said.seek(0)
            assert code == 0, said.read()


def _unprivileged() -> str:
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


@contextlib.contextmanager
def place() -> Iterator[Path]:
    """A folder for servers: not pytest's, since a socket's path must be short and their user must get in."""
    with tempfile.TemporaryDirectory(prefix="pg-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@contextlib.contextmanager
def server() -> Iterator[Server | None]:
    """A running server as long as this lasts; None where there is none to run."""
    bin = programs()
    if bin is None:
        yield None
        return
    with place() as folder:
        one = Server(bin, folder)
        try:
            yield one
        finally:
            one.stop()
