"""Tasks in the Phone app: calling, and the call log."""

import random

from rewards.checks.android import Row
from rewards.checks.android_tables import CALLS, CONTACTS
from rewards.tasksets.phone.facts import Added, Removed
from rewards.tasksets.phone.template import NOW_MS, Scenario, Template
from rewards.tasksets.phone.words import HOUR_MS, alike, contacts, number_of, numbers

_APPS = ("com.android.dialer", "com.android.contacts")
_INCOMING, _OUTGOING, _MISSED = 1, 2, 3
_PLACED: Row = {"date": NOW_MS}


def _call(number: str, kind: int, hours_ago: int) -> Row:
    return {
        "number": number,
        "type": kind,
        "date": NOW_MS - hours_ago * HOUR_MS,
        "duration": 0 if kind == _MISSED else 75,
    }


def call_contact(rng: random.Random) -> Scenario:
    names = alike(rng)
    rows = contacts(rng, names)
    return Scenario(
        f"Call {names[0]}, and hang up again.",
        steps=6,
        start=[(CONTACTS, rows), (CALLS, [])],
        goal=[Added(CALLS, {"number": number_of(names[0], rows), "type": _OUTGOING}, _PLACED)],
        near_misses={
            "called somebody else": [
                Added(CALLS, {"number": number_of(names[1], rows), "type": _OUTGOING}, _PLACED)
            ]
        },
    )


def call_number(rng: random.Random) -> Scenario:
    number, *others = numbers(rng, 4)
    log = [_call(other, _INCOMING, hours) for hours, other in enumerate(others, 1)]
    return Scenario(
        f"Dial {number} on the keypad, and end the call again.",
        steps=16,
        start=[(CALLS, log)],
        goal=[Added(CALLS, {"number": number, "type": _OUTGOING}, _PLACED)],
        near_misses={
            "called the last caller": [Added(CALLS, {"number": others[0], "type": _OUTGOING}, _PLACED)]
        },
    )


def delete_missed(rng: random.Random) -> Scenario:
    names = alike(rng)[:3]
    rows = contacts(rng, names)
    log: list[Row] = [
        _call(number_of(name, rows), kind, 3 + index)
        for index, (name, kind) in enumerate(zip(names * 2, (3, 3, 1, 1, 2, 3), strict=True))
    ]
    return Scenario(
        f"Delete the missed call from {names[0]} from the call log, and no other call.",
        steps=5,
        start=[(CONTACTS, rows), (CALLS, log)],
        goal=[Removed(CALLS, {"number": number_of(names[0], rows), "type": _MISSED})],
        near_misses={"the whole log": [Removed(CALLS, row) for row in log]},
    )


def ask_missed(rng: random.Random) -> Scenario:
    names = alike(rng)[:3]
    rows = contacts(rng, names)
    kinds = [_MISSED] * rng.randint(1, 4) + [rng.choice((_INCOMING, _OUTGOING)) for _ in range(3)]
    rng.shuffle(kinds)
    own = [_call(number_of(names[0], rows), kind, 2 * hours) for hours, kind in enumerate(kinds, 1)]
    log = [*own, *(_call(number_of(name, rows), _MISSED, 5) for name in names[1:])]
    return Scenario(
        f"How many calls from {names[0]} were missed?",
        steps=4,
        start=[(CONTACTS, rows), (CALLS, log)],
        answer={"missed": kinds.count(_MISSED)},
    )


TEMPLATES = (
    Template("phone-call-contact", _APPS, call_contact),
    Template("phone-call-number", _APPS, call_number),
    Template("phone-delete-missed", _APPS, delete_missed),
    Template("phone-ask-missed", _APPS, ask_missed),
)
