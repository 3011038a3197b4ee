"""Data sets of LeRobot on their way out: a file of Parquet after the other, a row group an episode."""

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from PIL import Image

from guiagent.actions import ACTIONS, Action
from guiagent.formats.about import About
from guiagent.formats.leaving import Leaving, Wish
from guiagent.formats.lerobot import features as named
from guiagent.formats.lerobot import stats
from guiagent.formats.lerobot.features import Size
from guiagent.formats.parquet import arrow
from guiagent.formats.pictures import keep, media_and_suffix
from guiagent.types import Step

_FILE = 100 * 2**20  # bytes of pictures in a file of rows
_TOLD = 100  # episodes in a row group of `meta/episodes`
_FILES = 1000  # in a folder
_CARD = """---
tags:
- LeRobot
configs:
- config_name: default
  data_files: data/*/*.parquet
---
Episodes on screens of {width} x {height} pixels, as a LeRobot data set {version}.
"""
VERSION = "v3.0"


def write(episodes: Iterable[Leaving], folder: Path, wish: Wish) -> None:
    """Write a data set, or one for each size of screens in a folder of its own.

    Raises MissingProgram without the package pyarrow.
    """
    sets: dict[Size, _DataSet] = {}
    try:
        for one in episodes:
            size = one.trajectory.steps[0].width, one.trajectory.steps[0].height
            if size not in sets:
                sets[size] = _DataSet(folder / "{}x{}".format(*size), size)
            sets[size].add(one)
        for one_size in sets.values():
            one_size.finish()
    finally:
        for one_size in sets.values():
            one_size.close()
    if len(sets) == 1:
        [only] = sets.values()
        for part in only.root.iterdir():
            part.rename(folder / part.name)
        only.root.rmdir()


class _DataSet:
    """The data set of one size of screens."""

    def __init__(self, root: Path, size: Size) -> None:
        self.root, self._size = root, size
        self._features = named.features(size)
        self._pa, self._parquet = arrow()
        self._tasks: dict[str, int] = {}
        self._stats: dict[str, stats.Stats] = {}
        self._told: list[dict[str, Any]] = []  # episodes that are not in `meta/episodes` yet
        self._episodes = self._frames = self._files = 0
        self._held = 0  # bytes of pictures in the file that is open
        self._rows: Any = None  # the writer of that file
        self._index: Any = None  # the writer of `meta/episodes`
        (root / "meta").mkdir(parents=True)

    def add(self, one: Leaving) -> None:
        """Write the rows of an episode, and remember what is told of it."""
        if self._held >= _FILE:
            self._rows.close()
            self._rows, self._held = None, 0
        if self._rows is None:
            path = self.root / "data" / _place(self._files)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._rows = self._parquet.ParquetWriter(path, _schema(self._pa, self._features))
            self._files += 1
        columns = self._columns(one)
        self._rows.write_table(self._pa.Table.from_pydict(columns, self._rows.schema))
        pictures = [image["bytes"] for image in columns[named.SCREEN]]
        self._held += sum(map(len, pictures))
        found = {
            name: stats.of_numbers([value if isinstance(value, list) else [value] for value in columns[name]])
            for name, feature in self._features.items()
            if feature["dtype"] not in ("image", "string")
        }
        found[named.SCREEN] = stats.of_pictures(pictures)
        self._tell(one, found)

    def _columns(self, one: Leaving) -> dict[str, list[Any]]:
        told, count = one.trajectory, len(one.trajectory.steps)
        replies = [_actions(step) for step in told.steps]
        value = told.score.value if told.score is not None and told.score.value is not None else 0.0
        task = self._tasks.setdefault(told.instruction, len(self._tasks))
        return {
            named.SCREEN: [_image(step.frame, one.frame(step.frame)) for step in told.steps],
            named.STATE: named.states(replies, self._size),
            named.VECTOR: [named.vector(next(iter(reply), None), self._size) for reply in replies],
            named.TEXT: one.words,
            named.ACTIONS_TOLD: [msgspec.json.encode(step.policy.actions).decode() for step in told.steps],
            named.ERROR: [step.policy.error or "" for step in told.steps],
            named.REWARD: [0.0] * (count - 1) + [value],
            named.DONE: [False] * (count - 1) + [True],
            named.SUCCESS: [False] * (count - 1) + [told.success],
            "timestamp": [number / named.FPS for number in range(count)],
            named.FRAME: list(range(count)),
            named.EPISODE: [self._episodes] * count,
            "index": list(range(self._frames, self._frames + count)),
            named.TASK: [task] * count,
        }

    def _tell(self, one: Leaving, found: dict[str, stats.Stats]) -> None:
        told, final = one.trajectory, None
        if told.final_frame:
            name = keep(self.root / "meta" / "final", told.final_frame, one.frame(told.final_frame))
            final = f"meta/final/{name}"
        chunk, file = divmod(self._files - 1, _FILES)
        row = {
            named.EPISODE: self._episodes,
            "tasks": [told.instruction],
            "length": len(told.steps),
            "data/chunk_index": chunk,
            "data/file_index": file,
            "dataset_from_index": self._frames,
            "dataset_to_index": self._frames + len(told.steps),
            "meta/episodes/chunk_index": 0,
            "meta/episodes/file_index": 0,
            named.ABOUT: msgspec.json.encode(About.of(one.id, told, final)).decode(),
        }
        for name, one_feature in found.items():
            before = self._stats.get(name)
            self._stats[name] = stats.together(before, one_feature) if before else one_feature
            row |= {f"stats/{name}/{stat}": value for stat, value in _nested(name, one_feature).items()}
        self._told.append(row)
        self._episodes += 1
        self._frames += len(told.steps)
        if len(self._told) == _TOLD:
            self._flush()

    def _flush(self) -> None:
        table = self._pa.Table.from_pylist(self._told, _schema_of_episodes(self._pa, self._features))
        if self._index is None:
            path = self.root / "meta" / "episodes" / _place(0)
            path.parent.mkdir(parents=True)
            self._index = self._parquet.ParquetWriter(path, table.schema)
        self._index.write_table(table)
        self._told.clear()

    def finish(self) -> None:
        """Write what is told of the whole."""
        if self._told:
            self._flush()
        self.close()
        self._parquet.write_table(
            _table_of_tasks(self._pa, self._tasks), self.root / "meta" / "tasks.parquet"
        )
        info = {
            "codebase_version": VERSION,
            "robot_type": "screen",
            "total_episodes": self._episodes,
            "total_frames": self._frames,
            "total_tasks": len(self._tasks),
            "chunks_size": _FILES,
            "data_files_size_in_mb": _FILE // 2**20,
            "video_files_size_in_mb": 200,  # LeRobot's own; there are none
            "fps": named.FPS,
            "splits": {"train": f"0:{self._episodes}"},
            "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
            "video_path": None,
            "features": self._features,
        }
        found = {name: _nested(name, one) for name, one in self._stats.items()}
        for file, content in (("info.json", info), ("stats.json", found)):
            (self.root / "meta" / file).write_text(json.dumps(content, indent=1) + "\n")
        width, height = self._size
        card = _CARD.format(width=width, height=height, version=VERSION)
        (self.root / "README.md").write_text(card)

    def close(self) -> None:
        """Close what is open; again does no harm."""
        for writer in (self._rows, self._index):
            if writer is not None:
                writer.close()
        self._rows = self._index = None


def _place(number: int) -> Path:
    chunk, file = divmod(number, _FILES)
    return Path(f"chunk-{chunk:03d}") / f"file-{file:03d}.parquet"


def _actions(step: Step) -> list[Action]:
    return ACTIONS.validate_python(step.policy.actions) if step.policy.error is None else []


def _image(hash: str, data: bytes) -> dict[str, Any]:
    """A picture as `datasets` keeps it. LeRobot takes it with the channels that it has: so one with another
    number of them, as Android's have, is written anew."""
    with Image.open(io.BytesIO(data), formats=("PNG", "JPEG")) as image:
        if image.mode != "RGB":
            anew = io.BytesIO()
            image.convert("RGB").save(anew, "PNG")
            data = anew.getvalue()
    return {"bytes": data, "path": f"{hash}.{media_and_suffix(data)[1]}"}


def _nested(name: str, found: stats.Stats) -> dict[str, list[Any]]:
    """Statistics in LeRobot's shapes: those of a picture have one of (3, 1, 1)."""
    if name != named.SCREEN:
        return dict(found)
    return {stat: value if stat == "count" else [[[one]] for one in value] for stat, value in found.items()}


def _schema(pa: Any, features: dict[str, dict[str, Any]]) -> Any:
    """The columns of rows, in Arrow's types and in Hugging Face's."""
    kinds = {"float32": pa.float32(), "int64": pa.int64(), "bool": pa.bool_(), "string": pa.string()}
    columns: dict[str, Any] = {}
    theirs: dict[str, Any] = {}
    for name, feature in features.items():
        (length, *_), dtype = feature["shape"], feature["dtype"]
        value = {"dtype": dtype, "_type": "Value"}
        if dtype == "image":
            columns[name] = pa.struct({"bytes": pa.binary(), "path": pa.string()})
            theirs[name] = {"_type": "Image"}
        elif feature["names"] is None:
            columns[name], theirs[name] = kinds[dtype], value
        else:
            columns[name] = pa.list_(kinds[dtype], length)
            theirs[name] = {"feature": value, "length": length, "_type": "List"}
    about = json.dumps({"info": {"features": theirs}})
    return pa.schema(list(columns.items()), metadata={"huggingface": about})


def _schema_of_episodes(pa: Any, features: dict[str, dict[str, Any]]) -> Any:
    counts = (
        "length",
        "data/chunk_index",
        "data/file_index",
        "dataset_from_index",
        "dataset_to_index",
        "meta/episodes/chunk_index",
        "meta/episodes/file_index",
    )
    columns = {named.EPISODE: pa.int64(), "tasks": pa.list_(pa.string())}
    columns |= {name: pa.int64() for name in counts} | {named.ABOUT: pa.string()}
    numbers = pa.list_(pa.float64())
    for name, feature in features.items():
        shape = pa.list_(pa.list_(numbers)) if feature["dtype"] == "image" else numbers
        if feature["dtype"] != "string":
            columns |= {f"stats/{name}/{stat}": numbers if stat == "count" else shape for stat in stats.NAMES}
    return pa.schema(list(columns.items()))


def _table_of_tasks(pa: Any, tasks: dict[str, int]) -> Any:
    """The instructions as the index of a table of pandas, in which LeRobot looks them up."""
    told = {
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": [
            {"name": name, "field_name": name, "pandas_type": kind, "numpy_type": theirs, "metadata": None}
            for name, kind, theirs in (("task_index", "int64", "int64"), ("task", "unicode", "object"))
        ],
        "pandas_version": "2.3.3",
    }
    schema = pa.schema({"task_index": pa.int64(), "task": pa.string()}, metadata={"pandas": json.dumps(told)})
    return pa.Table.from_pydict({"task_index": list(tasks.values()), "task": list(tasks)}, schema)
