"""Tasks that lead through several apps: something is read in one and used in another."""

import random

from rewards.checks.android import Row
from rewards.checks.android_tables import (
    ALARMS,
    CALLS,
    CONTACTS,
    EVENTS,
    EXPENSES,
    ITEMS,
    LISTS,
    MESSAGES,
    RECIPES,
    TASKS,
)
from rewards.tasksets.phone.calendar import event
from rewards.tasksets.phone.clock import alarm
from rewards.tasksets.phone.expenses import CATEGORIES, ENTERED_NOW, expense
from rewards.tasksets.phone.facts import Added
from rewards.tasksets.phone.messages import message
from rewards.tasksets.phone.notes import NOTES, note
from rewards.tasksets.phone.recipes import recipes
from rewards.tasksets.phone.shopping import LIST_ROWS, NAMES, item
from rewards.tasksets.phone.template import NOW_MS, Scenario, Template
from rewards.tasksets.phone.to_do import todo
from rewards.tasksets.phone.words import (
    HOUR_MS,
    TODAY,
    alike,
    at,
    contacts,
    day_after,
    number_of,
    numbers,
    people,
    told_day,
    told_money,
    told_time,
)

_CONTACTS, _MESSAGES, _CALENDAR = "com.android.contacts", "com.android.messaging", "com.android.calendar"
_NOTES, _EXPENSES, _SHOPPING = "org.guiagent.notes", "org.guiagent.expenses", "org.guiagent.shopping"
_SENT, _MISSED = 2, 3


def contact_from_message(rng: random.Random) -> Scenario:
    name, *others = people(rng, 4)
    number, another = numbers(rng, 2)
    rows = contacts(rng, others)
    inbox = [
        message(number, f"Hello, this is {name}. Please save my new number.", 20),
        message(another, "Is this the bakery?", 90),
    ]
    return Scenario(
        "Somebody who is not among the contacts wrote who they are. Save "
        "them as a contact, with the number they wrote from.",
        steps=13,
        start=[(MESSAGES, inbox), (CONTACTS, rows)],
        goal=[Added(CONTACTS, {"display_name": name, "data1": number})],
        near_misses={
            "the other writer's number": [Added(CONTACTS, {"display_name": name, "data1": another})]
        },
    )


def event_from_message(rng: random.Random) -> Scenario:
    names = alike(rng)
    rows, day, hour = contacts(rng, names), day_after(rng), rng.randint(9, 18)
    place = rng.choice(("the Harbour Cafe", "Platform 3", "the Rose Garden"))
    inbox = [
        message(
            number_of(names[0], rows), f"Let us meet on {told_day(day)} at {told_time(hour)}, at {place}.", 15
        ),
        message(
            number_of(names[1], rows),
            f"Let us meet on {told_day(day)} at {told_time(hour - 3)}, at the gate.",
            40,
        ),
    ]
    wanted: Row = {"title": names[0], "eventLocation": place, "dtstart": at(day, hour)}
    an_hour = {"dtend": at(day, hour + 1)}
    return Scenario(
        f"{names[0]} sent a message about meeting. Put it into the calendar, with the "
        f'title "{names[0]}" and the place as it stands in the message.',
        steps=18,
        start=[(CONTACTS, rows), (MESSAGES, inbox), (EVENTS, [])],
        goal=[Added(EVENTS, wanted, an_hour)],
        near_misses={
            "from the other message": [
                Added(EVENTS, {**wanted, "eventLocation": "the gate", "dtstart": at(day, hour - 3)}, an_hour)
            ]
        },
    )


def send_number(rng: random.Random) -> Scenario:
    names = alike(rng)
    rows = contacts(rng, names)
    to, wanted, other = (number_of(names[index], rows) for index in (0, 1, 2))
    sent: Row = {"address": to, "body": wanted, "type": _SENT}
    return Scenario(
        f"Send {names[0]} a text message with the phone number of {names[1]}, and nothing else in it.",
        steps=12,
        start=[(CONTACTS, rows), (MESSAGES, [])],
        goal=[Added(MESSAGES, sent)],
        near_misses={
            "another number": [Added(MESSAGES, {**sent, "body": other})],
            "sent to its owner": [Added(MESSAGES, {**sent, "address": wanted})],
        },
    )


def answer_missed_call(rng: random.Random) -> Scenario:
    names = people(rng, 3)
    rows = contacts(rng, names)
    kinds = rng.sample((1, 2, _MISSED), 3)
    log: list[Row] = [
        {"number": number_of(name, rows), "type": kind, "date": NOW_MS - (index + 1) * HOUR_MS, "duration": 0}
        for index, (name, kind) in enumerate(zip(names, kinds, strict=True))
    ]
    caller = kinds.index(_MISSED)
    text = "I will call back tonight."
    sent: Row = {"address": number_of(names[caller], rows), "body": text, "type": _SENT}
    return Scenario(
        f'One call was missed today. Send the caller the text message "{text}"',
        steps=9,
        start=[(CONTACTS, rows), (CALLS, log), (MESSAGES, [])],
        goal=[Added(MESSAGES, sent)],
        near_misses={
            "to another caller": [Added(MESSAGES, {**sent, "address": str(log[caller - 1]["number"])})]
        },
    )


def alarm_before_event(rng: random.Random) -> Scenario:
    day, hour, title = day_after(rng, 6), rng.randint(7, 11), rng.choice(("Early flight", "Exam", "Hike"))
    rows = [event(title, day, hour), event("Cinema", day, hour + 8)]
    wanted: Row = {"hour": hour - 2, "minutes": 0, "enabled": 1, "label": title}
    return Scenario(
        f'Look up when the event "{title}" starts, and set an alarm '
        f'two hours before, with the label "{title}".',
        steps=14,
        start=[(EVENTS, rows), (ALARMS, [alarm(hour, 0, "Every day", 127, 0)])],
        goal=[Added(ALARMS, wanted)],
        near_misses={
            "at its start": [Added(ALARMS, {**wanted, "hour": hour})],
            "no label": [Added(ALARMS, {**wanted, "label": ""})],
        },
    )


def expenses_from_note(rng: random.Random) -> Scenario:
    names = rng.sample(("Batteries", "Postcards", "Soap", "Tickets"), 2)
    cents = [5 * fives for fives in rng.sample(range(20, 900), len(names))]
    category = rng.choice(("Entertainment", "Housing", "Social"))
    lines = [f"{name}: {told_money(amount)}" for name, amount in zip(names, cents, strict=True)]
    wanted: list[Row] = [
        {"name": name, "amount": amount, "category": CATEGORIES[category]}
        for name, amount in zip(names, cents, strict=True)
    ]
    return Scenario(
        f"The note paid.md lists what was bought today. Add each line "
        f"as an expense in the category {category}.",
        steps=20,
        start=[
            (NOTES, [note("paid", lines), note("unpaid", ["Lamp: $30.00"])]),
            (EXPENSES, [expense("Stamps", 900, "Social", 30)]),
        ],
        goal=[Added(EXPENSES, row, ENTERED_NOW) for row in wanted],
        near_misses={
            "amounts swapped": [
                Added(EXPENSES, {**one, "amount": other["amount"]}, ENTERED_NOW)
                for one, other in zip(wanted, wanted[::-1], strict=True)
            ]
        },
    )


def shopping_from_note(rng: random.Random) -> Scenario:
    wanted = rng.sample(("Candles", "Cherries", "Ice cubes", "Napkins", "Olives", "Straws"), 3)
    there = item("Bin bags", 1)
    return Scenario(
        f'Put everything that the note party.md lists on the shopping list "{NAMES[0]}".',
        steps=13,
        start=[
            (NOTES, [note("party", wanted), note("party_done", ["Balloons"])]),
            (LISTS, LIST_ROWS),
            (ITEMS, [there]),
        ],
        goal=[Added(ITEMS, item(name, 1)) for name in wanted],
        near_misses={"as one item": [Added(ITEMS, item(", ".join(wanted), 1))]},
    )


def shopping_from_recipe(rng: random.Random) -> Scenario:
    rows = recipes(rng)
    row = rng.choice(rows)
    wanted = str(row["ingredients"]).splitlines()
    return Scenario(
        f'Put the ingredients of the recipe "{row["title"]}" on the '
        f'shopping list "{NAMES[1]}", each as an item.',
        steps=14,
        start=[(RECIPES, rows), (LISTS, LIST_ROWS), (ITEMS, [])],
        goal=[Added(ITEMS, item(name, 2)) for name in wanted],
        near_misses={"on another list": [Added(ITEMS, item(name, 1)) for name in wanted]},
    )


def task_from_event(rng: random.Random) -> Scenario:
    day, hour, title = (
        day_after(rng),
        rng.randint(9, 17),
        rng.choice(("Board meeting", "Open day", "Thesis defence")),
    )
    wanted: Row = {"title": f"Prepare: {title}", "dueDate": at(day)}
    return Scenario(
        f'Add a task "Prepare: {title}" that is due on the day of the event "{title}" in the calendar.',
        steps=14,
        start=[(EVENTS, [event(title, day, hour), event("Rehearsal", TODAY, 19)]), (TASKS, [todo("Rest")])],
        goal=[Added(TASKS, wanted)],
        near_misses={"due today": [Added(TASKS, {**wanted, "dueDate": at(TODAY)})]},
    )


TEMPLATES = (
    Template("contact-from-message", (_CONTACTS, _MESSAGES), contact_from_message),
    Template("event-from-message", (_CALENDAR, _MESSAGES, _CONTACTS), event_from_message),
    Template("message-with-number", (_MESSAGES, _CONTACTS), send_number),
    Template("message-after-missed-call", (_MESSAGES, "com.android.dialer", _CONTACTS), answer_missed_call),
    Template("alarm-before-event", ("com.android.deskclock", _CALENDAR), alarm_before_event),
    Template("expenses-from-note", (_EXPENSES, _NOTES), expenses_from_note),
    Template("shopping-from-note", (_SHOPPING, _NOTES), shopping_from_note),
    Template("shopping-from-recipe", (_SHOPPING, "org.guiagent.recipes"), shopping_from_recipe),
    Template("task-from-event", ("org.guiagent.tasks", _CALENDAR), task_from_event),
)
