"""Parquet files with their pictures in them, an episode a row, as `datasets.load_dataset(FOLDER)` takes them.

The schema's metadata says in Hugging Face's words which column holds pictures, so that they come back as
PIL images. A row has the columns of `About`, and lists with an item a turn: `images` (one more where there is
a last screen), `texts` (replies), `actions` (JSON, in pixels of the picture) and `errors`. Only out: what
others keep in Parquet has a schema of its own.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from guiagent.errors import MissingProgram
from guiagent.formats.about import About
from guiagent.formats.leaving import Leaving, Wish
from guiagent.formats.pictures import media_and_suffix

_FILE = 128 * 2**20  # bytes of pictures in a file, which is held in memory before it is written
_TEXTS = ("id", "task", "instruction", "stop")
_LISTS = ("texts", "actions", "errors")


def write(episodes: Iterable[Leaving], folder: Path, wish: Wish) -> None:
    """Write `train-00000.parquet` and so on. Raises MissingProgram without the package pyarrow."""
    pyarrow, parquet = arrow()
    schema = _schema(pyarrow)
    for number, rows in enumerate(_batches(map(_row, episodes))):
        table = pyarrow.Table.from_pylist(rows, schema)
        parquet.write_table(table, folder / f"train-{number:05}.parquet")


def arrow() -> tuple[Any, Any]:
    """Return the modules pyarrow and pyarrow.parquet, which are imported late: they take a while, and are an
    extra. Raises MissingProgram without them."""
    try:
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise MissingProgram("the package pyarrow is missing: pip install 'guiagent[parquet]'") from None
    return pyarrow, pyarrow.parquet


def _batches(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The rows of each file."""
    batch: list[dict[str, Any]] = []
    held = 0
    for row in rows:
        batch.append(row)
        held += sum(len(image["bytes"]) for image in row["images"])
        if held >= _FILE:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _row(one: Leaving) -> dict[str, Any]:
    told = one.trajectory
    about = About.of(one.id, told, None)
    frames = [*(step.frame for step in told.steps), *filter(None, [told.final_frame])]
    row = {name: getattr(about, name) for name in _TEXTS}
    return row | {
        "seed": told.seed,
        "score": about.score.value if about.score else None,
        "score_source": about.score.source if about.score else None,
        "score_reason": about.score.reason if about.score else None,
        "fault": msgspec.json.encode(told.fault).decode() if told.fault else None,
        "images": [_image(hash, one.frame(hash)) for hash in frames],
        "texts": one.words,
        "actions": [msgspec.json.encode(step.policy.actions).decode() for step in told.steps],
        "errors": [step.policy.error or step.action_error for step in told.steps],
    }


def _image(hash: str, data: bytes) -> dict[str, Any]:
    return {"bytes": data, "path": f"{hash}.{media_and_suffix(data)[1]}"}


def _schema(pa: Any) -> Any:
    """The columns, in Arrow's types and in Hugging Face's."""
    text, image = pa.string(), pa.struct({"bytes": pa.binary(), "path": pa.string()})
    names = [*_TEXTS, "score_source", "score_reason", "fault"]
    columns = {name: text for name in names} | {"seed": pa.int64(), "score": pa.float64()}
    columns |= {"images": pa.list_(image)} | {name: pa.list_(text) for name in _LISTS}
    features: dict[str, Any] = {name: {"dtype": "string", "_type": "Value"} for name in names}
    features["seed"] = {"dtype": "int64", "_type": "Value"}
    features["score"] = {"dtype": "float64", "_type": "Value"}
    features["images"] = {"feature": {"_type": "Image"}, "_type": "List"}
    for name in _LISTS:
        features[name] = {"feature": {"dtype": "string", "_type": "Value"}, "_type": "List"}
    about = json.dumps({"info": {"features": features}})
    return pa.schema(list(columns.items()), metadata={"huggingface": about})
