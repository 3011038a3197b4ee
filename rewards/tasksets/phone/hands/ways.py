"""From a goal and what the phone shows to the next action: by which app, and by which of its rules. Pure.

What a task asks to be read, or used elsewhere, is shown on the screen before it is answered or used.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from guiagent.actions import Action, Answer, Done
from rewards.checks.android import Row, Setting, Source, Value
from rewards.checks.android_tables import (
    ALARMS,
    CALCULATIONS,
    CALLS,
    CITIES,
    CONTACTS,
    EVENTS,
    EXPENSES,
    ITEMS,
    LISTS,
    MESSAGES,
    NETWORKS,
    PAIRED,
    RECIPES,
    TASKS,
    TIMERS,
)
from rewards.tasksets.phone import answers
from rewards.tasksets.phone.facts import Added, State
from rewards.tasksets.phone.hands import calculator, calendar, clock, documents, lists, people, settings
from rewards.tasksets.phone.hands.dues import Due
from rewards.tasksets.phone.hands.forms import moment, text
from rewards.tasksets.phone.hands.scene import Scene, opened
from rewards.tasksets.phone.notes import NOTES
from rewards.tasksets.phone.template import Scenario

_LABELS = {
    "com.android.settings": "Settings",
    "com.android.contacts": "Contacts",
    "com.android.dialer": "Phone",
    "com.android.messaging": "Messages",
    "com.android.deskclock": "Clock",
    "com.android.calendar": "Calendar",
    "com.android.documentsui": "Files",
    "com.android.calculator2": "Calculator",
    "org.guiagent.notes": "Notes",
    "org.guiagent.shopping": "Shopping list",
    "org.guiagent.expenses": "Expenses",
    "org.guiagent.recipes": "Recipes",
    "org.guiagent.tasks": "Tasks",
}
_PACKAGES = {label: package for package, label in _LABELS.items()}
_Rule = Callable[[Scene, Sequence[Due], State], Action]
_RULES: Mapping[str, tuple[str, _Rule]] = {
    NETWORKS.name: ("Settings", settings.act),
    PAIRED.name: ("Settings", settings.act),
    CONTACTS.name: ("Contacts", people.contacts),
    CALLS.name: ("Phone", people.calls),
    MESSAGES.name: ("Messages", people.messages),
    ALARMS.name: ("Clock", clock.act),
    TIMERS.name: ("Clock", clock.act),
    CITIES.name: ("Clock", clock.act),
    EVENTS.name: ("Calendar", calendar.act),
    LISTS.name: ("Shopping list", lists.shopping),
    ITEMS.name: ("Shopping list", lists.shopping),
    EXPENSES.name: ("Expenses", lists.expenses),
    RECIPES.name: ("Recipes", lists.recipes),
    TASKS.name: ("Tasks", lists.tasks),
    NOTES.name: ("Notes", documents.notes),
}
"""By the name of the table that has to change: the app that does it, and how; other folders are of Files."""


def todo(template: str, scenario: Scenario, scene: Scene, dues: Sequence[Due], state: State) -> list[Action]:
    """The next action, or none if all is done."""
    look = _LOOKS.get(template)
    if look is not None:
        package = _PACKAGES[look.app]
        first = bool(scenario.goal) and (scene.package == package or package not in scene.recent)
        if first or not dues:
            way = opened(scene, package, look.app) or look.way(scene, scenario, state)
            if way is not None:
                return [way]
    if dues:
        app, rule = _rule(dues[0].source, scenario)
        return [opened(scene, _PACKAGES[app], app) or rule(scene, dues, state)]
    if scenario.answer:
        return [Answer(text=answers.written(scenario.answer))]
    return [Done(status="infeasible")] if scenario.infeasible else []


def _rule(source: Source, scenario: Scenario) -> tuple[str, _Rule]:
    if source is CALCULATIONS:
        return "Calculator", partial(calculator.act, wanted=calculator.formula(scenario.instruction))
    if isinstance(source, Setting):
        return "Settings", settings.act
    return _RULES.get(source.name, ("Files", documents.files))


# -- what has to be read -------------------------------------------------------------------------------------


class _Look(NamedTuple):
    """What has to be read: in which app, and the way there (None once it is on the screen)."""

    app: str
    way: Callable[[Scene, Scenario, State], Action | None]


def _seen(scene: Scene, name: str, order: Sequence[str] = ()) -> Action | None:
    """Scroll until a name is on the screen."""
    return None if scene.find(name) else scene.towards(name, order)


def _row(state: State, source: Source, **values: Value) -> Row:
    """The first row with these values."""
    rows = state[source.name].values()
    return next(row for row in rows if all(row[name] == value for name, value in values.items()))


def _goal(scenario: Scenario) -> Row:
    """The first row that a goal adds."""
    return next(fact.row for fact in scenario.goal if isinstance(fact, Added))


def _networks(scene: Scene, scenario: Scenario, state: State) -> Action | None:
    return settings.look(scene, "Wi-Fi")


def _people(scene: Scene, scenario: Scenario, state: State) -> Action | None:
    return people.listed(scene)


def _number(scene: Scene, scenario: Scenario, state: State) -> Action | None:
    number = scenario.answer["number"] if scenario.answer else _goal(scenario)["body"]
    name = people.name_of(str(number), state)
    return people.contact(scene, name, people.names(state)) or _seen(scene, str(number))


def _missed(scene: Scene, scenario: Scenario, state: State) -> Action | None:
    way = people.recents(scene)
    if way is not None:
        return way
    rows = [row for row in state[CALLS.name].values() if row["type"] == people.MISSED]
    last = min(rows, key=lambda row: int(row["date"] or 0))
    if scenario.answer:  # of the one who is asked for
        own = [row for row in rows if people.name_of(row["number"], state) in scenario.instruction]
        last = min(own, key=lambda row: int(row["date"] or 0))
    return _seen(scene, people.under(last))


def _last_message(scene: Scene, scenario: Scenario, state: State) -> Action | None:
    said = str(scenario.answer["text"])
    address = _row(state, MESSAGES, body=said)["address"]
    return people.conversation(scene, address, state) or _seen(scene, said)


def _conversation(scene: Scene, scenario: Scenario, state: State) -> Action | None:
    wanted = _goal(scenario)
    number = wanted.get("data1") or _row(state, CONTACTS, display_name=wanted["title"])["data1"]
    return people.conversation(scene, number, state)


def _day(scene: Scene, scenario: Scenario, state: State) -> Action | None:
    found = re.search(r" on \w+, (\d+ \w+ \d{4}) ", scenario.instruction)
    assert found is not None
    day = datetime.strptime(found[1], "%d %B %Y").replace(tzinfo=UTC).date()
    return calendar.day_shown(scene, day) or _seen(scene, calendar.heading(day))


def _place(scene: Scene, scenario: Scenario, state: State) -> Action | None:
    place = str(scenario.answer["place"])
    rows = [row for row in state[EVENTS.name].values() if row["eventLocation"] == place]
    row = next(row for row in rows if moment(row["dtstart"]).hour == scenario.answer["hour"])
    return calendar.look(scene, row, state) or _seen(scene, place)


def _event(scene: Scene, scenario: Scenario, state: State) -> Action | None:
    wanted = _goal(scenario)
    title = text(wanted.get("label") or wanted.get("title")).removeprefix("Prepare: ")
    return calendar.look(scene, _row(state, EVENTS, title=title), state)


def _alarm(scene: Scene, scenario: Scenario, state: State) -> Action | None:
    row = _row(state, ALARMS, label=str(scenario.answer["label"]))
    return clock.look(scene, "Alarm") or _seen(scene, clock.card_of(row), clock.cards(state))


def _items(scene: Scene, scenario: Scenario, state: State) -> Action | None:
    way = lists.shopping_list(scene, 1, state)
    left = [name for name in lists.items(1, state) if name in _names(scenario, "items")]
    return way or _seen(scene, left[-1], lists.items(1, state))


def _expenses(scene: Scene, scenario: Scenario, state: State) -> Action | None:
    category = scenario.instruction.partition("category ")[2].partition(",")[0]
    order = lists.expenses_shown(state)
    own = [name for name in order if _row(state, EXPENSES, name=name)["category"] == lists.category(category)]
    return lists.at_list(scene, "Expenses") or _seen(scene, own[-1], order)


def _recipe(scene: Scene, scenario: Scenario, state: State) -> Action | None:
    if scenario.answer:
        return lists.recipe(scene, _row(state, RECIPES, preparationTime=str(scenario.answer["time"])), state)
    wanted = {text(fact.row["name"]) for fact in scenario.goal if isinstance(fact, Added)}
    rows = state[RECIPES.name].values()
    row = next(row for row in rows if {*text(row["ingredients"]).split("\n")} == wanted)
    way = lists.recipe(scene, row, state)
    return way or (None if scene.shows(text(row["ingredients"]).split("\n")[0]) else scene.scroll())


def _overdue(scene: Scene, scenario: Scenario, state: State) -> Action | None:
    order = lists.tasks_shown(state)
    late = [name for name in order if name in _names(scenario, "tasks")]
    return lists.at_list(scene, "Tasks") or _seen(scene, late[-1], order)


def _note(scene: Scene, scenario: Scenario, state: State) -> Action | None:
    if scenario.answer:
        return documents.note(scene, f"{scenario.answer['note']}.md")
    return documents.note(scene, next(path for path in ("paid.md", "party.md") if path in state[NOTES.name]))


def _names(scenario: Scenario, field: str) -> Sequence[str]:
    names = scenario.answer[field]
    return names if isinstance(names, list) else []


_LOOKS: Mapping[str, _Look] = {
    "settings-wifi-missing": _Look("Settings", _networks),
    "contacts-change-missing": _Look("Contacts", _people),
    "contacts-ask-number": _Look("Contacts", _number),
    "phone-ask-missed": _Look("Phone", _missed),
    "messages-ask-last": _Look("Messages", _last_message),
    "calendar-delete-missing": _Look("Calendar", _day),
    "calendar-ask-place": _Look("Calendar", _place),
    "clock-ask-first": _Look("Clock", _alarm),
    "shopping-ask-left": _Look("Shopping list", _items),
    "expenses-ask-total": _Look("Expenses", _expenses),
    "recipes-ask-time": _Look("Recipes", _recipe),
    "tasks-ask-overdue": _Look("Tasks", _overdue),
    "notes-ask-where": _Look("Notes", _note),
    "contact-from-message": _Look("Messages", _conversation),
    "event-from-message": _Look("Messages", _conversation),
    "message-with-number": _Look("Contacts", _number),
    "message-after-missed-call": _Look("Phone", _missed),
    "alarm-before-event": _Look("Calendar", _event),
    "task-from-event": _Look("Calendar", _event),
    "expenses-from-note": _Look("Notes", _note),
    "shopping-from-note": _Look("Notes", _note),
    "shopping-from-recipe": _Look("Recipes", _recipe),
}
