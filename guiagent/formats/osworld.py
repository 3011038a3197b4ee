"""OSWorld's result layout: a folder an episode, `ACTIONS/OBSERVATION/MODEL/DOMAIN/EXAMPLE`.

In it are `traj.jsonl` (a line a step: step_num, action, screenshot_file, reward, done, ...), the screenshot
after each step, and `result.txt` with the score: xlang-ai/OSWorld, `lib_run_single.py`. The domain is our
task and the example our episode, so that `show_result.py` sums up by task. Beyond OSWorld's own files,
`episode.json` has instruction, seed and outcome (`About`), and `step_0` the first screenshot.

In: the same, and results of OSWorld's runners, whose `action` is a program, an object of computer_13, or one
with its program in `command`. Theirs lack the instruction, which is then read from the
task's file `TASKS/DOMAIN/EXAMPLE.json`, and the first screenshot: without it the episode begins with its
second step.
"""

import json
import math
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from guiagent.dialects import Dialect
from guiagent.errors import UsageError
from guiagent.formats.about import About, Verdict
from guiagent.formats.entering import Entering, Reading, Turn, after, document, lines, reply
from guiagent.formats.folder import file_name
from guiagent.formats.leaving import Leaving, Wish
from guiagent.formats.pictures import Album, Picture, media_and_suffix
from guiagent.storage.plain import read_plain
from guiagent.types import PolicyOutput

_MOST_FOLDERS = 100_000
_RESULT, _STEPS, _ABOUT = "result.txt", "traj.jsonl", "episode.json"


def write(episodes: Iterable[Leaving], folder: Path, wish: Wish) -> None:
    """Write a folder for each episode; one without a verdict has no result.txt, as in OSWorld."""
    assert wish.dialect is not None
    model = folder / file_name(wish.dialect.name) / "screenshot" / "guiagent"
    for one in episodes:
        place = model / file_name(one.trajectory.task) / file_name(one.id)
        place.mkdir(parents=True)
        _write(one, place)


def _write(one: Leaving, place: Path) -> None:
    told, score = one.trajectory, one.trajectory.score
    frames = [step.frame for step in told.steps] + [told.final_frame]
    names = [_keep(place, number, one.frame(hash)) if hash else None for number, hash in enumerate(frames)]
    value = score.value if score is not None and score.value is not None else None
    with (place / _STEPS).open("wb") as file:
        for number, (step, words) in enumerate(zip(told.steps, one.words, strict=True), 1):
            last = number == len(told.steps)
            line = {
                "step_num": number,
                "action_timestamp": f"{told.started:.3f}",
                "action": words,
                "response": step.policy.text,
                "reward": value if last and value is not None else 0,
                "done": last,
                "info": {"error": step.policy.error or step.action_error},
                "screenshot_file": names[number],
            }
            file.write(msgspec.json.encode(line) + b"\n")
    (place / _ABOUT).write_bytes(msgspec.json.encode(About.of(one.id, told, names[-1])))
    if value is not None:
        (place / _RESULT).write_text(f"{value}\n")


def _keep(place: Path, number: int, data: bytes) -> str:
    name = f"step_{number}.{media_and_suffix(data)[1]}"
    (place / name).write_bytes(data)
    return name


# -- in ------------------------------------------------------------------------------------------------------


class _Step(msgspec.Struct):
    action: str | dict[str, Any] | None = None
    response: str | None = None
    screenshot_file: str | None = None


class _Task(msgspec.Struct):
    instruction: str


def read(path: Path, reading: Reading) -> Iterator[Entering]:
    """Yield the episodes below a folder. Raises UsageError for what is wrong, or if there is none."""
    found = False
    for place in _places(path):
        found = True
        try:
            yield _episode(place, reading)
        except UsageError as error:
            raise UsageError(f"{place}: {error}") from None
    if not found:
        raise UsageError(f"there is no {_STEPS} below {path}: give the folder of OSWorld's results")


def _places(path: Path) -> Iterator[Path]:
    """The folders below `path` that have steps, in order. No link is followed."""
    for count, (folder, below, names) in enumerate(os.walk(path)):
        below.sort()
        if count == _MOST_FOLDERS:
            raise UsageError(f"{path} has more than {_MOST_FOLDERS:,} folders: give one with fewer")
        if _STEPS in names:
            yield Path(folder)


def _episode(place: Path, reading: Reading) -> Entering:
    album = Album(place)
    first = sorted(one.name for one in place.glob("step_0[._]*"))
    shown = album.picture(first[0]) if first else None
    turns: list[Turn] = []
    for _, step in lines(place / _STEPS, _Step):
        if step.action and shown is not None:
            turns.append(Turn(shown, _reply(step, reading.dialect, shown)))
        if step.screenshot_file:
            shown = album.picture(step.screenshot_file)
    return Entering(str(place), _about(place, reading.tasks), turns, after(turns, shown))


def _reply(step: _Step, dialect: Dialect, shown: Picture) -> PolicyOutput:
    """The reply in the policy's own words, where the file has them, with what the action says."""
    match step.action:
        case str(words) | {"command": str(words)}:
            pass
        case said:
            words = json.dumps(said)
    read = reply(words, dialect, shown.size)
    return read if step.response is None else replace(read, text=step.response)


def _about(place: Path, tasks: Path | None) -> About:
    name, domain = place.name, place.parent.name
    about = About(id=f"{domain}/{name}", task=f"{domain}/{name}")
    if (place / _ABOUT).is_file():
        about = document(place / _ABOUT, About)
    elif tasks is not None:
        told = document(tasks / domain / f"{name}.json", _Task)
        about = replace(about, instruction=told.instruction)
    else:
        raise UsageError("there is no instruction: name OSWorld's folder of tasks with --tasks")
    if about.score is None and about.fault is None:
        about = replace(about, score=_result(place))
    return about


def _result(place: Path) -> Verdict | None:
    try:
        value = float(read_plain(place, _RESULT, most=64))
    except OSError:
        return None
    except ValueError:
        raise UsageError(f"{_RESULT} is no number") from None
    if not math.isfinite(value):
        raise UsageError(f"{_RESULT} is no number")
    return Verdict(value)
