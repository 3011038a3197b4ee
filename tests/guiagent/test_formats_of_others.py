"""Episodes that others wrote: theirs are taken over, and what is wrong with a file is said in one line."""

import base64
import json
import os
import re
import shlex
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from guiagent.cli import app
from guiagent.dialects import find_dialect
from guiagent.errors import InfrastructureError, UsageError
from guiagent.formats import entering, pictures, sft
from guiagent.formats.folder import appearing
from guiagent.formats.leaving import Counts, Wish, leaving
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Trajectory
from tests.support.watched import episode, picture

SIZE = (1080, 2400)
SCREENS = [picture(colour, SIZE) for colour in ("#111", "#222", "#333")]


def brought(form: str, path: Path, run: Path, *more: object) -> Result:
    words = ["import", path, "--as", form, "--run", run, *more]
    return CliRunner().invoke(app, [str(word) for word in words])


def stored(run: Path) -> list[Trajectory]:
    with TrajectoryStore(run / "trajectories", readonly=True) as store:
        return list(store)


def kinds(one: Trajectory) -> list[list[str]]:
    return [[action["type"] for action in step.policy.actions] for step in one.steps]


def laid(folder: Path, **files: bytes | str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


# -- AndroidControl ------------------------------------------------------------------------------------------

PERSON = {
    "episode_id": 17,
    "goal": "Open the Zoho app and write hello",
    "actions": [
        {"action_type": "click", "x": 540, "y": 1200},
        {"action_type": "input_text", "text": "hello"},
    ],
    "step_instructions": ["tap the field", "type hello"],
}


@pytest.mark.parametrize("as_list", [True, False])
def test_a_persons_episode_becomes_a_demonstration_in_a_policys_words(tmp_path: Path, as_list: bool) -> None:
    told = {**PERSON, "screenshots_b64": [base64.b64encode(one).decode() for one in SCREENS]}
    file = tmp_path / ("a.json" if as_list else "a.jsonl")
    file.write_text(json.dumps([told] if as_list else told))
    done = brought("androidcontrol", file, tmp_path / "run", "--into", "qwen3-mobile", "--demonstrations")
    assert done.exit_code == 0, done.output
    (one,) = stored(tmp_path / "run")
    assert (one.id, one.instruction, one.success) == ("17", PERSON["goal"], True)
    assert one.score is not None and one.score.source == "judge"
    assert kinds(one) == [["click"], ["type"], ["done"]]
    assert one.steps[1].policy.actions[0]["submit"] is False  # unlike AndroidWorld's
    assert "<tool_call>" in one.steps[0].policy.text
    click = one.steps[0].policy.actions[0]
    assert abs(click["x"] - 540) <= 1 and abs(click["y"] - 1200) <= 2
    assert [(step.width, step.height) for step in one.steps] == [SIZE] * 3


def test_without_a_score_an_episode_is_masked_unless_it_is_a_demonstration(tmp_path: Path) -> None:
    folder = laid(tmp_path / "in", a__png=SCREENS[0], b__png=SCREENS[1], c__png=SCREENS[2])
    (folder / "all.jsonl").write_text(json.dumps({**PERSON, "screenshots": ["a.png", "b.png", "c.png"]}))
    done = brought("androidcontrol", folder, tmp_path / "run")
    assert "1 of them have none" in done.output and "guiagent train" not in done.output
    assert "import with --into" in done.output
    (one,) = stored(tmp_path / "run")
    assert not one.valid


def test_a_policy_is_fine_tuned_on_them(tmp_path: Path) -> None:
    folder = laid(tmp_path / "in")
    told = [{"action_type": "click", "x": 80, "y": 60}, {"action_type": "status", "goal_status": "complete"}]
    shown = [base64.b64encode(picture("#d33")).decode(), base64.b64encode(picture("#36c")).decode()]
    one = {"goal": "Tap the box", "actions": told, "screenshots_b64": shown}
    (folder / "x.jsonl").write_text("\n".join(json.dumps({**one, "episode_id": i}) for i in range(4)))
    done = brought("androidcontrol", folder, tmp_path / "run", "--into", "ui-tars", "--demonstrations")
    learn = shlex.split(
        done.output.splitlines()[-1].partition("guiagent ")[2].replace("FOLDER", str(tmp_path / "sft"))
    )
    tuned = CliRunner().invoke(app, [*learn, "--set", "policy=tiny", "--set", "steps=1", "--set", "batch=2"])
    assert tuned.exit_code == 0, tuned.output
    assert list((tmp_path / "sft/checkpoints").glob("step-000001*"))


# -- OSWorld -------------------------------------------------------------------------------------------------


def osworld(folder: Path, first: bool = True, result: str = "1.0\n", action: Any = None) -> Path:
    place = laid(folder / "pyautogui/screenshot/a-model/chrome/0d8b7de3", step_1_20260101__png=SCREENS[1])
    laid(place, step_2_20260102__png=SCREENS[2], result__txt=result)
    if first:
        laid(place, step_0__png=SCREENS[0])
    program = "import pyautogui; import time; pyautogui.click(100, 200); time.sleep(0.5)"
    lines = [
        {"step_num": 1, "action": action or program, "screenshot_file": "step_1_20260101.png", "done": False},
        {"step_num": 2, "action": "DONE", "screenshot_file": "step_2_20260102.png", "done": True},
        {"Error": "Time limit exceeded"},
    ]
    (place / "traj.jsonl").write_text("\n".join(map(json.dumps, lines)))
    task = laid(folder / "tasks/chrome")
    (task / "0d8b7de3.json").write_text(
        json.dumps({"id": "0d8b7de3", "instruction": "Click it", "config": []})
    )
    return folder


def test_results_of_osworlds_runners(tmp_path: Path) -> None:
    folder = osworld(tmp_path / "results")
    refused = brought("osworld", folder, tmp_path / "run")
    assert refused.exception is not None and "name OSWorld's folder of tasks with --tasks" in str(
        refused.exception
    )
    done = brought("osworld", folder, tmp_path / "run", "--tasks", folder / "tasks")
    assert done.exit_code == 0, done.output
    (one,) = stored(tmp_path / "run")
    assert (one.id, one.instruction, one.success) == ("chrome/0d8b7de3", "Click it", True)
    assert kinds(one) == [["click", "wait"], ["done"]]
    assert one.steps[0].policy.actions[0]["x"] == 100
    with TrajectoryStore(tmp_path / "run/trajectories", readonly=True) as store:
        assert [store.frame(step.frame) for step in one.steps] == SCREENS[:2]
        assert store.frame(one.final_frame) == SCREENS[2]


def test_without_a_first_screenshot_an_episode_begins_with_its_second_step(tmp_path: Path) -> None:
    folder = osworld(tmp_path / "results", first=False)
    brought("osworld", folder, tmp_path / "run", "--tasks", folder / "tasks")
    assert kinds(stored(tmp_path / "run")[0]) == [["done"]]


@pytest.mark.parametrize(
    ("action", "dialect"),
    [
        ({"action_type": "CLICK", "parameters": {"x": 100, "y": 200}}, "computer-13"),
        (
            {"action_type": "tool_use", "command": "pyautogui.click(100, 200)", "raw_response": "..."},
            "pyautogui",
        ),
    ],
)
def test_actions_that_are_objects(tmp_path: Path, action: Any, dialect: str) -> None:
    folder = osworld(tmp_path / "results", action=action)
    brought("osworld", folder, tmp_path / "run", "--tasks", folder / "tasks", "--dialect", dialect)
    assert kinds(stored(tmp_path / "run")[0]) == [["click"], ["done"]]


# -- messages and ATIF ---------------------------------------------------------------------------------------

REPLY = "Thought: there\nAction: click(start_box='(540,1200)')"


@pytest.mark.parametrize(
    "asked",
    [
        [{"type": "text", "text": "Tap it"}, {"type": "image"}],
        "<image>Tap it",
        [{"type": "text", "text": "Tap it"}, {"type": "image_url", "image_url": "./a.png"}],
    ],
)
def test_messages_of_others(tmp_path: Path, asked: Any) -> None:
    folder = laid(tmp_path / "in", a__png=SCREENS[0])
    chat = [{"role": "user", "content": asked}, {"role": "assistant", "content": REPLY}]
    (folder / "x.jsonl").write_text(json.dumps({"messages": chat, "images": ["a.png"], "tools": None}))
    done = brought("sft", folder, tmp_path / "run", "--demonstrations")
    assert done.exit_code == 0, done.output
    (one,) = stored(tmp_path / "run")
    assert (one.instruction, one.success, kinds(one)) == ("Tap it", True, [["click"]])


def test_the_instruction_is_found_in_a_dialects_prompt(tmp_path: Path) -> None:
    folder = laid(tmp_path / "in", a__png=SCREENS[0])
    text = find_dialect("ui-tars").prompt("Tap it")
    asked = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": "a.png"}}]
    chat = [{"role": "user", "content": asked}, {"role": "assistant", "content": REPLY}]
    (folder / "x.jsonl").write_text(json.dumps({"messages": chat}))
    brought("sft", folder, tmp_path / "run")
    assert stored(tmp_path / "run")[0].instruction == "Tap it"


def atif(folder: Path, **more: Any) -> Path:
    laid(folder, a__png=picture("#111", (1000, 600)))
    image = {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}
    call = {"tool_call_id": "1", "function_name": "computer"}
    click = {**call, "arguments": {"action": "left_click", "coordinate": [100, 200]}}
    steps = [
        {"step_id": 1, "source": "system", "message": "You are an agent."},
        {"step_id": 2, "source": "user", "message": "Press the button"},
        {"step_id": 3, "source": "agent", "message": "old", "tool_calls": [click], "is_copied_context": True},
        {
            "step_id": 4,
            "source": "agent",
            "message": "I look first.",
            "tool_calls": [{**call, "arguments": {"action": "screenshot"}}],
            "observation": {"results": [{"source_call_id": "1", "content": [image]}]},
        },
        {
            "step_id": 5,
            "source": "agent",
            "message": "Now I press it.",
            "tool_calls": [click],
            "observation": {"results": [{"source_call_id": "1", "content": [image]}]},
        },
        {"step_id": 6, "source": "agent", "message": "It is pressed."},
    ]
    told = {
        "schema_version": "ATIF-v1.6",
        "session_id": "s",
        "agent": {"name": "x", "version": "1"},
        "steps": steps,
    }
    (folder / "t.json").write_text(json.dumps(told | more))
    return folder


def test_atif_of_another_agent_with_its_own_tool(tmp_path: Path) -> None:
    folder = atif(tmp_path / "in")
    done = brought("atif", folder, tmp_path / "run", "--dialect", "anthropic-20250124", "--demonstrations")
    assert done.exit_code == 0, done.output
    (one,) = stored(tmp_path / "run")
    assert (one.instruction, kinds(one)) == ("Press the button", [["click"], ["done"]])
    assert one.steps[0].policy.text == "Now I press it."
    wrong = brought("atif", folder, tmp_path / "other", "--dialect", "androidworld")
    assert "1 without a valid action" in wrong.output
    assert stored(tmp_path / "other")[0].steps[0].policy.error is not None


def test_lines_of_the_agent_data_protocol(tmp_path: Path) -> None:
    """Nobody asks there, screenshots are steps of their own, and calls are named as the dataset has them."""
    folder = laid(tmp_path / "in/0", a__png=SCREENS[0], b__png=SCREENS[1]).parent

    def told(id: str) -> dict[str, Any]:
        def seen(name: str) -> dict[str, Any]:
            parts = [{"type": "image", "source": {"path": f"0/{name}.png"}, "extra": {"annotations": []}}]
            return {"source": "agent", "message": "", "observation": {"results": [{"content": parts}]}}

        scroll = {"tool_call_id": "1", "function_name": "scroll", "arguments": {"direction": "down"}}
        steps = [
            {"source": "agent", "message": "View the meetings", "extra": {"adp_class": "message_action"}},
            seen("a"),
            {"source": "agent", "message": "Scroll down", "tool_calls": [scroll]},
            seen("b"),
        ]
        numbered = [{"step_id": number, **step} for number, step in enumerate(steps, 1)]
        return {
            "schema_version": "ATIF-v1.7",
            "trajectory_id": id,
            "agent": {"name": "adp"},
            "steps": numbered,
        }

    (folder / "list.json").write_text(json.dumps([told("1"), told("2")]))
    (folder / "lines.jsonl").write_text("\n".join(json.dumps(told(id)) for id in "34"))
    done = brought("atif", folder, tmp_path / "run", "--dialect", "androidworld", "--into", "qwen3-mobile")
    assert done.exit_code == 0, done.output
    found = {one.id: one for one in stored(tmp_path / "run")}
    assert sorted(found) == ["1", "2", "3", "4"]
    assert [kinds(one) for one in found.values()] == [[["swipe"]]] * 4
    assert {one.instruction for one in found.values()} == {"View the meetings"}


# -- what is refused -----------------------------------------------------------------------------------------


def huge(side: int) -> bytes:
    """A PNG of a few bytes that claims so many pixels a side."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def message(url: str, **more: Any) -> str:
    asked = [{"type": "text", "text": "Tap it"}, {"type": "image_url", "image_url": {"url": url}}]
    chat = [{"role": "user", "content": asked}, {"role": "assistant", "content": REPLY}]
    return json.dumps({"messages": chat} | more)


BAD_PICTURES = {
    "../secret.png": "no picture",
    "/etc/hostname": "no picture",
    "a/../../secret.png": "no picture",
    "https://example.org/a.png": "no picture",
    "file:///etc/hostname": "no picture",
    "link.png": "no picture",
    "pipe.png": "no picture",
    "a\0.png": "no picture",
    "none\n\x1b[31m.png": "no picture",
    "huge.png": "too many pixels",
    "long.png": "too large: 6500 x 6500",
    "cut.png": "no whole PNG or JPEG",
    "text.png": "no whole PNG or JPEG",
    "fax.tiff": "no whole PNG or JPEG",
    "data:image/png,abc": "no data URL in base64",
    "data:image/png;base64,@@@": "no base64",
}


@pytest.mark.parametrize("url", BAD_PICTURES)
def test_a_bad_picture_is_refused_in_one_line_and_nothing_is_kept(tmp_path: Path, url: str) -> None:
    laid(tmp_path, secret__png=SCREENS[0])
    folder = laid(tmp_path / "in", good__png=SCREENS[0], huge__png=huge(100_000), long__png=huge(6_500))
    laid(folder, cut__png=SCREENS[0][:-40], text__png="hello")
    Image.new("RGB", (8, 8)).save(folder / "fax.tiff")
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    os.mkfifo(folder / "pipe.png")
    (folder / "x.jsonl").write_text(message("good.png") + "\n" + message(url))
    refused(brought("sft", folder, tmp_path / "run"), f"x.jsonl:2: .*{BAD_PICTURES[url]}")
    assert list((tmp_path / "run").iterdir()) == []


def refused(result: Result, pattern: str) -> None:
    assert isinstance(result.exception, UsageError), result.output + repr(result.exception)
    said = str(result.exception)
    assert re.search(pattern, said), said
    assert said.isprintable() and len(said) < 500


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("{", "x.jsonl:1: "),
        ("[" * 100_000, "x.jsonl:1: "),
        ("\udc80", "x.jsonl:1: "),
        ('{"messages": [{"role": "wizard\\n", "content": ""}]}', "Invalid enum value"),
        (message("a.png", score={"value": float("nan")}), "x.jsonl:1: "),
        (message("a.png", score={"value": 1e999}), "x.jsonl:1: "),
        (message("a.png", score={"value": 7}), "x.jsonl:1: .*not between 0 and 1"),
        (message("a.png", score={"value": 1, "source": "me"}), "check or judge"),
        (message("a.png", seed=2**40), "Expected `int` <= 2147483647"),
        (message("a.png", id="a" * 5000), "length"),
        (message("a.png", id="a") + "\n" + message("a.png", id="a"), "'a' is there twice"),
        (json.dumps({"messages": [{"role": "assistant", "content": "hello"}]}), "instruction"),
        (message("a.png").replace("(540,1200)", "(here)"), "name the files' own with --dialect"),
        ("", "no episode"),
    ],
)
def test_a_bad_line_is_refused(tmp_path: Path, line: str, pattern: str) -> None:
    folder = laid(tmp_path / "in", a__png=SCREENS[0])
    (folder / "x.jsonl").write_text(line, errors="surrogateescape")
    refused(brought("sft", folder, tmp_path / "run"), pattern)


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = laid(tmp_path / "in", a__png=SCREENS[0])
    (folder / "x.jsonl").write_text(message("a.png", final="a.png"))
    for module, name, most, pattern in (
        (entering, "_MOST_LINE", 100, "a line of more than"),
        (entering, "MOST_TURNS", 0, "more than 0 turns"),
        (pictures, "MOST_BYTES", 100, "more than 0 MiB"),
        (pictures, "MOST_OF_AN_EPISODE", len(SCREENS[0]) + 1, "an episode has pictures of more than"),
    ):
        with monkeypatch.context() as bounds:
            bounds.setattr(module, name, most)
            refused(brought("sft", folder, tmp_path / "run"), pattern)
    assert brought("sft", folder, tmp_path / "run").exit_code == 0


@pytest.mark.parametrize(
    ("form", "more", "pattern"),
    [
        ("osworld", {"result": "nan"}, "result.txt is no number"),
        ("osworld", {"result": "2"}, "not between 0 and 1"),
        ("osworld", {"result": "x" * 100}, "result.txt is no number"),
        ("atif", {"schema_version": "1"}, "none of ATIF 1"),
        ("atif", {"steps": [{"source": "agent", "tool_calls": 1}]}, "Expected `array"),
    ],
)
def test_a_bad_document_is_refused(tmp_path: Path, form: str, more: dict[str, Any], pattern: str) -> None:
    folder = osworld(tmp_path / "in", **more) if form == "osworld" else atif(tmp_path / "in", **more)
    tasks = ["--tasks", folder / "tasks"] if form == "osworld" else []
    refused(brought(form, folder, tmp_path / "run", *tasks), pattern)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    folder = laid(tmp_path / "in\nside/x")
    os.mkfifo(folder / "traj.jsonl")
    refused(brought("osworld", tmp_path, tmp_path / "run", "--tasks", tmp_path), "instruction|is no file")


def test_screenshots_and_actions_have_to_match(tmp_path: Path) -> None:
    folder = laid(tmp_path / "in", a__png=SCREENS[0])
    (folder / "all.jsonl").write_text(json.dumps({**PERSON, "screenshots": ["a.png"]}))
    refused(brought("androidcontrol", folder, tmp_path / "run"), "1 screenshots for 2 actions")


def test_what_is_there_is_never_overwritten(tmp_path: Path) -> None:
    with TrajectoryStore(tmp_path / "run/trajectories") as store:
        store.commit([episode(store, "a")])
    folder = laid(tmp_path / "in", a__png=SCREENS[0])
    (folder / "x.jsonl").write_text(message("a.png"))
    refused(brought("sft", folder, tmp_path / "run"), "is there already")
    exported = ["export", str(tmp_path / "run"), "--as", "sft", "--to", str(folder)]
    refused(CliRunner().invoke(app, exported), "is there already")
    assert len(stored(tmp_path / "run")) == 1 and (folder / "x.jsonl").exists()


def test_an_export_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with TrajectoryStore(tmp_path / "run/trajectories") as store:
        store.commit([episode(store, "a"), episode(store, "b")])
        store.put_frame(picture("#777"))
        store.commit([episode(store, "c", final_frame=store.put_frame(picture("#777")))])
    segment = next((tmp_path / "run/trajectories").glob("segment-*"))
    data, damaged = segment.read_bytes(), picture("#777")
    at = data.index(damaged)
    with TrajectoryStore(tmp_path / "run/trajectories", readonly=True) as opened:
        segment.write_bytes(data[: at + 60] + b"!!!!" + data[at + 64 :])  # after it was opened and checked
        with pytest.raises(InfrastructureError, match="have changed"), appearing(tmp_path / "out") as folder:
            sft.write(
                leaving({"": opened}, Wish(find_dialect("json")), Counts()),
                folder,
                Wish(find_dialect("json")),
            )
    assert {path.name for path in tmp_path.iterdir()} == {"run"}
