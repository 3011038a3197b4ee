"""The readers of episodes that others wrote, as targets of the drill of parsers: a file and its pictures."""

import base64
import io
import json
from pathlib import Path
from typing import Any

from PIL import Image

from guiagent.dialects import find_dialect
from guiagent.errors import UsageError
from guiagent.formats import IMPORTS
from guiagent.formats.entering import Reading
from tests.drills.parser_targets import Target

_FILES = {"sft": "a.jsonl", "osworld": "traj.jsonl", "atif": "a.json", "androidcontrol": "a.jsonl"}


def episode_files(folder: Path) -> list[Target]:
    """One for each format that is read; `folder` gets the files."""
    return [_target(folder / form, form, name) for form, name in _FILES.items()]


def _target(folder: Path, form: str, name: str) -> Target:
    picture = io.BytesIO()
    Image.new("RGB", (40, 30), "red").save(picture, "PNG")
    folder.mkdir()
    for file in ("a.png", "step_0.png", "step_1.png"):
        (folder / file).write_bytes(picture.getvalue())
    good = _good(form, base64.b64encode(picture.getvalue()).decode())
    data = json.dumps(good).encode()
    if form == "osworld":
        (folder / "episode.json").write_text('{"instruction": "Tap it"}')
    reading = Reading(find_dialect(IMPORTS[form].dialect))

    def read(_: bytes) -> object:
        found = list(IMPORTS[form].read(folder, reading))
        return [one.about.score and one.about.score.score() for one in found]

    return Target(f"episodes of {form}", read, (data,), (UsageError,), prepare=(folder / name).write_bytes)


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
