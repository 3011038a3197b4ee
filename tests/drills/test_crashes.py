"""kill -9, a full disk and a failing one at the file operations of a training step; at all with -m drill."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.drills.crashes import BEFORE, GROUPS, Drill
from tests.drills.replayed import Outcome, copied, evidence


@pytest.fixture(scope="module")
def drill(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    drill = Drill(tmp_path_factory.mktemp("drill"), checkpoint)
    yield drill
    drill.close()


def test_a_killed_run_comes_to_the_same_weights(drill: Drill) -> None:
    points = drill.points
    assert {"pwrite64", "write", "fsync", "rename", "unlinkat"} <= {point.call for point in points}
    verdicts = drill.kill(points[len(points) // 8 :: len(points) // 4])
    assert verdicts.problems == []
    assert verdicts.killed == verdicts.points >= 4


def test_a_full_disk_is_one_line_and_the_run_goes_on_from_it(drill: Drill) -> None:
    points = [point for point in drill.points if point.main and point.call in ("pwrite64", "fsync")]
    verdicts = drill.refuse(points[:: len(points) - 1], errno.ENOSPC)
    assert verdicts.problems == []
    assert verdicts.failed >= 2


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
    points = drill.points
    verdicts = drill.kill(points)
    assert verdicts.problems == []
    assert verdicts.killed >= 0.9 * verdicts.points >= 90


@pytest.mark.drill
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
def test_a_disk_that_fails_at_every_file_operation(drill: Drill, number: int) -> None:
    verdicts = drill.refuse(drill.points, number)
    assert verdicts.problems == []
    assert verdicts.failed >= 50
