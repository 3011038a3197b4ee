"""Clock: alarms, timers and cities. Pure."""

import re
from collections.abc import Sequence

from guiagent.actions import Action
from guiagent.types import Node
from rewards.checks.android import Row
from rewards.checks.android_tables import ALARMS, TIMERS
from rewards.tasksets.phone.facts import State
from rewards.tasksets.phone.hands.dues import Due
from rewards.tasksets.phone.hands.forms import asked, clock, text, time_picked
from rewards.tasksets.phone.hands.scene import BACK, Scene

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_CITIES = (
    *("Auckland", "Berlin", "Buenos Aires", "Cairo", "Chicago", "Delhi", "Hong Kong", "Lagos", "London"),
    *("Los Angeles", "Madrid", "Nairobi", "New York", "Paris", "Rome", "Sao Paulo", "Seoul", "Singapore"),
    *("Sydney", "Tokyo"),
)
_TYPED = re.compile(r"(\d\d)h (\d\d)m (\d\d)s")


def act(scene: Scene, dues: Sequence[Due], state: State) -> Action:
    """Do what the first of the dues is about."""
    due = dues[0]
    if due.source is ALARMS:
        return _alarm(scene, due, state)
    if due.source is TIMERS:
        return _timer(scene, due)
    return _city(scene, due)


def look(scene: Scene, tab: str) -> Action | None:
    """Open a tab; None once it is there."""
    if scene.dialog or scene.activity != ".DeskClock":
        return BACK
    button = scene.find(tab, last=True)
    around = scene.around(button) if button else None
    if button is None:
        return BACK
    return None if around and "selected" in around.states else scene.tap(button)


def card_of(row: Row) -> str:
    """What an alarm's card is called."""
    return f"{clock(int(row['hour'] or 0), int(row['minutes'] or 0))} {text(row['label'])}".strip()


def cards(state: State) -> list[str]:
    """What the cards are called, from top to bottom."""
    rows = sorted(
        state[ALARMS.name].values(), key=lambda row: (int(row["hour"] or 0), int(row["minutes"] or 0))
    )
    return [card_of(row) for row in rows]


def _alarm(scene: Scene, due: Due, state: State) -> Action:
    wanted = {**(due.now or {}), **(due.then or {})}
    time = int(wanted["hour"] or 0) * 60 + int(wanted["minutes"] or 0)
    picking = scene.dialog and (scene.field("Hour") or scene.field("Minute"))
    retimed = due.then is not None and {"hour", "minutes"} & due.then.keys()
    if picking:
        return time_picked(scene, time) if retimed else BACK
    if scene.dialog and scene.field("Label"):
        return (
            asked(scene, "Label", text(wanted["label"]))
            if due.now and due.then and "label" in due.then
            else BACK
        )
    if (way := look(scene, "Alarm")) is not None:
        return way
    if due.now is None:
        return scene.tap_in("Add alarm", role="button")
    name, order = card_of(due.now), cards(state)
    parts = not retimed and "enabled" not in (due.then or {})
    if parts and (part := _part(scene, _part_for(due), name, order)) is not None:
        return scene.tap(part)
    card = scene.find(name)
    if card is None:
        return scene.towards(name, order)
    if retimed:
        found = scene.inside(card, "text", clickable=True)
    elif not parts:
        found = scene.inside(card, "switch")
    else:
        found = scene.that(lambda node: node.parent == card.id and node.name == "Expand alarm")
    return scene.tap(found) if found else scene.scroll()


def _part_for(due: Due) -> str:
    """What has to be touched below an open alarm's card."""
    now, then = due.now or {}, due.then
    if then is None:
        return "Delete"
    if "daysofweek" in then:
        changed = int(now["daysofweek"] or 0) ^ int(then["daysofweek"] or 0)
        return next(day for number, day in enumerate(_DAYS) if changed >> number & 1)
    return text(now["label"]) or "Add label"


def _part(scene: Scene, part: str, card: str, order: Sequence[str]) -> Node | None:
    """That part of this alarm. Its card may be scrolled away: then the next one tells whose it is."""
    shown = {number: node.name for number, node in enumerate(scene.nodes) if node.name in order}
    ids = {node.id for node in scene.nodes if node.name in order}
    for number, node in enumerate(scene.nodes):
        if node.name != part or node.parent in ids:
            continue
        above = [name for place, name in shown.items() if place < number]
        below = [name for place, name in shown.items() if place > number]
        before_next = order[order.index(below[0]) - 1] if below else order[-1]
        if (above[-1] if above else before_next) == card:
            return node
    return None


def _timer(scene: Scene, due: Due) -> Action:
    if (way := look(scene, "Timer")) is not None:
        return way
    shown = scene.that(lambda node: _TYPED.fullmatch(node.name) is not None)
    if due.now is not None:  # one too many, or of another length
        return (
            scene.tap_in("Delete", role="button") if shown is None else scene.tap_in("Cancel", role="button")
        )
    if shown is None:
        return scene.tap_in("Add timer", role="button")
    seconds = int((due.then or {})["length"] or 0) // 1000
    wanted = f"{seconds // 3600:02}{seconds // 60 % 60:02}{seconds % 60:02}".lstrip("0")
    typed = "".join(_TYPED.findall(shown.name)[0]).lstrip("0")
    if typed == wanted:
        return scene.tap_in("Start", role="button")
    return scene.tap_in(wanted[len(typed)] if wanted.startswith(typed) else "Delete", role="button")


def _city(scene: Scene, due: Due) -> Action:
    row = due.then if due.now is None else due.now
    if scene.activity == ".CitySelectionActivity":
        if scene.title != "Cities":
            return BACK
        return scene.tap_in(text((row or {})["city"]), _CITIES, "text")
    return look(scene, "Clock") or scene.tap_in("Add city", role="button")
