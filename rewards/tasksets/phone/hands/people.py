"""Contacts, Phone and Messages, which know the same people. Pure."""

import re
from collections.abc import Sequence

from guiagent.actions import Action
from guiagent.types import Node
from rewards.checks.android import Row, Value, same
from rewards.checks.android_tables import CONTACTS, MESSAGES
from rewards.tasksets.phone.facts import State
from rewards.tasksets.phone.hands.dues import Due
from rewards.tasksets.phone.hands.forms import (
    clock,
    filled,
    menu,
    moment,
    picked,
    pressed,
    saved,
    short_day,
    text,
)
from rewards.tasksets.phone.hands.scene import BACK, Scene, typing

_TYPES = {1: "Home", 2: "Mobile", 3: "Work", 7: "Other"}
_FORM = ("First name", "Last name", "Company", "Phone", *_TYPES.values(), "Email")
MISSED = 3
_WAYS = {1: "Incoming", 2: "Outgoing", MISSED: "Missed"}
_DIALLED = re.compile(r"[+\d*#]+")
_SENT = 2
_HERE = ".ConversationListActivity"


# -- contacts ------------------------------------------------------------------------------------------------


def contacts(scene: Scene, dues: Sequence[Due], state: State) -> Action:
    """Add, change or delete the contact that the first of the dues is about."""
    due = dues[0]
    if scene.activity == ".EditActivity":
        right = text(scene.parameters.get("id")) == due.key and due.then is not None
        return _edit(scene, due) if right and not scene.dialog else BACK
    if due.now is None:
        return listed(scene) or scene.tap_in("Create contact", role="button")
    if scene.find("Delete contact?"):
        return pressed(scene, "Delete" if due.then is None and _about(scene, due) else "Cancel")
    if due.then is None and scene.activity == ".DetailActivity" and scene.find("Delete", "button"):
        right = state[CONTACTS.name].get(text(scene.parameters.get("id"))) == due.now
        return pressed(scene, "Delete") if right else BACK
    if (way := contact(scene, text(due.now["display_name"]), names(state))) is not None:
        return way
    if due.then is None:
        return menu(scene, "Delete")
    if due.then.keys() == {"starred"}:
        return scene.tap_in(
            "Add to favorites" if due.then["starred"] else "Remove from favorites", role="button"
        )
    return scene.tap_in("Edit contact", role="button")


def contact(scene: Scene, name: str, order: Sequence[str] = ()) -> Action | None:
    """Open a contact; None once it is there."""
    if scene.activity == ".DetailActivity":
        return BACK if scene.dialog or not scene.find(name) else None
    return listed(scene) or scene.tap_in(name, order)


def listed(scene: Scene) -> Action | None:
    """Open the list of all contacts; None once it is there."""
    if scene.activity != ".PeopleActivity" or scene.keyboard or scene.dialog or scene.title != "Contacts":
        return BACK
    return _tab(scene, "Contacts")


def _edit(scene: Scene, due: Due) -> Action:
    then = due.then or {}
    values = {}
    if "display_name" in then:
        values["First name"], _, values["Last name"] = text(then["display_name"]).partition(" ")
    if "data1" in then:
        values["Phone"] = text(then["data1"])
    order = list(_FORM)
    if (way := filled(scene, values, order)) is not None:
        return way
    if "data2" in then and (way := picked(scene, _TYPES[int(then["data2"] or 2)], order)) is not None:
        return way
    return saved(scene)


def _about(scene: Scene, due: Due) -> bool:
    return scene.shows(f"{text((due.now or {})['display_name'])} will be removed")


def names(state: State) -> list[str]:
    return sorted(
        (text(row["display_name"]) for row in state.get(CONTACTS.name, {}).values()), key=str.casefold
    )


def _tab(scene: Scene, name: str) -> Action | None:
    """Choose a tab at the bottom; None once it is chosen."""
    button = scene.find(name, last=True)
    around = scene.around(button) if button else None
    if button is None or around is None:
        return BACK
    return None if "selected" in around.states else scene.tap(button)


def name_of(number: Value, state: State) -> str:
    """How apps show a number: by its contact's name, if it has one."""
    rows = state.get(CONTACTS.name, {}).values()
    found = (text(row["display_name"]) for row in rows if same("phone", row["data1"], number))
    return next(found, text(number))


# -- calls ---------------------------------------------------------------------------------------------------


def calls(scene: Scene, dues: Sequence[Due], state: State) -> Action:
    """Place a call and end it, or delete one from the log."""
    due = dues[0]
    if scene.activity == ".InCallActivity":
        return scene.tap_in("End call", role="button")
    if due.then is None:
        if scene.find("Delete", "button") and scene.find("Send message", "button"):
            return pressed(scene, "Delete")
        if (way := recents(scene)) is not None:
            return way
        now = due.now or {}
        row = logged(scene, name_of(now["number"], state), under(now))
        return scene.hold(row) if row else scene.scroll()
    number = text(due.then["number"])
    name = name_of(number, state)
    if scene.activity != ".DialtactsActivity" or scene.dialog:
        return BACK
    if name != number:
        return _tab(scene, "Contacts") or scene.tap_in(name, names(state))
    return _tab(scene, "Keypad") or _dial(scene, number)


def recents(scene: Scene) -> Action | None:
    """Open the log of calls; None once it is there."""
    if scene.activity == ".InCallActivity":
        return scene.tap_in("End call", role="button")
    if scene.activity != ".DialtactsActivity" or scene.dialog:
        return BACK
    return _tab(scene, "Recents")


def logged(scene: Scene, name: str, told: str) -> Node | None:
    """A call in the log, by its name and what is below it."""
    rows = {node.parent for node in scene.nodes if node.name == name}
    return scene.that(lambda node: node.name == told and node.parent in rows)


def under(row: Row) -> str:
    """What the log says of a call, below the name."""
    at = moment(row["date"])
    return f"{_WAYS[int(row['type'] or 1)]}, {short_day(at.date())}, {clock(at.hour, at.minute)}"


def _dial(scene: Scene, number: str) -> Action:
    shown = scene.that(lambda node: node.role == "text" and _DIALLED.fullmatch(node.name) is not None)
    typed = shown.name if shown else ""
    if typed == number:
        return scene.tap_in("Dial", role="button")
    if not number.startswith(typed):
        return scene.tap_in("Backspace", role="button")
    if number[len(typed)] == "+":
        zero = scene.find("0", "button")
        return scene.hold(zero) if zero else scene.scroll()
    return scene.tap_in(number[len(typed)], role="button")


# -- messages ------------------------------------------------------------------------------------------------


def messages(scene: Scene, dues: Sequence[Due], state: State) -> Action:
    """Send a message, or delete one or a whole conversation."""
    due = next((one for one in dues if one.now is not None), dues[0])
    if due.now is not None:
        return _drop(scene, due.now, [one.now for one in dues if one.now is not None], state)
    wanted = due.then or {}
    rows = state[MESSAGES.name]
    copied = [row for row in rows.values() if row["body"] == wanted["body"] and row["type"] != _SENT]
    if copied:
        return _forward(scene, copied[0], wanted, state)
    return _send(scene, wanted, state)


def conversation(scene: Scene, address: Value, state: State) -> Action | None:
    """Open the conversation with a number; None once it is there."""
    if scene.activity == ".ConversationActivity":
        menu_open = scene.find("Forward", "button") or scene.find("Delete conversation", "button")
        return BACK if menu_open or scene.dialog or not _with(scene, address) else None
    if scene.activity != _HERE or scene.dialog or scene.keyboard or scene.title != "Messages":
        return BACK
    return scene.tap_in(name_of(address, state))


def _with(scene: Scene, address: Value) -> bool:
    given = scene.parameters.get("address") or text(scene.parameters.get("data")).partition(":")[2]
    return same("phone", address, given.replace("%2B", "+"))


def _send(scene: Scene, wanted: Row, state: State) -> Action:
    address, body = wanted["address"], text(wanted["body"])
    known = any(same("phone", row["address"], address) for row in state[MESSAGES.name].values())
    if scene.activity == ".NewConversationActivity":
        person = scene.find(name_of(address, state), "text")
        if person is not None:
            return scene.tap(person)
        return BACK if scene.keyboard else scene.scroll()
    if scene.activity == ".ConversationActivity" and _with(scene, address) and not scene.dialog:
        box = scene.that(lambda node: node.role == "textbox")
        if box is None:
            return BACK
        if box.value == body:
            return scene.tap_in("Send SMS", role="button")
        return typing(scene, box, body)
    if not known and scene.activity == _HERE and not scene.dialog and scene.title == "Messages":
        return scene.tap_in("Start chat", role="button")
    return (conversation(scene, address, state) if known else None) or BACK


def _forward(scene: Scene, had: Row, wanted: Row, state: State) -> Action:
    if scene.activity == ".ForwardActivity":
        if scene.parameters.get("body") != wanted["body"]:
            return BACK
        return scene.tap_in(name_of(wanted["address"], state), names(state), "text")
    if scene.find("Forward", "button"):
        return pressed(scene, "Forward")
    if (way := conversation(scene, had["address"], state)) is not None:
        return way
    bubble = scene.find(text(had["body"]))
    return scene.hold(bubble) if bubble else scene.scroll(down=False)


def _drop(scene: Scene, row: Row, rows: Sequence[Row], state: State) -> Action:
    """Delete messages: the conversation, if all that it holds has to go."""
    thread = [one for one in state[MESSAGES.name].values() if same("phone", one["address"], row["address"])]
    whole = len([one for one in rows if same("phone", one["address"], row["address"])]) == len(thread)
    if scene.find("Delete this conversation?"):
        return pressed(scene, "Delete" if whole else "Cancel")
    if scene.find("Delete", "button") and (scene.find("Mark as unread") if whole else scene.find("Resend")):
        return pressed(scene, "Delete")
    if whole:
        if scene.activity != _HERE or scene.keyboard or scene.title != "Messages":
            return BACK
        name = scene.find(name_of(row["address"], state))
        return scene.hold(name) if name else scene.scroll()
    if (way := conversation(scene, row["address"], state)) is not None:
        return way
    bubble = scene.find(text(row["body"]), last=True)
    return scene.hold(bubble) if bubble else scene.scroll(down=False)
