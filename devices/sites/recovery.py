"""Works the journal of a copied SQLite database into it. Run as a script, with the copy's path, confined."""

import sqlite3
import sys


def recover(path: str) -> None:
    """Open the database, which rolls a hot journal back, and close it, which works a write-ahead log in.

    The schema is a stranger's, and is not parsed: neither of the two needs it.
    """
    database = sqlite3.connect(path)
    try:
        database.execute("PRAGMA schema_version").fetchone()
    finally:
        database.close()


if __name__ == "__main__":
    recover(sys.argv[1])
