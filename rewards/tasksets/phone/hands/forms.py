"""What apps ask for in the same way: forms, dialogs, days and times of day. Pure.

Each function gives the next action, or None where nothing is left to do on its part of the screen.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta

from guiagent.actions import Action
from rewards.checks.android import Value
from rewards.tasksets.phone.hands.dues import Due
from rewards.tasksets.phone.hands.scene import BACK, THIN, Scene, typing

_MONTH = re.compile(
    r"(January|February|March|April|May|June|July|August|September|October|November|December) \d{4}"
)


def text(value: Value) -> str:
    return "" if value is None else str(value)


def filled(scene: Scene, values: Mapping[str, str], order: Sequence[str] = ()) -> Action | None:
    """Fill in the fields of these names; `order` names all that the form has, from top to bottom.

    A form is filled in from top to bottom, so what was scrolled away above was filled in before.
    """
    order = order or list(values)
    for name, wanted in values.items():
        box = scene.field(name)
        if box is None or box.box[3] < THIN:
            if _below(scene, name, order):
                return scene.scroll()
        elif box.value.split("\n") != wanted.split("\n"):
            following = order[order.index(name) + 1 :][:1]
            return typing(scene, box, wanted, submit=bool(following) and following[0] in values)
    return None


def picked(scene: Scene, label: str, order: Sequence[str]) -> Action | None:
    """Choose one of a form's chips; `order` is of the form, as in `filled`."""
    chip = scene.find(label, "button")
    if chip is None:
        return scene.scroll() if _below(scene, label, order) else None
    return None if "selected" in chip.states else scene.tap(chip)


def _below(scene: Scene, name: str, order: Sequence[str]) -> bool:
    seen = [number for number, one in enumerate(order) if scene.find(one)]
    return not seen or max(seen) <= list(order).index(name)


def chosen(scene: Scene, label: str) -> Action:
    """Choose in a dialog or a menu."""
    return scene.tap_in(label)


def asked(scene: Scene, name: str, wanted: str, done: str = "OK") -> Action:
    """Answer a dialog with one field."""
    box = scene.field(name)
    if box is None:  # behind the keyboard
        return BACK
    return typing(scene, box, wanted) if box.value != wanted else pressed(scene, done)


def pressed(scene: Scene, name: str) -> Action:
    """Press a button of a dialog; with the keyboard in the way, put that away first."""
    button = scene.find(name, "button")
    return scene.tap(button) if button else BACK


def saved(scene: Scene) -> Action:
    """Press a form's button to save it; if it was refused, look at what was scrolled away above."""
    return scene.scroll(down=False) if " needs " in scene.toast else pressed(scene, "Save")


def menu(scene: Scene, entry: str) -> Action:
    """Open the menu of a screen, or choose in it."""
    found = scene.find(entry, "button")
    if found is not None:
        return scene.tap(found)
    more = scene.find("More options", "button")
    return scene.tap(more) if more else BACK


def time_picked(scene: Scene, minutes: int) -> Action:
    """Fill in the dialog for a time of day, in minutes since midnight."""
    hour, late = minutes // 60, minutes >= 12 * 60
    halves = scene.find("PM" if late else "AM", "button")
    shown = hour % 12 or 12 if halves or scene.find("AM", "button") else hour
    for name, number, written in (
        ("Hour", shown, str(shown)),
        ("Minute", minutes % 60, f"{minutes % 60:02}"),
    ):
        box = scene.field(name)
        if box is None or box.box[3] < THIN:
            return scene.scroll()
        if not box.value.isdecimal() or int(box.value) != number:
            return typing(scene, box, written)
    if halves is not None and "selected" not in halves.states:
        return scene.tap(halves)
    return pressed(scene, "OK")


def is_date(scene: Scene) -> bool:
    """Whether the dialog for a day is open."""
    return scene.dialog and (
        scene.find("Next month", "button") is not None
        or scene.that(lambda node: node.role == "button" and ", 20" in node.name) is not None
    )


def date_picked(scene: Scene, day: date) -> Action:
    """Choose a day in the dialog for one."""
    button = scene.find(full_day(day), "button")
    if button is not None:
        return pressed(scene, "OK") if "selected" in button.states else scene.tap(button)
    return turned(scene, day)


def turned(scene: Scene, day: date) -> Action:
    """Turn the pages of a calendar to a month, or scroll to the day in it."""
    shown = scene.that(lambda node: _MONTH.fullmatch(node.name) is not None)
    if shown is None:
        return scene.scroll(down=False)
    month = datetime.strptime(shown.name, "%B %Y").replace(tzinfo=UTC).date()
    if (month.year, month.month) == (day.year, day.month):
        return scene.scroll()
    return scene.tap_in("Next month" if day > month else "Previous month")


def full_day(day: date) -> str:
    return f"{day:%A, %B} {day.day}, {day.year}"


def short_day(day: date) -> str:
    return f"{day:%a, %b} {day.day}"


def clock(hour: int, minute: int) -> str:
    return f"{hour % 12 or 12}:{minute:02} {'AM' if hour < 12 else 'PM'}"


def moment(ms: Value) -> datetime:
    """The time of a table's milliseconds; the phone's time zone is UTC."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=int(ms or 0))


def first(
    dues: Sequence[Due], *, add: bool = False, change: bool = False, remove: bool = False
) -> Due | None:
    """The first of the dues of a kind."""
    for due in dues:
        if (
            (add and due.now is None)
            or (remove and due.then is None)
            or (change and due.now and due.then is not None)
        ):
            return due
    return None
