"""Two PostgreSQL clusters, of which one is the other's synchronous standby: a primary that can be lost."""

import contextlib
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg

from tests.support.postgres import Server, place, programs

_PATIENCE_S = 60.0


class Pair:
    """`lose_primary` ends the primary as a power cut does; its standby takes its place, with a new one."""

    def __init__(self, bin: Path, first: Path, second: Path) -> None:
        self._bin = bin
        self._primary = Server(bin, first)
        self._spare = second  # the folder of the standby
        self._standby = self._cloned()

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """An address by which whoever of the two is the primary is found."""
        with psycopg.connect(self._primary.url(), autocommit=True) as admin:
            admin.execute("CREATE DATABASE farm")
        hosts = ",".join(str(one.folder) for one in (self._primary, self._standby))
        yield f"postgresql://farm@/farm?host={hosts}&target_session_attrs=read-write"

    @property
    def primary(self) -> Server:
        return self._primary

    def lose_primary(self) -> None:
        lost, self._primary = self._primary, self._standby
        lost.cut()
        self._primary.promote()
        self._wait_for("SELECT NOT pg_is_in_recovery()")
        self._waits_for("")
        shutil.rmtree(lost.folder)
        lost.folder.mkdir(mode=0o755)
        self._spare = lost.folder
        self._standby = self._cloned()

    def stop(self) -> None:
        self._waits_for("")
        self._standby.stop()
        self._primary.stop()

    def _cloned(self) -> Server:
        """A standby of the primary, which from then on commits nothing that the standby has not."""
        standby = Server.clone(self._bin, self._spare, self._primary)
        self._wait_for("SELECT EXISTS (SELECT 1 FROM pg_stat_replication WHERE state = 'streaming')")
        self._waits_for("*")
        self._wait_for(
            "SELECT EXISTS (SELECT 1 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum'))"
        )
        return standby

    def _waits_for(self, standbys: str) -> None:
        with psycopg.connect(self._primary.url(), autocommit=True) as admin:
            admin.execute("SET synchronous_commit = local")
            admin.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standbys}'".encode())
            admin.execute("SELECT pg_reload_conf()")

    def _wait_for(self, condition: str) -> None:
        give_up = time.monotonic() + _PATIENCE_S
        while time.monotonic() < give_up:
            with (
                contextlib.suppress(psycopg.OperationalError),
                psycopg.connect(self._primary.url(), autocommit=True) as admin,
            ):
                if admin.execute(condition.encode()).fetchone() == (True,):
                    return
            time.sleep(0.05)
        raise AssertionError(f"PostgreSQL never came to: {condition}")


@contextlib.contextmanager
def pair() -> Iterator[Pair | None]:
    """A running pair as long as this lasts; None where there is no server to run."""
    bin = programs()
    if bin is None:
        yield None
        return
    with place() as folder:
        places = folder / "a", folder / "b"
        for one in places:
            one.mkdir(mode=0o755)
        both = Pair(bin, *places)
        try:
            yield both
        finally:
            both.stop()
