"""Fill the site `money`: what a flat of five shares, and what six friends paid on a trip, all invented."""

import sys
from datetime import date, timedelta
from pathlib import Path
from random import Random

from application import application  # type: ignore[import-not-found]
from ihatemoney.models import Bill, LoggingMode, Person, Project, db  # type: ignore[import-not-found]
from ihatemoney.utils import generate_password_hash  # type: ignore[import-not-found]
from sqlalchemy import text  # type: ignore[import-not-found]
from werkzeug import security

PASSWORD = "timetable"
_PROJECTS = {
    "flat": (
        "Quarry Lane 45",
        {"Dana": 1, "Iris": 1, "Marek": 1, "Noor": 1, "The Bergs": 2},
        ("Electricity", "Vegetable box", "Cleaning things", "Internet", "Coffee", "Light bulbs",
         "New kettle", "Paint for the hall", "Bread", "Washing powder", "Pizza night", "Bicycle pump",
         "Door lock", "Olive oil"),
    ),
    "trip": (
        "Canoe week",
        {"Dana": 1, "Emil": 1, "Farah": 1, "Goran": 1, "Hanna": 1, "Tilda": 1},
        ("Canoe hire", "Train tickets", "Camp site", "Firewood", "Lunch at the weir", "Maps", "Ice cream",
         "Bus back", "Waterproof bags"),
    ),
}  # fmt: skip
_BEGAN = date(2026, 1, 5)


def main() -> None:
    random = Random(20260305)
    security.gen_salt = lambda length: "s" * length  # so that the same rows come every time
    with application(Path(sys.argv[1])).app_context():
        for name, (title, people, things) in _PROJECTS.items():
            project = Project(
                id=name, name=title, password=generate_password_hash(PASSWORD), default_currency="XXX",
                contact_email="dana@money.test", logging_preference=LoggingMode.DISABLED,
            )  # fmt: skip
            members = [Person(name=who, weight=weight, project=project) for who, weight in people.items()]
            db.session.add_all([project, *members])
            db.session.flush()
            for thing in things:
                db.session.add(_bill(random, thing, members))
                db.session.flush()  # one by one: the history of what is flushed together has no fixed order
        db.session.commit()
        db.session.execute(
            text('UPDATE "transaction" SET issued_at = :began'), {"began": f"{_BEGAN} 00:00:00.000000"}
        )
        db.session.commit()


def _bill(random: Random, what: str, members: list[Person]) -> Bill:
    """Draw a bill; half of them are everybody's."""
    owers = members if random.random() < 0.5 else random.sample(members, random.randint(2, len(members) - 1))
    day = _BEGAN + timedelta(days=random.randrange(55))
    bill = Bill(
        amount=random.randint(300, 9900) / 100, date=day, original_currency="XXX",
        owers=sorted(owers, key=lambda one: one.id), payer_id=random.choice(members).id,
        project_default_currency="XXX", what=what,
    )  # fmt: skip
    bill.creation_date = day
    return bill


if __name__ == "__main__":
    main()
