"""The live page's data: what a run's files say, in increments, while they grow, tear and begin anew."""

import json
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from eval.watch.run import Cursor, WatchedRun
from eval.watch.server import LiveServer
from eval.watch.thinning import Thinned
from guiagent.storage.trajectories import TrajectoryStore
from tests.support.watched import episode, line, picture, serving, write_run

CLIENT = httpx.Client(verify=False, trust_env=False)  # no TLS here, so no certificates to load


def watched(root: Path) -> WatchedRun:
    return WatchedRun(root, "runs/demo", "guiagent train --run runs/demo")


def cursor(told: dict[str, Any]) -> Cursor:
    """What a page asks with after it was first told all."""
    curves = told["curves"]
    segment, offset = told["episodes"][0]["at"].split(".")
    return Cursor(
        told["epoch"],
        told["lines"],
        curves["stride"],
        len(curves["steps"]),
        told["events_seen"],
        (int(segment), int(offset)),
        told["settings"]["changed"],
    )


# --- rows ---------------------------------------------------------------------------------------------------


def test_rows_are_merged_in_pairs_with_means_and_extremes() -> None:
    rows = Thinned(4)
    for step in range(1, 11):
        rows.add(
            step, {"success": step, "ratio_max": step, "ratio_min": step, **({"kl": 1} if step > 6 else {})}
        )
    told = rows.columns()
    assert (told["stride"], told["steps"]) == (4, [4, 8, 10])
    assert told["columns"]["success"] == [2.5, 6.5, 9.5]
    assert told["columns"]["ratio_max"] == [4, 8, 10] and told["columns"]["ratio_min"] == [1, 5, 9]
    assert told["columns"]["kl"] == [None, 1, 1]
    assert rows.columns(2)["steps"] == [10] and rows.columns(2)["from"] == 2


def test_memory_is_bounded_and_the_mean_exact_whatever_the_length() -> None:
    rows = Thinned(100)
    for step in range(12_345):
        rows.add(step, {"x": step % 7})
        assert len(rows) <= 100
    told = rows.columns()
    *whole, last = told["columns"]["x"]
    counts = [told["stride"]] * len(whole) + [12_345 - told["stride"] * len(whole)]
    total = sum(mean * n for mean, n in zip([*whole, last], counts, strict=True))
    assert total == pytest.approx(sum(step % 7 for step in range(12_345)), rel=1e-4)


# --- a run while it is written ------------------------------------------------------------------------------


def test_a_page_gets_all_at_first_and_then_only_what_was_added(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run")
    run = watched(root)
    first = run.changes(Cursor())
    assert first["curves"]["steps"] == list(range(1, 41))
    assert [one["verdict"] for one in first["episodes"]] == ["success", "fault", "failure"]
    assert [row["task"] for row in first["tasks"]] == ["click-test"]
    assert {"kind": "checkpoint", "step": 20, "text": "checkpoint of step 20"} in first["events"]
    assert "steps = 100" in first["settings"]["config"]
    at = cursor(first)
    quiet = run.changes(at)
    assert (quiet["events"], quiet["episodes"]) == ([], [])
    assert not {"curves", "tasks", "latest", "settings"} & quiet.keys()
    assert len(json.dumps(quiet)) < 400

    with (root / "metrics.jsonl").open("a") as file:
        file.write(line(41, faults_by_code={"device/crashed": 2}, stale_groups=3) + '{"step": 42, "succ')
    with TrajectoryStore(root / "trajectories") as store:
        store.commit([episode(store, "e3", False)])
    told = run.changes(at)
    assert told["curves"]["steps"] == [40, 41]  # the last row may have been added to
    assert [(e["kind"], e["text"]) for e in told["events"]] == [
        ("fault", "2 device/crashed"),
        ("drop", "3 groups too old to learn from"),
    ]
    assert [one["verdict"] for one in told["episodes"]] == ["failure"]
    assert told["tasks"][0]["episodes"] == 328


def test_a_resumed_run_that_drops_its_last_updates_begins_the_page_anew(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run")
    run = watched(root)
    at = cursor(run.changes(Cursor()))
    (tmp_path / "new").write_text("".join(line(step) for step in range(1, 21)))
    (tmp_path / "new").replace(root / "metrics.jsonl")
    told = run.changes(at)
    assert told["epoch"] == at.epoch + 1
    assert told["curves"]["from"] == 0 and told["curves"]["steps"] == list(range(1, 21))
    assert len(told["episodes"]) == 3


def test_a_run_that_is_not_there_yet_appears_part_by_part(tmp_path: Path) -> None:
    root = tmp_path / "run"
    run = watched(root)
    assert run.changes(Cursor())["status"]["state"] == "waiting"
    root.mkdir()
    (root / "config.toml").write_text("steps = 3\n")
    assert run.changes(Cursor())["status"]["state"] == "starting"
    with TrajectoryStore(root / "trajectories") as store:
        os.utime(root / "config.toml", (1, 1))
        assert run.changes(Cursor())["status"]["state"] == "starting"  # it holds the lock
        (root / "metrics.jsonl").write_text(line(1, steps=3) + line(2, steps=3))
        os.utime(root / "metrics.jsonl", (1, 1))
        assert run.changes(Cursor())["status"]["state"] == "training"
        store.commit([episode(store, "e0")])
    (root / "metrics.jsonl").open("a").write(line(3, steps=3))
    (root / "finished.json").write_text("{}")
    told = run.changes(Cursor())
    assert (told["status"]["state"], told["latest"]["step"], len(told["episodes"])) == ("finished", 3, 1)


def test_a_run_that_nobody_writes_any_more_is_told_as_stopped(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run")
    for file in (root / "config.toml", root / "metrics.jsonl", *(root / "trajectories").iterdir()):
        os.utime(file, (1, 1))
    assert watched(root).changes(Cursor())["status"]["state"] == "stopped"


def test_damaged_lines_and_foreign_figures_are_left_out_and_counted(tmp_path: Path) -> None:
    root = tmp_path / "run"
    root.mkdir()
    odd = [
        b"\xff\xfe",
        b"[]",
        b'{"step": "4"}',
        b"null",
        b'{"step": 2, "tasks": [1], "warnings": 3, "faults_by_code": {"x": "y"}, "health": {"a": {"b": 1}}}',
        b'{"step": 3, "tasks": {"a": 1, "b": {"successes": 5, "episodes": 2}}, "success": 1e999}',
        b'{"step": 4, "stale_groups": "many", "loss": true}',
    ]
    (root / "metrics.jsonl").write_bytes(b"\n".join(odd) + b"\n")
    told = watched(root).changes(Cursor())
    assert told["curves"]["steps"] == [2, 4] and told["tasks"] == []
    assert told["status"]["problems"] == ["5 lines of metrics.jsonl are no updates and are left out"]


def test_links_out_of_the_run_are_told_and_not_followed(tmp_path: Path) -> None:
    elsewhere = write_run(tmp_path / "elsewhere")
    root = tmp_path / "run"
    root.mkdir()
    for name in ("config.toml", "metrics.jsonl", "trajectories", "checkpoints"):
        (root / name).symlink_to(elsewhere / name)
    told = watched(root).changes(Cursor())
    assert told["lines"] == 0 and told["episodes"] == [] and told["events"] == [] and "settings" not in told
    assert len(told["status"]["problems"]) == 2 and told["status"]["state"] == "waiting"


# --- the server ---------------------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Any:
    with serving(write_run(tmp_path / "run")) as live:
        yield live


def get(server: LiveServer, path: str, token: str | None = None, **headers: str) -> httpx.Response:
    given = {"Authorization": f"Bearer {token or server.token}", **headers}
    return CLIENT.get(server.origin + path, headers=given)


def test_what_is_of_the_run_needs_the_token(server: LiveServer) -> None:
    assert server.origin.startswith("http://127.0.0.1:")
    assert get(server, "/", token="none").status_code == 200 and server.token not in get(server, "/").text
    for path in ("/changes", "/episode/1.0", "/earlier/1.0", "/frame/" + "0" * 32, "/screen/x", "/else"):
        assert get(server, path, token="wrong").status_code == 401
    assert get(server, "/changes").json()["lines"] == 40
    assert get(server, "/changes", Host="evil.example:80").status_code == 403
    assert get(server, "/changes", Host="localhost:9").status_code == 200  # through a tunnel
    assert CLIENT.post(server.origin + "/changes").status_code == 501


@pytest.mark.parametrize(
    "path",
    [
        "/config.toml",
        "/frame/..%2f..%2fconfig.toml",
        "/frame/../config.toml",
        "/frame/" + "0" * 32,
        "/episode/1.0",
        "/episode/999999.0",
        "/episode/..%2f..",
        "/episode/1.99999999999999999999",
        "/earlier/x",
        "/screen/..%2fconfig.toml",
        "//etc/passwd",
        "/changes?lines=x",
        "/changes?settings=" + "9" * 500 + "x",
    ],
)
def test_nothing_but_the_parts_of_the_run_is_served(server: LiveServer, path: str) -> None:
    assert get(server, path).status_code == 404


def test_an_episode_is_told_step_by_step_with_its_frames(server: LiveServer) -> None:
    listed = get(server, "/changes").json()["episodes"]
    told = get(server, f"/episode/{listed[0]['at']}").json()
    assert [turn["did"] for turn in told["turns"]] == ["click 40, 60"] * 2
    assert told["turns"][0]["logprob"] == -1.0 and '<g class="mark click">' in told["turns"][0]["marks"]
    assert [score["name"] for score in told["scores"]] == ["score", "audit, never trained on"]
    frame = get(server, f"/frame/{told['turns'][0]['frame']}")
    assert (frame.headers["content-type"], frame.content) == ("image/png", picture("#d33"))
    assert frame.headers["x-content-type-options"] == "nosniff"
    earlier = get(server, f"/earlier/{listed[0]['at']}").json()
    assert [one["at"] for one in earlier] == [one["at"] for one in listed[1:]]


def test_without_a_pool_the_screens_are_the_newest_frames_of_the_run(server: LiveServer) -> None:
    told = get(server, "/changes?screens").json()["screens"]
    assert not told["live"]
    assert [(one["device"], one["task"]) for one in told["devices"]] == [("browser-1", "click-test")]
