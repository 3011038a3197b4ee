"""LeRobot's data sets: a row in numbers, one size of screens, others' sets, and files that are wrong."""

import io
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from guiagent.actions import ACTION
from guiagent.cli import app
from guiagent.errors import UsageError
from guiagent.formats import pictures
from guiagent.formats.lerobot import features, reading, stats
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import PolicyOutput, Step, Trajectory
from tests.support.watched import episode, picture

DATA = "data/chunk-000/file-000.parquet"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def brought(folder: Path, run: Path, *more: object) -> Result:
    return invoke("import", folder, "--as", "lerobot", "--run", run, *more)


def stored(run: Path) -> list[Trajectory]:
    with TrajectoryStore(run / "trajectories", readonly=True) as store:
        return list(store)


def sized(store: TrajectoryStore, id: str, *sizes: tuple[int, int], data: bytes = b"") -> Trajectory:
    """An episode with a turn on a screen of each size."""
    said = PolicyOutput("go", [{"type": "click", "x": 4, "y": 6}])
    frames = [(store.put_frame(data or picture("#d33", size)), *size) for size in sizes]
    return episode(store, id, steps=[Step(*frame, said) for frame in frames])


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A data set of two episodes of two turns."""
    with TrajectoryStore(tmp_path / "run" / "trajectories") as store:
        store.commit([episode(store, "one"), episode(store, "two", success=False)])
    ended = invoke("export", tmp_path / "run", "--as", "lerobot", "--to", tmp_path / "out")
    assert ended.exit_code == 0, ended.output
    return tmp_path / "out"


def said_of(action: dict[str, Any], size: tuple[int, int] = (160, 200)) -> dict[str, float]:
    numbers = features.vector(ACTION.validate_python(action), size)
    told = zip(features.ACTION_NAMES, numbers, strict=True)
    return {name: number for name, number in told if number}


@pytest.mark.parametrize(
    ("action", "numbers"),
    [
        ({"type": "click", "x": 40, "y": 50}, {"is_click": 1, "x": 0.25, "y": 0.25}),
        (
            {"type": "swipe", "x1": 80, "y1": 100, "x2": 40, "y2": 150},
            {"is_swipe": 1, "x": 0.5, "y": 0.5, "x2": 0.25, "y2": 0.75},
        ),
        (
            {"type": "scroll", "x": 40, "y": 50, "dy": -100, "dx": 320},
            {"is_scroll": 1, "x": 0.25, "y": 0.25, "dx": 2, "dy": -0.5},
        ),
        (
            {"type": "drag", "path": [[40, 50], [1, 1], [80, 100]]},
            {"is_drag": 1, "x": 0.25, "y": 0.25, "x2": 0.5, "y2": 0.5},
        ),
        ({"type": "type", "text": "7"}, {"is_type": 1}),
    ],
)
def test_an_action_is_its_kind_and_its_places_in_shares(
    action: dict[str, Any], numbers: dict[str, float]
) -> None:
    assert said_of(action) == numbers


def test_the_state_is_where_the_actions_before_touched_last() -> None:
    click, wait = (
        ACTION.validate_python(one) for one in ({"type": "click", "x": 40, "y": 50}, {"type": "wait"})
    )
    found = features.states([[wait], [click, wait], [], []], (160, 200))
    assert found == [[0.5, 0.5, 0], [0.5, 0.5, 0], [0.25, 0.25, 1], [0.25, 0.25, 1]]
    assert features.vector(None, (160, 200)) == [0] * len(features.ACTION_NAMES)


def test_statistics_of_parts_put_together_are_those_of_the_whole() -> None:
    column = [3.0, -1.0, 4.0, 1.5, 9.0, 2.6]
    whole = stats.of_numbers([[one] for one in column])
    assert whole["mean"] == [pytest.approx(statistics.mean(column))] and whole["count"] == [6]
    assert whole["std"] == [pytest.approx(statistics.pstdev(column))]
    assert whole["q50"] == [pytest.approx(statistics.median(column))]
    parts = [stats.of_numbers([[one] for one in part]) for part in (column[:2], column[2:])]
    both = stats.together(*parts)
    for name in ("min", "max", "mean", "std", "count"):
        assert both[name] == pytest.approx(whole[name]), name


def test_statistics_of_pictures_are_of_their_channels() -> None:
    found = stats.of_pictures([picture("#000"), picture("#ff0000")])
    assert found["mean"] == [0.5, 0, 0] and found["std"] == [0.5, 0, 0] and found["max"] == [1, 0, 0]
    assert found["q10"] == [0, 0, 0] and found["q90"] == [1, 0, 0] and found["count"] == [2]


def test_rows_are_plain_parquet_that_datasets_loads(out: Path, tmp_path: Path) -> None:
    import datasets

    rows = datasets.load_dataset(str(out), split="train", cache_dir=str(tmp_path / "cache"))
    assert rows["frame_index"] == [0, 1, 0, 1] and rows["index"] == [0, 1, 2, 3]
    assert rows["next.reward"] == [0, 1, 0, 0] and rows["next.success"] == [False, True, False, False]
    assert rows["next.done"] == [False, True] * 2 and rows["timestamp"] == [0, 1, 0, 1]
    assert [image.size for image in rows["observation.images.screen"]] == [(160, 224)] * 4
    assert json.loads(rows[0]["reply.actions"]) == [{"type": "click", "x": 40, "y": 60}]
    info = json.loads((out / "meta" / "info.json").read_text())
    assert (info["codebase_version"], info["total_episodes"], info["total_frames"]) == ("v3.0", 2, 4)
    assert set(info["features"]) == set(rows.column_names)
    told = pq.read_table(out / EPISODES).to_pylist()
    assert [(one["dataset_from_index"], one["dataset_to_index"]) for one in told] == [(0, 2), (2, 4)]
    assert (
        pq.read_table(out / "meta" / "tasks.parquet").to_pandas().loc["Click on the red box."].task_index == 0
    )


def test_each_size_of_screens_is_a_data_set_and_a_change_is_left_out(tmp_path: Path) -> None:
    with TrajectoryStore(tmp_path / "run" / "trajectories") as store:
        phone, page = (108, 240), (160, 224)
        store.commit(
            [
                sized(store, "phone", phone, phone),
                sized(store, "turned", phone, (240, 108)),
                sized(store, "page", page),
            ]
        )
    ended = invoke("export", tmp_path / "run", "--as", "lerobot", "--to", tmp_path / "out")
    assert "2 episodes, 3 turns" in ended.output and "1 whose screen changes its size" in ended.output
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == ["108x240", "160x224"]
    assert brought(tmp_path / "out", tmp_path / "back").exit_code == 0
    assert [one.id for one in stored(tmp_path / "back")] == ["phone", "page"]
    other = invoke("export", tmp_path / "run", "--as", "atif", "--to", tmp_path / "all")
    assert "3 episodes" in other.output


def test_files_and_row_groups_are_cut_between_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("guiagent.formats.lerobot.writing._FILE", 1)
    monkeypatch.setattr("guiagent.formats.lerobot.writing._FILES", 2)
    monkeypatch.setattr("guiagent.formats.lerobot.writing._TOLD", 2)
    with TrajectoryStore(tmp_path / "run" / "trajectories") as store:
        store.commit([episode(store, f"e{number}") for number in range(5)])
    assert invoke("export", tmp_path / "run", "--as", "lerobot", "--to", tmp_path / "out").exit_code == 0
    files = sorted(
        str(one.relative_to(tmp_path / "out")) for one in (tmp_path / "out" / "data").rglob("*.parquet")
    )
    assert files == [f"data/chunk-00{number // 2}/file-00{number % 2}.parquet" for number in range(5)]
    table = pq.ParquetFile(tmp_path / "out" / EPISODES)
    assert table.num_row_groups == 3 and table.metadata.num_rows == 5
    places = [(one["data/chunk_index"], one["data/file_index"]) for one in table.read().to_pylist()]
    assert places == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
    assert brought(tmp_path / "out", tmp_path / "back").exit_code == 0
    assert [one.id for one in stored(tmp_path / "back")] == [f"e{number}" for number in range(5)]


def test_a_picture_with_another_number_of_channels_is_written_anew(tmp_path: Path) -> None:
    data = io.BytesIO()
    Image.new("RGBA", (160, 224), "#d33").save(data, "png")
    with TrajectoryStore(tmp_path / "run" / "trajectories") as store:
        store.commit([sized(store, "android", (160, 224), data=data.getvalue())])
    assert invoke("export", tmp_path / "run", "--as", "lerobot", "--to", tmp_path / "out").exit_code == 0
    [row] = pq.read_table(tmp_path / "out" / DATA).to_pylist()
    image = Image.open(io.BytesIO(row["observation.images.screen"]["bytes"]))
    assert image.mode == "RGB" and image.getpixel((0, 0)) == (221, 51, 51)


# -- others' -------------------------------------------------------------------------------------------------


def theirs(folder: Path, actions: list[str], **more: Any) -> Path:
    """A data set with a camera of another name, actions in words, and tasks as pandas names them."""
    image = {"dtype": "image", "shape": [224, 160, 3], "names": ["height", "width", "channels"]}
    words = {"dtype": "string", "shape": [1], "names": None}
    told = {"codebase_version": "v3.0", "fps": 20, "features": {"observation.image": image, "action": words}}
    count = len(actions)
    rows = {
        "observation.image": [{"bytes": picture("#d33"), "path": None}] * count,
        "action": actions,
        "episode_index": [3] * count,
        "frame_index": list(range(count)),
        "task_index": [1] * count,
    }
    for name in ("data/chunk-000", "meta/episodes/chunk-000"):
        (folder / name).mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(json.dumps(told | more))
    pq.write_table(
        pa.table({"task_index": [0, 1], "__index_level_0__": ["No", "Tap it"]}), folder / "meta/tasks.parquet"
    )
    pq.write_table(pa.table({"episode_index": [3], "length": [count]}), folder / EPISODES)
    pq.write_table(pa.table(rows), folder / DATA)
    return folder


def test_actions_in_words_are_read_by_a_dialect(tmp_path: Path) -> None:
    said = ["pyautogui.click(40, 60)", "pyautogui.write('7')"]
    folder = theirs(tmp_path / "theirs", said)
    ended = brought(folder, tmp_path / "back", "--dialect", "pyautogui", "--demonstrations")
    assert ended.exit_code == 0, ended.output
    [one] = stored(tmp_path / "back")
    assert [step.policy.actions[0]["type"] for step in one.steps] == ["click", "type"]
    assert [step.policy.text for step in one.steps] == said
    assert one.instruction == "Tap it" and one.success


def test_links_are_not_followed(out: Path, tmp_path: Path) -> None:
    (out / "data" / "chunk-000").rename(tmp_path / "elsewhere")
    (out / "data" / "chunk-000").symlink_to(tmp_path / "elsewhere")
    refused = brought(out, tmp_path / "back")
    assert isinstance(refused.exception, UsageError) and "data/chunk-000" in str(refused.exception)


def test_an_episode_of_tools_that_left_our_files_behind_comes_in_without_its_last_screen(
    out: Path, tmp_path: Path
) -> None:
    for one in (out / "meta" / "final").iterdir():
        one.unlink()
    assert brought(out, tmp_path / "back").exit_code == 0
    assert [one.final_frame for one in stored(tmp_path / "back")] == ["", ""]


# -- wrong files ---------------------------------------------------------------------------------------------

Edit = Callable[[Path], None]


def info(**more: Any) -> Edit:
    def edit(folder: Path) -> None:
        path = folder / "meta" / "info.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | more))

    return edit


def column(file: str, name: str, values: list[Any] | None, kind: Any = None) -> Edit:
    """Other values for a column; None takes it away."""

    def edit(folder: Path) -> None:
        table = pq.read_table(folder / file)
        place = table.schema.get_field_index(name)
        if values is None:
            table = table.remove_column(place)
        else:
            table = table.set_column(place, name, pa.array(values, kind or table.schema.field(name).type))
        pq.write_table(table, folder / file)

    return edit


def both(first: Edit, then: Edit) -> Edit:
    def edit(folder: Path) -> None:
        first(folder)
        then(folder)

    return edit


def lacks(file: str) -> Edit:
    return lambda folder: (folder / file).unlink()


def holds(file: str, data: bytes) -> Edit:
    return lambda folder: (folder / file).write_bytes(data) and None


def about(**more: Any) -> Edit:
    def edit(folder: Path) -> None:
        told = [
            json.loads(one) | more for one in pq.read_table(folder / EPISODES)["guiagent/about"].to_pylist()
        ]
        column(EPISODES, "guiagent/about", [json.dumps(one) for one in told])(folder)

    return edit


HUGE = io.BytesIO()
Image.new("1", (20_000, 10)).save(HUGE, "png")
SCREEN = "observation.images.screen"
VIDEO = {"observation.images.top": {"dtype": "video"}, "action": {"dtype": "string"}}
NUMBERS = {"observation.images.top": {"dtype": "image"}, "action": {"dtype": "float32"}}


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (info(codebase_version="v2.1"), "meta/info.json: the version 'v2.1' is none of v3"),
        (info(features=[]), "meta/info.json: Expected `object`, got `array`"),
        (info(features=VIDEO), "the screens are videos"),
        (info(features=NUMBERS), "no action is told in words"),
        (info(features={key: {"dtype": "image"} for key in "ab"}), "2 features are pictures"),
        (lacks("meta/info.json"), "there is no meta/info.json"),
        (holds("meta/info.json", b"\xff{"), "meta/info.json: "),
        (lacks("meta/tasks.parquet"), "meta/tasks.parquet: No such file"),
        (holds("meta/tasks.parquet", b"PAR1"), "cannot read "),
        (column("meta/tasks.parquet", "task_index", ["0"], pa.string()), "no column 'task_index'"),
        (
            both(column(EPISODES, "guiagent/about", None), column(DATA, "task_index", [9] * 4)),
            "episode 0: there is no task 9",
        ),
        (holds(DATA, b""), f"cannot read {{}}/{DATA}"),
        (holds(DATA, b"PAR1" + b"\xff" * 400 + b"PAR1"), f"cannot read {{}}/{DATA}"),
        (column(DATA, SCREEN, None), f"{DATA}: there is no column '{SCREEN}'"),
        (column(DATA, SCREEN, ["a"] * 4, pa.string()), f"there is no column '{SCREEN}'"),
        (column(DATA, SCREEN, [None] * 4), f"a row has no '{SCREEN}'"),
        (
            column(DATA, SCREEN, [{"bytes": None, "path": "/etc/passwd"}] * 4),
            "episode 0: the screen of frame 0",
        ),
        (column(DATA, SCREEN, [{"bytes": HUGE.getvalue(), "path": None}] * 4), "too large: 20000 x 10"),
        (column(DATA, "frame_index", None), "there is no column 'frame_index'"),
        (column(DATA, "frame_index", [0, 2, 0, 1]), "episode 0: its row 1 is frame 2"),
        (column(DATA, "episode_index", [0, 1, 0, 1]), "is frame 1: they are not in order"),
        (column(DATA, "episode_index", [0.5] * 4, pa.float32()), "there is no column 'episode_index'"),
        (column(DATA, "reply.actions", [None] * 4), "a row has no 'reply.actions'"),
        (column(DATA, "reply.actions", ["{" * 9999] * 4), "no reply is in the language that was named"),
        (column(EPISODES, "guiagent/about", ["[]"] * 2), f"{EPISODES}: episode 0: Expected `object`"),
        (about(final="../../../../../../../../etc/passwd"), "episode 0: no picture '../"),
        (about(score={"value": 7}), "the score 7.0 is not between 0 and 1"),
        (about(id="one"), "the episode 'one' is there twice"),
    ],
)
def test_what_is_wrong_is_one_line_that_says_where(out: Path, tmp_path: Path, edit: Edit, said: str) -> None:
    edit(out)
    refused = brought(out, tmp_path / "back")
    assert isinstance(refused.exception, UsageError), refused.exception
    line = str(refused.exception)
    assert said.format(out) in line and "\n" not in line and not (tmp_path / "back/trajectories").exists()


@pytest.mark.parametrize(
    ("where", "bound", "said"),
    [
        (reading, "_MOST_GROUP", "a row group has more than"),
        (reading, "_MOST_META", "meta/info.json: more than"),
        (reading, "MOST_TURNS", "more than 1 turns"),
        (pictures, "MOST_BYTES", "has more than 0 MiB"),
        (pictures, "MOST_OF_AN_EPISODE", "an episode has pictures of more than"),
    ],
)
def test_sizes_are_bounded(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Any, bound: str, said: str
) -> None:
    monkeypatch.setattr(where, bound, 1)
    refused = brought(out, tmp_path / "back")
    assert isinstance(refused.exception, UsageError) and said in str(refused.exception)


def test_a_value_that_is_a_million_rows_in_a_small_file_is_read_some_rows_at_a_time(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parquet keeps a value once and tells how often: here a screen, 100,000 times."""
    count = 100_000
    monkeypatch.setattr(reading, "MOST_TURNS", 50)
    table = pq.read_table(out / DATA).slice(0, 1).take(pa.array([0] * count, pa.int64()))
    place = table.schema.get_field_index("frame_index")
    table = table.set_column(place, "frame_index", pa.array(range(count), pa.int64()))
    pq.write_table(table, out / DATA)
    assert (out / DATA).stat().st_size < 4 * 2**20
    refused = brought(out, tmp_path / "back")
    assert "episode 0: more than 50 turns" in str(refused.exception)
