"""Names, numbers and times that templates draw from. Pure; a generator of random numbers decides."""

import random
from datetime import UTC, date, datetime, timedelta

from rewards.checks.android import Row
from rewards.tasksets.phone.template import NOW_MS

TODAY = datetime.fromtimestamp(NOW_MS / 1000, UTC).date()
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
_FIRST = """
Aisha Albert Beatriz Bruno Camille Cedric Daria Dylan Elif Erik Fatima Felix Greta Harald Helena Ilias Irene
Jonas Judith Karim Kira Lars Leonie Malik Marta Nils Odile Oscar Petra Quentin Ramona Rashid Selma Stefan
Tania Ursula Viktor Wanda Yasmin Zoltan
"""
_LAST = """
Albrecht Bianchi Castellano Dvorak Eriksson Falk Grimaldi Hansen Ivanov Jimenez Keller Lindqvist Marchetti
Nakamura Olsen Pereira Quist Rahman Schneider Tanaka Underwood Vogel Weiss Yilmaz Zhang
"""


def people(rng: random.Random, count: int) -> list[str]:
    """Different first and last names all."""
    pairs = zip(rng.sample(_FIRST.split(), count), rng.sample(_LAST.split(), count), strict=True)
    return [f"{first} {last}" for first, last in pairs]


def alike(rng: random.Random) -> list[str]:
    """Four names: one, one with the same first name, one with the same last name, and one with both but for a
    letter."""
    (first, other), (last, another) = rng.sample(_FIRST.split(), 2), rng.sample(_LAST.split(), 2)
    return [f"{first} {last}", f"{first} {another}", f"{other} {last}", f"{first} {last}s"]


def numbers(rng: random.Random, count: int, first: int = 150) -> list[str]:
    """Telephone numbers that are nobody's (555-01xx), all different; below 150 are those of `contacts`."""
    areas = ("206", "303", "404", "512", "602", "702")
    return [f"+1{rng.choice(areas)}5550{line}" for line in rng.sample(range(first, first + 50), count)]


def contact(name: str, number: str, kind: int = 2, starred: int = 0) -> Row:
    return {"display_name": name, "data1": number, "data2": kind, "starred": starred}


def contacts(rng: random.Random, names: list[str]) -> list[Row]:
    """A contact for each name, in an order that gives nothing away."""
    known = numbers(rng, len(names), 100)
    rows = [contact(name, number) for name, number in zip(names, known, strict=True)]
    return rng.sample(rows, len(rows))


def number_of(name: str, rows: list[Row]) -> str:
    return next(str(row["data1"]) for row in rows if row["display_name"] == name)


def day_after(rng: random.Random, most: int = 12) -> date:
    """One of the days after today."""
    return TODAY + timedelta(days=rng.randint(1, most))


def told_day(day: date) -> str:
    """`Wednesday, 18 October 2023`."""
    return f"{day:%A}, {day.day} {day:%B %Y}"


def told_time(hour: int, minute: int = 0) -> str:
    """`2:05 pm`."""
    return f"{hour % 12 or 12}:{minute:02} {'am' if hour < 12 else 'pm'}"


def at(day: date, hour: int = 0, minute: int = 0) -> int:
    """That moment in ms since 1970; the phone's time zone is UTC."""
    return int(datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC).timestamp() * 1000)


def told_money(cents: int) -> str:
    return f"${cents / 100:.2f}"
