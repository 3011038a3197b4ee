"""Episodes as videos: what is drawn on them, how long they are, and that a bad picture is one line."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from guiagent.cli import app
from guiagent.errors import UsageError
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import PolicyOutput, Step
from tests.support.watched import episode, picture

av = pytest.importorskip("av")


def export(folder: Path, to: Path, *more: str) -> None:
    done = CliRunner().invoke(
        app, ["export", str(folder), "--as", "video", "--to", str(to), *more], catch_exceptions=True
    )
    if done.exception is not None:
        raise done.exception


def test_clicks_are_drawn_and_actions_told(tmp_path: Path) -> None:
    with TrajectoryStore(tmp_path / "trajectories") as store:
        one = episode(store, "a", text="\u202e\x1b[2J<script>")
        frame = store.put_frame(picture("#555"))
        drag = {"type": "drag", "path": [[10, 10], [100, 90]]}
        one.steps.append(Step(frame, 160, 224, PolicyOutput("", [drag])))
        one.steps.append(Step(frame, 160, 224, PolicyOutput("no action at all", error="none")))
        store.commit([one])
    export(tmp_path, tmp_path / "out")
    with av.open(str(tmp_path / "out" / "a.mp4")) as video:
        frames = [frame.to_image() for frame in video.decode(video=0)]
        assert video.streams.video[0].average_rate == 4
    assert len(frames) == 5 * 6  # four turns and the end
    assert frames[0].size == (160, 224 + 28)

    def drawn(turn: int, x: int, y: int) -> bool:
        """True if the action is drawn there: the turn begins with the screen as it was."""
        was, now = (frames[number].getpixel((x, y)) for number in (6 * turn, 6 * turn + 3))
        return sum(abs(a - b) for a, b in zip(was, now, strict=True)) > 60

    assert drawn(1, 46, 60) and not drawn(1, 40, 60) and not drawn(1, 100, 60)  # a ring round (40, 60)
    assert drawn(2, 55, 50) and not drawn(2, 55, 120)  # the way of the drag
    assert not drawn(3, 40, 60)
    for number in range(0, 30, 6):
        low, high = frames[number].crop((0, 226, 160, 250)).convert("L").getextrema()
        assert (low < 60, high > 150) == (True, True)  # white words on black


def test_sizes_are_even_and_bounded(tmp_path: Path) -> None:
    with TrajectoryStore(tmp_path / "trajectories") as store:
        one = episode(store, "a")
        large = store.put_frame(picture("#777", (2561, 1001)))
        one.steps = [Step(large, 2561, 1001, PolicyOutput("", [{"type": "click", "x": 2560, "y": 1000}]))]
        store.commit([one])
    export(tmp_path, tmp_path / "out")
    with av.open(str(tmp_path / "out" / "a.mp4")) as video:
        stream = video.streams.video[0]
        assert (stream.width, stream.height) == (1280, 500 + 28)
    assert (tmp_path / "out" / "a.mp4").stat().st_size < 200_000


def test_a_bad_picture_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    with TrajectoryStore(tmp_path / "trajectories") as store:
        one = episode(store, "a")
        one.steps[0].frame = store.put_frame(b"no picture")
        store.commit([one])
    with pytest.raises(UsageError, match="a picture of the episode cannot be read"):
        export(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
