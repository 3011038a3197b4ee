"""Files followed while they are written: torn ends, cut-off commits, replaced files, links, damage."""

import json
from pathlib import Path

import pytest

from guiagent.storage import trajectories
from guiagent.storage.following import LineFollower, StoreFollower
from guiagent.storage.plain import plain_file, read_plain
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import PolicyOutput, Step, Trajectory


def episode(store: TrajectoryStore, id: str, frame: bytes) -> Trajectory:
    step = Step(store.put_frame(frame), 4, 4, PolicyOutput("click"))
    return Trajectory(id, "click-test", 1, "Click.", [step], "task_done")


def test_only_whole_lines_are_read_and_none_twice(tmp_path: Path) -> None:
    lines = LineFollower(tmp_path, "metrics.jsonl")
    assert lines.read() == []
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b'{"step": 1}\n{"st')
    assert lines.read() == [b'{"step": 1}']
    with file.open("ab") as more:
        more.write(b'ep": 2}\n')
    assert lines.read() == [b'{"step": 2}']
    assert lines.read() == [] and lines.epoch == 0


@pytest.mark.parametrize("way", ["replaced", "cut off"])
def test_a_file_that_began_anew_is_read_from_its_beginning(tmp_path: Path, way: str) -> None:
    """A resumed run drops the lines of updates that it will make again."""
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b"1\n2\n3\n")
    lines = LineFollower(tmp_path, "metrics.jsonl")
    lines.read()
    if way == "replaced":
        (tmp_path / "new").write_bytes(b"1\n2\n4\n5\n")
        (tmp_path / "new").replace(file)
    else:
        file.write_bytes(b"1\n")
    assert lines.read() == ([b"1", b"2", b"4", b"5"] if way == "replaced" else [b"1"])
    assert lines.epoch == 1


def test_an_endless_line_does_not_hold_up_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("guiagent.storage.following.MOST_LINES", 8)
    (tmp_path / "metrics.jsonl").write_bytes(b"x" * 20 + b"\n1\n2\n")
    lines = LineFollower(tmp_path, "metrics.jsonl")
    found = [line for _ in range(6) for line in lines.read()]
    assert found[-2:] == [b"1", b"2"] and all(len(line) <= 8 for line in found)


def test_a_store_is_followed_commit_by_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectories, "SEGMENT_BYTES", 600)
    follower = StoreFollower(tmp_path, "trajectories")
    follower.refresh()
    assert follower.newest(5) == []
    with TrajectoryStore(tmp_path / "trajectories") as store:
        for number in range(12):
            store.commit([episode(store, f"e{number}", b"frame %d" % (number % 3))])
            follower.refresh()
            newest = follower.newest(3)
            assert [follower.trajectory(place).id for place in newest] == [
                f"e{n}" for n in range(number, max(-1, number - 3), -1)
            ]
            assert follower.frame(follower.trajectory(newest[0]).steps[0].frame) == b"frame %d" % (number % 3)
    assert len(list((tmp_path / "trajectories").glob("segment-*"))) > 2
    third = follower.newest(3)[-1]
    earlier = follower.newest(100, before=(third.segment, third.offset))
    assert [follower.trajectory(place).id for place in earlier] == [f"e{n}" for n in range(8, -1, -1)]
    assert follower.at(third.segment, third.offset) == third


def test_a_look_at_the_newest_episodes_reads_one_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long a run is: an older segment is indexed when somebody looks into it."""
    monkeypatch.setattr(trajectories, "SEGMENT_BYTES", 600)
    with TrajectoryStore(tmp_path / "trajectories") as store:
        for number in range(12):
            store.commit([episode(store, f"e{number}", b"frame %d" % number)])
    first = tmp_path / "trajectories" / "segment-000001.log"
    first.write_bytes(b"not to be read")
    follower = StoreFollower(tmp_path, "trajectories")
    follower.refresh()
    assert follower.trajectory(follower.newest(1)[0]).id == "e11"
    assert follower.damage == ""
    assert len(follower.newest(100)) < 12
    assert follower.damage == "segment-000001.log is damaged at byte 0: what follows is not shown"


def test_a_torn_commit_is_not_there_until_it_is_whole(tmp_path: Path) -> None:
    with TrajectoryStore(tmp_path / "trajectories") as store:
        store.commit([episode(store, "e0", b"zero")])
        whole = (tmp_path / "trajectories" / "segment-000001.log").stat().st_size
        store.commit([episode(store, "e1", b"one")])
    segment = tmp_path / "trajectories" / "segment-000001.log"
    data = segment.read_bytes()
    follower = StoreFollower(tmp_path, "trajectories")
    for end in range(whole, len(data)):
        segment.write_bytes(data[:end])
        follower.refresh()
        assert [follower.trajectory(p).id for p in follower.newest(5)] == ["e0"], end
    segment.write_bytes(data)
    follower.refresh()
    assert [follower.trajectory(place).id for place in follower.newest(5)] == ["e1", "e0"]


def test_bytes_that_changed_after_they_were_indexed_are_refused(tmp_path: Path) -> None:
    with TrajectoryStore(tmp_path / "trajectories") as store:
        store.commit([episode(store, "e0", b"zero")])
    segment = tmp_path / "trajectories" / "segment-000001.log"
    follower = StoreFollower(tmp_path, "trajectories")
    follower.refresh()
    [place] = follower.newest(1)
    hash = follower.trajectory(place).steps[0].frame
    data = bytearray(segment.read_bytes())
    data[34] ^= 1
    data[-1] ^= 1
    segment.write_bytes(bytes(data))
    with pytest.raises(KeyError):
        follower.trajectory(place)
    with pytest.raises(KeyError):
        follower.frame(hash)


@pytest.mark.parametrize("linked", ["metrics.jsonl", "trajectories", "trajectories/segment-000001.log"])
def test_links_below_the_folder_are_refused(tmp_path: Path, linked: str) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    with TrajectoryStore(elsewhere / "trajectories") as store:
        store.commit([episode(store, "secret", b"secret")])
    (elsewhere / "metrics.jsonl").write_text(json.dumps({"step": 1}) + "\n")
    (run / linked).parent.mkdir(parents=True)
    (run / linked).symlink_to(elsewhere / linked)
    follower = StoreFollower(run, "trajectories")
    follower.refresh()
    assert follower.newest(5) == []
    if linked == "metrics.jsonl":
        with pytest.raises(OSError):
            LineFollower(run, "metrics.jsonl").read()
    else:
        assert "cannot be read" in follower.damage


def test_no_part_of_a_path_leads_out_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "run").mkdir()
    for parts in (("..", "secret"), ("../secret",), ("",), (".",), ("a\0b",), (str(tmp_path / "secret"),)):
        with pytest.raises(OSError), plain_file(tmp_path / "run", *parts):
            pass
    (tmp_path / "run" / "long").write_bytes(b"x" * 100)
    assert read_plain(tmp_path / "run", "long", most=10) == b"x" * 10
