"""Tasks in Notes, whose notes are Markdown files."""

import random

from rewards.checks.android import Folder, Row
from rewards.tasksets.phone.facts import Added, Changed, Removed
from rewards.tasksets.phone.template import Scenario, Template

_APP = ("org.guiagent.notes",)
NOTES = Folder("/sdcard/Documents/Notes")
_LINES = (
    "call the plumber",
    "collect the parcel",
    "feed the fish",
    "order new filters",
    "pay the gas bill",
    "return the books",
    "sweep the balcony",
    "write to the landlord",
)


def note(name: str, lines: list[str]) -> Row:
    return {"path": f"{name}.md", "text": "".join(f"{line}\n" for line in lines)}


def _notes(rng: random.Random) -> list[Row]:
    """Three notes with names that are easily mixed up, of two different lines each."""
    word = rng.choice(("errands", "home", "office", "spring"))
    lines = rng.sample(_LINES, 6)
    return [note(name, lines[2 * i : 2 * i + 2]) for i, name in enumerate((word, f"{word}_old", f"{word}_2"))]


def create(rng: random.Random) -> Scenario:
    notes, text = _notes(rng), rng.choice(_LINES)
    name = rng.choice(("bike", "garage", "party", "school"))
    return Scenario(
        f'Make a note named {name}.md with the text "{text}".',
        steps=8,
        start=[(NOTES, notes)],
        goal=[Added(NOTES, note(name, [text]))],
        near_misses={"left empty": [Added(NOTES, note(name, []))]},
    )


def append(rng: random.Random) -> Scenario:
    notes = _notes(rng)
    row = notes[0]
    line = rng.choice([one for one in _LINES if one not in str(row["text"])])
    return Scenario(
        f'Add the line "{line}" at the end of the note {row["path"]}, and save it.',
        steps=6,
        start=[(NOTES, notes)],
        goal=[Changed(NOTES, {"path": row["path"]}, {"text": f"{row['text']}{line}"})],
        near_misses={"in place of the text": [Changed(NOTES, {"path": row["path"]}, {"text": line})]},
    )


def delete(rng: random.Random) -> Scenario:
    notes = _notes(rng)
    return Scenario(
        f"Delete the note {notes[0]['path']}.",
        steps=4,
        start=[(NOTES, notes)],
        goal=[Removed(NOTES, {"path": notes[0]["path"]})],
    )


def file_away(rng: random.Random) -> Scenario:
    notes = _notes(rng)
    row = notes[1]
    came: Row = {"path": f"archive/{row['path']}", "text": row["text"]}
    return Scenario(
        f"Move the note {row['path']} into the folder archive.",
        steps=6,
        start=[(NOTES, [{"path": "archive/"}, *notes])],
        goal=[Removed(NOTES, {"path": row["path"]}), Added(NOTES, came)],
        near_misses={"copied": [Added(NOTES, came)]},
    )


def ask_where(rng: random.Random) -> Scenario:
    notes = _notes(rng)
    row = rng.choice(notes)
    line = str(row["text"]).splitlines()[0]
    return Scenario(
        f'Which note says "{line}", and how many lines of text does '
        f"it have? Give the name without its ending.",
        steps=6,
        start=[(NOTES, notes)],
        answer={"note": str(row["path"]).removesuffix(".md"), "lines": 2},
    )


TEMPLATES = (
    Template("notes-create", _APP, create),
    Template("notes-append", _APP, append),
    Template("notes-delete", _APP, delete),
    Template("notes-file-away", _APP, file_away),
    Template("notes-ask-where", _APP, ask_where),
)
