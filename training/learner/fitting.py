"""The optimiser steps of a supervised fit: learning rate, checkpoints, and skipping of non-finite steps."""

import fcntl
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from guiagent.errors import DivergedError, InfrastructureError
from training.checkpoints import checkpoint
from training.checkpoints.checkpoint import Loaded
from training.checkpoints.saver import Saver
from training.checkpoints.shards import Learned
from training.checkpoints.snapshot import Policy, Snapshot
from training.distributed.parallel import clip_gradients
from training.distributed.writers import LoneWriter, Writers

_WARM_UP_SHARE = 0.1
_FIRST, _LAST = 1 / 25, 1 / 250_000  # of the peak, at either end
_MAX_SKIPPED = 5
_LONE = LoneWriter()


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Learning rate of step `step`, from 1 to `steps`: up for the first tenth, then down, by half cosines.

    The one-cycle policy (Smith and Topin, arXiv 1708.07120) in the form of fast.ai and PyTorch. It depends on
    the step alone, so a resumed run needs only its step number.
    """
    top = max(_WARM_UP_SHARE * steps - 1, 0.0)  # where, counted from 0, the rate is highest
    at = step - 1.0
    if at < top:
        return _between(_FIRST * peak, peak, at / top)
    return _between(peak, _LAST * peak, (at - top) / max(steps - 1 - top, 1.0))


def _between(begin: float, end: float, share: float) -> float:
    return end + (begin - end) * (1 + math.cos(math.pi * share)) / 2


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Lock the folder: only one process at a time may keep its checkpoints there.

    Raises InfrastructureError if another process holds the lock or nothing can be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("w")
    except OSError as error:
        raise InfrastructureError(f"cannot write in {folder}: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InfrastructureError(
                f"another process is fitting in {folder}: wait for it or stop it"
            ) from None
        yield


class Taken(NamedTuple):
    """An optimiser step: gradient norm before clipping, learning rate, whether loss and norm are finite."""

    norm: float
    learning_rate: float
    finite: bool


@dataclass(frozen=True)
class Schedule:
    """A fit's number of steps, peak learning rate, gradient bound, and minutes between checkpoints."""

    steps: int
    peak: float  # of the learning rate
    max_grad_norm: float
    checkpoint_minutes: float


class Fit:
    """Optimiser steps by a `schedule`, continued from the checkpoint `loaded` if there is one.

    `writers` are the processes that each have a part of what is learned; all call the same methods, and rank
    0 names the checkpoints. `save` is collective, and so is `update` of a sharded model.
    """

    def __init__(
        self,
        folder: Path,
        learned: Learned,
        policy: Policy,
        schedule: Schedule,
        loaded: Loaded | None,
        writers: Writers = _LONE,
    ) -> None:
        self.step, self.steps = loaded.step if loaded else 0, schedule.steps
        assert learned.optimizer is not None
        self._folder, self._learned, self._optimizer = folder, learned, learned.optimizer
        self._policy, self._schedule, self._writers = policy, schedule, writers
        self._saver = Saver()
        self._skipped: int = loaded.state["skipped"] if loaded else 0  # optimiser steps in a row
        self._before: float = loaded.state["seconds"] if loaded else 0.0
        self._began = self._saved = time.monotonic()
        if loaded:
            loaded.restore(learned)

    @property
    def seconds(self) -> float:
        """Seconds of fitting, over all the run's sessions."""
        return self._before + time.monotonic() - self._began

    @property
    def due(self) -> bool:
        """Whether it is time for a checkpoint: the last one is older than `checkpoint_minutes`."""
        return time.monotonic() - self._saved > 60 * self._schedule.checkpoint_minutes

    def update(self, parameters: Iterable[Tensor], loss: float) -> Taken:
        """Take one optimiser step with the present gradients; skip and count a non-finite one.

        Raises:
            DivergedError: five steps in a row were skipped.
        """
        self.step += 1
        rate = learning_rate(self.step, self.steps, self._schedule.peak)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        norm = clip_gradients(parameters, self._schedule.max_grad_norm)
        finite = math.isfinite(loss) and math.isfinite(norm)
        if finite:
            self._optimizer.step()
        self._skipped = 0 if finite else self._skipped + 1
        if self._skipped >= _MAX_SKIPPED:
            self.wait()
            raise DivergedError(
                f"{_MAX_SKIPPED} steps in a row had a non-finite loss or gradient; lower the learning rate. "
                f"The last good checkpoint is in {self._folder}"
            )
        return Taken(norm, rate, finite)

    def save(self, state: Mapping[str, Any]) -> None:
        """Begin to write a checkpoint with the JSON `state`; it is written beside the next steps.

        Raises InfrastructureError if the one before could not be written.
        """
        self._saver.settle()
        self._saved = time.monotonic()
        last = self.step == self.steps
        snapshot = Snapshot(self._learned, self._policy, self._writers, last=last)
        step, kept = self.step, {"skipped": self._skipped, "seconds": self.seconds, **state}

        def write() -> Path | None:
            if self._writers.rank:
                snapshot.follow()
                return None
            return checkpoint.save(self._folder, step, snapshot, state=kept, rng={})

        self._saver.begin(write)

    def wait(self) -> None:
        """Wait for the checkpoint that is being written, however that ends."""
        self._saver.wait()

    def finish(self) -> Path | None:
        """Wait until the last checkpoint is written; return its folder on rank 0 if one was begun.

        Raises InfrastructureError if the disk is full or failing.
        """
        return self._saver.settle()
