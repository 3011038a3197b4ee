"""Tasks in Clock: alarms, timers, cities."""

import random

from rewards.checks.android import Row
from rewards.checks.android_tables import ALARMS, CITIES, TIMERS
from rewards.tasksets.phone.facts import Added, Changed, Removed
from rewards.tasksets.phone.template import Scenario, Template
from rewards.tasksets.phone.words import told_time

_APP = ("com.android.deskclock",)
_WORKDAYS, _WEEKEND, _EVERY_DAY = 31, 96, 127
_LABELS = ("Gym", "School bus", "Medication", "Laundry", "Stretch", "Call home", "Bakery", "Feed the cat")


def alarm(hour: int, minutes: int, label: str = "", days: int = 0, enabled: int = 1) -> Row:
    return {"hour": hour, "minutes": minutes, "daysofweek": days, "enabled": enabled, "label": label}


def _times(rng: random.Random, count: int) -> list[tuple[int, int]]:
    """Different times of the morning, in order."""
    return [(4 + slot // 12, slot % 12 * 5) for slot in sorted(rng.sample(range(84), count))]


def _alarms(rng: random.Random) -> list[Row]:
    """Four alarms, of which the first two and the last two differ by their label and half a day only."""
    (early, late), labels = _times(rng, 2), rng.sample(_LABELS, 4)
    times = [early, (early[0] + 12, early[1]), late, (late[0] + 12, late[1])]
    return [
        alarm(*time, label, rng.choice((0, _WORKDAYS))) for time, label in zip(times, labels, strict=True)
    ]


def add(rng: random.Random) -> Scenario:
    [(hour, minutes)] = _times(rng, 1)
    hour += rng.choice((0, 12))
    wanted: Row = {"hour": hour, "minutes": minutes, "enabled": 1}
    return Scenario(
        f"Set an alarm for {told_time(hour, minutes)}.",
        steps=6,
        start=[(ALARMS, [alarm(12, 0, "Lunch", _WORKDAYS, 0)])],
        goal=[Added(ALARMS, wanted)],
        near_misses={
            "half a day off": [Added(ALARMS, {**wanted, "hour": (hour + 12) % 24})],
            "switched off": [Added(ALARMS, {**wanted, "enabled": 0})],
        },
    )


def add_repeating(rng: random.Random) -> Scenario:
    [(hour, minutes)], label = _times(rng, 1), rng.choice(_LABELS)
    word, days = rng.choice(
        [("Monday to Friday", _WORKDAYS), ("on Saturdays and Sundays", _WEEKEND), ("every day", _EVERY_DAY)]
    )
    wanted = alarm(hour, minutes, label, days)
    return Scenario(
        f'Set an alarm that rings at {told_time(hour, minutes)} {word}, and label it "{label}".',
        steps=16,
        start=[(ALARMS, [alarm(hour, (minutes + 30) % 60, "", days)])],
        goal=[Added(ALARMS, wanted)],
        near_misses={
            "once": [Added(ALARMS, {**wanted, "daysofweek": 0})],
            "no label": [Added(ALARMS, {**wanted, "label": ""})],
        },
    )


def move(rng: random.Random) -> Scenario:
    rows = _alarms(rng)
    chosen, [(hour, minutes)] = rng.choice(rows), _times(rng, 1)
    minutes += int(minutes == chosen["minutes"])
    return Scenario(
        f'Move the alarm "{chosen["label"]}" to {told_time(hour, minutes)}.',
        steps=6,
        start=[(ALARMS, rows)],
        goal=[Changed(ALARMS, {"label": chosen["label"]}, {"minutes": minutes, "hour": hour})],
        near_misses={"added anew": [Added(ALARMS, {**chosen, "hour": hour, "minutes": minutes})]},
    )


def switch_off(rng: random.Random) -> Scenario:
    rows = _alarms(rng)
    chosen = rng.choice(rows)
    where = {"label": chosen["label"]}
    return Scenario(
        f"Switch off the alarm at {told_time(int(chosen['hour'] or 0), int(chosen['minutes'] or 0))}, "
        f"but keep it for later.",
        steps=3,
        start=[(ALARMS, rows)],
        goal=[Changed(ALARMS, where, {"enabled": 0})],
        near_misses={"deleted": [Removed(ALARMS, where)]},
    )


def delete(rng: random.Random) -> Scenario:
    rows = _alarms(rng)
    chosen = rng.choice(rows)
    where = {"label": chosen["label"]}
    return Scenario(
        f'Delete the alarm "{chosen["label"]}".',
        steps=5,
        start=[(ALARMS, rows)],
        goal=[Removed(ALARMS, where)],
        near_misses={"only switched off": [Changed(ALARMS, where, {"enabled": 0})]},
    )


def ask_first(rng: random.Random) -> Scenario:
    """The first alarm of the day is switched off, and the list of alarms says so."""
    times, labels = _times(rng, 4), rng.sample(_LABELS, 4)
    rows = [
        alarm(*time, label, _EVERY_DAY, int(index > 0))
        for index, (time, label) in enumerate(zip(times, labels, strict=True))
    ]
    hour, minutes = times[1]
    return Scenario(
        "Of the alarms that are switched on, which one rings first "
        "after midnight? The hour is one of 0 to 23.",
        steps=3,
        start=[(ALARMS, rng.sample(rows, 4))],
        answer={"label": labels[1], "hour": hour, "minute": minutes},
    )


def timer(rng: random.Random) -> Scenario:
    minutes, seconds = rng.randint(1, 45), rng.choice((0, 15, 30, 45))
    length = (60 * minutes + seconds) * 1000
    return Scenario(
        f"Start a timer of {minutes} minutes and {seconds} seconds.",
        steps=9,
        start=[(TIMERS, [])],
        goal=[Added(TIMERS, {"length": length})],
        near_misses={"hours for minutes": [Added(TIMERS, {"length": 60 * length})]},
    )


def cities(rng: random.Random) -> Scenario:
    here, gone, new = rng.sample(
        ["Berlin", "Cairo", "Lagos", "Madrid", "Nairobi", "Paris", "Rome", "Seoul"], 3
    )
    return Scenario(
        f"On the clock's list of cities, add {new} and remove {gone}.",
        steps=9,
        start=[(CITIES, [{"city": here}, {"city": gone}])],
        goal=[Added(CITIES, {"city": new}), Removed(CITIES, {"city": gone})],
    )


TEMPLATES = (
    Template("clock-add-alarm", _APP, add),
    Template("clock-add-repeating", _APP, add_repeating),
    Template("clock-move-alarm", _APP, move),
    Template("clock-switch-off", _APP, switch_off),
    Template("clock-delete-alarm", _APP, delete),
    Template("clock-ask-first", _APP, ask_first),
    Template("clock-timer", _APP, timer),
    Template("clock-cities", _APP, cities),
)
