"""Episodes of people on phones as AndroidControl has them, in JSON: `goal`, `screenshots` and `actions`.

Format: google-research/android_control (Li et al., arXiv 2406.03679), whose records have those fields, with
actions in the JSON of AndroidWorld. Here each episode is an object: a line of a .jsonl file, or a .json
file or a member of its list, with `episode_id`, `goal`, `actions`, and either `screenshots` (paths) or
`screenshots_b64`. `input_text` types into the focused field and nothing more, unlike AndroidWorld's. After
the last action there is one more screenshot, on which the person saw that it was done: an episode that does
not say so itself ends with it. `step_instructions` says each step in words, as the data set does.

Ours beside that: `boxes`, for each action the [left, top, right, bottom] of what it was aimed at, or null
(the data set has them in its accessibility trees), and actions of `guiagent.actions` where AndroidWorld has
no word that says the same.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from guiagent.actions import ACTION, ACTIONS, Action, Done, Type
from guiagent.dialects import Dialect, find_dialect
from guiagent.errors import DialectError, UsageError
from guiagent.formats.about import About
from guiagent.formats.entering import Entering, Reading, Turn, objects, output
from guiagent.formats.folder import file_name
from guiagent.formats.leaving import Leaving, Wish
from guiagent.formats.pictures import Album, Picture, keep
from guiagent.types import PolicyOutput, Step

_PICTURES = "screenshots"
_COMPLETE = '{"action_type": "status", "goal_status": "complete"}'


Box = tuple[int, int, int, int]  # left, top, right, bottom in pixels


class Episode(msgspec.Struct, omit_defaults=True):
    """An episode as a file tells it."""

    goal: str
    actions: list[dict[str, Any] | str]
    episode_id: int | str | None = None
    screenshots: list[str] | None = None
    screenshots_b64: list[str] | None = None
    step_instructions: list[str] | None = None
    boxes: list[Box | None] | None = None


# -- out -----------------------------------------------------------------------------------------------------


def write(episodes: Iterable[Leaving], folder: Path, wish: Wish) -> None:
    """Write a file for each episode, and the pictures beside. A screenshot has one action, a turn's first.

    Turns without a valid action are left out.
    """
    for one in episodes:
        told = one.trajectory
        turns = [step for step in told.steps if step.policy.error is None and step.policy.actions]
        hashes = [step.frame for step in turns] + ([told.final_frame] if told.final_frame else [])
        kept = {hash: keep(folder / _PICTURES, hash, one.frame(hash)) for hash in hashes}
        episode = Episode(
            told.instruction,
            [_said(step) for step in turns],
            one.id,
            screenshots=[f"{_PICTURES}/{kept[hash]}" for hash in hashes],
            boxes=[_box(step) for step in turns],
        )
        (folder / f"{file_name(one.id)}.json").write_bytes(msgspec.json.encode(episode))


def _said(step: Step) -> dict[str, Any]:
    """A turn's first action in AndroidWorld's words, or in ours where those do not say the same."""
    (action,) = ACTIONS.validate_python(step.policy.actions[:1])
    dialect, size = find_dialect("androidworld"), (step.width, step.height)
    if isinstance(action, Type) and action == Type(text=action.text):
        return {"action_type": "input_text", "text": action.text}
    try:
        words = dialect.render([action], size)
        if dialect.parse(words, size) == [action]:
            said: dict[str, Any] = json.loads(words[words.index("{") :])
            return said
    except DialectError:
        pass
    ours: dict[str, Any] = ACTION.dump_python(action, mode="json")
    return ours


def _box(step: Step) -> Box | None:
    """The box of the element that a turn's first action was aimed at, where that was recorded."""
    if not step.elements or step.elements[0] is None:
        return None
    left, top, width, height = step.elements[0].box
    return left, top, left + width, top + height


# -- in ------------------------------------------------------------------------------------------------------


def read(path: Path, reading: Reading) -> Iterator[Entering]:
    """Yield the episodes of a file, or of those in a folder. Raises UsageError for what is wrong."""
    for at, root, told in objects(path, Episode, ".json", ".jsonl"):
        try:
            yield entering(at, told, root, reading.dialect)
        except UsageError as error:
            raise UsageError(f"{at}: {error}") from None


def entering(at: str, told: Episode, root: Path, dialect: Dialect) -> Entering:
    """The turns of an episode whose pictures lie below `root`. Raises UsageError for what is wrong."""
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
            case {"type": str()} as ours:
                return [ACTION.validate_python(ours)]
    except (ValueError, RecursionError):  # also what pydantic raises: then the dialect says what is wrong
        pass
    return dialect.parse(text, shown.size)


def _ends(reply: PolicyOutput) -> bool:
    return any(one["type"] in ("done", "answer") for one in reply.actions)
