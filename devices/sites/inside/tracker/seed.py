"""Fill the site `tracker`: Roundup's classic template with the issues of a timetable app's team."""

import sqlite3
import sys
from datetime import date, timedelta
from pathlib import Path
from random import Random

from roundup import instance, password  # type: ignore[import-not-found]
from roundup.admin import AdminTool  # type: ignore[import-not-found]
from roundup.anypy import random_  # type: ignore[import-not-found]

PASSWORD = "timetable"
USERS = {
    "dana": "Dana Orsolic",
    "emil": "Emil Haugen",
    "farah": "Farah Benali",
    "goran": "Goran Petek",
    "hanna": "Hanna Vire",
}
KEYWORDS = ("release-2.1", "release-2.2", "printing", "import", "accessibility")
_PARTS = (
    "The departure board",
    "The print view",
    "The stop editor",
    "The route map",
    "The fare table",
    "The login page",
)
_TROUBLES = (
    "shows yesterday's date",
    "loses changes after a reload",
    "is unreadable in dark mode",
    "crashes on empty input",
    "ignores the chosen language",
    "takes a minute to open",
    "cuts off long names",
)
_COUNT = 40
_FIRST_DAY = date(2026, 1, 5)


def main() -> None:
    random_.token_bytes = Random(20260303).randbytes  # salts of passwords: the same rows come every time
    home = Path(sys.argv[1]) / "tracker"
    tool = AdminTool()
    tool.tracker_home = str(home)
    settings = "tracker_web=http://tracker.test/,mail_domain=tracker.test,mail_host=localhost,mail_debug=/tmp/mail,password_pbkdf2_default_rounds=1000"
    for command in (["install", "classic", "sqlite", settings], ["initialise", PASSWORD]):
        if code := tool.run_command(command):
            sys.exit(f"roundup-admin {command[0]} ended with {code}")
    db = instance.open(str(home)).open("admin")
    people = [
        db.user.create(
            username=name,
            realname=real,
            address=f"{name}@tracker.test",
            roles="User",
            timezone="0",
            password=password.Password(PASSWORD, config=db.config),
        )
        for name, real in USERS.items()
    ]
    keywords = [db.keyword.create(name=name) for name in KEYWORDS]
    titles = [f"{part} {trouble}" for part in _PARTS for trouble in _TROUBLES]
    random = Random(20260303)
    random.shuffle(titles)
    statuses = [
        db.status.lookup(name) for name in ("unread", "chatting", "in-progress", "testing", "resolved")
    ]
    authors = []
    for title in titles[:_COUNT]:
        authors.append(random.choice(list(USERS)))
        db.issue.create(
            title=title,
            priority=random.choice(db.priority.list()),
            status=random.choice(statuses),
            assignedto=random.choice([*people, None]),
            keyword=sorted(random.sample(keywords, random.randint(0, 2))),
        )
    db.commit()
    db.close()
    _date(home / "db/db", authors)


def _date(path: Path, authors: list[str]) -> None:
    """Give every row a fixed time, and every issue its reporter."""
    database = sqlite3.connect(path)
    names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    began = f"{_FIRST_DAY:%Y%m%d}090000.000"
    for name in names:
        columns = {row[1] for row in database.execute(f"PRAGMA table_info({name})")}
        if "_creation" in columns:
            database.execute(f"UPDATE {name} SET _creation = ?, _activity = ?", (began, began))
        if name.endswith("__journal"):
            database.execute(f"UPDATE {name} SET date = ?", (began,))
    for number, author in enumerate(authors, 1):
        day = f"{_FIRST_DAY + timedelta(days=number):%Y%m%d}103000.000"
        (user,) = database.execute("SELECT id FROM _user WHERE _username = ?", (author,)).fetchone()
        database.execute(
            "UPDATE _issue SET _creator = ?, _actor = ?, _creation = ?, _activity = ? WHERE id = ?",
            (user, user, day, day, number),
        )
        database.execute("UPDATE issue__journal SET tag = ?, date = ? WHERE nodeid = ?", (user, day, number))
    database.commit()
    database.execute("VACUUM")
    database.close()


if __name__ == "__main__":
    main()
