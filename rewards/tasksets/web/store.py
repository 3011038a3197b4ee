"""Where a site keeps its rows: reading them as a person sees them, writing near-misses past the interface."""

import json
import sqlite3
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from guiagent.errors import Fault, FaultError
from guiagent.protocols import Device, Files, Shell
from rewards.tasksets.web.goal import Goal, Row, State, id_of, table_of

_WRITER = """
import json, sqlite3, sys
database = sqlite3.connect(sys.argv[1], timeout=10)
for key, values, told in json.loads(sys.argv[2]):
    if key is None:
        database.execute(told["insert"])
        (key,) = database.execute(told["newest"]).fetchone()
    for statement in told["delete"] if values is None else ():
        database.execute(statement, {"id": key})
    for name, value in (values or {}).items():
        for statement in told["columns"][name]:
            database.execute(statement, {"id": key, "value": value})
database.commit()
"""
_WRITE_S = 20.0
_MOST_ROWS = 100_000


class SiteDevice(Device, Files, Shell, Protocol):
    """A browser with sites, whose holder has the grant "sites"."""


@dataclass(frozen=True)
class Entry:
    """How a user comes into a site.

    Attributes:
        page: the first page of a task, a path.
        script: JavaScript that logs the known user in, on that page; "" where nobody has to.
        entered: an expression that is true once the user is logged in.
    """

    page: str = "/"
    script: str = ""
    entered: str = "true"


class Store(Protocol):
    """What a site keeps, for tasks.

    Attributes:
        site: the site's name.
        application: the program and version that it was written for, as results name it.
        tables: the names of its tables, which no other site has.
        settled: an expression that is true once the open page has saved what was done on it; "" where
            the answer to a form means that it is saved.
    """

    @property
    def site(self) -> str: ...

    @property
    def application(self) -> str: ...

    @property
    def tables(self) -> Container[str]: ...

    @property
    def entry(self) -> Entry: ...

    @property
    def settled(self) -> str: ...

    async def read(self, device: SiteDevice) -> State:
        """Read every row. What cannot be read is a Fault of the device."""
        ...

    async def write(self, device: SiteDevice, goal: Goal) -> None:
        """Bring about the part of a goal that is in its tables past the interface, as mutants do."""
        ...


@dataclass(frozen=True)
class Table:
    """A table of a database as a person sees it.

    Attributes:
        select: the query for all rows, their key as the first column, "id".
        columns: for each column the statements that give it a value, with the parameters :id and :value.
        insert: the statement that adds an empty row.
        newest: the query for the key of the row added last.
        delete: the statements that remove a row, with the parameter :id.
    """

    select: str
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    insert: str = ""
    newest: str = ""
    delete: Sequence[str] = ()

    @property
    def statements(self) -> Mapping[str, object]:
        """What the writing program is told of it."""
        return {
            "insert": self.insert,
            "newest": self.newest,
            "delete": list(self.delete),
            "columns": {name: list(statements) for name, statements in self.columns.items()},
        }


@dataclass(frozen=True)
class Database:
    """A `Store` in a SQLite database, at this path below the site's data folder."""

    site: str
    application: str
    database: str
    tables: Mapping[str, Table]
    entry: Entry = Entry()
    settled: str = ""

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
        """Write by SQL, in the site's sandbox."""
        mine = goal.within(self.tables)
        deeds: list[tuple[str, str | None, Row | None]] = [
            (table_of(key), id_of(key), row) for key, row in mine.changed.items()
        ]
        deeds += [(table_of(key), id_of(key), None) for key in mine.removed]
        deeds += [(table, None, row) for table, row in mine.added]
        if not deeds:
            return
        told = [(key, row, self.tables[table].statements) for table, key, row in deeds]
        command = [f"site:{self.site}", "python", "-c", _WRITER, self.database, json.dumps(told)]
        result = await device.exec(command, _WRITE_S)
        if result.code:
            raise FaultError(Fault("task", "near_miss", f"could not be written: {result.stderr[-300:]}"))


def origin(site: str) -> str:
    """How the addresses of a site begin."""
    return f"http://{site}.test"
