"""The virtual phone's apps, driven by taps on what `views` names, and checked by what they leave behind."""

import hashlib
import json
import math
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from devices.phone import apps as app_folders
from devices.phone import keycodes
from devices.phone.documents import Change, diff, overlay
from devices.phone.phone import Phone
from devices.phone.screen import Size
from devices.phone.state import START_MS, State
from devices.phone.tasks import LAUNCHER
from devices.phone.views import View
from guiagent.errors import FaultError, MissingProgram, UsageError
from tests.support.documented import blocks

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
HOSTILE = "<img src=x onerror=\"document.body.textContent='owned'\"><script>bridge('owned')</script>"
ENTER = 66


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Phone]:
    try:
        phone = await Phone.start(720, 1280, 320, tmp_path_factory.mktemp("phone"))
    except MissingProgram as missing:
        pytest.skip(str(missing))
    yield phone
    await phone.close()


@pytest_asyncio.fixture(loop_scope="module")
async def phone(running: Phone) -> Phone:
    await running.reset(1)
    return running


async def find(
    phone: Phone, text: str | None = None, *, id: str | None = None, desc: str | None = None, nth: int = 0
) -> View:
    views = [
        view
        for view in (await phone.views()).walk()
        if (text is None or view.text == text)
        and (id is None or view.resource_id.endswith(f":id/{id}"))
        and (desc is None or view.content_desc == desc)
    ]
    assert len(views) > nth, f"no view {text or id or desc!r} among {await texts(phone)}"
    return views[nth]


async def tap(
    phone: Phone, text: str | None = None, *, id: str | None = None, desc: str | None = None, nth: int = 0
) -> None:
    await phone.tap(*(await find(phone, text, id=id, desc=desc, nth=nth)).center)


async def hold(phone: Phone, text: str) -> None:
    x, y = (await find(phone, text)).center
    await phone.swipe(x, y, x, y, 800)


async def fill(phone: Phone, id: str, text: str) -> None:
    await tap(phone, id=id)
    await phone.key(29, keycodes.META_CTRL)  # Ctrl+A
    await phone.key(67)
    await phone.text(text)


async def texts(phone: Phone) -> list[str]:
    return [
        view.text or view.content_desc
        for view in (await phone.views()).walk()
        if view.text or view.content_desc
    ]


def paths(changes: list[Change]) -> list[str]:
    """Where something changed beside what is on the screen."""
    return [change.path for change in changes if not change.path.startswith(("foreground/", "tasks"))]


# -- one flow an app --------------------------------------------------------------------------------------


async def test_launcher_opens_the_drawer_starts_an_app_and_dismisses_it(phone: Phone) -> None:
    await phone.swipe(360, 1000, 360, 400, 200)
    assert phone.foreground() == (LAUNCHER, ".AllAppsActivity")
    await tap(phone, id="search_text")
    await phone.text("recip")
    await tap(phone, desc="Recipes")
    assert phone.foreground() == ("org.guiagent.recipes", ".MainActivity")
    await tap(phone, desc="Overview")
    assert phone.tasks() == ["org.guiagent.recipes"]
    await tap(phone, desc="Dismiss Recipes")
    assert phone.tasks() == []
    assert "No recent items" in await texts(phone)


async def test_settings_writes_the_keys_that_android_uses(phone: Phone) -> None:
    await phone.launch("com.android.settings")
    await tap(phone, "Display")
    await tap(phone, id="dark_theme")
    slider = await find(phone, id="brightness")
    await phone.tap(slider.bounds[2] - 1, slider.center[1])
    await tap(phone, "Font size")
    await tap(phone, "Large")
    await phone.key(keycodes.BACK)
    await tap(phone, "Network & internet")
    await tap(phone, id="airplane_mode_on")
    await tap(phone, "Wi-Fi")
    await tap(phone, id="wifi_on")
    settings = phone.state.settings_get
    assert settings("secure", "ui_night_mode") == "2"
    assert settings("system", "screen_brightness") == "255"
    assert settings("system", "font_scale") == "1.15"
    assert settings("global", "airplane_mode_on") == "1"
    assert settings("global", "wifi_on") == "0"
    shown = await texts(phone)
    assert "Airplane mode" in shown and "Wi-Fi connected" not in shown


async def test_contacts_adds_edits_stars_and_deletes(phone: Phone) -> None:
    uri = "content://com.android.contacts/contacts"
    await phone.launch("com.android.contacts")
    await tap(phone, desc="Create contact")
    await tap(phone, id="first_name")
    await phone.text("Aaron")
    await phone.key(ENTER)
    await phone.text("Abel")
    await tap(phone, id="phone")
    await phone.text("+1 555 0100")
    await tap(phone, "Work")
    await tap(phone, "Save")
    row = phone.state.query(
        "content://contacts/phones", ["name", "number", "type"], "name = 'Aaron Abel'", None
    )
    assert row == [{"name": "Aaron Abel", "number": "+1 555 0100", "type": 3}]
    await tap(phone, "Aaron Abel")
    await tap(phone, desc="Add to favorites")
    await tap(phone, desc="Edit contact")
    await fill(phone, "first_name", "Aron")
    await tap(phone, "Save")
    assert phone.state.query(uri, ["starred"], "display_name = 'Aron Abel'", None) == [{"starred": 1}]
    await tap(phone, desc="More options")
    await tap(phone, "Delete")
    await tap(phone, id="button1")
    assert phone.state.query(uri, None, "display_name LIKE '%Abel'", None) == []


async def test_messages_sends_to_a_number_reads_resends_and_deletes(phone: Phone) -> None:
    await phone.launch("com.android.messaging")
    await tap(phone, desc="Start chat")
    await tap(phone, id="recipient_text_view")
    await phone.text("5550177")
    await tap(phone, id="send_to")
    await tap(phone, id="compose_message_text")
    await phone.text("See you at 5")
    await tap(phone, desc="Send SMS")
    sent = phone.state.query(
        "content://sms/sent", ["address", "body", "date", "type"], "address = '5550177'", None
    )
    assert sent == [{"address": "5550177", "body": "See you at 5", "date": START_MS, "type": 2}]
    await hold(phone, "See you at 5")
    await tap(phone, "Resend")
    assert len(phone.state.query("content://sms/sent", None, "body = 'See you at 5'", None)) == 2
    await tap(phone, desc="More options")
    await tap(phone, "Delete conversation")
    await tap(phone, id="button1")
    assert phone.state.query("content://sms", None, "address = '5550177'", None) == []


async def test_messages_that_are_opened_are_read(phone: Phone) -> None:
    phone.state.insert("content://sms/inbox", {"address": "5550123", "body": "knock", "date": START_MS + 1})
    await phone.launch("com.android.messaging")
    await tap(phone, "knock")
    assert phone.state.query("content://sms/inbox", ["read"], "body = 'knock'", None) == [{"read": 1}]


async def test_dialer_calls_and_logs(phone: Phone) -> None:
    await phone.launch("com.android.dialer")
    await tap(phone, "Keypad")
    for digit in "5550199":
        await tap(phone, id=f"key_{digit}")
    await tap(phone, desc="Dial")
    assert phone.foreground() == ("com.android.dialer", ".InCallActivity")
    active = phone.state.query("content://com.android.dialer/active_call", ["number"], None, None)
    assert active == [{"number": "5550199"}]
    await tap(phone, desc="End call")
    call = phone.state.query(
        "content://call_log/calls", ["number", "type", "date"], "number = '5550199'", None
    )
    assert call == [{"number": "5550199", "type": 2, "date": START_MS}]


async def test_clock_adds_an_alarm_runs_a_timer_and_a_stopwatch(phone: Phone) -> None:
    await phone.launch("com.android.deskclock")
    await tap(phone, desc="Add alarm")
    await fill(phone, "hour", "6")
    await fill(phone, "minute", "45")
    await tap(phone, "PM")
    await tap(phone, id="button1")
    await tap(phone, desc="Monday")
    await tap(phone, desc="Friday")
    columns = ["hour", "minutes", "daysofweek", "enabled"]
    alarms = phone.state.query("content://com.android.deskclock/alarm_templates", columns, "hour = 18", None)
    assert alarms == [{"hour": 18, "minutes": 45, "daysofweek": 17, "enabled": 1}]
    await tap(phone, "Timer")
    for digit in ("1", "3", "0"):
        await tap(phone, id=f"timer_setup_digit_{digit}")
    await tap(phone, "Start")
    timers = phone.state.query("content://com.android.deskclock/timers", ["length", "running"])
    assert timers == [{"length": 90_000, "running": 1}]
    await tap(phone, "Stopwatch")
    await tap(phone, "Start")
    phone.state.clock.set(START_MS + 83_450, flows=False)
    phone.state.changed()
    assert (await find(phone, id="stopwatch_time_text")).text == "01:23.45"


async def test_calendar_adds_a_repeating_event_with_a_reminder_and_deletes_it(phone: Phone) -> None:
    uri = "content://com.android.calendar/events"
    await phone.launch("com.android.calendar")
    await tap(phone, desc="Create new event")
    await fill(phone, "title", "Chess night")
    await tap(phone, desc="Start date")
    await tap(phone, "27")
    await tap(phone, id="button1")
    await tap(phone, desc="Start time")
    await fill(phone, "hour", "7")
    await fill(phone, "minute", "30")
    await tap(phone, "PM")
    await tap(phone, id="button1")
    await tap(phone, id="rrule")
    await tap(phone, "Every week")
    await tap(phone, id="minutes")
    await tap(phone, "1 hour before")
    await tap(phone, "Save")
    [event] = phone.state.query(uri, ["_id", "dtstart", "dtend", "rrule"], "title = 'Chess night'", None)
    start = 1_698_435_000_000  # 2023-10-27 19:30 UTC
    assert event == {
        "_id": event["_id"],
        "dtstart": start,
        "dtend": start + 3_600_000,
        "rrule": "FREQ=WEEKLY",
    }
    reminders = "content://com.android.calendar/reminders"
    assert phone.state.query(reminders, ["minutes"], f"event_id = {event['_id']}") == [{"minutes": 60}]
    await tap(phone, desc="Next month")
    await tap(phone, "10")
    await tap(phone, "Chess night")
    await tap(phone, desc="Delete event")
    await tap(phone, id="button1")
    assert phone.state.query(uri, None, "title = 'Chess night'", None) == []
    assert phone.state.query(reminders, None, f"event_id = {event['_id']}") == []


async def shows(phone: Phone, text: str) -> bool:
    return text in await texts(phone)


async def test_notes_are_files(phone: Phone) -> None:
    folder = phone.folder / "sdcard" / "Documents" / "Notes"
    await phone.launch("org.guiagent.notes")
    await tap(phone, id="fab")
    await tap(phone, "New note")
    await phone.text("plan")
    await tap(phone, "Create")
    assert phone.keyboard_shown()
    await phone.text("first\nsecond")
    await tap(phone, desc="Save")
    assert (folder / "plan.md").read_text() == "first\nsecond"
    await phone.key(keycodes.BACK)
    await phone.key(keycodes.BACK)
    await tap(phone, desc="Search")
    await phone.text("secon")
    await phone.key(keycodes.BACK)
    await hold(phone, "plan.md")
    await tap(phone, desc="Delete")
    await tap(phone, id="button1")
    assert not (folder / "plan.md").exists()


async def test_files_creates_moves_and_renames(phone: Phone) -> None:
    root = phone.folder / "sdcard"
    (root / "Download" / "pushed.txt").write_text("from outside")
    phone.state.changed()
    await phone.launch("com.android.documentsui")
    await tap(phone, "Download")
    await hold(phone, "pushed.txt")
    await tap(phone, desc="More options")
    await tap(phone, "Move to…")
    await phone.key(keycodes.BACK)
    await tap(phone, "Documents")
    await tap(phone, desc="More options")
    await tap(phone, "New folder")
    await phone.text("Taxes 2023")
    await tap(phone, "OK")
    await tap(phone, "Taxes 2023")
    await tap(phone, id="button1")
    assert (root / "Documents" / "Taxes 2023" / "pushed.txt").read_text() == "from outside"
    assert not (root / "Download" / "pushed.txt").exists()
    await hold(phone, "pushed.txt")
    await tap(phone, desc="More options")
    await tap(phone, "Rename")
    await fill(phone, "edit", "renamed.txt")
    await tap(phone, "OK")
    assert (root / "Documents" / "Taxes 2023" / "renamed.txt").exists()


async def test_shopping_list_adds_checks_and_counts(phone: Phone) -> None:
    await phone.launch("org.guiagent.shopping")
    await tap(phone, id="fab")
    await phone.text("Camping")
    await tap(phone, "Create")
    await tap(phone, "Camping")
    await tap(phone, id="new_item")
    await phone.text("Gas")
    await phone.key(ENTER)
    await phone.text("Rope")
    await phone.key(ENTER)
    await tap(phone, desc="More Gas")
    await tap(phone, desc="Rope")
    items = phone.state.query(
        "content://org.guiagent.shopping/items", ["name", "quantity", "checked"], "list_id = 4", "name"
    )
    assert items == [
        {"name": "Gas", "quantity": 2, "checked": 0},
        {"name": "Rope", "quantity": 1, "checked": 1},
    ]


async def test_calculator_knows_precedence_and_keeps_a_history(phone: Phone) -> None:
    await phone.launch("com.android.calculator2")
    for key in ("digit_2", "op_add", "digit_3", "op_mul", "parens", "digit_4", "op_sub", "digit_1", "eq"):
        await tap(phone, id=key)
    assert (await find(phone, id="formula")).text == "11"
    history = phone.state.query(
        "content://com.android.calculator2/history", ["formula", "result"], None, None
    )
    assert history == [{"formula": "2+3×(4−1", "result": "11"}]


async def test_expenses_are_in_cents(phone: Phone) -> None:
    await phone.launch("org.guiagent.expenses")
    await tap(phone, desc="Add expense")
    await fill(phone, "name", "Umbrella")
    await fill(phone, "amount", "12.5")
    await tap(phone, "Clothes")
    await tap(phone, "Save")
    columns = ["name", "amount", "category", "created_date"]
    rows = phone.state.query("content://org.guiagent.expenses/expense", columns, "name = 'Umbrella'", None)
    assert rows == [{"name": "Umbrella", "amount": 1250, "category": 8, "created_date": START_MS}]


async def test_recipes_edit_and_favorite(phone: Phone) -> None:
    uri = "content://org.guiagent.recipes/recipes"
    await phone.launch("org.guiagent.recipes")
    await tap(phone, desc="New recipe")
    await fill(phone, "title", "Aioli")
    await fill(phone, "servings", "4 servings")
    await tap(phone, "Save")
    await tap(phone, "Aioli")
    await tap(phone, desc="Add to favorites")
    rows = phone.state.query(uri, ["title", "servings", "favorite"], "title = 'Aioli'", None)
    assert rows == [{"title": "Aioli", "servings": "4 servings", "favorite": 1}]


async def test_tasks_complete_and_create(phone: Phone) -> None:
    uri = "content://org.guiagent.tasks/tasks"
    await phone.launch("org.guiagent.tasks")
    await tap(phone, desc="Create new task")
    await fill(phone, "title", "Call the bank")
    await tap(phone, "High")
    await tap(phone, "Save")
    await tap(phone, desc="Call the bank")
    rows = phone.state.query(uri, ["title", "importance", "completed"], "title = 'Call the bank'", None)
    assert rows == [{"title": "Call the bank", "importance": 0, "completed": START_MS}]


# -- the phone itself -------------------------------------------------------------------------------------


async def test_the_same_seed_makes_the_same_document_and_frame(phone: Phone) -> None:
    async def start(seed: int) -> tuple[str, str]:
        await phone.reset(seed)
        return json.dumps(phone.document(), sort_keys=True), hashlib.sha256(await phone.frame()).hexdigest()

    first = await start(5)
    await phone.launch("com.android.contacts")
    await tap(phone, desc="Create contact")
    await fill(phone, "first_name", "left behind")
    await phone.launch("org.guiagent.notes")
    (phone.folder / "sdcard" / "Music" / "planted.mp3").write_bytes(b"\0" * 300_000)
    phone.state.clipboard = "planted"
    phone.state.settings_put("global", "planted", "1")
    other = await start(6)
    assert other[0] != first[0]
    assert await start(5) == first
    assert phone.tasks() == [] and not phone.keyboard_shown()


async def test_a_reset_leaves_no_folder_link_or_row(phone: Phone, tmp_path: Path) -> None:
    """Nor does the launcher show what was there when it had to be opened for it."""
    start, frame = phone.document(), await phone.frame()
    shared = phone.folder / "sdcard"
    (shared / "Documents" / "a" / "b").mkdir(parents=True)
    (shared / "Documents" / "a" / "b" / "c.txt").write_text("c")
    shutil.rmtree(shared / "Documents" / "Notes")
    (shared / "Documents" / "Notes").symlink_to(tmp_path)
    shutil.rmtree(shared / "Music")
    (shared / "Music").write_text("no folder")
    phone.state.delete("content://com.android.launcher3/favorites")
    phone._tasks.end(LAUNCHER)
    await phone.reset(1)
    assert phone.document() == start
    assert await phone.frame() == frame
    assert not (shared / "Documents" / "Notes").is_symlink() and not os.listdir(tmp_path)


async def test_diff_names_exactly_what_a_flow_changed(phone: Phone) -> None:
    await phone.launch("org.guiagent.shopping")
    await tap(phone, "Groceries")
    before = phone.document()
    item = next(view for view in (await phone.views()).walk() if view.class_name == "android.widget.CheckBox")
    file = "org.guiagent.shopping/databases/shopping.db"
    table = before["databases"][file]["items"]
    [(number, row)] = [(key, one) for key, one in table.items() if one["name"] == item.content_desc]
    await phone.tap(*item.center)
    path = f"databases/{file}/items/{number}/checked"
    assert diff(before, phone.document()) == [Change(path, row["checked"], 1 - row["checked"])]


async def test_a_document_is_loaded_whole(phone: Phone) -> None:
    await phone.launch("com.android.settings", ".DisplaySettingsActivity")
    await tap(phone, id="dark_theme")
    (phone.folder / "sdcard" / "DCIM" / "a.bin").write_bytes(b"\xff\xfe")
    saved = json.loads(json.dumps(phone.document()))
    frame = await phone.frame()
    await phone.reset(2)
    await phone.load(saved)
    assert phone.document() == saved
    assert phone.foreground() == ("com.android.settings", ".DisplaySettingsActivity")
    assert await phone.frame() == frame


async def test_a_document_that_does_not_fit_changes_nothing(phone: Phone) -> None:
    before = phone.document()
    contacts = "com.android.providers.contacts/databases/contacts2.db"
    patches: list[dict[str, Any]] = [
        {"clock": {"now_ms": "noon"}},
        {"settings": {"nowhere": {"a": "b"}}},
        {"databases": {contacts: {"contacts": {"1": {"no_such_column": 1}}}}},
        {"databases": {contacts: {"no_such_table": {"1": {}}}}},
        {"databases": {contacts: {"contacts": {"99": {"display_name": None}}}}},
        {"files": {"../../escaped": {"text": "x"}}},
        {"files": {"a": {"xxh3": "0", "size": 1}}},
        {"foreground": {"package": "no.such.app"}},
        {"tasks": [["com.android.settings"]]},
        {"tasks": [{}]},
        {"tasks": [7]},
    ]
    for patch in patches:
        document = overlay(before, patch)
        with pytest.raises(UsageError):
            await phone.load(document)
    assert diff(before, phone.document()) == []


async def test_adb_side_writes_show_on_the_screen(phone: Phone) -> None:
    await phone.launch("com.android.contacts")
    phone.state.insert("content://com.android.contacts/contacts", {"display_name": "Aaaron New"})
    assert await shows(phone, "Aaaron New")
    phone.state.settings_put("system", "time_12_24", "24")
    assert (await find(phone, id="clock")).text == "15:34"


async def test_keyboard_is_tapped_and_shrinks_the_page(phone: Phone) -> None:
    await phone.launch("com.android.contacts")
    await tap(phone, desc="Create contact")
    full = await find(phone, id="body")
    await tap(phone, id="first_name")
    assert phone.keyboard_shown()
    for key in ("Shift", "B", "o", "x", "Delete", "b"):
        await tap(phone, desc=key)
    field = await find(phone, id="first_name")
    assert field.text == "Bob" and field.focused
    assert (await find(phone, id="body")).bounds[3] < full.bounds[3]
    await phone.key(keycodes.BACK)
    assert not phone.keyboard_shown() and phone.foreground()[1] == ".EditActivity"
    assert (await find(phone, id="body")).bounds == full.bounds
    await tap(phone, id="first_name")
    assert phone.keyboard_shown()


async def test_back_unwinds_screens_then_apps(phone: Phone) -> None:
    name, number = phone.state.query("content://contacts/phones", ["name", "number"], None, "name")[
        0
    ].values()
    await phone.launch("com.android.contacts")
    await tap(phone, name)
    await tap(phone, desc="Text")
    assert phone.foreground() == ("com.android.messaging", ".ConversationActivity")
    await phone.key(keycodes.BACK)
    assert phone.foreground() == ("com.android.contacts", ".DetailActivity")
    await phone.key(keycodes.BACK)
    assert phone.foreground() == ("com.android.contacts", ".PeopleActivity")
    await phone.key(keycodes.BACK)
    assert phone.foreground() == (LAUNCHER, ".Launcher")
    assert number


@pytest.mark.parametrize(("width", "height"), [(240, 320), (360, 640), (540, 960), (720, 1280), (1080, 2400)])
async def test_a_scale_makes_no_frame_a_pixel_larger_than_asked_for(width: int, height: int) -> None:
    size = Size(width, height, min(320, width // 2))
    assert (math.ceil(size.css_width * size.scale), math.ceil(size.css_height * size.scale)) == (
        width,
        height,
    )


async def test_scrolling_by_drag_and_by_fling(phone: Phone) -> None:
    await phone.launch("com.android.settings")
    top = (await find(phone, "Display")).bounds[1]
    await phone.swipe(360, 700, 360, 600, 2000)
    dragged = top - (await find(phone, "Display")).bounds[1]
    assert 80 <= dragged <= 110  # the finger's way, less what tells a drag from a tap
    await phone.swipe(360, 1000, 360, 500, 100)
    assert await shows(phone, "About phone") and not await shows(phone, "Wi-Fi")


async def test_long_press_takes_no_waiting_and_a_tap_is_none(phone: Phone) -> None:
    await phone.launch("com.android.documentsui")
    x, y = (await find(phone, "Movies")).center
    await phone.swipe(x, y, x, y, 399)
    assert (await find(phone, id="action_bar_title")).text == "Movies"
    await phone.key(keycodes.BACK)
    await phone.swipe(x, y, x, y, 60_000)
    assert (await find(phone, id="action_bar_title")).text == "1 selected"


@pytest.mark.parametrize("package", ["com.android.contacts", "com.android.messaging"])
async def test_hostile_text_is_shown_as_text(phone: Phone, package: str) -> None:
    phone.state.insert("content://com.android.contacts/contacts", {"display_name": HOSTILE, "number": "1"})
    phone.state.insert("content://sms/inbox", {"address": "1", "body": HOSTILE, "date": START_MS + 1})
    await phone.launch(package)
    for _ in range(4):
        if HOSTILE in await texts(phone):
            break
        await phone.swipe(360, 900, 360, 400, 3000)
    await tap(phone, HOSTILE)
    shown = await texts(phone)
    assert HOSTILE in shown and "owned" not in shown


async def test_power_button_and_unknown_apps(phone: Phone) -> None:
    await phone.key(keycodes.POWER)
    assert (await phone.views()).children == ()
    await phone.tap(360, 600)
    await phone.key(keycodes.WAKEUP)
    assert phone.foreground() == (LAUNCHER, ".Launcher")
    with pytest.raises(UsageError, match="no app"):
        await phone.launch("no.such.app")
    with pytest.raises(UsageError, match="no activity"):
        await phone.launch("com.android.settings", ".NoSuchActivity")


# -- permissions and conditions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "where",
    [
        "1) UNION SELECT name, sql, 1, 1, 1, 1, 1 FROM sqlite_master --",
        "_id IN (SELECT _id FROM sqlite_master)",
        "load_extension('x')",
        "hex(randomblob(1000000000)) = ''",
        "1; DROP TABLE contacts",
        "(WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n) > 0",
        "replace(replace(replace(hex(display_name), '0', display_name), '1', display_name), '2', 'x') = ''",
    ],
)
async def test_conditions_cannot_leave_their_table(phone: Phone, where: str) -> None:
    uri = "content://com.android.contacts/contacts"
    before = phone.document()
    with pytest.raises(UsageError):
        phone.state.query(uri, None, where, None)
    with pytest.raises(UsageError):
        phone.state.delete(uri, where)
    assert diff(before, phone.document()) == []


async def test_providers_write_by_uri_and_by_row(phone: Phone) -> None:
    row = phone.state.insert("content://sms/inbox", {"address": "1", "body": "a"})
    assert phone.state.query(f"content://sms/{row}", ["type", "body"]) == [{"type": 1, "body": "a"}]
    assert phone.state.query(f"content://sms/sent/{row}") == []
    assert phone.state.update(f"content://sms/{row}", {"body": "b"}) == 1
    assert phone.state.delete("content://sms/sent", "body = 'b'") == 0
    assert phone.state.delete("content://sms/inbox", "body = 'b'") == 1
    with pytest.raises(UsageError, match="no column"):
        phone.state.insert("content://sms", {"nothing": 1})
    with pytest.raises(UsageError, match="no app provides"):
        phone.state.query("content://nobody/here")


MANIFEST = """
package = "org.example.spy"
label = "Spy glass"
version = "1"
color = "#000000"
[[activity]]
name = ".Main"
"""
SPY = """
const tries = {
  contacts: () => query('content://com.android.contacts/contacts'),
  files: () => ask('list', ''),
  settings: () => put('global', 'wifi_on', '0'),
  keys: () => ask('key', 3),
  tasks: () => ask('dismiss', 'com.android.settings'),
  network: () => fetch('http://127.0.0.1:1/').then(() => 'reached'),
  parent: async () => parent.document.body,
};
const attempt = async ([name, run]) => {
  try { await run(); return note(`${name}: done`); } catch (error) { return note(`${name}: refused`); }
};
activity('.Main', async () => ({title: 'Spy', body: await Promise.all(Object.entries(tries).map(attempt))}));
"""


def write_app(folder: Path, manifest: str, script: str) -> None:
    folder.mkdir(parents=True)
    (folder / "manifest.toml").write_text(manifest)
    (folder / "main.js").write_text(script)
    (folder / "icon.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 1 1'/>")


def documented(first: str) -> str:
    """The code block of docs/phone.md that begins so."""
    page = next((Path(__file__).parents[2] / "docs").rglob("phone.md"))
    [block] = [one for one in blocks(page.read_text()) if one.text.startswith(first)]
    return block.text


@pytest_asyncio.fixture(loop_scope="module")
async def extended(tmp_path: Path) -> AsyncIterator[Phone]:
    write_app(tmp_path / "apps" / "spy", MANIFEST, SPY)
    broken = MANIFEST.replace("spy", "broken").replace("Spy glass", "Broken")
    write_app(tmp_path / "apps" / "broken", broken, "activity('.Main', () => nonsense);")
    write_app(tmp_path / "apps" / "water", documented("package ="), documented("activity("))
    folders = (app_folders.BUILT_IN, tmp_path / "apps")
    try:
        phone = await Phone.start(480, 800, 240, tmp_path / "root", folders=folders)
    except MissingProgram as missing:
        pytest.skip(str(missing))
    yield phone
    await phone.close()


async def test_an_app_is_a_folder_and_gets_only_what_its_manifest_asks_for(extended: Phone) -> None:
    await tap(extended, desc="Apps list")
    await tap(extended, desc="Spy glass")
    notes = [text for text in await texts(extended) if ": " in text]
    names = ["contacts", "files", "settings", "keys", "tasks", "network", "parent"]
    assert notes == [f"{name}: refused" for name in names]
    await extended.key(keycodes.HOME)
    await tap(extended, desc="Apps list")
    await tap(extended, desc="Water")
    await tap(extended, desc="Add a glass")
    uri = "content://org.example.water/log"
    assert extended.state.query(uri, ["ml"], f"at = {START_MS}") == [{"ml": 250}]
    assert extended.state.settings_get("system", "water_goal_ml") == "2000"
    with pytest.raises(FaultError, match=r"org\.example\.broken failed: ReferenceError: nonsense"):
        await extended.launch("org.example.broken")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("org.example.spy", "spy"), "no package name"),
        (('label = "Spy glass"', "lable = 1"), "lable"),
        (("[[activity]]", "[[activity"), "manifest.toml"),
        (("org.example.spy", "com.android.settings"), "is also"),
    ],
)
async def test_a_wrong_manifest_is_named(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    write_app(tmp_path / "spy", MANIFEST.replace(*change), SPY)
    with pytest.raises(UsageError, match=message):
        app_folders.load((app_folders.BUILT_IN, tmp_path))


async def test_every_built_in_app_starts_for_many_seeds(tmp_path: Path) -> None:
    apps = app_folders.load((app_folders.BUILT_IN,))
    assert len(apps) >= 12
    state = State(tmp_path, apps, lambda: None)
    documents = set()
    for seed in range(8):
        state.reset(seed)
        documents.add(json.dumps(state.document(), sort_keys=True))
    assert len(documents) == 8
