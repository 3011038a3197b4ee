"""A web application of a few lines for tests of sites: rows in SQLite, and what an attacker would ask of it.

Imported, it is the definition; run as a script inside a sandbox, it is seed program and server.
"""

import os
import shutil
import sqlite3
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

NAME = "standin"
_LEFT_OPEN: list[sqlite3.Connection] = []


def seed(folder: Path) -> None:
    database = sqlite3.connect(folder / "rows.db")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE rows (word TEXT CHECK (json_valid(json_quote(word))))")
    database.execute("INSERT INTO rows VALUES ('seeded')")
    database.commit()
    database.close()
    (folder / "pages").mkdir()
    (folder / "pages/start.txt").write_text("welcome")
    (folder / "private.txt").write_text("not for checks")


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        text = str(getattr(self, f"on_{url.path.strip('/') or 'start'}")(**asked))
        body = f"<title>{text[:200]}</title><pre>{text}</pre>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def on_start(self) -> str:
        (count,) = sqlite3.connect("rows.db").execute("SELECT count(*) FROM rows").fetchone()
        return f"{count} rows for {self.headers['Host']}"

    def on_add(self, word: str) -> str:
        database = sqlite3.connect("rows.db")
        database.execute("INSERT INTO rows VALUES (?)", (word,))
        database.commit()
        _LEFT_OPEN.append(database)  # so that the row stays in the journal
        return "added"

    def on_half(self, word: str) -> str:
        """Leave a transaction open."""
        database = sqlite3.connect("rows.db", check_same_thread=False)
        database.execute("INSERT INTO rows VALUES (?)", (word,))
        _LEFT_OPEN.append(database)
        return "half done"

    def on_link(self, to: str) -> str:
        os.symlink(to, "pages/link.txt")
        return "linked"

    def on_fetch(self, url: str) -> str:
        try:
            return urllib.request.urlopen(url, timeout=2).read(100).decode()
        except OSError as error:
            return f"no: {error}"

    def on_read(self, path: str) -> str:
        try:
            return f"content: {Path(path).read_bytes()[:100]!r}"
        except OSError as error:
            return f"no: {error.strerror}"

    def on_die(self) -> None:
        print("the stand-in had enough", flush=True)
        os._exit(3)

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    if sys.argv[1] == "seed":
        seed(Path(sys.argv[2]))
    else:
        os.chdir(sys.argv[2])
        ThreadingHTTPServer(("127.0.0.1", int(sys.argv[3])), Handler).serve_forever()
else:
    from devices.sites import SITES
    from devices.sites.site import Program, Site, home

    def _program(*arguments: object) -> Program:
        return Program(("/usr/bin/python3", str(home(NAME) / "app.py"), *map(str, arguments)))

    STANDIN = Site(
        NAME,
        "the stand-in",
        lambda data: _program("seed", data),
        lambda data, port: _program("serve", data, port),
        databases=("rows.db",),
        files=("pages/",),
        start_s=30.0,
    )

    @contextmanager
    def installed(folder: Path) -> Iterator[Site]:
        """Have the stand-in installed below `folder`, and images kept there, in this context."""
        told = {"GUIAGENT_SITES": str(folder / "sites"), "GUIAGENT_HOME": str(folder / "state")}
        former = {name: os.environ.get(name) for name in told}
        os.environ.update(told)
        home(NAME).mkdir(parents=True)
        shutil.copy(__file__, home(NAME) / "app.py")
        (home(NAME) / "installed").write_text("1")
        SITES[NAME] = STANDIN
        try:
            yield STANDIN
        finally:
            SITES.pop(NAME, None)
            for name, value in former.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
