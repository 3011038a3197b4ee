"""Fill the site `data`: bicycle counters of a city, what they counted by month, and their repairs."""

import sqlite3
import sys
from pathlib import Path
from random import Random

_PLACES = (
    ("Harbour Bridge", "Harbour"),
    ("Mill Lane", "Old Town"),
    ("Station Square", "Centre"),
    ("North Ring", "North"),
    ("Canal Path", "Harbour"),
    ("Old Market", "Old Town"),
    ("Tannery Street", "Old Town"),
    ("Lindens Avenue", "North"),
    ("Ferry Steps", "Harbour"),
    ("Theatre Row", "Centre"),
)
_FAULTS = ("battery low", "loop broken", "display dark", "no signal")
_CREWS = ("Heron", "Badger", "Swift")
_REPAIRS = 32

_TABLES = """
CREATE TABLE counters (
    id INTEGER PRIMARY KEY, place TEXT NOT NULL, district TEXT NOT NULL, lanes INTEGER NOT NULL,
    installed TEXT NOT NULL
);
CREATE TABLE months (
    counter INTEGER NOT NULL REFERENCES counters(id), month TEXT NOT NULL, bicycles INTEGER NOT NULL,
    PRIMARY KEY (counter, month)
);
CREATE TABLE repairs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, counter INTEGER NOT NULL REFERENCES counters(id),
    fault TEXT NOT NULL, reported TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'open', crew TEXT
);
"""


def main() -> None:
    random = Random(20260302)
    database = sqlite3.connect(Path(sys.argv[1]) / "counters.db")
    database.executescript(_TABLES)
    for number, (place, district) in enumerate(_PLACES, 1):
        lanes = random.choice((1, 2))
        installed = f"20{random.randint(15, 22)}-{random.randint(1, 12):02}-01"
        row = (number, place, district, lanes, installed)
        database.execute("INSERT INTO counters VALUES (?, ?, ?, ?, ?)", row)
        for month in range(1, 13):
            count = lanes * random.randint(9_000, 42_000)
            database.execute("INSERT INTO months VALUES (?, ?, ?)", (number, f"2025-{month:02}", count))
    days = sorted(f"2026-{random.choice((1, 2)):02}-{random.randint(1, 28):02}" for _ in range(_REPAIRS))
    for day in days:
        counter, fault = random.randint(1, len(_PLACES)), random.choice(_FAULTS)
        state, crew = random.choice(("open", "open", "done")), random.choice((*_CREWS, None))
        database.execute(
            "INSERT INTO repairs (counter, fault, reported, state, crew) VALUES (?, ?, ?, ?, ?)",
            (counter, fault, day, state, crew),
        )
    database.commit()
    database.close()


if __name__ == "__main__":
    main()
