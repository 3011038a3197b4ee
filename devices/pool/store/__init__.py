"""Durable state of a pool, in SQLite or PostgreSQL."""

from typing import TYPE_CHECKING

from devices.config import PoolConfig
from devices.pool.store.commit import Store
from devices.pool.store.schema import ANSWERS_FOR_S, Database, Deposed, Remembered
from devices.pool.store.sqlite import Sqlite
from guiagent.errors import InfrastructureError

if TYPE_CHECKING:
    from devices.pool.store.postgres import Postgres

__all__ = [
    "ANSWERS_FOR_S",
    "Database",
    "Deposed",
    "Remembered",
    "Sqlite",
    "Store",
    "open_postgres",
    "open_store",
]


def open_store(config: PoolConfig) -> Store:
    """Open the store that `config` names: SQLite in the state directory, or PostgreSQL as its leader.

    Raises InfrastructureError if another pool has it open or leads it.
    """
    if config.database is None:
        return Store(Sqlite(config.state_dir / "pool.sqlite"))
    database = open_postgres(config.database.get_secret_value(), url="")
    if not database.stand():
        database.close()
        raise InfrastructureError("another pool instance leads the farm of this database")
    return Store(database)


def open_postgres(dsn: str, url: str) -> "Postgres":
    """Create a client of the database at `dsn`, which connects at its first use.

    `url` is where other pool instances reach this one. Raises InfrastructureError without psycopg.
    """
    try:
        from devices.pool.store.postgres import Postgres  # an extra that only some farms have
    except ModuleNotFoundError as error:
        raise InfrastructureError(
            "a farm with a database needs psycopg: pip install 'guiagent[postgres]'"
        ) from error
    return Postgres(dsn, url)
