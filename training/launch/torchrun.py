"""`guiagent train --launch torchrun`: one run, its learner sharded over several processes with FSDP2.

If one of them dies, the run ends; the same command, with any number of processes, continues from the last
checkpoint. On several hosts, start each with PyTorch's own launcher, with the folders of run and policy on
storage that all hosts share:

    torchrun --nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:PORT \\
        -m guiagent.cli train --launch torchrun --recipe RECIPE --run RUN

torch.distributed has no password: whoever reaches its ports can join. Processes started here meet in a file
and listen on loopback only.
"""

import logging
import os
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from guiagent.errors import DivergedError, InfrastructureError, StoppedError, UsageError
from training.config import TrainConfig
from training.distributed.parallel import MEETING, Distributed, LostProcess, collective, joined
from training.launch.leading import FollowerRanks
from training.launch.leading import follow as follow_rank_0
from training.launch.leading import leading as followers_led

_ID = "guiagent-"  # prefix of the ids of runs started here
QUIET = 75  # exit code of a process that ends because another one died; the launcher reports that one
_REPORTED = (
    UsageError.exit_code,
    InfrastructureError.exit_code,
)  # exit codes of a process that reported its error itself, in one line


@contextmanager
def leading(ranks: Distributed) -> Iterator[FollowerRanks]:
    """On rank 0: run `training.launch.leading.leading`.

    If another rank was lost and our own launcher reports it, the process ends silently.
    """
    try:
        with followers_led(ranks) as followers:
            yield followers
    except LostProcess:
        if launched_here():
            sys.exit(QUIET)
        raise


def follow(config: TrainConfig, ranks: Distributed) -> None:
    """On every other rank: run `training.launch.leading.follow`."""
    try:
        follow_rank_0(config, ranks)
    except (LostProcess, DivergedError):  # rank 0 raises the latter too, and reports it
        sys.exit(QUIET)


@contextmanager
def joined_alike() -> Iterator[Distributed]:
    """Join processes that all do the same, without a leader. Rank 0 reports an error that all of them raise.

    If a process was lost, the others end silently, provided that our own launcher is there to report it.
    """
    with joined() as ranks:
        try:
            with collective("learning"):
                yield ranks
        except LostProcess:
            if ranks.rank or launched_here():
                sys.exit(QUIET)
            raise
        except (UsageError, DivergedError, StoppedError) as error:
            if ranks.rank == 0:
                raise
            with suppress(LostProcess), collective("ending"):
                ranks.receive()  # until rank 0 has reported and ended: the launcher ends all when one ends
            sys.exit(error.exit_code)


def launched() -> bool:
    """Whether this process was started by torchrun, by ours or any other command."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def start(processes: int, arguments: Sequence[str]) -> None:
    """Run `guiagent` with `arguments` in so many local processes, and wait until all have ended.

    Raises InfrastructureError if one was lost. If one reported its own error in a line, this process ends
    with the same exit code.
    """
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # errors are reported below
    os.environ.update(GLOO_SOCKET_IFNAME="lo", NCCL_SOCKET_IFNAME="lo")
    try:
        # PyTorch's TCP stores listen on all interfaces, so launcher and processes each meet in a file.
        with tempfile.TemporaryDirectory(prefix="guiagent-torchrun-") as folder:
            os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
            os.environ[MEETING] = Path(folder, "processes").as_uri()
            config = LaunchConfig(
                min_nodes=1,
                max_nodes=1,
                nproc_per_node=processes,
                run_id=f"{_ID}{uuid.uuid4()}",
                rdzv_backend="c10d",
                rdzv_endpoint=f"{folder}/launcher",
                rdzv_configs={"store_type": "file"},
                local_addr="127.0.0.1",
                max_restarts=0,
            )
            elastic_launch(config, sys.executable)("-m", "guiagent.cli", *arguments)
    except SignalException as stopped:
        if stopped.sigval == signal.SIGINT:
            raise KeyboardInterrupt from stopped
        sys.exit(128 + stopped.sigval)
    except ChildFailedError as error:
        codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
        raise _failure(codes, processes) from error


def _failure(codes: Mapping[int, int], processes: int) -> InfrastructureError | SystemExit:
    """Choose the error to raise from the exit codes of the processes that failed, by rank."""
    for code in codes.values():
        if code in _REPORTED:
            return SystemExit(code)
    followed = (QUIET, -signal.SIGTERM)  # processes that ended because another one failed
    first = {rank: code for rank, code in codes.items() if code not in followed} or codes
    rank, code = min(first.items())
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return InfrastructureError(
        f"process {rank} of {processes} {how}; the same command goes on from the last checkpoint"
    )


def launched_here() -> bool:
    return os.environ.get("TORCHELASTIC_RUN_ID", "").startswith(_ID)
