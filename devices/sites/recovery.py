"""Works the journal of a copied SQLite database into it. Run as a script, with the copy's path, confined."""

import sqlite3
import sys


def recover(path: str) -> None:
    """Open the database, which rolls a hot journal back, and work a write-ahead log in."""
    database = sqlite3.connect(path)
    try:
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("PRAGMA schema_version").fetchone()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        database.close()


if __name__ == "__main__":
    recover(sys.argv[1])
