"""All drills by name: what each runs, how often by default and in a night, and on which stores."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.drills.tally import Tally, of_dataclass
from tests.support.postgres import Server

SQLITE, POSTGRES, REPLICAS = "sqlite", "postgres", "replicas"


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a drill works and how much; `database` is "" for SQLite."""

    folder: Path
    n: int
    database: str = ""
    server: Server | None = None
    pair: Any = None


Work = Callable[[Setting], Tally]


class Drill(NamedTuple):
    work: Work
    n: int
    night: int
    what: str  # n counts these
    stores: tuple[str, ...] = ("",)


def _farm(name: str, unit: str) -> Work:
    def work(given: Setting) -> Tally:
        from tests.drills import run

        return of_dataclass(asyncio.run(getattr(run, name)(given.folder, given.n, given.database)), unit)

    return work


def _mixed(given: Setting) -> Tally:
    from tests.drills import mixed

    return asyncio.run(mixed.kills(given.folder, given.n, given.server, given.database))


def _store(given: Setting) -> Tally:
    from tests.drills import pool_store

    if given.database:
        return pool_store.postgres(given.folder, given.n, given.database)
    return pool_store.kills(given.folder, given.n)


def _database(given: Setting) -> Tally:
    from tests.drills import databases

    return asyncio.run(databases.troubles(given.folder, given.n, given.pair, given.database))


def _crashes(given: Setting) -> Tally:
    from tests.drills import crashes

    return of_dataclass(crashes.kills(given.folder, given.n), "points")


def _trainer(given: Setting) -> Tally:
    from tests.drills import trainer

    return of_dataclass(trainer.kills(given.folder, given.n), "kills")


def _torchrun(given: Setting) -> Tally:
    from tests.drills import trainer

    return of_dataclass(trainer.kills(given.folder, given.n, trainer.TORCHRUN, trainer.rank_of), "kills")


def _awaited(module: str, name: str) -> Work:
    def work(given: Setting) -> Tally:
        made: Coroutine[Any, Any, Tally] = _found(module, name)(given.folder, given.n)
        return asyncio.run(made)

    return work


def _called(module: str, name: str) -> Work:
    def work(given: Setting) -> Tally:
        tally: Tally = _found(module, name)(given.folder, given.n)
        return tally

    return work


def _found(module: str, name: str) -> Callable[[Path, int], Any]:
    from importlib import import_module  # only what a drill needs: some bring torch

    found: Callable[[Path, int], Any] = getattr(import_module(f"tests.drills.{module}"), name)
    return found


DRILLS: dict[str, Drill] = {
    "kills": Drill(_farm("kills", "kills"), 50, 500, "kills of the pool or the leader", (SQLITE, POSTGRES)),
    "mixed": Drill(_mixed, 200, 2000, "kills of any part", (POSTGRES, SQLITE)),
    "late": Drill(_farm("late", "late"), 1000, 20_000, "late actions", (SQLITE, POSTGRES)),
    "calls": Drill(_awaited("late_calls", "calls"), 10_000, 100_000, "late or repeated calls"),
    "pauses": Drill(_farm("pauses", "kills"), 5, 50, "pauses of the leader", (POSTGRES,)),
    "reclaim": Drill(_awaited("reclaim", "reclaims"), 200, 5000, "holders that vanish"),
    "network": Drill(_awaited("network", "weather"), 300, 5000, "leases in bad weather"),
    "database": Drill(_database, 9, 60, "troubles of PostgreSQL", (REPLICAS,)),
    "store": Drill(_store, 10_000, 10_000, "crash points, at most", (SQLITE, POSTGRES)),
    "crashes": Drill(_crashes, 1000, 1000, "crash points of a training step, at most"),
    "trainer": Drill(_trainer, 5, 50, "kills of a training run"),
    "torchrun": Drill(_torchrun, 4, 40, "kills of one process of two"),
    "slow": Drill(_awaited("slow", "clients"), 1, 10, "rounds of attacks"),
    "exhaustion": Drill(_awaited("exhaustion", "exhausts"), 1, 10, "rounds"),
    "api": Drill(_called("requests", "api"), 5000, 50_000, "requests by the document"),
    "deep": Drill(_called("requests", "deep"), 20, 200, "bodies at every route"),
    "raw": Drill(_called("requests", "raw"), 5000, 200_000, "requests that are nearly HTTP"),
    "parsers": Drill(_called("parsers", "parsers"), 10, 600, "seconds for each parser"),
    "soak": Drill(_called("soak", "soak"), 7, 30, "days on a clock of its own"),
    "judge": Drill(_called("judges", "judges"), 10_000, 100_000, "sets of replies"),
    "residue": Drill(_called("residue", "residue"), 200, 5000, "leases that leave something"),
    "listeners": Drill(_called("listeners", "listeners"), 2, 10, "starts"),
    "mutants": Drill(_called("caught", "mutants"), 12, 12, "seeded defects"),
}
