"""Shopping list, Expenses, Recipes and Tasks: apps of a list of rows and a form for one. Pure."""

from collections.abc import Mapping, Sequence

from guiagent.actions import Action
from rewards.checks.android import Row, Value
from rewards.checks.android_tables import EXPENSES, ITEMS, LISTS, RECIPES, TASKS
from rewards.tasksets.phone.expenses import CATEGORIES
from rewards.tasksets.phone.facts import State
from rewards.tasksets.phone.hands.dues import Due
from rewards.tasksets.phone.hands.forms import (
    asked,
    date_picked,
    filled,
    full_day,
    is_date,
    menu,
    moment,
    picked,
    pressed,
    saved,
    text,
)
from rewards.tasksets.phone.hands.scene import BACK, Scene, typing

_MAIN = ".MainActivity"
_CATEGORIES = {number: name for name, number in CATEGORIES.items()} | {1: "Others"}
_PRIORITIES = ("High", "Medium", "Low", "None")
_CHIPS = (
    *("Others", "Income", "Food", "Housing", "Social", "Entertainment", "Transportation", "Clothes"),
    *("Health care", "Education", "Donation"),
)
_RECIPE = {
    "title": "Title",
    "description": "Description",
    "servings": "Servings",
    "preparationTime": "Preparation time",
    "source": "Source",
    "ingredients": "Ingredients",
    "directions": "Directions",
}


def _shown(scene: Scene, due: Due, state: State) -> bool:
    """Whether the screen was opened for the row of a due, or for one just like it."""
    key = text(scene.parameters.get("id"))
    return bool(key) and state[due.source.name].get(key) == due.now


def at_list(scene: Scene, title: str) -> Action | None:
    """Go to an app's first screen; None once it is there."""
    here = scene.activity == _MAIN and scene.title == title and not scene.dialog and not scene.keyboard
    return None if here else BACK


def _at_list(scene: Scene, title: str) -> bool:
    return at_list(scene, title) is None


def category(name: str) -> int:
    return next(number for number, one in _CATEGORIES.items() if one == name)


# -- shopping ------------------------------------------------------------------------------------------------


def shopping(scene: Scene, dues: Sequence[Due], state: State) -> Action:
    """Do what the first of the dues is about: a list, or an item of one."""
    due = dues[0]
    if due.source is LISTS:
        return _shopping_list(scene, due)
    number = (due.now or due.then or {})["list_id"]
    row = state[LISTS.name].get(text(number))
    if row is None:
        return BACK
    menu_open = scene.find("Delete", "button") and not scene.find("Save", "button")
    if menu_open and due.then is None and scene.activity == ".ListActivity":
        return pressed(scene, "Delete")
    way = BACK if menu_open else shopping_list(scene, number, state)
    if way is not None:
        return way
    if due.now is None:
        box = scene.field("Add an item")
        name = text((due.then or {})["name"])
        if box is None:
            return scene.scroll(down=False)
        return (
            typing(scene, box, name, submit=True) if box.value != name else scene.tap_in("Add", role="button")
        )
    name = text(due.now["name"])
    order = items(number, state)
    if due.then is None:
        node = scene.find(name, "text")
        return scene.hold(node) if node else scene.towards(name, order)
    if "checked" in due.then:
        return scene.tap_in(name, order, "checkbox")
    more = int(due.then["quantity"] or 0) > int(due.now["quantity"] or 0)
    return (
        scene.tap_in(f"{'More' if more else 'Less'} {name}", (), "button")
        if scene.find(name)
        else (scene.towards(name, order))
    )


def shopping_list(scene: Scene, number: Value, state: State) -> Action | None:
    """Open a list by its number; None once it is there."""
    if scene.activity == ".ListActivity":
        return None if scene.parameters.get("id") == number and not scene.dialog else BACK
    if not _at_list(scene, "Shopping lists"):
        return BACK
    return scene.tap_in(text(state[LISTS.name][text(number)]["name"]))


def items(number: Value, state: State) -> list[str]:
    rows = [row for row in state[ITEMS.name].values() if row["list_id"] == number]
    return [text(row["name"]) for row in sorted(rows, key=lambda row: int(row["checked"] or 0))]


def _shopping_list(scene: Scene, due: Due) -> Action:
    if due.now is None:
        if scene.dialog and scene.find("New list"):
            return asked(scene, "Name", text((due.then or {})["name"]), "Create")
        return scene.tap_in("New list", role="button") if _at_list(scene, "Shopping lists") else BACK
    name = text(due.now["name"])
    if scene.dialog:
        wanted = scene.find("Delete list?") if due.then is None else scene.find("Rename list")
        if wanted is None:
            return BACK
        return (
            pressed(scene, "Delete")
            if due.then is None
            else asked(scene, "Rename list", text(due.then["name"]))
        )
    if scene.find("Rename", "button"):
        return pressed(scene, "Delete" if due.then is None else "Rename")
    node = scene.find(name) if _at_list(scene, "Shopping lists") else None
    return scene.hold(node) if node else BACK


# -- expenses ------------------------------------------------------------------------------------------------


def expenses(scene: Scene, dues: Sequence[Due], state: State) -> Action:
    """Add, correct or delete an expense in its form."""
    due = dues[0]
    if scene.activity == _MAIN:
        return _opened(scene, due, "Expenses", "Add expense", "name", expenses_shown(state))
    then = due.then or {}
    values = {}
    if "name" in then:
        values["Name"] = text(then["name"])
    if "amount" in then:
        values["Amount"] = f"{int(then['amount'] or 0) / 100:.2f}"
    chip = _CATEGORIES[int(then["category"] or 1)] if "category" in then else None
    return _form(scene, due, state, values, chip, ("Name", "Amount", *_CHIPS, "Note"))


def expenses_shown(state: State) -> list[str]:
    rows = sorted(state[EXPENSES.name].values(), key=lambda row: -int(row["created_date"] or 0))
    return [text(row["name"]) for row in rows]


def _opened(scene: Scene, due: Due, title: str, adding: str, column: str, order: Sequence[str]) -> Action:
    """On an app's first screen: open the form for the row of a due."""
    if not _at_list(scene, title):
        return BACK
    if due.now is None:
        return scene.tap_in(adding, role="button")
    return scene.tap_in(text(due.now[column]), order, "text")


def _form(
    scene: Scene, due: Due, state: State, values: Mapping[str, str], chip: str | None, order: Sequence[str]
) -> Action:
    """In a form: fill it in and save it, or delete its row."""
    right = "id" not in scene.parameters if due.now is None else _shown(scene, due, state)
    if scene.dialog:
        return (
            pressed(scene, "Delete")
            if due.then is None and right and scene.find("Delete", "button")
            else BACK
        )
    if not right:
        return BACK
    if due.then is None:
        return pressed(scene, "Delete")
    if (way := filled(scene, values, order)) is not None:
        return way
    if chip is not None and (way := picked(scene, chip, order)) is not None:
        return way
    return saved(scene)


# -- recipes -------------------------------------------------------------------------------------------------


def recipes(scene: Scene, dues: Sequence[Due], state: State) -> Action:
    """Add, change or delete a recipe, or make it a favorite."""
    due = dues[0]
    then = due.then or {}
    values = {label: text(then[name]) for name, label in _RECIPE.items() if name in then}
    if scene.activity == ".EditActivity":
        return _form(scene, due, state, values, None, tuple(_RECIPE.values()))
    if due.now is None:
        return _opened(scene, due, "Recipes", "New recipe", "title", ()) if scene.activity == _MAIN else BACK
    if scene.dialog:
        return pressed(scene, "Delete") if due.then is None and scene.find("Delete recipe?") else BACK
    if due.then is None and _recipe_menu(scene):
        return pressed(scene, "Delete") if _shown(scene, due, state) else BACK
    if (way := recipe(scene, due.now, state)) is not None:
        return way
    if due.then is None:
        return menu(scene, "Delete")
    if "favorite" in then:
        return scene.tap_in(
            "Add to favorites" if then["favorite"] else "Remove from favorites", role="button"
        )
    return scene.tap_in("Edit", role="button")


def _recipe_menu(scene: Scene) -> bool:
    return scene.find("Delete", "button") is not None and not scene.dialog


def recipe(scene: Scene, row: Row, state: State) -> Action | None:
    """Open a recipe; None once it is there."""
    if scene.activity == ".RecipeActivity":
        right = state[RECIPES.name].get(text(scene.parameters.get("id"))) == row
        return None if right and not _recipe_menu(scene) and not scene.dialog else BACK
    if not _at_list(scene, "Recipes"):
        return BACK
    tab = scene.find("All recipes")
    if tab is not None and "selected" not in tab.states:
        return scene.tap(tab)
    order = sorted((text(one["title"]) for one in state[RECIPES.name].values()), key=str.casefold)
    return scene.tap_in(text(row["title"]), order, "text")


# -- tasks ---------------------------------------------------------------------------------------------------


def tasks(scene: Scene, dues: Sequence[Due], state: State) -> Action:
    """Add, change, complete or delete a task."""
    due = dues[0]
    done = [row for row in state[TASKS.name].values() if row["completed"]]
    if [one.now for one in dues if one.then is None and one.now] == done and done:
        return menu(scene, "Clear completed") if scene.activity == _MAIN and not scene.dialog else BACK
    then = due.then or {}
    if scene.activity == _MAIN:
        if due.now and "completed" in then and _at_list(scene, "Tasks"):
            return scene.tap_in(text(due.now["title"]), tasks_shown(state), "checkbox")
        return _opened(scene, due, "Tasks", "Create new task", "title", tasks_shown(state))
    right = "id" not in scene.parameters if due.now is None else _shown(scene, due, state)
    day = moment(then["dueDate"]).date() if then.get("dueDate") else None
    if is_date(scene) and right and day:
        return date_picked(scene, day)
    values = {"Title": text(then["title"])} if "title" in then else {}
    chip = _PRIORITIES[int(then["importance"] or 0)] if "importance" in then else None
    order = ("Title", *_PRIORITIES, "Notes")
    if right and day and not scene.dialog and filled(scene, values, order) is None:
        title = scene.find("No due date") or scene.that(
            lambda node: node.role == "text" and ", 20" in node.name
        )
        ready = chip is None or picked(scene, chip, order) is None
        if ready and title is None:
            return scene.scroll()
        if ready and title is not None and title.name != full_day(day):
            return scene.tap(title)
    return _form(scene, due, state, values, chip, order)


def tasks_shown(state: State) -> list[str]:
    rows = sorted(
        (row for row in state[TASKS.name].values() if not row["completed"]),
        key=lambda row: (int(row["importance"] or 0), not row["dueDate"], int(row["dueDate"] or 0)),
    )
    return [text(row["title"]) for row in rows]
