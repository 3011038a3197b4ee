"""`guiagent train --launch torchrun`: one run, its learner sharded over several processes with FSDP2.

Rank 0 runs all that one process runs: rollouts, replay, metrics, checkpoints. The others do to their part of
the learner what is done to rank 0's: a call of `Learner` is a message, msgpack and never a pickle. Where one
of them dies the run ends; the same command, with as many processes as one likes, goes on from the last
checkpoint. On several hosts, start each with PyTorch's own launcher, the folders of run and policy on storage
that all see:

    torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:PORT \\
        -m guiagent.cli train --launch torchrun --recipe RECIPE --run RUN

torch.distributed has no password: whoever reaches its ports can join. What is started here listens on
loopback only.
"""

import logging
import os
import signal
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from guiagent.errors import DivergedError, InfrastructureError, UsageError
from training import checkpoint as checkpoints
from training.algorithms import find_algorithm
from training.algorithms.algorithm import Algorithm
from training.checkpoint import OptimizerState
from training.config import TrainConfig, UpdateConfig
from training.encode import Encoder
from training.learner import Learner, Update
from training.parallel import Distributed, LostProcess, collective, shard
from training.replay import Group

_ID = "guiagent-"  # begins the name of what is started here
_QUIET = 75  # exit code of a process that ends because another one died, which is for the launcher to tell
_SAID = (UsageError.exit_code, InfrastructureError.exit_code)  # those of a process that told why, in one line


class _Open(msgspec.Struct, tag=True):
    checkpoint: str
    start: str
    temperature: float
    longest: int
    verdicts: str | None


class _Restore(msgspec.Struct, tag=True):
    """Put back what the opened checkpoint's run had learned so far."""

    state: dict[str, Any]


class _Learn(msgspec.Struct, tag=True):
    groups: list[Group]
    frames: dict[str, bytes]


class _Weights(msgspec.Struct, tag=True):
    """Take part in gathering them; so of the others."""


class _Adapter(msgspec.Struct, tag=True):
    pass


class _Optimizer(msgspec.Struct, tag=True):
    pass


class _Save(msgspec.Struct, tag=True):
    pass


class _End(msgspec.Struct, tag=True):
    pass


_Message = _Open | _Restore | _Learn | _Weights | _Adapter | _Optimizer | _Save | _End

_decode: Callable[[bytes], _Message] = msgspec.msgpack.Decoder(_Message).decode


class Others:
    """The ranks that do as rank 0 says. `idle` while they wait for the next message."""

    def __init__(self, ranks: Distributed) -> None:
        self.ranks = ranks
        self.idle = True

    @contextmanager
    def doing(self, message: _Message) -> Iterator[None]:
        """Tell them, and do it here meanwhile. What breaks off leaves them in the middle of it."""
        self.idle = False
        with collective("learning"):
            self.ranks.send(msgspec.msgpack.encode(message))
            yield
        self.idle = True

    def dismiss(self) -> None:
        """Tell them that the run is over. Those who are past hearing it see this process end."""
        if self.idle:
            with suppress(LostProcess), self.doing(_End()):
                pass


class LeadingLearner(Learner):
    """Rank 0's part of a learner: before it does anything, it tells the other ranks to do the same."""

    def __init__(
        self,
        checkpoint: Path,
        encoder: Encoder,
        algorithm: Algorithm,
        config: UpdateConfig,
        *,
        others: Others,
        start: Path | None = None,
        temperature: float = 1.0,
        longest: int = 1,
        verdicts: Path | None = None,
    ) -> None:
        self._others = others
        asked = _Open(
            str(checkpoint),
            str(start or checkpoint),
            temperature,
            longest,
            str(verdicts) if verdicts else None,
        )
        with others.doing(asked):
            super().__init__(
                checkpoint, encoder, algorithm, config,
                start=start, temperature=temperature, longest=longest, verdicts=verdicts,
                **_placement(config, others.ranks),
            )  # fmt: skip

    def step(self, groups: Sequence[Group], frame: Callable[[str], bytes]) -> Update:
        hashes = {step.frame for group in groups for t in group.members for step in t.steps}
        with self._others.doing(_Learn(list(groups), {hash: frame(hash) for hash in sorted(hashes)})):
            return super().step(groups, frame)

    def weights(self) -> dict[str, Tensor]:
        with self._others.doing(_Weights()):
            return super().weights()

    def adapter(self) -> dict[str, Tensor]:
        with self._others.doing(_Adapter()):
            return super().adapter()

    def optimizer_state(self) -> OptimizerState:
        with self._others.doing(_Optimizer()):
            return super().optimizer_state()

    def save(self, directory: Path) -> None:
        with self._others.doing(_Save()):
            super().save(directory)

    def restore(self, state: Mapping[str, Any], critic: dict[str, Tensor]) -> None:
        with self._others.doing(_Restore(dict(state))):
            super().restore(state, critic)


@contextmanager
def leading(ranks: Distributed) -> Iterator[Callable[..., Learner]]:
    """On rank 0: what makes the run's learner, called as `Learner` is. On leaving, the others are dismissed.

    Where one of them was lost, and a launcher of ours is there to say so, the process ends without a word.
    """
    others = Others(ranks)
    try:
        yield partial(LeadingLearner, others=others)
    except LostProcess:
        if _launched_here():
            sys.exit(_QUIET)
        raise
    finally:
        others.dismiss()


def follow(config: TrainConfig, ranks: Distributed) -> None:
    """On every other rank: do what rank 0 does to its learner, until it says that the run is over."""
    try:
        _follow(config, ranks)
    except (LostProcess, DivergedError):  # all ranks find the latter at once, and rank 0 tells
        sys.exit(_QUIET)


def _follow(config: TrainConfig, ranks: Distributed) -> None:
    opened, learner = _Open("", "", 1.0, 1, None), None
    while True:
        with collective("waiting"):
            message = _decode(ranks.receive())
        if isinstance(message, _End):
            return
        with collective("learning"):
            if isinstance(message, _Open):
                opened, learner = message, _opened(message, config, ranks)
                continue
            assert learner is not None, "rank 0 opens a learner before it asks anything of it"
            match message:
                case _Restore(state):
                    loaded = checkpoints.reopen(Path(opened.checkpoint).parent)
                    loaded.restore(learner.optimizer, {})
                    learner.restore(state, loaded.extra("critic"))
                case _Learn(groups, frames):
                    learner.step(groups, frames.__getitem__)
                case _Weights():
                    learner.weights()
                case _Adapter():
                    learner.adapter()
                case _Optimizer():
                    learner.optimizer_state()
                case _Save():
                    learner.save(Path())  # it only takes part: rank 0 writes


def _opened(asked: _Open, config: TrainConfig, ranks: Distributed) -> Learner:
    return Learner(
        Path(asked.checkpoint),
        Encoder(Path(asked.start), config.dialect, config.max_pixels),
        find_algorithm(config.update.algorithm),
        config.update,
        start=Path(asked.start),
        temperature=asked.temperature,
        longest=asked.longest,
        verdicts=Path(asked.verdicts) if asked.verdicts else None,
        **_placement(config.update, ranks),
    )


def _placement(config: UpdateConfig, ranks: Distributed) -> dict[str, Any]:
    precision = torch.bfloat16 if config.precision == "bfloat16" else torch.float32
    return {"device": ranks.device, "ranks": ranks, "shard": partial(shard, ranks=ranks, precision=precision)}


# -- starting the processes ---------------------------------------------------------------------------------


def launched() -> bool:
    """Whether this process is one of several that torchrun started, by whatever command."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def start(processes: int, arguments: Sequence[str]) -> None:
    """Run `guiagent` with `arguments` in so many processes of this machine, and wait until all have ended.

    Raises InfrastructureError where one was lost. Where one told its own error in a line, this process ends
    with its exit code.
    """
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # we say what there is to say
    os.environ.update(GLOO_SOCKET_IFNAME="lo", NCCL_SOCKET_IFNAME="lo")
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=f"{_ID}{uuid.uuid4()}",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="127.0.0.1",
        max_restarts=0,
    )
    try:
        elastic_launch(config, sys.executable)("-m", "guiagent.cli", *arguments)
    except SignalException as stopped:
        if stopped.sigval == signal.SIGINT:
            raise KeyboardInterrupt from stopped
        sys.exit(128 + stopped.sigval)
    except ChildFailedError as error:
        codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
        raise _failure(codes, processes) from error


def _failure(codes: Mapping[int, int], processes: int) -> InfrastructureError | SystemExit:
    """What to make of the exit codes of those that failed, by rank."""
    for code in codes.values():
        if code in _SAID:
            return SystemExit(code)
    followed = (_QUIET, -signal.SIGTERM)  # of those that the launcher ended
    first = {rank: code for rank, code in codes.items() if code not in followed} or codes
    rank, code = min(first.items())
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return InfrastructureError(
        f"process {rank} of {processes} {how}; the same command goes on from the last checkpoint"
    )


def _launched_here() -> bool:
    return os.environ.get("TORCHELASTIC_RUN_ID", "").startswith(_ID)
