"""What reads a phone's state and judges it: the pure parts, and hostile output, databases and answers."""

import re
import sqlite3
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eval.suites import find_suite
from guiagent.errors import Fault, FaultError, UsageError
from guiagent.types import CommandResult
from rewards.checks import android_content, android_database
from rewards.checks.android import Folder, Kind, Row, Rows, Setting, Source, Value, read_file, run, same
from rewards.checks.android_tables import ALARMS, CONTACTS, MESSAGES, TABLES
from rewards.tasksets.phone import (
    TEMPLATES,
    TRAIN_TEMPLATES,
    UNSEEN_APP_TEMPLATES,
    UNSEEN_APPS,
    UNSEEN_TEMPLATES,
    PhoneTasks,
    answers,
)
from rewards.tasksets.phone import task as task_module
from rewards.tasksets.phone.effects import side_effects
from rewards.tasksets.phone.facts import Added, Changed, Fact, Removed, compare, targets
from rewards.tasksets.phone.near_misses import deeds
from rewards.tasksets.phone.template import Scenario

# -- what `content query` prints --------------------------------------------------------------------------


class Printer:
    """Prints rows as Android's `content` does: unquoted."""

    def __init__(self, rows: dict[str, dict[str, str]]) -> None:
        self.rows = rows
        self.asked: list[tuple[Sequence[str], str]] = []

    async def __call__(self, projection: Sequence[str], where: str) -> str:
        self.asked.append((projection, where))
        chosen = [(key, row) for key, row in self.rows.items() if where in ("", f"_id={key}")]
        lines = [
            f"Row: {number} " + ", ".join(f"{name}={({'_id': key} | row)[name]}" for name in projection)
            for number, (key, row) in enumerate(chosen)
        ]
        return "".join(f"{line}\n" for line in lines) or "No result found.\n"


@pytest.mark.parametrize(
    "body",
    [
        "plain",
        "with, commas = and signs",
        "two\nlines",
        "",
        "forged\nRow: 1 _id=2, address=+1555, body=never sent",
        "forged\nRow: 2 _id=3, address=+1555, body=never sent",
        "a, body=b",
        "a, address=+1, body=b",
    ],
)
async def test_a_value_cannot_pass_for_a_column_or_a_row(body: str) -> None:
    rows = {"1": {"address": "+1212", "body": body}, "2": {"address": "+1313", "body": "second"}}
    assert await android_content.rows(Printer(rows), "_id", ["address", "body"]) == rows


async def test_a_row_whose_end_was_cut_off_is_asked_for_again() -> None:
    class Cut(Printer):
        async def __call__(self, projection: Sequence[str], where: str) -> str:
            return (await super().__call__(projection, where))[: 60 if not where else None]

    rows = {"1": {"body": "x" * 20}, "2": {"body": "y" * 40}}
    assert await android_content.rows(Cut(rows), "_id", ["body"]) == rows


async def test_plain_rows_take_two_queries_and_no_row_takes_one() -> None:
    plain = Printer({"1": {"body": "hello"}, "7": {"body": "NULL"}})
    assert await android_content.rows(plain, "_id", ["body"]) == {"1": {"body": "hello"}, "7": {"body": None}}
    assert len(plain.asked) == 2
    empty = Printer({})
    assert await android_content.rows(empty, "_id", ["body"]) == {}
    assert len(empty.asked) == 1


# -- databases --------------------------------------------------------------------------------------------

COLUMNS = ["hour", "label"]
SCHEMA = "CREATE TABLE alarm_templates (_id INTEGER PRIMARY KEY, hour INTEGER, label TEXT);"


def _database(path: Path, script: str, *, wal: bool = False) -> tuple[bytes, bytes]:
    """A database's file and its log while somebody has it open."""
    connection = sqlite3.connect(path)
    try:
        if wal:
            connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(script)
        log = path.with_name(f"{path.name}-wal")
        return path.read_bytes(), log.read_bytes() if log.exists() else b""
    finally:
        connection.close()


def test_rows_of_a_database_are_read_with_what_waits_in_its_log(tmp_path: Path) -> None:
    fill = "INSERT INTO alarm_templates VALUES (3, 7, 'Gym'), (1, 6, NULL);"
    expected = {"1": {"hour": 6, "label": None}, "3": {"hour": 7, "label": "Gym"}}
    image, log = _database(tmp_path / "a.db", SCHEMA + fill)
    assert android_database.rows(image, log, "alarm_templates", "_id", COLUMNS) == expected
    image, log = _database(tmp_path / "b.db", SCHEMA + fill, wal=True)
    assert log
    assert android_database.rows(image, log, "alarm_templates", "_id", COLUMNS) == expected
    with pytest.raises(FaultError, match="no such table"):
        android_database.rows(image, b"", "alarm_templates", "_id", COLUMNS)


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TABLE other (_id INTEGER PRIMARY KEY);",
        "CREATE TABLE alarm_templates (_id INTEGER PRIMARY KEY, label TEXT);",  # no `hour`
        "CREATE VIEW alarm_templates AS WITH RECURSIVE n(_id) AS (SELECT 1 UNION ALL SELECT _id + 1 FROM n) "
        "SELECT _id, 1 AS hour, '' AS label FROM n;",
        "CREATE VIRTUAL TABLE alarm_templates USING fts5(_id, hour, label);",
    ],
)
def test_another_schema_is_a_fault_of_the_task_and_nothing_of_it_is_run(script: str, tmp_path: Path) -> None:
    image, log = _database(tmp_path / "a.db", script)
    with pytest.raises(FaultError, match="unreadable"):
        android_database.rows(image, log, "alarm_templates", "_id", COLUMNS)


@pytest.mark.parametrize("image", [b"", b"no database at all" * 100, b"SQLite format 3\0" + bytes(4000)])
def test_what_is_no_database_is_a_fault_of_the_task(image: bytes) -> None:
    with pytest.raises(FaultError, match="unreadable"):
        android_database.rows(image, b"", "alarm_templates", "_id", COLUMNS)


# -- a phone that answers what the test says --------------------------------------------------------------


class Scripted:
    """The files and the output of commands that a test says, and nothing else."""

    def __init__(self, output: str = "", code: int = 0, files: dict[str, bytes] | None = None) -> None:
        self._result = CommandResult(code, output, "" if code == 0 else "refused")
        self._files = files or {}

    async def exec(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        return self._result

    async def put(self, path: str, data: bytes) -> None:
        raise AssertionError

    async def get(self, path: str) -> bytes:
        if path not in self._files:
            raise FaultError(Fault("task", "file", f"{path}: No such file or directory"))
        return self._files[path]


async def test_a_setting_is_everything_before_the_last_line_break() -> None:
    name = Setting("global", "device_name")
    assert await name.read(Scripted("My\nphone\n")) == {"device_name": {"value": "My\nphone"}}
    assert await name.read(Scripted("null\n")) == {}


async def test_a_folder_shows_files_and_folders_and_no_name_that_was_cut() -> None:
    listed = "/sdcard/F/sub\n//\n/sdcard/F/a.txt\n/sdcard/F/sub/b.txt\n/sdcard/F/cut"
    files = {"/sdcard/F/a.txt": b"one\n", "/sdcard/F/sub/b.txt": b"\xff"}
    assert await Folder("/sdcard/F").read(Scripted(listed, files=files)) == {
        "sub/": {"path": "sub/", "text": None},
        "a.txt": {"path": "a.txt", "text": "one\n"},
        "sub/b.txt": {"path": "sub/b.txt", "text": "\N{REPLACEMENT CHARACTER}"},
    }
    assert await Folder("/sdcard/F").read(Scripted("//\n")) == {}


async def test_what_a_phone_refuses_is_a_fault_and_no_score() -> None:
    with pytest.raises(FaultError, match="settings get global x: refused"):
        await run(Scripted(code=1), "settings", "get", "global", "x")
    with pytest.raises(FaultError, match="content query"):
        await run(Scripted("[ERROR] Unsupported\n", code=1), "content", "query")
    assert await read_file(Scripted(), "/sdcard/none") is None
    with pytest.raises(FaultError, match="cannot be pulled"):
        await ALARMS.read(Scripted())


@pytest.mark.parametrize("document", [b"{", b'{"a": "\xff"}', b'{"a": ' + b"[" * 100_000])
async def test_a_document_that_is_no_json_is_a_device_fault(document: bytes) -> None:
    with pytest.raises(FaultError, match="the phone's document") as failed:
        await task_module.document_of(Scripted(files={task_module._DOCUMENT: document}))  # type: ignore[arg-type]
    assert (failed.value.fault.origin, failed.value.fault.code) == ("device", "protocol")


# -- values and facts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "one", "other", "alike"),
    [
        ("integer", 5, "5", True),
        ("integer", 1_697_384_040_000, 1_697_384_040_001, False),
        ("integer", None, 0, True),
        ("integer", 5, "five", False),
        ("real", "1.30", 1.3, True),
        ("flag", 1_697_384_040_000, 1, True),
        ("flag", 0, 1, False),
        ("text", "Mia  Reed ", "Mia Reed", True),
        ("text", "Mia Reed", "mia reed", False),
        ("text", "a\nb", "a b", True),
        ("lines", "a\nb", "a b", False),
        ("lines", "a\n\n b \n", "a\nb", True),
        ("phone", "+1 (212) 555-0100", "2125550100", True),
        ("phone", "+12125550100", "+12125550101", False),
        ("phone", "112", "113", False),
    ],
)
def test_values_compare_as_a_user_would(kind: Kind, one: Value, other: Value, alike: bool) -> None:
    assert same(kind, one, other) is same(kind, other, one) is alike


def _person(name: str, number: str, starred: int = 0) -> Row:
    return {"display_name": name, "data1": number, "data2": 2, "starred": starred}


MIA, MIAS, LEO = (
    _person("Mia Reed", "+12125550100"),
    _person("Mia Reeds", "+12125550101"),
    _person("Leo", "112"),
)
BEFORE: Rows = {"1": MIA, "2": MIAS, "3": LEO}


@pytest.mark.parametrize(
    ("facts", "after", "met", "beside"),
    [
        ([Removed(CONTACTS, {"display_name": "Mia Reed"})], {"2": MIAS, "3": LEO}, [True], []),
        ([Removed(CONTACTS, {"display_name": "Mia Reed"})], {"1": MIA, "3": LEO}, [False], ["contacts/2"]),
        ([Removed(CONTACTS, {"display_name": "Mia Reed"})], {"3": LEO}, [True], ["contacts/2"]),
        # deleted and made anew under another key, the rest untouched
        (
            [Changed(CONTACTS, MIA, {"starred": 1})],
            {"2": MIAS, "3": LEO, "9": {**MIA, "starred": 1}},
            [True],
            [],
        ),
        (
            [Changed(CONTACTS, MIA, {"starred": 1})],
            {"1": {**MIA, "starred": 1}, "2": MIAS, "8": LEO},
            [True],
            [],
        ),
        # the number changed along with it
        (
            [Changed(CONTACTS, MIA, {"starred": 1})],
            {"1": {**MIA, "starred": 1, "data1": "+12125550199"}, "2": MIAS, "3": LEO},
            [False],
            ["contacts/1/data1"],
        ),
        ([Changed(CONTACTS, MIA, {"starred": 1})], BEFORE, [False], []),
        (
            [Added(CONTACTS, {"data1": "+12125550177"})],
            {**BEFORE, "4": _person("New", "2125550177")},
            [True],
            [],
        ),
        (
            [Added(CONTACTS, {"data1": "+12125550177"})],
            {**BEFORE, "4": _person("New", "+12125550177"), "5": _person("New", "+12125550177")},
            [True],
            ["contacts/5"],
        ),
        # the same twice needs two rows, and the fuller fact is served first
        ([Added(CONTACTS, {"data2": 2})] * 2, {**BEFORE, "4": _person("A", "111")}, [True, False], []),
        (
            [Added(CONTACTS, {"data2": 2}), Added(CONTACTS, {"display_name": "A", "data2": 2})],
            {**BEFORE, "4": _person("A", "111"), "5": _person("B", "111")},
            [True, True],
            [],
        ),
    ],
)
def test_a_table_is_the_start_with_the_facts_applied(
    facts: list[Fact], after: Rows, met: list[bool], beside: list[str]
) -> None:
    finding = compare(CONTACTS, facts, BEFORE, after)
    assert (list(finding.met), list(finding.beside)) == (met, beside)


def test_one_of_two_equal_rows_can_be_asked_to_go() -> None:
    fact = Removed(CONTACTS, MIA)
    twice: Rows = {"1": MIA, "2": dict(MIA)}
    assert compare(CONTACTS, [fact], twice, {"2": MIA}).met == (True,)
    assert compare(CONTACTS, [fact], twice, twice).met == (False,)
    assert compare(CONTACTS, [fact], twice, {}).beside == ("contacts/2",)


def test_a_fact_about_no_row_is_a_mistake_of_the_template() -> None:
    with pytest.raises(ValueError, match="no row for 'contacts: removed display_name=Nobody'"):
        compare(CONTACTS, [Removed(CONTACTS, {"display_name": "Nobody"})], BEFORE, BEFORE)


def test_near_misses_are_another_row_another_value_too_much_half_and_nothing() -> None:
    goal: list[Fact] = [
        Changed(CONTACTS, {"display_name": "Mia Reed"}, {"starred": 1}),
        Removed(CONTACTS, LEO),
    ]
    made = deeds(goal, {"contacts": BEFORE})
    assert set(made) == {"not saved", "half done", "other value", "other row", "one too many"}
    assert made["other row"] == (goal[1], Changed(CONTACTS, MIAS, {"starred": 1}))  # the one most like it
    assert made["half done"] == (goal[0],)
    assert made["one too many"] == (*goal, Changed(CONTACTS, MIAS, {"starred": 1}))


# -- answers ----------------------------------------------------------------------------------------------

FIELDS: answers.Fields = {"count": 3, "total": 12.5, "name": "Mia Reed", "items": ["Tea", "Oats"]}


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        (
            '{"count": 3, "total": 12.50, "name": " mia  reed", "items": ["oats", "Tea"]}',
            "count total name items",
        ),
        (
            '{"count": 3.0, "total": 12.504, "name": "Mia Reed", "items": ["Tea", "Oats"]}',
            "count total name items",
        ),
        ('{"count": 4, "total": 12.51, "name": "Mia", "items": ["Tea"]}', ""),
        ('{"count": "3", "total": "12.5", "name": 3, "items": "Tea, Oats"}', ""),
        ('{"count": true, "total": null, "name": ["Mia Reed"], "items": ["Tea", "Oats", "Tea"]}', ""),
        ('{"count": 3}', "count"),
        ('{"count": 3, "other": 4}', ""),
        ('The answer is {"count": 3}', ""),
        ('```json\n{"count": 3}\n```', ""),
        ("[3]", ""),
        ("3", ""),
        ("", ""),
        (None, ""),
        ("[" * 3000, ""),
        ('{"count": 3}' + " " * 5000, ""),
        ('{"count": 1e999, "total": NaN}', ""),
        (f'{{"count": {10**400}, "total": {10**400}}}', ""),
        ('{"name": "\ud800"}', ""),
    ],
)
def test_answers_are_typed_fields_and_nothing_else(answer: str | None, right: str) -> None:
    read = answers.read(answer, FIELDS)
    assert read.keys() == FIELDS.keys()
    assert {name for name, is_right in read.items() if is_right} == set(right.split())


def test_the_right_answer_is_one_and_the_question_names_every_field() -> None:
    assert all(answers.read(answers.written(FIELDS), FIELDS).values())
    assert answers.question(FIELDS).endswith(
        '"count" (a whole number), "total" (a number), "name" (a text), "items" (a list of texts).'
    )


# -- side effects -----------------------------------------------------------------------------------------


def _document(**changes: Any) -> dict[str, Any]:
    sms = {"1": {"address": "+1", "body": "Hi", "read": 0}}
    return {
        "clipboard": "",
        "foreground": {"package": "x"},
        "settings": {"global": {"wifi_on": "1"}},
        "databases": {MESSAGES.file: {"sms": sms}, ALARMS.file: {"alarm_templates": {}, "timers": {}}},
        "files": {"Download/a.txt": {"text": "a"}},
        **changes,
    }


def test_side_effects_are_what_changed_outside_of_the_goal_and_of_looking_at_things() -> None:
    read = {"1": {"address": "+1", "body": "Hi", "read": 1}}
    alarm = {"alarm_templates": {"1": {"hour": 7}}, "timers": {"1": {"length": 1}}}
    after = _document(
        clipboard="copied",
        foreground={"package": "y"},
        settings={"global": {"wifi_on": "0"}},
        databases={MESSAGES.file: {"sms": read}, ALARMS.file: alarm},
        files={"Download/b.txt": {"text": "a"}},
    )
    assert side_effects(_document(), _document(), []) == []
    assert side_effects(_document(), after, []) == [
        f"databases/{ALARMS.file}/alarm_templates/1",
        f"databases/{ALARMS.file}/timers/1",
        "files/Download/a.txt",
        "files/Download/b.txt",
        "settings/global/wifi_on",
    ]
    goal: list[Source] = [ALARMS, Folder("/sdcard/Download"), Setting("global", "wifi_on")]
    assert side_effects(_document(), after, goal) == [f"databases/{ALARMS.file}/timers/1"]
    assert side_effects(_document(), after, [Folder("/sdcard/Down")])[2:4] == [
        "files/Download/a.txt",
        "files/Download/b.txt",
    ]


# -- the collection ---------------------------------------------------------------------------------------


def test_there_are_templates_enough_over_apps_enough_in_three_groups() -> None:
    assert len(TEMPLATES) >= 40
    assert len({one.packages[0] for one in TEMPLATES.values()}) >= 10
    groups = (TRAIN_TEMPLATES, UNSEEN_TEMPLATES, UNSEEN_APP_TEMPLATES)
    assert sorted(name for group in groups for name in group) == sorted(TEMPLATES)
    known = {package for name in TRAIN_TEMPLATES for package in TEMPLATES[name].packages}
    assert not UNSEEN_APPS & known
    assert all({*TEMPLATES[name].packages} <= known for name in UNSEEN_TEMPLATES)
    assert min(map(len, groups)) >= 10


@pytest.mark.parametrize("name", TEMPLATES)
def test_an_instance_is_a_function_of_its_seed_and_seeds_differ(name: str) -> None:
    tasks = [PhoneTasks().task(name, seed) for seed in (*range(12), 0)]
    assert tasks[0].instruction == tasks[-1].instruction
    assert tasks[0].scenario == tasks[-1].scenario
    scenes = {repr((task.instruction, task.scenario.start)) for task in tasks}
    assert len(scenes) >= 2  # a level has few
    assert all("  " not in task.instruction and 4 <= task.max_steps <= 60 for task in tasks)


def _applied(facts: Sequence[Fact], before: dict[str, Rows]) -> dict[str, Rows]:
    """What tables become when facts are done to them."""
    after = {name: dict(rows) for name, rows in before.items()}
    for number, (fact, key) in enumerate(zip(facts, targets(facts, before), strict=True)):
        rows = after.setdefault(fact.source.name, {})
        match fact:
            case Added(_, row, rest):
                rows[f"new {number}"] = {**rest, **row}
            case Changed(_, _, values):
                rows[key] = {**rows[key], **values}
            case Removed():
                del rows[key]
    return after


def _holds(scenario: Scenario, facts: Sequence[Fact], before: dict[str, Rows]) -> bool:
    """Whether the goal does, once these facts are done."""
    after = _applied(facts, before)
    if any(after[source.name] != before[source.name] for source in scenario.kept):
        return False
    for source in {fact.source.name: fact.source for fact in scenario.goal}.values():
        own = [fact for fact in scenario.goal if fact.source.name == source.name]
        finding = compare(source, own, before.get(source.name, {}), after.get(source.name, {}))
        if not all(finding.met) or finding.beside:
            return False
    return True


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_seed_makes_a_task_that_is_done_already_or_that_a_near_miss_meets(name: str) -> None:
    for seed in range(150):
        scenario = PhoneTasks().task(name, seed).scenario
        before = {
            source.name: {str(number): row for number, row in enumerate(rows)}
            for source, rows in scenario.start
        }
        assert _holds(scenario, scenario.goal, before), seed
        if scenario.goal:
            near_misses = {**deeds(scenario.goal, before), **scenario.near_misses}
            met = [which for which, facts in near_misses.items() if _holds(scenario, facts, before)]
            assert met == [], seed


def test_several_tasks_ask_and_some_cannot_be_done_and_each_of_those_has_a_twin_that_can() -> None:
    scenarios = {name: PhoneTasks().task(name, 1).scenario for name in TEMPLATES}
    assert sum(bool(one.answer) for one in scenarios.values()) >= 5
    twins = {
        "settings-wifi-missing": "settings-wifi-connect",
        "contacts-change-missing": "contacts-change-number",
        "calendar-delete-missing": "calendar-delete",
    }
    assert {*twins} == {name for name, one in scenarios.items() if one.infeasible}
    for name, twin in twins.items():
        particulars = r'".*?"|\+?\d+|\b[A-Z]\w+'
        alike = [re.sub(particulars, "…", scenarios[each].instruction) for each in (name, twin)]
        assert alike[0] == alike[1]
        assert not scenarios[twin].infeasible


def test_unknown_tasks_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="no phone task 'x'; known: settings-switch, "):
        PhoneTasks().task("x", 0)


def test_the_suites_report_instances_templates_and_apps_apart() -> None:
    phone, apps = find_suite("phone"), find_suite("phone-unseen-apps")
    assert (phone.train_tasks, phone.unseen_tasks) == (TRAIN_TEMPLATES, UNSEEN_TEMPLATES)
    assert (apps.train_tasks, apps.unseen_tasks) == ((), UNSEEN_APP_TEMPLATES)
    assert {phone.device, apps.device} == {"phone"}
    assert {*phone.grants} == {*apps.grants} == {"shell", "files"}


def test_one_suite_has_all_three_regimes_and_counts_each() -> None:
    suite = find_suite("phone-regimes")
    assert suite.tasks == TRAIN_TEMPLATES + UNSEEN_TEMPLATES + UNSEEN_APP_TEMPLATES
    assert len(set(suite.tasks)) == len(TEMPLATES) == 88
    assert Counter(suite.groups["regime"][task] for task in suite.tasks) == {
        "unseen instances": len(TRAIN_TEMPLATES),
        "unseen templates": len(UNSEEN_TEMPLATES),
        "unseen apps": len(UNSEEN_APP_TEMPLATES),
    }


def test_table_names_tell_tables_apart() -> None:
    assert len({one.name for one in TABLES}) == len({(one.file, one.table) for one in TABLES}) == len(TABLES)
