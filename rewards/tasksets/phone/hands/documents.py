"""Files and Notes, whose rows are files and folders of the shared storage. Pure."""

from collections.abc import Sequence

from guiagent.actions import Action, Type
from rewards.checks.android import Folder
from rewards.tasksets.phone.facts import State
from rewards.tasksets.phone.hands.dues import Due
from rewards.tasksets.phone.hands.forms import asked, chosen, menu, pressed, text
from rewards.tasksets.phone.hands.scene import BACK, Scene, typing

_STORAGE, _NOTES = "Internal storage", "Notes"
_EDITOR = "Write here"


# -- files ---------------------------------------------------------------------------------------------------


def files(scene: Scene, dues: Sequence[Due], state: State) -> Action:
    """Delete, rename, move or copy files, or make a folder: what the dues together come to."""
    if scene.activity != ".files.FilesActivity":
        return BACK
    made = next(
        (one for one in dues if one.now is None and text((one.then or {})["path"]).endswith("/")), None
    )
    if made is not None:
        return _make_folder(scene, made)
    came = next((one for one in dues if "/" in _carried_to(one) or (one.now is None and one.then)), None)
    if came is not None:
        return _carry(scene, came, dues, state)
    renamed = next((one for one in dues if one.now and one.then), None)
    if renamed is not None:
        name, wanted = text((renamed.now or {})["path"]), text((renamed.then or {})["path"])
        if scene.dialog and scene.field("Rename"):
            return asked(scene, "Rename", wanted)
        return _select(scene, _folder(renamed), [name]) or menu(scene, "Rename")
    return _delete(scene, dues)


def _carried_to(due: Due) -> str:
    """The new path of a file that goes into a folder below, or ""."""
    return text((due.then or {}).get("path")) if due.now else ""


def _folder(due: Due) -> str:
    assert isinstance(due.source, Folder)
    return due.source.path.rpartition("/")[2]


def _make_folder(scene: Scene, due: Due) -> Action:
    if scene.dialog and scene.find("New folder"):
        return asked(scene, "Folder name", text((due.then or {})["path"]).rstrip("/"))
    if scene.find("New folder", "button"):
        return pressed(scene, "New folder")
    return _in_folder(scene, [_folder(due)]) or menu(scene, "New folder")


def _carry(scene: Scene, due: Due, dues: Sequence[Due], state: State) -> Action:
    path = text((due.then or {})["path"])
    below, _, name = path.rpartition("/")
    to = [_folder(due), *([below] if below else [])]
    gone = next((one for one in dues if one.then is None and text((one.now or {})["path"]) == name), None)
    moves = gone is not None or due.now is not None
    if gone is not None:
        origin = _folder(gone)
    elif due.now is not None:
        origin = _folder(due)
    else:
        origin = next(
            (one for one, rows in state.items() if name in rows and one != due.source.name), _STORAGE
        )
    verb = "Move" if moves else "Copy"
    if scene.shows(f"{verb} {name} here?"):
        return _in_folder(scene, to, carrying=True) or pressed(scene, verb)
    if scene.shows(" here?"):
        return pressed(scene, "Cancel")
    return _select(scene, origin, [name]) or menu(scene, f"{verb} to…")


def _delete(scene: Scene, dues: Sequence[Due]) -> Action:
    folder = _folder(dues[0])
    names = [text((one.now or {})["path"]) for one in dues if _folder(one) == folder]
    if scene.dialog:
        return pressed(scene, "OK" if scene.shows("Delete ") else "Cancel")
    return _select(scene, folder, names) or scene.tap_in("Delete", role="button")


def _select(scene: Scene, folder: str, names: Sequence[str]) -> Action | None:
    """Select these files and no others; None once they are selected, or a menu for them is open."""
    if scene.dialog:
        return BACK
    if scene.find("Rename", "button") or scene.find("Copy to…", "button"):
        return None
    rows = [node for node in scene.nodes if "selected" in node.states]
    held = [node.name for node in scene.nodes for row in rows if node.parent == row.id]
    if scene.title.endswith(" selected"):
        for name in names:
            if name not in held and (node := scene.find(name)):
                return scene.tap(node)
        wrong = [
            row for row in rows if not any(one.name in names for one in scene.nodes if one.parent == row.id)
        ]
        return BACK if wrong else None
    if (way := _in_folder(scene, [folder])) is not None:
        return way
    node = scene.find(names[0])
    return scene.hold(node) if node else scene.scroll()


def _in_folder(scene: Scene, path: Sequence[str], *, carrying: bool = False) -> Action | None:
    """Open a folder; None once it is there."""
    if scene.dialog or scene.keyboard:
        return BACK
    title = scene.title
    if title == path[-1]:
        return None
    if title == _STORAGE or title in path:
        return scene.tap_in(path[path.index(title) + 1] if title in path else path[0], role="text")
    return BACK


# -- notes ---------------------------------------------------------------------------------------------------


def notes(scene: Scene, dues: Sequence[Due], state: State) -> Action:
    """Make, change, move or delete a note."""
    due = dues[0]
    now, then = due.now or {}, due.then or {}
    if scene.activity == ".DocumentActivity":
        here = text(scene.parameters.get("path")).removeprefix("Documents/Notes/")
        if here != due.key or "text" not in then or scene.dialog:
            return BACK
        return _write(scene, text(now["text"]), text(then["text"]))
    if due.now is None:
        if scene.dialog and scene.field("Name"):
            return asked(scene, "Name", text(then["path"]), "Create")
        if scene.find("New note", "button"):
            return pressed(scene, "New note")
        return _listed(scene) or scene.tap_in("Create a new note or folder", role="button")
    name = text(now["path"])
    if due.then is not None and "path" not in then:
        return _listed(scene) or scene.tap_in(name, role="text")
    if scene.dialog:
        if due.then is None:
            return pressed(scene, "Delete" if scene.find(name) else "Cancel")
        return (
            chosen(scene, text(then["path"]).rpartition("/")[0] or "Notes") if scene.find("Move to") else BACK
        )
    selected = [node for node in scene.nodes if "selected" in node.states]
    if scene.title.endswith(" selected"):
        held = [node.name for node in scene.nodes for row in selected if node.parent == row.id]
        if name not in held or len(selected) != 1:
            return BACK
        return scene.tap_in("Delete" if due.then is None else "Move", role="button")
    if (way := _listed(scene)) is not None:
        return way
    node = scene.find(name)
    return scene.hold(node) if node else scene.scroll()


def note(scene: Scene, path: str) -> Action | None:
    """Open a note; None once it is there."""
    if scene.activity == ".DocumentActivity":
        here = text(scene.parameters.get("path")).removeprefix("Documents/Notes/")
        return None if here == path and not scene.dialog else BACK
    return _listed(scene) or scene.tap_in(path, role="text")


def _listed(scene: Scene) -> Action | None:
    if scene.dialog or scene.keyboard or scene.title != _NOTES or scene.find("New folder", "button"):
        return BACK
    return None


def _write(scene: Scene, had: str, wanted: str) -> Action:
    """Add what is missing at the end of a note, or write it anew, and save it."""
    box = scene.that(lambda node: node.role == "textbox")
    if box is None:
        return BACK
    value = "" if box.value == _EDITOR else box.value
    if value.strip() == wanted.strip():
        return scene.tap_in("Save", role="button")
    if value and wanted.startswith(value) and "selected" not in box.states:
        if "focused" in box.states:
            return Type(text=wanted[len(value) :].rstrip("\n"))
        return scene.tap_low(box)
    return typing(scene, box, wanted.rstrip("\n"))
