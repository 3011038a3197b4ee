"""Where a site keeps its rows: reading them from its SQLite database, and writing near-misses into it."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from guiagent.errors import Fault, FaultError
from guiagent.protocols import Device, Files, Shell
from rewards.tasksets.web.goal import Goal, Row, State

_WRITER = """
import json, sqlite3, sys
database = sqlite3.connect(sys.argv[1], timeout=10)
for table, key, values, told in json.loads(sys.argv[2]):
    if key is None:
        database.execute(told["insert"])
        (key,) = database.execute(told["newest"]).fetchone()
    for name, value in values.items():
        for statement in told["columns"][name]:
            database.execute(statement, {"id": key, "value": value})
database.commit()
"""
_WRITE_S = 20.0
_MOST_ROWS = 100_000


class SiteDevice(Device, Files, Shell, Protocol):
    """A browser with sites, whose holder has the grant "sites"."""


@dataclass(frozen=True)
class Table:
    """A table as a person sees it.

    Attributes:
        select: the query for all rows, their key as the first column, "id".
        columns: for each column the statements that give it a value, with the parameters :id and :value.
        insert: the statement that adds an empty row.
        newest: the query for the key of the row added last.
    """

    select: str
    columns: Mapping[str, Sequence[str]]
    insert: str = ""
    newest: str = ""


@dataclass(frozen=True)
class Store:
    """The database of a site: its path below the site's data folder, and its tables."""

    site: str
    database: str
    tables: Mapping[str, Table]
    first_page: str = "/"
    enter: str = ""  # JavaScript that logs the known user in, on the first page
    entered: str = "true"  # an expression that is true once the user is logged in

    @property
    def origin(self) -> str:
        return f"http://{self.site}.test"

    async def read(self, device: SiteDevice) -> State:
        """Read every row. What is no database, or lacks a table, is a Fault of the device."""
        data = await device.get(f"site:{self.site}/{self.database}")
        opened = sqlite3.connect(":memory:")
        try:
            opened.deserialize(data)
            opened.row_factory = sqlite3.Row
            state: dict[str, Row] = {}
            for name, table in self.tables.items():
                for row in opened.execute(table.select).fetchmany(_MOST_ROWS):
                    values = dict(row)
                    state[f"{name}/{values.pop('id')}"] = values
            return state
        except sqlite3.Error as error:
            message = f"the database of the site {self.site}: {error}"
            raise FaultError(Fault("device", "site_unreadable", message, retryable=True)) from error
        finally:
            opened.close()

    async def write(self, device: SiteDevice, goal: Goal) -> None:
        """Bring about a goal by SQL, past the interface, as mutants do."""
        deeds: list[tuple[str, str | None, Row]] = [
            (key.partition("/")[0], key.partition("/")[2], row) for key, row in goal.changed.items()
        ]
        deeds += [(table, None, row) for table, row in goal.added]
        if not deeds:
            return
        told = [
            (
                table,
                key,
                dict(row),
                {
                    "insert": self.tables[table].insert,
                    "newest": self.tables[table].newest,
                    "columns": dict(self.tables[table].columns),
                },
            )
            for table, key, row in deeds
        ]
        command = [f"site:{self.site}", "python", "-c", _WRITER, self.database, json.dumps(told)]
        result = await device.exec(command, _WRITE_S)
        if result.code:
            raise FaultError(Fault("task", "near_miss", f"could not be written: {result.stderr[-300:]}"))
