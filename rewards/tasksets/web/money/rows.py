"""What the site `money` (I Hate Money) keeps: projects, who is in them, and their bills."""

from rewards.tasksets.web.store import Database, Entry, Table, origin

# Awaited: the next navigation would cancel a form that is still being sent. Without a form (the site does not
# answer yet) nobody is logged in, which set-up finds and reports as a fault to try again after.
_ENTER = """
const form = document.querySelector('form:has([name=password])');
if (!form) return;
form.elements.password.value = 'timetable';
return fetch(location.href, {method: 'POST', body: new FormData(form)}).then(() => {});
"""
_OWERS = (
    "(SELECT group_concat(name, ', ') FROM (SELECT o.name AS name FROM billowers x "
    "JOIN person o ON o.id = x.person_id WHERE x.bill_id = b.id ORDER BY o.name))"
)


def _plain(table: str, *names: str) -> dict[str, list[str]]:
    return {name: [f"UPDATE {table} SET {name} = :value WHERE id = :id"] for name in names}


MONEY = Database(
    "money",
    "I Hate Money 7.2.1",
    "money.db",
    {
        "project": Table("SELECT id, name, contact_email AS email, password FROM project ORDER BY id"),
        "member": Table(
            "SELECT id, name, project_id AS project, weight, activated FROM person ORDER BY id",
            {
                **_plain("person", "name", "weight", "activated"),
                "project": [
                    "UPDATE OR IGNORE person SET project_id = (SELECT id FROM project WHERE id = :value) "
                    "WHERE id = :id"
                ],
            },
            insert="INSERT INTO person (name, weight, activated) VALUES ('', 1, 1)",
            newest="SELECT max(id) FROM person",
            delete=["DELETE FROM person WHERE id = :id"],
        ),
        "bill": Table(
            "SELECT b.id AS id, b.what AS what, b.amount AS amount, p.name AS payer, "
            f"{_OWERS} AS owers, b.bill_type AS kind, b.date AS date, p.project_id AS project, "
            "b.external_link AS link FROM bill b LEFT JOIN person p ON p.id = b.payer_id ORDER BY b.id",
            {
                **_plain("bill", "what", "amount", "date"),
                "payer": [
                    "UPDATE bill SET payer_id = (SELECT id FROM person WHERE name = :value "
                    "AND project_id = 'flat') WHERE id = :id"
                ],
                "owers": [
                    "DELETE FROM billowers WHERE bill_id = :id",
                    "INSERT INTO billowers (bill_id, person_id) SELECT :id, id FROM person WHERE "
                    "project_id = 'flat' AND instr(', ' || :value || ', ', ', ' || name || ', ')",
                ],
                "kind": ["UPDATE bill SET bill_type = :value WHERE id = :id"],
            },
            insert="INSERT INTO bill (what, amount, date, bill_type, original_currency) "
            "VALUES ('', 0, '2026-03-01', 'EXPENSE', 'XXX')",
            newest="SELECT max(id) FROM bill",
            delete=["DELETE FROM billowers WHERE bill_id = :id", "DELETE FROM bill WHERE id = :id"],
        ),
    },
    Entry("/authenticate?project_id=flat", _ENTER, "document.querySelector('#bill_table') !== null"),
)
ORIGIN = origin(MONEY.site)
