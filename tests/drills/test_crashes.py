"""kill -9, failing and full disks at file operations of a training step; all of them with `-m drill`."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drills.crashes import BEFORE, GROUPS, Drill, Point
from tests.drills.full_disk import small_disk
from tests.drills.replayed import Outcome, copied, evidence

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def drill(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    drill = Drill(tmp_path_factory.mktemp("drill"), checkpoint)
    yield drill
    drill.close()


def some(points: list[Point], number: int) -> list[Point]:
    return points[len(points) // (2 * number) :: len(points) // number]


def test_a_killed_run_comes_to_the_same_weights(drill: Drill) -> None:
    points = drill.changes
    assert {"pwrite64", "write", "fsync", "rename", "unlinkat"} <= {point.call for point in points}
    verdicts = drill.kill(some(points, 4))
    assert verdicts.problems == []
    assert verdicts.killed == verdicts.points >= 4


def test_a_disk_that_fails_is_one_line_and_the_run_goes_on_from_it(drill: Drill) -> None:
    writes = [point for point in drill.changes if point.call in ("pwrite64", "write", "fsync")]
    verdicts = drill.refuse(some(writes, 3), errno.ENOSPC)
    assert verdicts.problems == []
    assert verdicts.failed >= 1


def test_what_cannot_be_read_is_one_line_or_passed_over(drill: Drill) -> None:
    """The folder of checkpoints first: a run that took it for empty would start over in it."""
    opened = [point for point in drill.reads if point.call == "openat"]
    files = "checkpoints", "checkpoints/step-000002/state.json", "trajectories", "metrics.jsonl"
    points = [point for point in opened if point.path in files and point.number == 1]
    assert len(points) == len(files)
    verdicts = drill.refuse(points, errno.EACCES)
    assert verdicts.problems == []
    assert (verdicts.failed, verdicts.passed_over) == (3, 1)


def test_gradients_that_are_not_finite_change_no_weight_and_end_the_run(drill: Drill, tmp_path: Path) -> None:
    run = copied(drill.base, tmp_path / "run")
    last = BEFORE + 4  # the fifth in a row ends it
    outcome = drill.sessions.run(run, GROUPS, poison=BEFORE)
    assert outcome.code != 0
    assert "update.learning_rate" in outcome.said
    left, good = evidence(run), evidence(drill.base)
    assert left["step"] == last
    assert left["hashes"] == good["hashes"]
    skipped = [(line["skipped_updates"], line["updates"]) for line in left["metrics"][BEFORE:]]
    assert skipped == [(1.0, 0.0)] * 4

    assert drill.sessions.run(run, GROUPS) == Outcome(0, "")
    assert evidence(run)["hashes"] != good["hashes"]
    assert [line["step"] for line in evidence(run)["metrics"]] == list(range(1, GROUPS + 1))


@pytest.mark.drill
def test_killed_at_every_file_operation(drill: Drill) -> None:
    verdicts = drill.kill(drill.changes)
    assert verdicts.problems == []
    assert verdicts.killed >= 0.9 * verdicts.points >= 100


@pytest.mark.drill
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
def test_a_disk_that_fails_at_every_file_operation(drill: Drill, number: int) -> None:
    frees = ("unlink", "unlinkat", "rmdir", "ftruncate") if number == errno.ENOSPC else ()
    verdicts = drill.refuse([point for point in drill.changes if point.call not in frees], number)
    assert verdicts.problems == []
    assert verdicts.failed >= 60


@pytest.mark.drill
def test_a_disk_that_fails_at_every_read(drill: Drill) -> None:
    """To open is refused, as by a wrong owner; reading fails, as on a bad disk."""
    verdicts = drill.refuse([point for point in drill.reads if point.call == "openat"], errno.EACCES)
    verdicts += drill.refuse([point for point in drill.reads if point.call != "openat"], errno.EIO)
    assert verdicts.problems == []
    assert verdicts.failed >= 60
    assert verdicts.passed_over >= 10


@pytest.mark.drill
def test_a_disk_with_only_some_bytes_left(checkpoint: Path, tmp_path: Path) -> None:
    """Full for all threads and from then on, as a disk is; what fails then are also the ways out."""
    with small_disk(tmp_path, 512) as disk:
        drill = Drill(disk, checkpoint)
        try:
            verdicts = drill.fill([share / 12 for share in range(12)])
        finally:
            drill.close()
    assert verdicts.problems == []
    assert verdicts.failed >= 10
