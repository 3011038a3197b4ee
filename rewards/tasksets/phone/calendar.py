"""Tasks in Calendar."""

import random
from datetime import date

from rewards.checks.android import Row
from rewards.checks.android_tables import EVENTS
from rewards.tasksets.phone.facts import Added, Changed, Removed
from rewards.tasksets.phone.template import Scenario, Template
from rewards.tasksets.phone.words import DAY_MS, HOUR_MS, TODAY, at, day_after, told_day, told_time

_APP = ("com.android.calendar",)
_TITLES = (
    "Choir practice",
    "Eye test",
    "House viewing",
    "Interview",
    "Museum visit",
    "Planning",
    "Swimming",
    "Vaccination",
)
_PLACES = ("Harbour Hall", "Mill Lane 4", "Old Library", "Room 12", "Station Square", "Studio North")


def event(title: str, day: date, hour: int, hours: int = 1, place: str = "", rrule: str = "") -> Row:
    start = at(day, hour)
    return {
        "title": title,
        "eventLocation": place,
        "description": "",
        "dtstart": start,
        "dtend": start + hours * HOUR_MS,
        "allDay": 0,
        "rrule": rrule,
    }


def _week(rng: random.Random) -> list[Row]:
    """Four events on different days, the last two of the same title."""
    titles, places = rng.sample(_TITLES, 3), rng.sample(_PLACES, 4)
    days = sorted(rng.sample(range(1, 13), 4))
    return [
        event(title, date.fromordinal(TODAY.toordinal() + ahead), rng.randint(8, 17), 1, place)
        for title, place, ahead in zip([*titles, titles[-1]], places, days, strict=True)
    ]


def _day(row: Row) -> date:
    return date.fromordinal(int(row["dtstart"] or 0) // DAY_MS + date(1970, 1, 1).toordinal())


def add(rng: random.Random) -> Scenario:
    title, place, day, hour = rng.choice(_TITLES), rng.choice(_PLACES), day_after(rng), rng.randint(8, 18)
    whole = event(title, day, hour, 1, place)
    wanted: Row = {name: whole[name] for name in ("title", "eventLocation", "dtstart", "dtend")}
    later: Row = {**wanted, "dtstart": at(day, hour) + DAY_MS, "dtend": at(day, hour + 1) + DAY_MS}
    return Scenario(
        f'Add an event "{title}" at {place} to the calendar, on {told_day(day)} '
        f"from {told_time(hour)} to {told_time(hour + 1)}.",
        steps=14,
        start=[(EVENTS, [event("Breakfast", TODAY, 9)])],
        goal=[Added(EVENTS, wanted)],
        near_misses={
            "a day late": [Added(EVENTS, later)],
            "no place": [Added(EVENTS, {**wanted, "eventLocation": ""})],
        },
    )


def add_weekly(rng: random.Random) -> Scenario:
    title, day, hour, hours = rng.choice(_TITLES), day_after(rng), rng.randint(8, 18), rng.randint(2, 3)
    wanted: Row = {
        name: value
        for name, value in event(title, day, hour, hours, rrule="FREQ=WEEKLY").items()
        if name in ("title", "dtstart", "dtend", "rrule")
    }
    return Scenario(
        f'Add an event "{title}" to the calendar that repeats every week, for the first time on '
        f"{told_day(day)}, from {told_time(hour)} to {told_time(hour + hours)}.",
        steps=18,
        start=[(EVENTS, _week(rng))],
        goal=[Added(EVENTS, wanted)],
        near_misses={
            "once": [Added(EVENTS, {**wanted, "rrule": ""})],
            "an hour only": [Added(EVENTS, {**wanted, "dtend": at(day, hour + 1)})],
        },
    )


def move(rng: random.Random) -> Scenario:
    rows = _week(rng)
    row, hour = rows[2], rng.randint(9, 17)
    day = date.fromordinal(_day(row).toordinal() + rng.randint(1, 7))
    wanted: Row = {"dtstart": at(day, hour), "dtend": at(day, hour + 1)}
    return Scenario(
        f'The event "{row["title"]}" of {told_day(_day(row))} is moved to {told_day(day)}, '
        f"{told_time(hour)} to {told_time(hour + 1)}. Change it in the calendar.",
        steps=14,
        start=[(EVENTS, rows)],
        goal=[Changed(EVENTS, row, wanted)],
        near_misses={
            "the other of that name": [Changed(EVENTS, rows[3], wanted)],
            "added anew": [Added(EVENTS, {**row, **wanted})],
        },
    )


def delete(rng: random.Random) -> Scenario:
    rows = _week(rng)
    return Scenario(
        f'Delete the event "{rows[3]["title"]}" on {told_day(_day(rows[3]))} from the calendar.',
        steps=7,
        start=[(EVENTS, rows)],
        goal=[Removed(EVENTS, rows[3])],
        near_misses={"the other of that name": [Removed(EVENTS, rows[2])]},
    )


def delete_missing(rng: random.Random) -> Scenario:
    """The same words as `delete`, for a day without that event."""
    rows = _week(rng)
    gone = rows.pop(3)
    return Scenario(
        f'Delete the event "{gone["title"]}" on {told_day(_day(gone))} from the calendar.',
        steps=7,
        start=[(EVENTS, rows)],
        infeasible=True,
        near_misses={"the other of that name": [Removed(EVENTS, rows[2])]},
    )


def clear_day(rng: random.Random) -> Scenario:
    day, others = day_after(rng, 8), _week(rng)
    others = [row for row in others if _day(row) != day]
    busy = [event(title, day, hour) for title, hour in zip(rng.sample(_TITLES, 2), (9, 14), strict=True)]
    return Scenario(
        f"Delete all events on {told_day(day)} from the calendar, and no others.",
        steps=12,
        start=[(EVENTS, [*others, *busy])],
        goal=[Removed(EVENTS, row) for row in busy],
    )


def ask_place(rng: random.Random) -> Scenario:
    rows = _week(rng)
    row = rows[2]
    return Scenario(
        f'Where does the event "{row["title"]}" on {told_day(_day(row))} take place, '
        f"and when does it start? The hour is one of 0 to 23.",
        steps=6,
        start=[(EVENTS, rows)],
        answer={"place": str(row["eventLocation"]), "hour": int(row["dtstart"] or 0) % DAY_MS // HOUR_MS},
    )


TEMPLATES = (
    Template("calendar-add", _APP, add),
    Template("calendar-add-weekly", _APP, add_weekly),
    Template("calendar-move", _APP, move),
    Template("calendar-delete", _APP, delete),
    Template("calendar-delete-missing", _APP, delete_missing),
    Template("calendar-clear-day", _APP, clear_day),
    Template("calendar-ask-place", _APP, ask_place),
)
