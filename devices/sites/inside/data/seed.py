"""Fill the site `data`: bicycle counters of a city, what they counted by month, and their repairs."""

import sqlite3
import sys
from pathlib import Path
from random import Random

_STREETS = ("Harbour Bridge", "Mill Lane", "Station Square", "North Ring", "Canal Path", "Old Market")
_FAULTS = ("battery low", "loop broken", "display dark", "no signal")

_TABLES = """
CREATE TABLE counters (
    id INTEGER PRIMARY KEY, place TEXT NOT NULL, lanes INTEGER NOT NULL, installed TEXT NOT NULL
);
CREATE TABLE months (
    counter INTEGER NOT NULL REFERENCES counters(id), month TEXT NOT NULL, bicycles INTEGER NOT NULL,
    PRIMARY KEY (counter, month)
);
CREATE TABLE repairs (
    id INTEGER PRIMARY KEY, counter INTEGER NOT NULL REFERENCES counters(id), fault TEXT NOT NULL,
    reported TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'open'
);
"""


def main() -> None:
    random = Random(20260302)
    database = sqlite3.connect(Path(sys.argv[1]) / "counters.db")
    database.executescript(_TABLES)
    for number, place in enumerate(_STREETS, 1):
        lanes = random.choice((1, 2))
        installed = f"20{random.randint(15, 22)}-{random.randint(1, 12):02}-01"
        database.execute("INSERT INTO counters VALUES (?, ?, ?, ?)", (number, place, lanes, installed))
        for month in range(1, 13):
            count = lanes * random.randint(9_000, 42_000)
            database.execute("INSERT INTO months VALUES (?, ?, ?)", (number, f"2025-{month:02}", count))
    for _ in range(14):
        row = (
            random.randint(1, len(_STREETS)),
            random.choice(_FAULTS),
            f"2026-02-{random.randint(1, 28):02}",
        )
        database.execute("INSERT INTO repairs (counter, fault, reported) VALUES (?, ?, ?)", row)
    database.commit()
    database.close()


if __name__ == "__main__":
    main()
