"""Fine-tuning in a few processes of this machine, of one thread each, that share every step."""

import sys
from collections.abc import Callable
from pathlib import Path

import torch

from guiagent.errors import GuiAgentError
from training.config import SftConfig
from training.distributed.beside import beside
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
        with (
            beside(_fine_tune_beside, processes, config, run, processes) as meeting,
            joined(meeting, place=(0, processes)) as ranks,
        ):
            fitted = fine_tune(config, run, on_progress, ranks, stop)
    assert fitted is not None, "rank 0 has what came of it"
    return fitted


def _fine_tune_beside(rank: int, meeting: str, config: SftConfig, run: Path, processes: int) -> None:
    """Take part in every step until the first process ends, which alone reports."""
    try:
        with joined(meeting, place=(rank, processes)) as ranks:
            fine_tune(config, run, lambda _: None, ranks)
    except GuiAgentError:  # all of them raise what is wrong with the run, and the first one says it
        sys.exit(0)
