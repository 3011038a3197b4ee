"""One learner in several processes: every call on rank 0's part is repeated by the other ranks.

Rank 0 runs all that a single process runs: rollouts, replay, metrics, checkpoints. A call of its `Learner` is
a message to the others (msgpack, never a pickle), and then a collective computation of all. The processes may
be started by torchrun (`training.launch.torchrun`) or Ray Train (`training.launch.ray`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import xxhash
from torch import Tensor

from guiagent.errors import InfrastructureError
from training.algorithms.adjusted import algorithm_of
from training.algorithms.algorithm import Algorithm
from training.checkpoints import checkpoint as checkpoints
from training.checkpoints.checkpoint import Loaded
from training.checkpoints.saver import Saver
from training.checkpoints.snapshot import Snapshot
from training.config import TrainConfig, UpdateConfig, checkpoint_folder
from training.distributed.parallel import Distributed, LostProcess, collective
from training.inputs.encoder import Encoder
from training.learner.frames import Frames
from training.learner.labels import Labelled, Labels
from training.learner.learner import Learner, LearnerContext, Update
from training.learner.signals import SignalSources
from training.model.network import Placement
from training.replay import Group
from training.tiny.progress import ProgressEstimator


class _Open(msgspec.Struct, tag=True):
    checkpoint: str
    seal: str
    start: str
    temperature: float
    longest: int


class _Load(msgspec.Struct, tag=True):
    """Load what is learned from the run's checkpoint at this path, which has this seal."""

    path: str
    seal: str


class _Learn(msgspec.Struct, tag=True):
    groups: list[Group]
    labels: dict[str, Labels]  # by trajectory; empty if the algorithm does not use labels


class _Weights(msgspec.Struct, tag=True):
    """Take part in gathering the weights; the messages below are alike."""


class _Adapter(msgspec.Struct, tag=True):
    pass


class _Snapshot(msgspec.Struct, tag=True):
    """Copy what is learned, and write it beside the messages that follow."""

    last: bool


class _Save(msgspec.Struct, tag=True):
    pass


class _End(msgspec.Struct, tag=True):
    pass


_Message = _Open | _Load | _Learn | _Weights | _Adapter | _Snapshot | _Save | _End

_decode: Callable[[bytes], _Message] = msgspec.msgpack.Decoder(_Message).decode

Fetch = Callable[[Path], Path]
_NO_RUN = LearnerContext()


class FollowerRanks:
    """The ranks that repeat rank 0's calls. `idle` is True while they wait for the next message."""

    def __init__(self, ranks: Distributed) -> None:
        self.ranks = ranks
        self.idle = True

    @contextmanager
    def doing(self, message: _Message) -> Iterator[None]:
        """Send a message to the ranks; the body does the same here. After an error they are not `idle`."""
        self.idle = False
        with collective("learning"):
            self.ranks.send(msgspec.msgpack.encode(message))
            yield
        self.idle = True

    def open_learner(
        self,
        checkpoint: Path,
        encoder: Encoder,
        algorithm: Algorithm,
        config: UpdateConfig,
        context: LearnerContext = _NO_RUN,
    ) -> Learner:
        """Open a learner shared by all ranks, or an ordinary one if rank 0 is the only rank."""
        if self.ranks.world == 1:
            return Learner(checkpoint, encoder, algorithm, config, context)
        return Rank0Learner(checkpoint, encoder, algorithm, config, context, self)

    def dismiss(self) -> None:
        """Tell the ranks that the run is over, if they are idle; otherwise they see this process end."""
        if self.idle and self.ranks.world > 1:
            with suppress(LostProcess), self.doing(_End()):
                pass


class Rank0Learner(Learner):
    """Rank 0's part of a learner: each call first tells the other ranks to do the same."""

    def __init__(
        self,
        checkpoint: Path,
        encoder: Encoder,
        algorithm: Algorithm,
        config: UpdateConfig,
        context: LearnerContext,
        followers: FollowerRanks,
    ) -> None:
        self._followers, self._labelled = followers, context.sources.labels
        self._asks = "labels" in algorithm.signals
        self._sent: dict[str, Labels] = {}  # as the followers have them: a judge's log may grow
        start = str(context.start or checkpoint)
        seal = _seal(checkpoint.parent)
        asked = _Open(str(checkpoint), seal, start, context.temperature, context.longest)
        sources = replace(context.sources, labels=lambda one: self._sent[one.id])
        with followers.doing(asked):
            placement = Placement.over(followers.ranks, config.precision)
            super().__init__(
                checkpoint, encoder, algorithm, config, replace(context, sources=sources), placement
            )

    def step(self, groups: Sequence[Group], frame: Frames) -> Update:
        members = [member for group in groups for member in group.members]
        self._sent = {member.id: self._labelled(member) for member in members} if self._asks else {}
        with self._followers.doing(_Learn(list(groups), self._sent)):
            return super().step(groups, frame)

    def weights(self) -> dict[str, Tensor]:
        with self._followers.doing(_Weights()):
            return super().weights()

    def adapter(self) -> dict[str, Tensor]:
        with self._followers.doing(_Adapter()):
            return super().adapter()

    def snapshot(self, *, last: bool = False) -> Snapshot:
        with self._followers.doing(_Snapshot(last)):
            return super().snapshot(last=last)

    def save(self, directory: Path) -> None:
        with self._followers.doing(_Save()):
            super().save(directory)

    def load(self, loaded: Loaded) -> None:
        with self._followers.doing(_Load(str(loaded.path), _seal(loaded.path))):
            super().load(loaded)


@contextmanager
def leading(ranks: Distributed) -> Iterator[FollowerRanks]:
    """On rank 0: yield the other ranks, which open the run's learner with it; dismiss them at the end."""
    followers = FollowerRanks(ranks)
    try:
        yield followers
    finally:
        followers.dismiss()


def follow(config: TrainConfig, ranks: Distributed, fetch: Fetch | None = None) -> None:
    """On every other rank: repeat what rank 0 does with its learner, until the run is over.

    `fetch` downloads a checkpoint folder of the run that this machine lacks, and returns its local path. What
    rank 0 snapshots is written in a thread beside what it asks next.

    Raises LostProcess if another rank was lost, DivergedError as rank 0 does, and InfrastructureError if the
    run's checkpoint is not available here.
    """
    checkpoint_folder(config.policy)  # rank 0 names it by its path; here it may have to be downloaded first
    learner: Learner | None = None
    saver = Saver()
    received: dict[str, Labels] = {}
    while True:
        with collective("waiting"):
            message = _decode(ranks.receive())
        if isinstance(message, _End):
            saver.settle()
            return
        with collective("learning"):
            if isinstance(message, _Open):
                model = Path(message.checkpoint)
                path = _found(model.parent, message.seal, fetch) / model.name
                learner = _opened(message, path, config, ranks, lambda one: received[one.id])
                continue
            assert learner is not None, "rank 0 opens a learner before it asks anything of it"
            match message:
                case _Load(saved, seal):
                    learner.load(checkpoints.reopen(_found(Path(saved), seal, fetch)))
                case _Learn(groups, labels):
                    received.clear()
                    received.update(labels)
                    learner.step(groups, _elsewhere)
                case _Weights():
                    learner.weights()
                case _Adapter():
                    learner.adapter()
                case _Snapshot(last):
                    saver.begin(learner.snapshot(last=last).follow)
                case _Save():
                    learner.save(Path())  # it only takes part: rank 0 writes


def _elsewhere(name: str) -> bytes:
    """In place of the store, which rank 0 has: it sends the screenshots that this rank learns from."""
    raise KeyError(f"the screenshot {name} is not among those that rank 0 sent")


def _found(folder: Path, seal: str, fetch: Fetch | None) -> Path:
    """Return the local path of the checkpoint that rank 0 opens, or of the folder of a model outside of one.

    It must be the same checkpoint, byte for byte: parts of two different ones do not make a model.
    """
    if fetch is not None and _seal(folder) != seal:
        folder = fetch(folder)
    if _seal(folder) != seal:
        raise InfrastructureError(
            f"{folder} is not on every node what it is where the run is: keep runs on storage that all "
            "nodes share, or at a URL (--run s3://...)"
        )
    return folder


def _seal(folder: Path) -> str:
    """Return a digest that identifies a run's checkpoint; "" for a folder that is none."""
    try:
        return xxhash.xxh3_128_hexdigest((folder / "manifest.json").read_bytes())
    except FileNotFoundError:
        return ""


def _opened(
    asked: _Open, checkpoint: Path, config: TrainConfig, ranks: Distributed, labels: Labelled
) -> Learner:
    return Learner(
        checkpoint,
        Encoder(Path(asked.start), config.dialect, config.max_pixels),
        algorithm_of(config.update),
        config.update,
        LearnerContext(
            Path(asked.start), asked.temperature, asked.longest, SignalSources(labels, ProgressEstimator)
        ),
        Placement.over(ranks, config.update.precision),
    )
