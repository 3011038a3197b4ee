"""The readers of episodes that others wrote, as targets of the drill of parsers: a file and its pictures."""

import base64
import io
import json
from pathlib import Path
from typing import Any

from PIL import Image

from guiagent.dialects import find_dialect
from guiagent.errors import UsageError
from guiagent.formats import IMPORTS, lerobot
from guiagent.formats.entering import Reading
from guiagent.formats.leaving import Leaving, Wish
from guiagent.types import PolicyOutput, Score, Step, Trajectory
from tests.drills.parser_targets import Target

_FILES = {"sft": "a.jsonl", "osworld": "traj.jsonl", "atif": "a.json", "androidcontrol": "a.jsonl"}

_OF_A_SET = (
    "meta/info.json",
    "meta/tasks.parquet",
    "meta/episodes/chunk-000/file-000.parquet",
    "data/chunk-000/file-000.parquet",
)


def episode_files(folder: Path) -> list[Target]:
    """One for each format that is read, and for each kind of file that it has; `folder` gets the files."""
    found = [_target(folder / form, form, name) for form, name in _FILES.items()]
    return found + [_data_set(folder / f"lerobot-{number}", name) for number, name in enumerate(_OF_A_SET)]


def _target(folder: Path, form: str, name: str) -> Target:
    folder.mkdir()
    for file in ("a.png", "step_0.png", "step_1.png"):
        (folder / file).write_bytes(_picture())
    good = _good(form, base64.b64encode(_picture()).decode())
    data = json.dumps(good).encode()
    if form == "osworld":
        (folder / "episode.json").write_text('{"instruction": "Tap it"}')
    return _reader(f"episodes of {form}", form, folder, name, data)


def _data_set(folder: Path, name: str) -> Target:
    """LeRobot's: a file of a whole one, in which the others are as they were."""
    said = PolicyOutput("I tap.", [{"type": "click", "x": 5, "y": 5}])
    steps = [Step("red", 40, 30, said)]
    told = Trajectory("a", "tap", 7, "Tap it", steps, "task_done", Score(1.0), final_frame="red")
    folder.mkdir()
    lerobot.write([Leaving("a", told, ["I tap."], lambda _: _picture())], folder, Wish())
    data = (folder / name).read_bytes()
    return _reader(f"episodes of lerobot: {name}", "lerobot", folder, name, data)


def _reader(title: str, form: str, folder: Path, name: str, data: bytes) -> Target:
    reading = Reading(find_dialect(IMPORTS[form].dialect))

    def read(_: bytes) -> object:
        found = list(IMPORTS[form].read(folder, reading))
        return [one.about.score and one.about.score.score() for one in found]

    return Target(title, read, (data,), (UsageError,), prepare=(folder / name).write_bytes)


def _picture() -> bytes:
    picture = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(picture, "PNG")
    return picture.getvalue()


def _good(form: str, picture: str) -> dict[str, Any]:
    image = {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}
    match form:
        case "sft":
            url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}
            asked = {"role": "user", "content": [{"type": "text", "text": "Tap it"}, url]}
            said = {"role": "assistant", "content": "Action: click(start_box='(5,5)')", "weight": 1}
            return {"messages": [asked, said], "score": {"value": 1}, "final": "a.png"}
        case "osworld":
            return {"step_num": 1, "action": "pyautogui.click(5, 5)", "screenshot_file": "step_1.png"}
        case "atif":
            call = {"tool_call_id": "1", "function_name": "click", "arguments": {"x": 5, "y": 5}}
            steps = [
                {"step_id": 1, "source": "user", "message": [{"type": "text", "text": "Tap it"}, image]},
                {"step_id": 2, "source": "agent", "message": "I tap.", "tool_calls": [call]},
            ]
            told = {"id": "a", "seed": 7, "score": {"value": 1.0}}
            return {"schema_version": "ATIF-v1.7", "steps": steps, "extra": {"guiagent": told}}
        case _:
            action = {"action_type": "click", "x": 5, "y": 5}
            return {"goal": "Tap it", "actions": [action], "screenshots_b64": [picture, picture]}
