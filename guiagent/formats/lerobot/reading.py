"""Data sets of LeRobot on their way in: rows some at a time, episode after episode.

Paths are not taken from the files: LeRobot's own loader, too, finds data sets' Parquet files by their place.
"""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from pydantic import ValidationError

from guiagent.actions import ACTIONS
from guiagent.dialects import Dialect
from guiagent.errors import UsageError, first_error
from guiagent.formats.about import About, Verdict
from guiagent.formats.entering import MOST_TURNS, Entering, Reading, Turn, decoded, output, reply
from guiagent.formats.lerobot import features as named
from guiagent.formats.parquet import arrow
from guiagent.formats.pictures import Album, Picture
from guiagent.storage.plain import plain_file, plain_folder, read_plain
from guiagent.types import PolicyOutput

_MOST_META = 16 * 2**20  # bytes of `meta/info.json`
_MOST_GROUP = 2**30  # bytes of a row group when it is unpacked: an episode's pictures, or some episodes'
_MOST_FILES = 100_000
_ROWS = 8  # that are in memory at once


class _Feature(msgspec.Struct):
    dtype: str


class _Info(msgspec.Struct):
    codebase_version: str
    features: dict[str, _Feature]


class _Columns(NamedTuple):
    """The columns that are read: the screen, what is told in words ("" of what is not there), and numbers."""

    screen: str
    text: str
    actions: str
    error: str
    success: str


class _Place(NamedTuple):
    """A data set: in a folder that the user named, under these names."""

    root: Path
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return str(self.root.joinpath(*self.parts))


def read(path: Path, reading: Reading) -> Iterator[Entering]:
    """Yield the episodes of a data set, or of those in a folder. Raises UsageError for what is wrong."""
    for place in _places(path):
        info = _info(place)
        columns = _columns(place, info)
        tasks, abouts = _tasks(place), _abouts(place)
        rows = itertools.groupby(_rows(place, columns), key=lambda row: row[1][named.EPISODE])
        for number, told in rows:
            at = f"{place}: episode {number}"
            try:
                yield _episode(at, place, columns, told, tasks, abouts, reading.dialect)
            except UsageError as error:
                raise UsageError(f"{at}: {error}") from None


def _places(path: Path) -> list[_Place]:
    if (path / "meta" / "info.json").is_file():
        return [_Place(path, ())]
    found = [
        _Place(path, (one.name,)) for one in sorted(path.glob("*")) if (one / "meta/info.json").is_file()
    ]
    if not found:
        raise UsageError(f"there is no meta/info.json at {path}: give the folder of a LeRobot data set")
    return found


def _info(place: _Place) -> _Info:
    at = f"{place}/meta/info.json"
    try:
        data = read_plain(place.root, *place.parts, "meta", "info.json", most=_MOST_META + 1)
    except OSError as error:
        raise UsageError(f"cannot read {at}: {error.strerror or error}") from None
    if len(data) > _MOST_META:
        raise UsageError(f"{at}: more than {_MOST_META // 2**20} MiB")
    info = decoded(data, _Info, at)
    if not info.codebase_version.startswith("v3."):
        raise UsageError(
            f"{at}: the version {info.codebase_version[:40]!r} is none of v3: convert it with "
            "lerobot.scripts.convert_dataset_v21_to_v30"
        )
    return info


def _columns(place: _Place, info: _Info) -> _Columns:
    """Which columns are read. Raises UsageError if there is no screen, or nothing that is said in words."""
    kinds = {name: feature.dtype for name, feature in info.features.items()}
    cameras = [name for name, kind in kinds.items() if kind == "image"]
    screen = named.SCREEN if named.SCREEN in cameras else cameras[0] if len(cameras) == 1 else ""
    at = f"{place}/meta/info.json"
    if not screen and "video" in kinds.values():
        raise UsageError(f"{at}: the screens are videos: only pictures (dtype image) are read")
    if not screen:
        raise UsageError(f"{at}: {len(cameras)} features are pictures, and one should be the screen")
    words = {name for name, kind in kinds.items() if kind == "string"}
    text, actions, error = (
        name if name in words else "" for name in (named.TEXT, named.ACTIONS_TOLD, named.ERROR)
    )
    if not actions:
        text = text or (named.VECTOR if named.VECTOR in words else "")
    if not text and not actions:
        raise UsageError(
            f"{at}: no action is told in words: {named.ACTIONS_TOLD!r} or {named.VECTOR!r} should be strings"
        )
    success = named.SUCCESS if kinds.get(named.SUCCESS) == "bool" else ""
    return _Columns(screen, text, actions, error, success)


# -- Parquet -------------------------------------------------------------------------------------------------


def _rows(place: _Place, columns: _Columns) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row with the file that it is in."""
    pa, _ = arrow()
    types = {columns.screen: _is_picture(pa)}
    types |= {name: pa.types.is_integer for name in (named.EPISODE, named.FRAME, named.TASK)}
    types |= {name: _is_text(pa) for name in (columns.text, columns.actions, columns.error) if name}
    types |= {columns.success: pa.types.is_boolean} if columns.success else {}
    for parts in _files(place, "data"):
        yield from _of_file(place, parts, types)


def _tasks(place: _Place) -> dict[int, str]:
    """The instructions by their numbers. pandas has named the column of an index without a name."""
    pa, _ = arrow()
    parts = ("meta", "tasks.parquet")
    with _opened(place, parts) as table:
        names = table.schema_arrow.names
    text = "task" if "task" in names else "__index_level_0__"
    types = {"task_index": pa.types.is_integer, text: _is_text(pa)}
    return {row["task_index"]: row[text] for _, row in _of_file(place, parts, types)}


def _abouts(place: _Place) -> dict[int, About]:
    """What we told of episodes, by their numbers. Of others' there is nothing, and where LeRobot's tools have
    put two data sets into one, of some."""
    pa, _ = arrow()
    types = {named.EPISODE: pa.types.is_integer, named.ABOUT: _is_text(pa)}
    found = {}
    for parts in _files(place, "meta", "episodes"):
        with _opened(place, parts) as table:
            ours = named.ABOUT in table.schema_arrow.names
        for at, row in _of_file(place, parts, types, gaps=named.ABOUT) if ours else ():
            number, told = row[named.EPISODE], row[named.ABOUT]
            if told is not None:
                found[number] = decoded(told.encode(), About, f"{at}: episode {number}")
    return found


def _files(place: _Place, *below: str) -> Iterator[tuple[str, ...]]:
    """The files of `below`/*/*.parquet, in order, as LeRobot finds them. No link is followed."""
    for chunk in _names(place, *below):
        for file in _names(place, *below, chunk):
            if file.endswith(".parquet"):
                yield (*below, chunk, file)


def _names(place: _Place, *below: str) -> list[str]:
    try:
        with plain_folder(place.root, *place.parts, *below) as folder:
            names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError as error:
        raise UsageError(f"cannot read {place}/{'/'.join(below)}: {error.strerror or error}") from None
    if len(names) > _MOST_FILES:
        raise UsageError(f"{place}/{'/'.join(below)} has more than {_MOST_FILES:,} files")
    return names


@contextmanager
def _opened(place: _Place, parts: tuple[str, ...]) -> Iterator[Any]:
    """A file of Parquet. What is wrong with it, also while it is read, is UsageError."""
    pa, parquet = arrow()
    at = f"{place}/{'/'.join(parts)}"
    try:
        with plain_file(place.root, *place.parts, *parts) as file, open(os.dup(file), "rb") as stream:
            table = parquet.ParquetFile(stream)
            for number in range(table.metadata.num_row_groups):
                if table.metadata.row_group(number).total_byte_size > _MOST_GROUP:
                    raise UsageError(f"{at}: a row group has more than {_MOST_GROUP // 2**20} MiB")
            yield table
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or next(iter(str(error).splitlines()), "") or "damaged"
        raise UsageError(f"cannot read {at}: {reason[:160]}") from None


def _of_file(
    place: _Place, parts: tuple[str, ...], types: dict[str, Any], gaps: str = ""
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a file: these columns have to be there, of these types, with gaps in `gaps` alone."""
    at = f"{place}/{'/'.join(parts)}"
    with _opened(place, parts) as table:
        schema = table.schema_arrow
        for name, fits in types.items():
            if schema.names.count(name) != 1 or not fits(schema.field(name).type):
                raise UsageError(f"{at}: there is no column {name[:80]!r} as LeRobot has it")
        for batch in table.iter_batches(_ROWS, columns=list(types), use_threads=False):
            for row in batch.to_pylist():
                missing = next((name for name in types if row.get(name) is None and name != gaps), None)
                if missing is not None:
                    raise UsageError(f"{at}: a row has no {missing[:80]!r}")
                yield at, row


def _is_text(pa: Any) -> Any:
    return lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_picture(pa: Any) -> Any:
    """What `datasets` has of a picture: its bytes in the file itself, and the path that they came from."""

    def fits(kind: Any) -> bool:
        if not pa.types.is_struct(kind) or kind.get_field_index("bytes") < 0:
            return False
        data = kind.field("bytes").type
        return bool(pa.types.is_binary(data) or pa.types.is_large_binary(data))

    return fits


# -- episodes ------------------------------------------------------------------------------------------------


def _episode(
    at: str,
    place: _Place,
    columns: _Columns,
    rows: Iterator[tuple[str, dict[str, Any]]],
    tasks: dict[int, str],
    abouts: dict[int, About],
    dialect: Dialect,
) -> Entering:
    album = Album(place.root.joinpath(*place.parts))
    turns: list[Turn] = []
    row: dict[str, Any] = {}
    for number, (_, row) in enumerate(rows):
        if row[named.FRAME] != number:
            raise UsageError(f"its row {number} is frame {row[named.FRAME]}: they are not in order")
        if number == MOST_TURNS:
            raise UsageError(f"more than {MOST_TURNS:,} turns")
        picture = album.taken(row[columns.screen]["bytes"] or b"", f"the screen of frame {number}")
        turns.append(Turn(picture, _reply(row, columns, dialect, picture)))
    about = abouts.get(row[named.EPISODE])
    if about is None:
        if row[named.TASK] not in tasks:
            raise UsageError(f"there is no task {row[named.TASK]} in meta/tasks.parquet")
        score = Verdict(float(row[columns.success])) if columns.success else None
        about = About(instruction=tasks[row[named.TASK]], score=score)
    # LeRobot's tools that write a data set anew do not take files along that they do not know
    there = about.final is not None and os.path.lexists(place.root.joinpath(*place.parts, about.final))
    return Entering(at, about, turns, album.picture(about.final) if about.final and there else None)


def _reply(row: dict[str, Any], columns: _Columns, dialect: Dialect, shown: Picture) -> PolicyOutput:
    text = row[columns.text] if columns.text else ""
    if columns.error and row[columns.error]:
        return PolicyOutput(text, error=row[columns.error][:400])
    if not columns.actions:
        return reply(text, dialect, shown.size)
    told = row[columns.actions]
    try:
        actions = ACTIONS.validate_json(told)
    except ValidationError as error:
        return PolicyOutput(text or told, error=f"action {first_error(error.errors())}")
    return output(text or told, actions)
