"""What the site `data` (Datasette) keeps: bicycle counters, their months and their repairs."""

from rewards.tasksets.web.store import Database, Table, origin


def _plain(table: str, key: str, *names: str) -> dict[str, list[str]]:
    return {name: [f"UPDATE {table} SET {name} = :value WHERE {key} = :id"] for name in names}


COUNTERS = Database(
    "data",
    "Datasette 0.65.5",
    "counters.db",
    {
        "counter": Table(
            "SELECT id, place, district, lanes, installed FROM counters ORDER BY id",
            _plain("counters", "id", "place", "district", "lanes", "installed"),
            insert="INSERT INTO counters (place, district, lanes, installed) VALUES ('', '', 1, '')",
            newest="SELECT max(id) FROM counters",
        ),
        "month": Table(
            "SELECT counter || ':' || month AS id, bicycles FROM months ORDER BY counter, month",
            _plain("months", "counter || ':' || month", "bicycles"),
        ),
        "repair": Table(
            "SELECT id, counter, fault, reported, state, crew FROM repairs ORDER BY id",
            _plain("repairs", "id", "counter", "fault", "reported", "state", "crew"),
            insert="INSERT INTO repairs (counter, fault, reported) VALUES (1, '', '')",
            newest="SELECT max(id) FROM repairs",
            delete=["DELETE FROM repairs WHERE id = :id"],
        ),
    },
)
ORIGIN = origin(COUNTERS.site)
