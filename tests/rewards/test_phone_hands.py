"""The oracle on the screen: its rules on small trees, and tasks done by it on a real virtual phone."""

import random
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from devices.drivers.android.device import AndroidDevice
from guiagent.actions import Action, Answer, Click, Done, Drag, LongPress, PressButton, Scroll, Type
from guiagent.dialects import find_dialect
from guiagent.episode import run_episode
from guiagent.policies import OraclePolicy
from guiagent.protocols import Demonstrable, Provable
from guiagent.seeds import DEMONSTRATIONS
from guiagent.types import Node, ObserveSpec, State
from rewards.checks.android import Row, Rows
from rewards.checks.android_tables import ALARMS, CONTACTS, NETWORKS
from rewards.tasksets.phone import TEMPLATES, PhoneTasks
from rewards.tasksets.phone.facts import Added, Changed, Removed
from rewards.tasksets.phone.hands import calculator, forms
from rewards.tasksets.phone.hands.dues import Due, outstanding
from rewards.tasksets.phone.hands.scene import Scene, opened, typing
from rewards.tasksets.phone.hands.task import parted
from rewards.tasksets.phone.hands.ways import todo
from rewards.tasksets.phone.template import Scenario
from tests.support.phones import started
from training.sft.demonstrations import OracleDemonstrator, begun

BACK = PressButton(button="back")
EACH_APP = (
    *(
        "settings-switch",
        "settings-brightness",
        "contacts-ask-number",
        "phone-delete-missed",
        "messages-reply",
    ),
    *("clock-switch-off", "calendar-ask-place", "files-delete", "notes-delete", "calculator-product"),
    *("shopping-check-off", "expenses-recategorize", "recipes-favorite", "tasks-complete"),
)

# -- what is left to do --------------------------------------------------------------------------------------


def _alarm(hour: int, label: str = "", days: int = 0) -> Row:
    return {"hour": hour, "minutes": 0, "daysofweek": days, "enabled": 1, "label": label}


BEFORE: Rows = {"1": _alarm(6, "Gym"), "2": _alarm(7)}


@pytest.mark.parametrize(
    ("fact", "now", "left"),
    [
        (Added(ALARMS, _alarm(9, "Run")), BEFORE, [("", None, _alarm(9, "Run"))]),
        (Added(ALARMS, _alarm(9)), {**BEFORE, "8": _alarm(9)}, []),
        (Added(ALARMS, _alarm(9, "Run")), {**BEFORE, "8": _alarm(9)}, [("8", _alarm(9), {"label": "Run"})]),
        (Changed(ALARMS, {"label": "Gym"}, {"hour": 5}), BEFORE, [("1", BEFORE["1"], {"hour": 5})]),
        (Changed(ALARMS, {"label": "Gym"}, {"hour": 5}), {"2": _alarm(7), "9": _alarm(5, "Gym")}, []),
        (Removed(ALARMS, {"label": "Gym"}), BEFORE, [("1", BEFORE["1"], None)]),
        (Removed(ALARMS, {"label": "Gym"}), {"2": _alarm(7)}, []),
        (
            Removed(ALARMS, {"label": "Gym"}),
            {"1": BEFORE["1"]},
            [("1", BEFORE["1"], {"hour": 7, "label": ""})],
        ),
    ],
)
def test_what_is_left_leads_from_the_rows_as_they_are_to_those_wanted(
    fact: Added | Changed | Removed, now: Rows, left: list[tuple[str, Row | None, Row | None]]
) -> None:
    found = outstanding(ALARMS, [fact], BEFORE, now)
    assert [(due.key, due.now, due.then) for due in found] == left


def test_what_somebody_spoiled_is_left_to_be_mended() -> None:
    now = {**BEFORE, "2": _alarm(7, days=3), "9": _alarm(1, "Odd", 5)}
    found = outstanding(ALARMS, [Removed(ALARMS, {"label": "Gym"})], BEFORE, now)
    assert [(due.key, due.then) for due in found] == [("1", None), ("2", {"daysofweek": 0}), ("9", None)]


# -- a finger on a small screen ------------------------------------------------------------------------------


def node(
    name: str, top: int, role: str = "text", *states: State, value: str = "", height: int = 20, **more: str
) -> Node:
    return Node(role, name, (20, top, 200, height), more.get("id", name), more.get("parent"), value, states)


def scene(
    *nodes: Node, package: str = "com.android.settings", activity: str = ".Settings", **more: object
) -> Scene:
    return Scene(package, activity, nodes, (240, 320), **more)  # type: ignore[arg-type]


def test_an_app_is_opened_by_its_icon_from_the_home_screen() -> None:
    home = {"package": "com.android.launcher3", "activity": ".Launcher"}
    wanted = ("com.android.deskclock", "Clock")
    assert opened(scene(package="org.guiagent.notes"), *wanted) == PressButton(button="home")
    assert opened(scene(node("Clock", 100, "button"), **home), *wanted) == Click(x=120, y=110)
    assert opened(scene(node("Apps list", 200, "button"), **home), *wanted) == Click(x=120, y=210)
    assert opened(scene(package="com.android.deskclock"), *wanted) is None


def test_a_field_is_touched_then_typed_into_and_selected_before_it_is_overwritten() -> None:
    empty, said = node("Name", 100, "textbox"), node("Name", 100, "textbox", value="Old")
    assert typing(scene(empty), empty, "New") == Click(x=120, y=110)
    empty = node("Name", 100, "textbox", "focused")
    assert typing(scene(empty), empty, "New") == Type(text="New")
    assert typing(scene(said), said, "New") == LongPress(x=120, y=110)
    said = node("Name", 100, "textbox", "focused", "selected", value="Old")
    assert typing(scene(said), said, "New", submit=True) == Type(text="New", submit=True)
    said = node("Name", 100, "textbox", "focused", value="Old")
    assert typing(scene(said), said, "New") == LongPress(x=120, y=110)


def test_what_covers_an_element_is_not_touched() -> None:
    row = node("Milk", 250)
    small = Node("button", "Add", (170, 240, 40, 40), "add")
    assert scene(row, small).tap(row) == Click(x=120, y=260)
    wide = Node("button", "Add", (100, 240, 120, 40), "add")
    assert scene(row, wide).tap(row) == Click(x=70, y=260)
    whole = Node("button", "Add", (0, 240, 240, 40), "add")
    assert isinstance(scene(row, whole).tap(row), Scroll)
    assert isinstance(scene(node("Milk", 280, height=3)).tap(node("Milk", 280, height=3)), Scroll)


def test_a_list_is_scrolled_towards_a_row_and_never_with_the_keyboard_in_the_way() -> None:
    order = ("a", "b", "c", "d")
    down, up = (scene(node(name, 100)).towards("c", order) for name in ("a", "d"))
    assert isinstance(down, Scroll) and isinstance(up, Scroll)
    assert (down.dy, up.dy) == (160, -160)
    assert scene(node("a", 100), keyboard=True).towards("c", order) == BACK


def test_a_form_is_filled_in_from_top_to_bottom_and_goes_on_by_enter_where_the_next_field_follows() -> None:
    wanted = {"Name": "Bread", "Amount": "2.50"}
    boxes = [node("Name", 100, "textbox", "focused"), node("Amount", 140, "textbox")]
    assert forms.filled(scene(*boxes), wanted) == Type(text="Bread", submit=True)
    boxes[0] = node("Name", 100, "textbox", value="Bread")
    assert forms.filled(scene(*boxes), wanted) == Click(x=120, y=150)
    assert isinstance(forms.filled(scene(boxes[0]), wanted), Scroll)
    assert forms.filled(scene(node("Amount", 140, "textbox", value="2.50")), wanted) is None


@pytest.mark.parametrize(
    ("hour", "minute", "late", "action"),
    [
        ("8", "00", False, LongPress(x=120, y=110)),
        ("6", "00", False, LongPress(x=120, y=150)),
        ("6", "10", False, Click(x=120, y=230)),
        ("6", "10", True, Click(x=120, y=270)),
    ],
)
def test_a_time_is_picked_by_hour_minute_and_half_of_the_day(
    hour: str, minute: str, late: bool, action: Action
) -> None:
    halves: list[State] = ["selected"]
    shown = scene(
        node("Hour", 100, "textbox", value=hour),
        node("Minute", 140, "textbox", value=minute),
        node("AM", 180, "button", *([] if late else halves)),
        node("PM", 220, "button", *(halves if late else [])),
        node("OK", 260, "button"),
    )
    assert forms.time_picked(shown, 18 * 60 + 10) == action


def test_the_app_stands_before_the_bar_the_keyboard_and_a_toast() -> None:
    names = ["Settings", "Wi-Fi", "15:34", "Battery charged, 100 percent", "Back", "Home", "Overview"]
    tops = [33, 76, 4, 4, 287, 287, 287]
    assert parted(names, tops) == (2, False, "")
    keys = ["q", "Delete"]
    assert parted([*names[:4], *keys, *names[4:], "Saved"], [*tops[:4], 150, 218, *tops[4:], 260]) == (
        2,
        True,
        "Saved",
    )
    assert parted(["Anything"], [0]) == (1, False, "")


@pytest.mark.parametrize("where", ["elsewhere", "on the page"])
def test_a_wrong_page_is_left(where: str) -> None:
    rows: Rows = {"1": {"ssid": "Attic", "secured": 0, "level": 1, "saved": 0, "connected": 0}}
    due = Due(NETWORKS, "1", rows["1"], {"connected": 1})
    task = Scenario("Connect.", 4, goal=[Changed(NETWORKS, {"ssid": "Attic"}, {"connected": 1})])
    there = where == "on the page"
    shown = scene(
        node("Wi-Fi" if there else "Display", 40),
        node("Attic", 100),
        activity=".WifiSettingsActivity" if there else ".DisplaySettingsActivity",
    )
    [action] = todo("settings-wifi-connect", task, shown, [due], {NETWORKS.name: rows})
    assert action == (Click(x=120, y=110) if there else BACK)


def test_at_the_end_it_answers_gives_up_or_has_nothing_to_do() -> None:
    assert todo("x", Scenario("Do.", 1), scene(), [], {}) == []
    assert todo("x", Scenario("Say.", 1, answer={"n": 3}), scene(), [], {}) == [Answer(text='{"n":3}')]
    assert todo("x", Scenario("Fly.", 1, infeasible=True), scene(), [], {}) == [Done(status="infeasible")]


def test_a_slider_is_pulled_beyond_its_end_and_not_moved_by_scrolling() -> None:
    slider = node("Media volume", 230, "slider")
    assert scene(slider).slide(slider, up=True) == Drag(path=((120, 240), (239, 240)))
    assert scene(slider).scroll() == Scroll(x=120, y=175, dy=160)  # the finger goes from 255 to 95
    assert scene(node("Wi-Fi", 100)).scroll() == Scroll(x=120, y=160, dy=160)


def test_the_formula_is_what_the_instruction_says() -> None:
    assert calculator.formula("Work out 48 times 79 in the calculator, with its = key.") == "48×79"
    told = "Work out the sum of 12 and 80, multiplied by 3 in the calculator, with its = key."
    assert calculator.formula(told) == "(12+80)×3"


def test_contacts_of_one_name_are_not_taken_for_each_other() -> None:
    row: Row = {"display_name": "Kira Falk", "data1": "+12065550150", "data2": 2, "starred": 0}
    due = Due(CONTACTS, "4", row, {"starred": 1})
    shown = scene(
        node("Kira Falks", 40),
        node("Add to favorites", 80, "button"),
        package="com.android.contacts",
        activity=".DetailActivity",
    )
    task = Scenario("Star.", 1, goal=[Changed(CONTACTS, {"display_name": "Kira Falk"}, {"starred": 1})])
    assert todo("contacts-favorites", task, shown, [due], {CONTACTS.name: {"4": row}}) == [BACK]


def test_every_template_is_shown_with_an_oracle_and_none_without() -> None:
    for name in TEMPLATES:
        assert isinstance(PhoneTasks(oracle=True).task(name, 1), Demonstrable), name
        assert isinstance(PhoneTasks(oracle=True).task(name, 1), Provable), name
        assert not isinstance(PhoneTasks().task(name, 1), Demonstrable), name


# -- on a real virtual phone ---------------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def device() -> AsyncIterator[AndroidDevice]:
    device = await started(240, 320)
    yield device
    await device.close()


_LONG = [name for name in TEMPLATES if name not in EACH_APP]
_ALL: Sequence[object] = [*EACH_APP, *(pytest.param(name, marks=pytest.mark.drill) for name in _LONG)]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", _ALL)
async def test_a_template_is_done_by_hand(name: str, device: AndroidDevice) -> None:
    task = PhoneTasks(oracle=True).task(name, 1)
    spec = ObserveSpec(frame="jpeg", quality=30)
    played = await run_episode(task, device, OraclePolicy(), keep_frame=lambda _: "", spec=spec)
    assert played.fault is None
    assert played.score is not None
    assert (played.score.value, played.stop) == (1.0, "agent_done"), played.score.reason


_ASTRAY = ("settings-switch", "contacts-delete", "shopping-delete", "notes-file-away")


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "name",
    [*_ASTRAY, *(pytest.param(name, marks=pytest.mark.drill) for name in TEMPLATES if name not in _ASTRAY)],
)
async def test_what_begins_midway_and_astray_ends_right(name: str, device: AndroidDevice) -> None:
    """As demonstrations do; a tap that does what the phone has no way to undo spoils a few of them."""
    task = PhoneTasks(oracle=True).task(name, DEMONSTRATIONS.start)
    rng = random.Random(name)
    task_begun = begun(task, rng.randint(0, task.max_steps // 2 - 1), rng.randint(1, 3))
    demonstrator = OracleDemonstrator(find_dialect("ui-tars"))
    spec = ObserveSpec(frame="jpeg", quality=30)
    played = await run_episode(task_begun, device, demonstrator, keep_frame=lambda _: "", spec=spec)
    assert played.fault is None
    assert played.score is not None
    assert played.score.value == 1.0, played.score.reason
