"""The other processes of a computation that this process begins: on this machine, of one thread each."""

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.multiprocessing.spawn import spawn


@contextmanager
def beside(work: Callable[..., object], processes: int, *arguments: Any) -> Iterator[str]:
    """Start `work(rank, meeting, *arguments)` for every rank but 0, this process's own; yield the meeting.

    That is the URL where they join (`torch.distributed`). `work` is a function of a module. The block ends
    when all have ended; an error in it ends them. What asks a program to stop is for this process alone.
    """
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        meeting = Path(folder, "processes").as_uri()
        others = spawn(_one, (work, meeting, arguments), processes - 1, join=False, daemon=True)
        try:
            yield meeting
            while not others.join():
                pass
        finally:
            for one in others.processes:
                one.kill()


def _one(index: int, work: Callable[..., object], meeting: str, arguments: tuple[Any, ...]) -> None:
    for asked in (signal.SIGINT, signal.SIGTERM):
        signal.signal(asked, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    work(index + 1, meeting, *arguments)
