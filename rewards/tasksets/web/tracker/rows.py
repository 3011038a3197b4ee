"""What the tracker (Roundup) keeps: issues, notes, keywords and users, as dana sees them."""

from rewards.tasksets.web.store import Database, Entry, Table, origin

ME = "dana"
# Awaited: the next navigation would cancel a form that is still being sent. Without a form (the site does not
# answer yet) nobody is logged in, which set-up finds and reports as a fault to try again after.
_ENTER = f"""
const form = document.querySelector('[name=__login_name]')?.form;
if (!form) return;
form.elements.__login_name.value = '{ME}';
form.elements.__login_password.value = 'timetable';
return fetch(form.action, {{method: 'POST', body: new FormData(form)}}).then(() => {{}});
"""


def _linked(column: str, table: str, name: str) -> list[str]:
    return [
        f"UPDATE _issue SET {column} = (SELECT id FROM {table} WHERE {name} = :value AND __retired__ = 0) "
        "WHERE id = :id"
    ]


def _plain(table: str, *names: str) -> dict[str, list[str]]:
    return {name: [f"UPDATE {table} SET _{name} = :value WHERE id = :id"] for name in names}


def _added(table: str) -> dict[str, str]:
    return {
        "insert": f"INSERT INTO {table} (id, __retired__) "
        f"SELECT max(coalesce(max(id), 0), 500) + 1, 0 FROM {table}",
        "newest": f"SELECT max(id) FROM {table}",
    }


TRACKER = Database(
    "tracker",
    "Roundup 2.6.0",
    "tracker/db/db",
    {
        "issue": Table(
            "SELECT i.id AS id, i._title AS title, p._name AS priority, s._name AS status, "
            "u._username AS assigned, (SELECT group_concat(name, ', ') FROM (SELECT k._name AS name FROM "
            "issue_keyword x JOIN _keyword k ON k.id = x.linkid WHERE x.nodeid = i.id ORDER BY 1)) "
            "AS keywords, "
            "(SELECT group_concat(linkid) FROM issue_superseder x WHERE x.nodeid = i.id) AS superseder, "
            "c._username AS reporter, i.__retired__ AS retired "
            "FROM _issue i LEFT JOIN _priority p ON p.id = i._priority "
            "LEFT JOIN _status s ON s.id = i._status "
            "LEFT JOIN _user u ON u.id = i._assignedto LEFT JOIN _user c ON c.id = i._creator ORDER BY i.id",
            {
                **_plain("_issue", "title"),
                "priority": _linked("_priority", "_priority", "_name"),
                "status": _linked("_status", "_status", "_name"),
                "assigned": _linked("_assignedto", "_user", "_username"),
                "keywords": [
                    "DELETE FROM issue_keyword WHERE nodeid = :id",
                    "INSERT INTO issue_keyword (linkid, nodeid) SELECT id, :id FROM _keyword "
                    "WHERE instr(', ' || :value || ', ', ', ' || _name || ', ')",
                ],
                "superseder": [
                    "DELETE FROM issue_superseder WHERE nodeid = :id",
                    "INSERT INTO issue_superseder (linkid, nodeid) VALUES (:value, :id)",
                ],
            },
            **_added("_issue"),
        ),
        "note": Table(
            "SELECT m.id AS id, "
            "(SELECT 'issue/' || nodeid FROM issue_messages WHERE linkid = m.id) AS issue, "
            "u._username AS author, m._summary AS text, m.__retired__ AS retired "
            "FROM _msg m LEFT JOIN _user u ON u.id = m._author ORDER BY m.id",
            {
                "issue": ["INSERT INTO issue_messages (linkid, nodeid) VALUES (:id, substr(:value, 7))"],
                "author": [
                    "UPDATE _msg SET _author = (SELECT id FROM _user WHERE _username = :value) WHERE id = :id"
                ],
                "text": ["UPDATE _msg SET _summary = :value WHERE id = :id"],
            },
            **_added("_msg"),
        ),
        "keyword": Table(
            "SELECT id, _name AS name, __retired__ AS retired FROM _keyword ORDER BY id",
            _plain("_keyword", "name"),
            **_added("_keyword"),
        ),
        "user": Table(
            "SELECT id, _username AS username, _realname AS realname, _address AS address, _phone AS phone, "
            "_organisation AS organisation, _roles AS roles, __retired__ AS retired FROM _user ORDER BY id",
            _plain("_user", "username", "realname", "address", "phone", "organisation"),
            **_added("_user"),
        ),
    },
    Entry(script=_ENTER, entered="document.querySelector('a[href*=logout]') !== null"),
)
ORIGIN = origin(TRACKER.site)
