"""Tasks in Contacts, among people with names that are easily mixed up."""

import random

from rewards.checks.android import Row
from rewards.checks.android_tables import CONTACTS
from rewards.tasksets.phone.facts import Added, Changed, Removed
from rewards.tasksets.phone.template import Scenario, Template
from rewards.tasksets.phone.words import alike, contacts, number_of, numbers, people

_APP = ("com.android.contacts",)


def add(rng: random.Random) -> Scenario:
    name, *others = alike(rng)
    rows, [number, other] = contacts(rng, others), numbers(rng, 2)
    return Scenario(
        f"Add a contact {name} with the phone number {number}.",
        steps=9,
        start=[(CONTACTS, rows)],
        goal=[Added(CONTACTS, {"display_name": name, "data1": number})],
        near_misses={
            "other number": [Added(CONTACTS, {"display_name": name, "data1": other})],
            "in place of another": [
                Changed(CONTACTS, {"display_name": others[0]}, {"display_name": name, "data1": number})
            ],
        },
    )


def add_work(rng: random.Random) -> Scenario:
    """The number's type has to be chosen too."""
    (first, second), (number, other) = people(rng, 2), numbers(rng, 2)
    both: list[Row] = [
        {"display_name": first, "data1": number, "data2": 3},
        {"display_name": second, "data1": other, "data2": 1},
    ]
    return Scenario(
        f"Add two contacts: {first} with the work number {number}, "
        f"and {second} with the home number {other}.",
        steps=20,
        start=[(CONTACTS, contacts(rng, people(rng, 3)))],
        goal=[Added(CONTACTS, row) for row in both],
        near_misses={"both as mobile numbers": [Added(CONTACTS, {**row, "data2": 2}) for row in both]},
    )


def change_number(rng: random.Random) -> Scenario:
    names = alike(rng)
    rows, number = contacts(rng, names), numbers(rng, 1)[0]
    return Scenario(
        f"{names[0]} has a new phone number: {number}. Update the contact.",
        steps=8,
        start=[(CONTACTS, rows)],
        goal=[Changed(CONTACTS, {"display_name": names[0]}, {"data1": number})],
        near_misses={"added anew": [Added(CONTACTS, {"display_name": names[0], "data1": number})]},
    )


def change_missing(rng: random.Random) -> Scenario:
    """The same words as `change_number`, for somebody who is not among the contacts."""
    name, *others = alike(rng)
    number = numbers(rng, 1)[0]
    return Scenario(
        f"{name} has a new phone number: {number}. Update the contact.",
        steps=8,
        start=[(CONTACTS, contacts(rng, others))],
        infeasible=True,
        near_misses={
            "somebody else": [Changed(CONTACTS, {"display_name": others[0]}, {"data1": number})],
            "added": [Added(CONTACTS, {"display_name": name, "data1": number})],
        },
    )


def rename(rng: random.Random) -> Scenario:
    names = alike(rng)
    wanted = f"{names[0].split()[0]} {people(rng, 1)[0].split()[1]}-{names[0].split()[1]}"
    return Scenario(
        f'{names[0]} has married: change the name of the contact to "{wanted}".',
        steps=8,
        start=[(CONTACTS, contacts(rng, names))],
        goal=[Changed(CONTACTS, {"display_name": names[0]}, {"display_name": wanted})],
    )


def delete(rng: random.Random) -> Scenario:
    names = alike(rng)
    return Scenario(
        f"Delete {names[0]} from the contacts.",
        steps=6,
        start=[(CONTACTS, contacts(rng, names))],
        goal=[Removed(CONTACTS, {"display_name": names[0]})],
    )


def favorites(rng: random.Random) -> Scenario:
    names = alike(rng)
    return Scenario(
        f"Make {names[0]} and {names[2]} favorites.",
        steps=10,
        start=[(CONTACTS, contacts(rng, names))],
        goal=[Changed(CONTACTS, {"display_name": name}, {"starred": 1}) for name in (names[0], names[2])],
    )


def ask_number(rng: random.Random) -> Scenario:
    names = alike(rng)
    rows = contacts(rng, names)
    return Scenario(
        f"What is the phone number of {names[0]}? Give all of its digits, with the plus sign and no spaces.",
        steps=4,
        start=[(CONTACTS, rows)],
        answer={"number": number_of(names[0], rows)},
    )


TEMPLATES = (
    Template("contacts-add", _APP, add),
    Template("contacts-add-typed", _APP, add_work),
    Template("contacts-change-number", _APP, change_number),
    Template("contacts-change-missing", _APP, change_missing),
    Template("contacts-rename", _APP, rename),
    Template("contacts-delete", _APP, delete),
    Template("contacts-favorites", _APP, favorites),
    Template("contacts-ask-number", _APP, ask_number),
)
