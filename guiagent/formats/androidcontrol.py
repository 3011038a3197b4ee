"""Episodes of people on phones as AndroidControl has them, in JSON: `goal`, `screenshots` and `actions`.

Format: google-research/android_control (Li et al., arXiv 2406.03679), whose records have those fields, with
actions in the JSON of AndroidWorld. Here each episode is an object: a line of a .jsonl file, or a .json
file or a member of its list, with `episode_id`, `goal`, `actions`, and either `screenshots` (paths) or
`screenshots_b64`. `input_text` types into the focused field and nothing more, unlike AndroidWorld's. After
the last action there is one more screenshot, on which the person saw that it was done: an episode that does
not say so itself ends with it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from guiagent.actions import Action, Done, Type
from guiagent.dialects import Dialect
from guiagent.errors import DialectError, UsageError
from guiagent.formats.about import About
from guiagent.formats.entering import Entering, Reading, Turn, objects, output
from guiagent.formats.pictures import Album, Picture
from guiagent.types import PolicyOutput

_COMPLETE = '{"action_type": "status", "goal_status": "complete"}'


class _Episode(msgspec.Struct):
    goal: str
    actions: list[dict[str, Any] | str]
    episode_id: int | str | None = None
    screenshots: list[str] | None = None
    screenshots_b64: list[str] | None = None


def read(path: Path, reading: Reading) -> Iterator[Entering]:
    """Yield the episodes of a file, or of those in a folder. Raises UsageError for what is wrong."""
    for at, root, told in objects(path, _Episode, ".json", ".jsonl"):
        try:
            yield _episode(at, told, root, reading.dialect)
        except UsageError as error:
            raise UsageError(f"{at}: {error}") from None


def _episode(at: str, told: _Episode, root: Path, dialect: Dialect) -> Entering:
    album = Album(root)
    if told.screenshots_b64 is not None:
        shown = [album.picture(f"data:;base64,{one}") for one in told.screenshots_b64]
    else:
        shown = [album.picture(one) for one in told.screenshots or []]
    if len(shown) not in (len(told.actions), len(told.actions) + 1):
        raise UsageError(
            f"{len(shown)} screenshots for {len(told.actions)} actions: give one for each, or one more"
        )
    turns = [
        Turn(picture, _reply(action, dialect, picture))
        for picture, action in zip(shown, told.actions, strict=False)
    ]
    after = shown[len(turns) :]
    if after and turns and not _ends(turns[-1].reply):
        turns.append(Turn(after[0], output(_COMPLETE, [Done()])))
    id = None if told.episode_id is None else str(told.episode_id)
    about = About(id=id, task=f"android-control/{id or 'episode'}"[:200], instruction=told.goal)
    return Entering(at, about, turns, after[0] if after else None)


def _reply(said: dict[str, Any] | str, dialect: Dialect, shown: Picture) -> PolicyOutput:
    text = said if isinstance(said, str) else json.dumps(said)
    try:
        return output(text, _actions(text, dialect, shown))
    except DialectError as error:
        return PolicyOutput(text, error=str(error))


def _actions(text: str, dialect: Dialect, shown: Picture) -> list[Action]:
    try:
        match json.loads(text):
            case {"action_type": "input_text", "text": str(typed)}:
                return [Type(text=typed)]
    except (ValueError, RecursionError):  # also what pydantic raises: then the dialect says what is wrong
        pass
    return dialect.parse(text, shown.size)


def _ends(reply: PolicyOutput) -> bool:
    return any(one["type"] in ("done", "answer") for one in reply.actions)
