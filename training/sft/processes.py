"""Fine-tuning in a few processes of this machine, of one thread each, that share every step."""

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.multiprocessing.spawn import spawn

from guiagent.errors import GuiAgentError
from training.config import SftConfig
from training.distributed.parallel import joined
from training.identity import require_same
from training.sft.train import Fitted, Progress, fine_tune


def fine_tune_here(
    config: SftConfig,
    run: Path,
    processes: int,
    on_progress: Callable[[Progress], None],
    stop: Callable[[], bool] = lambda: False,
) -> Fitted:
    """Fine-tune as `training.sft.train.fine_tune` does, this process being the first of `processes`.

    Raises what that raises, and LostProcess if one of the others ended.
    """
    require_same(run, config)
    torch.set_num_threads(1)
    if processes == 1 or torch.cuda.is_available():  # a GPU is one process's
        fitted = fine_tune(config, run, on_progress, stop=stop)
    else:
        with _others(config, run, processes) as meeting, joined(meeting, place=(0, processes)) as ranks:
            fitted = fine_tune(config, run, on_progress, ranks, stop)
    assert fitted is not None, "rank 0 has what came of it"
    return fitted


@contextmanager
def _others(config: SftConfig, run: Path, processes: int) -> Iterator[str]:
    """Start the other processes, which end with the block, and yield where all of them meet."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        meeting = Path(folder, "processes").as_uri()
        others = spawn(_beside, (config, run, meeting, processes), processes - 1, join=False, daemon=True)
        try:
            yield meeting
            while not others.join():
                pass
        finally:
            for one in others.processes:
                one.kill()


def _beside(index: int, config: SftConfig, run: Path, meeting: str, processes: int) -> None:
    """Take part in every step until the first process ends, which alone reports and is asked to stop."""
    for asked in (signal.SIGINT, signal.SIGTERM):
        signal.signal(asked, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    try:
        with joined(meeting, place=(index + 1, processes)) as ranks:
            fine_tune(config, run, lambda _: None, ranks)
    except GuiAgentError:  # all of them raise what is wrong with the run, and the first one says it
        sys.exit(0)
