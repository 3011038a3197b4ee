"""OSWorld's task files: the public ones load, quirks are read as OSWorld does, scores are put together."""

import hashlib
import http.server
import inspect
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from guiagent.cli import app
from guiagent.errors import FaultError, InfrastructureError, UsageError
from guiagent.types import Claim, Ending, Observation
from rewards.checks import assets as assets_module
from rewards.checks import evaluator, grading, metrics
from rewards.checks.assets import Assets
from rewards.checks.getters.profile import select
from rewards.tasksets.osworld import Osworld, OsworldTask, setup, steps
from rewards.tasksets.osworld.schema import TaskFile, read
from rewards.tasksets.osworld.support import lacking
from tests.support.osworld_assets import TASKS
from tests.support.osworld_guest import Desktop, guest_server, workspace

PUBLIC = Path(__file__).parents[3] / "shared" / "data" / "osworld"
needs_public = pytest.mark.skipif(not PUBLIC.is_dir(), reason="OSWorld's public task files are not here")


def document(**changes: Any) -> dict[str, Any]:
    evaluator = {
        "func": "exact_match",
        "result": {"type": "vm_command_line", "command": "pwd"},
        "expected": {"type": "rule", "rules": {"expected": "/"}},
    }
    return {"id": "one", "instruction": "Do it.", "related_apps": ["os"], "evaluator": evaluator, **changes}


def parsed(**changes: Any) -> TaskFile:
    return read(json.dumps(document(**changes)).encode(), "one.json")


def judged(**evaluator: Any) -> TaskFile:
    return parsed(evaluator=document()["evaluator"] | evaluator)


def checked(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "guiagent.cli", "tasks", "check", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


# -- the public files ----------------------------------------------------------------------------------------


@needs_public
def test_every_public_task_file_loads() -> None:
    taskset = Osworld(PUBLIC)
    assert len(taskset.names) == 268 == len(set(taskset.names))
    assert sum(file.infeasible for file in taskset) == 23
    assert not [file.unknown for file in taskset if file.unknown]
    assert sum(step.kind == "sleep" for file in taskset for step in file.postconfig) == 215
    assert {app for file in taskset for app in file.apps} >= {"libreoffice_calc", "vs_code", "chrome"}
    assert not {app for file in taskset for app in file.apps} & {
        "calc",
        "vscode",
        "Writer",
        "libreoffice calc",
    }


@needs_public
def test_tasks_check_accounts_for_every_public_file() -> None:
    done = checked(str(PUBLIC), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    ids = {path.stem for path in PUBLIC.rglob("*.json")}
    assert {row["id"] for row in told["tasks"]} == ids
    missing = Counter(part for row in told["tasks"] for part in row["missing"])
    assert told["summary"] == {
        "loaded": 268,
        "bad": 0,
        "supported": sum(not row["missing"] for row in told["tasks"]),
        "flawed": sum(bool(row["flaws"]) for row in told["tasks"]),
        "missing": dict(missing),
    }
    accounts = [row for row in told["tasks"] if "googledrive" in row["steps"]]
    assert len(accounts) == 6 and all("Google account" in row["missing"][0] for row in accounts)
    supported = next(row for row in told["tasks"] if row["metrics"] == ["infeasible"])
    assert supported["missing"] == []


@needs_public
def test_metrics_take_the_options_of_the_public_files() -> None:
    for file in Osworld(PUBLIC):
        for check in file.checks:
            if check.func in metrics.METRICS:
                states = [None] if check.expected is None else [None, None]
                inspect.signature(metrics.load(check.func)).bind(*states, **check.options)


# -- reading -------------------------------------------------------------------------------------------------


def test_a_single_metric_and_lists_of_them_read_alike() -> None:
    one = judged()
    assert (one.conjunction, len(one.checks), one.checks[0].options) == ("and", 1, {})
    command = {"type": "vm_command_line", "command": "pwd"}
    rule = {"type": "rule", "rules": {}}
    two = judged(
        func=["a", "b"], conj="or", result=[command, command], expected=[rule, None], options=[{}, {"x": 1}]
    )
    assert [check.options for check in two.checks] == [{}, {"x": 1}]
    assert two.conjunction == "or" and two.checks[1].expected is None
    assert judged(func=["a"], result=[command], expected=[{}], options=[None]).checks[0].expected is None
    assert judged(expected={}).checks[0].expected is None
    assert judged(func="infeasible", result={}, expected={}).infeasible


def test_spellings_booleans_and_placeholders_of_the_public_files() -> None:
    task = parsed(
        related_apps=["libreoffice calc", "libreoffice_calc", "calc", "vscode", "vs_code", "Writer"],
        config=[
            {"type": "command", "parameters": {"command": "ls", "shell": "true", "stdout": "ls.out"}},
            {"type": "sleep", "parameters": {"seconds": "0.5"}},
            {"type": "execute", "parameters": {"command": ["ls"], "until": {"returncode": 0}}},
        ],
    )
    assert task.apps == ("libreoffice_calc", "vs_code", "libreoffice_writer")
    listing, pause, again = task.config
    assert isinstance(listing, steps.Execute) and listing.shell is True and listing.stdout == "ls.out"
    assert isinstance(pause, steps.Sleep) and pause.seconds == 0.5
    assert isinstance(again, steps.Execute) and again.until == steps.Until(returncode=0)
    assert [step.kind for step in task.config] == ["command", "sleep", "execute"]


def test_every_step_type_of_osworld_is_known() -> None:
    kinds = """
    activate_window act change_wallpaper chrome_close_tabs chrome_open_tabs close_window command download
    execute execute_with_verification googledrive launch login open proxy replay sleep tidy_desktop
    update_browse_history upload_file
    """
    union: Any = steps.AnyStep
    known = {str(step.__struct_config__.tag) for step in union.__args__}
    assert known == set(kinds.split()) and len(known) == 20
    done = {str(step.__struct_config__.tag) for step in setup.STEPS} | {"activate_window", "close_window"}
    assert done | set(setup.UNSUPPORTED) == known and not done & set(setup.UNSUPPORTED)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"id": 7}, "id: Expected `str`"),
        ({"id": ""}, "id: it is empty"),
        ({"instruction": None}, "instruction: Expected `str`"),
        ({"evaluator": {"func": 7}}, "evaluator.func: Expected"),
        ({"evaluator": {"func": []}}, "evaluator.func: it is empty"),
        ({"evaluator": {"func": "exact_match"}}, "evaluator.result: the metric 'exact_match' has none"),
        ({"config": [{"type": 7, "parameters": {}}]}, "config[0].type: Expected `str`"),
        ({"config": [{"type": "open", "parameters": {"path": 7}}]}, "config[0].path: Expected `str`"),
        ({"config": [{"type": "open", "parameters": {"path": "a", "x": 1}}]}, "unknown field `x`"),
        ({"config": [{"type": "open", "parameters": []}]}, "config[0].parameters: it is no object"),
        ({"config": [{"parameters": {}}]}, "config[0].type: "),
        ({"config": {}}, "config: Expected `array`"),
    ],
)
def test_a_bad_file_is_one_line_that_names_the_file_and_the_key(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError) as bad:
        parsed(**changes)
    assert str(bad.value).startswith("one.json: ") and line in str(bad.value) and "\n" not in str(bad.value)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"conj": "xor"}, "evaluator.conj: Invalid enum value 'xor'"),
        ({"result": []}, "evaluator.result: the metric"),
        (
            {"result": [{"type": "rule", "rules": 1}]},
            "evaluator.result: it is a list only where `func` is one",
        ),
        ({"func": ["a", "b"]}, "evaluator.result: it is a list only where"),
        ({"func": ["a", "b"], "result": [{"type": "rule", "rules": 1}]}, "1 entries for 2 metrics"),
        ({"expected": {"path": "x"}}, "evaluator.expected[0].type: it is missing"),
        (
            {"expected": {"type": "vm_file", "path": "x"}},
            "evaluator.expected[0]: Object missing required field",
        ),
    ],
)
def test_a_bad_evaluator_is_one_line(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError, match=re.escape(line)):
        judged(**changes)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b'{"id": "\xff"}', b'{"id": ' + b"[" * 100_000])
def test_what_is_no_json_is_a_bad_file(text: bytes) -> None:
    with pytest.raises(UsageError, match=r"^one\.json: "):
        read(text, "one.json")


def test_what_is_unknown_is_said_and_makes_a_task_unsupported() -> None:
    task = parsed(
        config=[{"type": "tidy_desktop", "parameters": {"icons": 3}}],
        evaluator={
            "func": ["dance", "exact_match"],
            "result": [{"type": "crystal_ball", "n": 1}, {"type": "googledrive_file", "dest": "x"}],
        },
        colour="red",
    )
    assert task.unknown == ("colour",)
    assert lacking(task) == [
        "step tidy_desktop (OSWorld itself has no such step)",
        "getter crystal_ball (unknown)",
        "getter googledrive_file (it needs a Google account)",
        "metric dance",
    ]


@pytest.mark.parametrize(
    "path",
    [r"C:\Users\Docker\Documents", "d:/Program Files/App", "taskkill /IM msedge.exe /F", "powershell -c ls"],
)
def test_a_file_of_windows_says_that_no_guest_of_ours_is_one(path: str) -> None:
    task = parsed(config=[{"type": "create_folder", "parameters": {"path": path}}, {"type": "create_folder"}])
    assert lacking(task) == ["a guest with Windows", "step create_folder (unknown)"]
    assert lacking(judged(result={"type": "vm_command_line", "command": ["type", path]})) == [
        "a guest with Windows"
    ]


@pytest.mark.parametrize(
    "text",
    ["see http://users.example/windows", "abc:/users", "if x:\\n  y", "it's 5:/windows", "test.exercise"],
)
def test_other_texts_are_no_paths_of_windows(text: str) -> None:
    assert lacking(judged(result={"type": "vm_command_line", "command": text})) == []


# -- `tasks check` and the taskset ---------------------------------------------------------------------------


def test_tasks_check_shows_every_row_and_then_what_is_bad(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "data.json").write_text("[1]")
    (tmp_path / "deep" / "a.json").write_text(json.dumps(document(colour="red")))
    (tmp_path / "b.json").write_text(json.dumps(document(id="two", config=[{"type": "open"}])))
    (tmp_path / "c.json").write_text(json.dumps(document(id="one")))
    (tmp_path / "d.json").write_text(
        json.dumps(document(id="four", evaluator=document()["evaluator"] | {"func": "dance"}))
    )
    done = checked(str(tmp_path))
    rows = done.stdout.splitlines()
    assert done.returncode == 2
    assert rows[-1] == "2 loaded, 2 cannot be loaded, 1 supported, 2 with flaws; missing: metric dance 1"
    assert [row.split()[0] for row in rows[:2]] == ["one", "four"]
    bad = done.stderr.splitlines()
    assert bad[0].startswith(f"guiagent: {tmp_path}/b.json: config[0]: Object missing required field `path`")
    assert bad[1] == f"guiagent: {tmp_path}/deep/a.json: id: one is also that of {tmp_path}/c.json"
    one = CliRunner().invoke(app, ["tasks", "check", str(tmp_path / "deep" / "a.json")])
    assert one.exit_code == 0 and "supported; ignored keys: colour" in one.stdout


def test_the_taskset_of_a_folder() -> None:
    taskset = Osworld(TASKS)
    assert sorted(taskset.names) == ["calc-total", "chrome-page", "os-folder", "os-infeasible"]
    assert taskset.digest == Osworld(TASKS).digest != Osworld(TASKS / "infeasible.json").digest
    task = taskset.task("os-folder", 7)
    assert (task.id, task.seed, task.probes) == ("os-folder", 7, {})
    with pytest.raises(UsageError, match="has no task 'x'"):
        taskset.task("x", 0)
    with pytest.raises(UsageError, match="holds no task files"):
        Osworld(TASKS / "none")


# -- one number ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conjunction", "values", "number", "looked_at"),
    [
        ("and", [0.5], 0.5, 1),
        ("or", [0.5], 0.5, 1),
        ("and", [1, 0.5, 0.75], 0.75, 3),
        ("and", [1, 0, 1], 0.0, 2),
        ("or", [0, 0.5, 0.25], 0.5, 3),
        ("or", [0, 1, 0.5], 1.0, 2),
        ("and", [True, False], 0.0, 2),
        ("or", [0, 0], 0.0, 2),
    ],
)
async def test_metrics_are_put_together_as_osworld_does(
    conjunction: evaluator.Conjunction, values: list[float], number: float, looked_at: int
) -> None:
    async def give(value: float) -> float:
        return value

    branches = [lambda value=value: give(value) for value in values]
    assert await evaluator.combine(conjunction, branches) == (number, [float(v) for v in values[:looked_at]])


@pytest.mark.parametrize("value", [float("nan"), -0.1, 1.5, float("inf")])
async def test_a_metric_outside_of_0_to_1_is_a_bug(value: float) -> None:
    async def give() -> float:
        return value

    with pytest.raises(ValueError):
        await evaluator.combine("and", [give])


@pytest.mark.parametrize(
    ("function", "claim", "value"),
    [
        ("infeasible", "infeasible", 1.0),
        ("infeasible", "failure", 0.0),
        ("infeasible", "success", 0.0),
        ("infeasible", None, 0.0),
        ("exact_match", "infeasible", 0.0),
        ("exact_match", "failure", 0.0),
        ("exact_match", "success", None),
        ("exact_match", None, None),
    ],
)
def test_what_a_claim_decides(function: str, claim: Claim | None, value: float | None) -> None:
    assert evaluator.claimed([function], claim) == value


# -- a task without a screen ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def desktop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desktop]:
    with guest_server(tmp_path_factory.mktemp("home")) as started:
        yield started


def ready(desktop: Desktop, folder: Path, file: TaskFile) -> OsworldTask:
    """The task as `setup` leaves it, on a guest that has no screen to reset."""
    work = workspace(desktop, folder)
    task = OsworldTask(file, 0, 5, work.assets, folder, "password")
    task._workspace = work
    return task


async def score(task: OsworldTask, claim: Claim | None = None) -> Any:
    return await task.check(Any, Observation(1, 1), Ending(claim=claim))  # type: ignore[arg-type]


def metric(monkeypatch: pytest.MonkeyPatch, function: Any) -> None:
    async def computed(name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> float:
        return float(function(*arguments, **options))

    monkeypatch.setattr(grading, "grade", computed)


FILE = {"type": "vm_file", "path": "/nowhere/at/all", "dest": "mine"}
GOLD = {"type": "cloud_file", "path": "https://assets.example/gold.txt", "dest": "gold"}


async def test_what_the_agent_did_not_make_is_0_and_no_metric_is_asked(
    desktop: Desktop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric(monkeypatch, lambda *files: 1.0)
    assert (await score(ready(desktop, tmp_path, judged(result=FILE)))).value == 0.0
    command = {"type": "vm_command_line", "command": "pwd"}
    either = judged(func=["a", "b"], conj="or", result=[FILE, command], expected=None)
    assert (await score(ready(desktop, tmp_path, either))).value == 1.0


async def test_missing_gold_is_a_fault_and_not_0(
    desktop: Desktop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric(monkeypatch, lambda *files: 1.0)
    with pytest.raises(FaultError) as failed:
        await score(ready(desktop, tmp_path, judged(expected=GOLD)))
    assert (failed.value.fault.origin, failed.value.fault.code) == ("task", "missing_asset")


async def test_gold_that_cannot_be_read_is_a_fault_but_an_agents_file_in_its_place_is_0(
    desktop: Desktop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(result: object, expected: object) -> float:
        raise InfrastructureError("the expected file is no workbook")

    metric(monkeypatch, unreadable)
    with pytest.raises(FaultError, match="bad_gold"):
        await score(ready(desktop, tmp_path, judged()))
    mine = {"type": "vm_command_line", "command": "pwd"}
    swapped = judged(result={"type": "rule", "rules": {"expected": "/"}}, expected=mine)
    assert (await score(ready(desktop, tmp_path, swapped))).value == 0.0


async def test_a_failed_postconfig_is_noted_and_the_metrics_decide(
    desktop: Desktop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric(monkeypatch, lambda result, expected: float(result.strip() != expected["expected"]))
    monkeypatch.setattr(setup, "MAX_SLEEP_S", 0.0)
    after = [
        {"type": "launch", "parameters": {"command": ["no-such-program"]}},
        {"type": "sleep", "parameters": {"seconds": 600}},
        {"type": "execute", "parameters": {"command": ["echo", "{SCREEN_HEIGHT}"], "stdout": "echo.out"}},
    ]
    task = ready(desktop, tmp_path, judged(postconfig=after))
    given = await score(task, "success")
    assert given.value == 1.0
    launched, slept = given.evidence["notes"]
    assert launched.startswith("postconfig step 1 (launch): the guest answered 500") and "600 s" in slept
    assert task._workspace is not None and task._workspace.result("echo.out").read_text() == "800\n"


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"type": "launch", "parameters": {"command": ["no-such-program"]}}, r"step 1 \(launch\)"),
        ({"type": "execute", "parameters": {"command": ["no-such-program"]}}, "cannot be run"),
        ({"type": "open", "parameters": {"path": "/no/such/file"}}, r"\(open\)"),
        (
            {"type": "upload_file", "parameters": {"files": [{"local_path": "../x", "path": "/tmp/x"}]}},
            "no file",
        ),
        (
            {"type": "upload_file", "parameters": {"files": [{"local_path": "/etc/hosts", "path": "/x"}]}},
            "no file",
        ),
        ({"type": "chrome_open_tabs", "parameters": {"urls_to_open": ["about:blank"]}}, "no browser answers"),
        ({"type": "login", "parameters": {"settings_file": "x", "platform": "y"}}, "Google account"),
    ],
)
async def test_a_step_that_fails_before_the_episode_is_a_fault(
    desktop: Desktop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: dict[str, Any], words: str
) -> None:
    monkeypatch.setattr("rewards.checks.devtools._OPEN_S", 0)
    work = workspace(desktop, tmp_path)
    (tmp_path / "x").touch()
    with pytest.raises(FaultError, match=words) as failed:
        await setup.prepare(work, parsed(config=[step]).config)
    assert failed.value.fault.origin == "task"


async def test_files_reach_the_guest_and_gold_does_not(desktop: Desktop, tmp_path: Path) -> None:
    place = tmp_path / "mirror" / "assets.example"
    place.mkdir(parents=True)
    (place / "seed.txt").write_text("seed")
    (place / "gold.txt").write_text("a secret that only the check knows")
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "own.txt").write_text("own")
    home = desktop.path.parent
    config = [
        {
            "type": "download",
            "parameters": {"files": [{"url": "https://assets.example/seed.txt", "path": f"{home}/a/s"}]},
        },
        {"type": "upload_file", "parameters": {"files": [{"local_path": "own.txt", "path": f"{home}/a/o"}]}},
        {
            "type": "execute",
            "parameters": {"command": f"cat {home}/a/s {home}/a/o", "shell": True, "stdout": "both"},
        },
    ]
    task = ready(desktop, tmp_path, judged(func="compare_text_file", result=FILE, expected=GOLD))
    work = task._workspace
    assert work is not None
    await setup.prepare(work, parsed(config=config).config)
    assert work.result("both").read_text() == "seedown"
    assert (await score(task)).value == 0.0
    found = await work.guest.execute(["grep", "-rl", "secret that only", str(home)])
    assert found is not None and found.output == ""


async def test_a_command_is_run_until_it_comes_to_what_it_should(
    desktop: Desktop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "_POLL_S", 0.0)
    count = f"echo x >> {tmp_path}/count; wc -l < {tmp_path}/count"
    again = steps.Execute(command=count, shell=True, until=steps.Until(stdout="3"))
    await setup.prepare(workspace(desktop, tmp_path), [again])
    assert (tmp_path / "count").read_text() == "x\n" * 3
    monkeypatch.setattr(setup, "_UNTIL_S", 0.0)
    never = steps.Execute(command="true", until=steps.Until(returncode=9))
    with pytest.raises(FaultError, match="did not come to"):
        await setup.prepare(workspace(desktop, tmp_path), [never])


def test_a_history_of_visits_is_chromes(tmp_path: Path) -> None:
    urls = "id INTEGER PRIMARY KEY, url, title, visit_count, typed_count, last_visit_time, hidden"
    visits = "url, visit_time, from_visit, transition, segment_id, visit_duration"
    connection = sqlite3.connect(tmp_path / "empty")
    connection.executescript(f"CREATE TABLE urls ({urls}); CREATE TABLE visits ({visits});")
    connection.close()
    visit = steps.Visit("https://a.example/", "A", 60.0)
    data = setup._visited((tmp_path / "empty").read_bytes(), [visit], datetime(2026, 11, 21, tzinfo=UTC))
    (tmp_path / "filled").write_bytes(data)
    query = "SELECT urls.url, title, visit_time FROM urls JOIN visits ON visits.url = urls.id"
    assert select(tmp_path / "filled", query) == [("https://a.example/", "A", 13439692740000000)]
    with pytest.raises(setup.StepFailed, match="a history of another form"):
        setup._visited(b"no database", [visit], datetime.now(UTC))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://www.a.example/", "https://a.example", True),
        ("http://a.example/x/", "a.example/x", True),
        ("https://a.example/?q=1", "https://a.example/", False),
        ("https://b.example", "https://a.example", False),
        ("https://a.example", "a.example", False),  # as in OSWorld, which takes the second for http
        ("https://[", "https://a.example", False),
    ],
)
def test_when_two_addresses_are_one_page(one: str, other: str, same: bool) -> None:
    assert setup.same_page(one, other) is same


# -- assets --------------------------------------------------------------------------------------------------


@pytest.fixture
def site() -> Iterator[tuple[str, list[str]]]:
    """A web server's address, and what it was asked."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            status = int(self.path[1:4]) if self.path[1:4].isdigit() else 200
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/moved.xlsx")
            self.end_headers()
            self.wfile.write(b"gold")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    server.server_close()


async def test_an_asset_is_downloaded_once_and_recorded(tmp_path: Path, site: tuple[str, list[str]]) -> None:
    url, asked = site
    assets = Assets(tmp_path / "cache")
    path = await assets.get(f"{url}/302/a%20b.xlsx?download=true")
    assert path.read_bytes() == b"gold" and path.suffix == ".xlsx"
    assert await Assets(tmp_path / "cache", download=False).get(f"{url}/302/a%20b.xlsx?download=true") == path
    assert asked == ["/302/a%20b.xlsx?download=true", "/moved.xlsx"]
    record = json.loads((tmp_path / "cache" / f"{path.name}.json").read_text())
    assert record["sha256"] == hashlib.sha256(b"gold").hexdigest() and record["bytes"] == 4
    assert sorted(file.suffix for file in (tmp_path / "cache").iterdir()) == [".json", ".xlsx"]
    record_file = tmp_path / "cache" / f"{path.name}.json"
    record_file.write_bytes(b'{"url": "\xff"}')
    with pytest.raises(InfrastructureError, match=f"remove {record_file}"):
        await assets.get(f"{url}/302/a%20b.xlsx?download=true")
    record_file.write_text(json.dumps(record))
    path.write_bytes(b"fake")
    with pytest.raises(InfrastructureError, match="is not what"):
        await assets.get(f"{url}/302/a%20b.xlsx?download=true")


@pytest.mark.parametrize(("path", "again"), [("/404/a", False), ("/503/a", True)])
async def test_an_asset_that_is_not_there_is_a_task_fault(
    tmp_path: Path, site: tuple[str, list[str]], path: str, again: bool
) -> None:
    with pytest.raises(FaultError) as failed:
        await Assets(tmp_path).get(site[0] + path)
    fault = failed.value.fault
    assert (fault.origin, fault.code, fault.retryable) == ("task", "missing_asset", again)


async def test_an_asset_is_bounded_and_nothing_is_left_of_it(
    tmp_path: Path, site: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assets_module, "MAX_ASSET", 3)
    with pytest.raises(FaultError, match="more than"):
        await Assets(tmp_path).get(f"{site[0]}/a")
    assert os.listdir(tmp_path) == []


async def test_a_site_that_does_not_answer_may_answer_later(tmp_path: Path) -> None:
    with pytest.raises(FaultError) as failed:
        await Assets(tmp_path).get("http://127.0.0.1:9/a")
    assert failed.value.fault.retryable
