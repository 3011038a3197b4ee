"""Calendar: events by their day. Pure."""

from collections.abc import Sequence
from datetime import date

from guiagent.actions import Action
from rewards.checks.android import Row
from rewards.checks.android_tables import EVENTS
from rewards.tasksets.phone.facts import State
from rewards.tasksets.phone.hands.dues import Due
from rewards.tasksets.phone.hands.forms import (
    chosen,
    clock,
    date_picked,
    filled,
    full_day,
    is_date,
    moment,
    pressed,
    saved,
    text,
    time_picked,
    turned,
)
from rewards.tasksets.phone.hands.scene import BACK, Scene

_REPEATS = {
    "": "Does not repeat",
    "FREQ=DAILY": "Every day",
    "FREQ=WEEKLY": "Every week",
    "FREQ=MONTHLY": "Every month",
    "FREQ=YEARLY": "Every year",
}
_FORM = ("Title", "Location", "All day", "Start date", "End date", *_REPEATS.values(), "Description")


def act(scene: Scene, dues: Sequence[Due], state: State) -> Action:
    """Add, change or delete the event that the first of the dues is about."""
    due = dues[0]
    if scene.activity == ".EditEventActivity":
        right = text(scene.parameters.get("id")) == due.key and due.then is not None
        return _edit(scene, {**(due.now or {}), **(due.then or {})}, due) if right else BACK
    if due.now is None:
        day = moment((due.then or {})["dtstart"]).date()
        return day_shown(scene, day) or scene.tap_in("Create new event", role="button")
    if scene.find("Delete event?"):
        return pressed(scene, "Delete" if due.then is None and _shown(scene, due.now, state) else "Cancel")
    if (way := look(scene, due.now, state)) is not None:
        return way
    return scene.tap_in("Delete event" if due.then is None else "Edit event", role="button")


def look(scene: Scene, row: Row, state: State) -> Action | None:
    """Open an event; None once it is there."""
    if scene.activity == ".EventInfoActivity" and not scene.dialog:
        return None if _shown(scene, row, state) else BACK
    day = moment(row["dtstart"]).date()
    if _browsing(scene) and scene.find(heading(day)):
        return scene.tap_in(text(row["title"]), role="text")
    return day_shown(scene, day) or scene.scroll()


def day_shown(scene: Scene, day: date) -> Action | None:
    """Choose a day of the month; None once it is chosen."""
    if not _browsing(scene):
        return BACK
    tab = scene.find("Month")
    if tab is not None and "selected" not in tab.states:
        return scene.tap(tab)
    if scene.find(heading(day)):
        return None
    button = scene.that(lambda node: node.role == "button" and node.name.startswith(full_day(day)))
    if button is None:
        return turned(scene, day)
    return None if "selected" in button.states else scene.tap(button)


def heading(day: date) -> str:
    """What stands above the events of a chosen day."""
    return f"{day:%A, %B} {day.day}"


def _browsing(scene: Scene) -> bool:
    return scene.activity == ".AllInOneActivity" and scene.title == "Calendar" and not scene.dialog


def _shown(scene: Scene, row: Row, state: State) -> bool:
    return state[EVENTS.name].get(text(scene.parameters.get("id"))) == row


def _edit(scene: Scene, wanted: Row, due: Due) -> Action:
    start, end = (moment(wanted[name]) if name in wanted else None for name in ("dtstart", "dtend"))
    then = due.then or {}
    repeat = _REPEATS.get(text(then["rrule"])) if "rrule" in then else None
    if scene.dialog:
        for name, at in (("Start time", start), ("End time", end)):
            if scene.find(name) and at:
                return time_picked(scene, at.hour * 60 + at.minute)
        if repeat and scene.find("Repeat"):
            return chosen(scene, repeat)
        if is_date(scene) and start:
            return date_picked(scene, start.date())
        return BACK
    names = {"title": "Title", "eventLocation": "Location"}
    values = {label: text(then[name]) for name, label in names.items() if name in then}
    if (way := filled(scene, values, _FORM)) is not None:
        return way
    for name, at in (("Start", start), ("End", end)):
        if at is None or not {"dtstart", "dtend"} & then.keys():
            continue
        days, times = scene.find(f"{name} date", "button"), scene.find(f"{name} time", "button")
        if days is not None and times is None:  # of a whole day
            whole = scene.find("All day")
            row = scene.around(whole) if whole else None
            return scene.tap(row) if row else scene.scroll(down=False)
        if days is None or times is None:
            if not scene.find("Repeat") and not any(scene.find(one) for one in _REPEATS.values()):
                return scene.scroll()
            continue
        if name == "Start" and days.value != f"{at:%a, %b} {at.day}, {at.year}":
            return scene.tap(days)
        if times.value != clock(at.hour, at.minute):
            return scene.tap(times)
    if repeat and scene.find(repeat) is None:
        shown = scene.that(lambda node: node.name in _REPEATS.values())
        return scene.tap(shown) if shown else scene.scroll()
    return saved(scene)
