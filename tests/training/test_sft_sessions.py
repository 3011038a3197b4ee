"""Sessions of a fine-tuning run: another config is refused, a finished one is left alone, a stop saves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from guiagent.errors import StoppedError, UsageError
from guiagent.storage.trajectories import TrajectoryStore
from tests.training.test_sft import configured, episode, saved
from training.checkpoints import checkpoint as checkpoints
from training.sft.train import Progress, fine_tune


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TrajectoryStore]:
    with TrajectoryStore(tmp_path / "trajectories") as store:
        store.commit([episode(store, f"e{i}", 2) for i in range(4)])
        yield store


def nothing(progress: Progress) -> None:
    pass


def contents(folder: Path) -> dict[Path, int]:
    checkpoints = (folder / "checkpoints").rglob("*")
    return {path: path.lstat().st_mtime_ns for path in checkpoints if path.name != "lock"}


def test_another_config_in_its_folder_is_refused(checkpoint, store, tmp_path):
    run, config = tmp_path / "run", configured(store, checkpoint, steps=2)
    fine_tune(config, run, nothing)
    before = (run / "config.toml").read_bytes()
    with pytest.raises(UsageError, match="batch was 4, now 2"):
        fine_tune(config.model_copy(update={"batch": 2, "steps": 4}), run, nothing)
    assert (run / "config.toml").read_bytes() == before


def test_a_finished_one_is_left_as_it_is_and_goes_on_with_more_steps(checkpoint, store, tmp_path):
    run, config = tmp_path / "run", configured(store, checkpoint, steps=2)
    first = fine_tune(config, run, nothing)
    before = contents(run)
    again = fine_tune(config, run, nothing)
    assert first is not None and again is not None
    assert (first.before, again.before) == (False, True)
    assert (again.policy, again.step) == (first.policy, 2)
    assert contents(run) == before
    more = fine_tune(config.model_copy(update={"steps": 3}), run, nothing)
    assert more is not None and (more.step, more.before) == (3, False)


def test_a_stop_saves_what_is_learned_and_the_run_goes_on_bit_by_bit(checkpoint, store, tmp_path):
    config = configured(store, checkpoint, steps=4)
    fine_tune(config, tmp_path / "whole", nothing)
    seen: list[int] = []
    run = tmp_path / "stopped"
    with pytest.raises(StoppedError, match=r"stopped at step 2, saved in .*step-000002"):
        fine_tune(config, run, lambda p: seen.append(p.step), stop=lambda: len(seen) >= 1)
    loaded = checkpoints.load(run / "checkpoints")
    assert loaded is not None and loaded.step == 2
    fine_tune(config, run, nothing)
    whole, stopped = saved(tmp_path / "whole"), saved(run)
    assert all((whole[name] == stopped[name]).all() for name in whole)
