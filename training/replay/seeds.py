"""Copies the successes of another run into this run's store, as the first episodes of its replay."""

from collections.abc import Iterable

from msgspec.structs import replace

from guiagent.seeds import trainable
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import PolicyOutput, Trajectory


def adopt(source: TrajectoryStore, store: TrajectoryStore) -> Iterable[Trajectory]:
    """Yield the successes in `source`, each committed to `store` with its screenshots and without its group.

    Their policy version becomes 0: the other run's versions mean nothing for this run's age limit.

    Trajectories that `store` already holds are not written again, so this can be repeated after a crash.

    Raises UsageError for a success on an evaluation seed.
    """
    for trajectory in source:
        if not trajectory.success:
            continue
        trainable(trajectory.seed)
        steps = [replace(step, policy=_unversioned(step.policy)) for step in trajectory.steps]
        seed = replace(trajectory, steps=steps, group="", group_index=0, group_size=1)
        if seed.id not in store:
            for frame in seed.frames:
                store.put_frame(source.frame(frame))
            store.commit([seed])
        yield seed


def _unversioned(output: PolicyOutput) -> PolicyOutput:
    calls = [replace(call, policy_version=0, versions=[]) for call in output.calls]
    return replace(output, policy_version=0, versions=[], calls=calls)
