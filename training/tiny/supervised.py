"""Supervised training of a small model in a few processes of one thread each, gradients averaged."""

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import torch
import torch.distributed
from torch.multiprocessing.spawn import spawn
from transformers import PreTrainedModel

from training.encode import Encoder
from training.pretrained import open_model

_MAX_GRAD_NORM = 1.0
_WARM_UP_SHARE = 0.1
_REPORT_S = 5.0

# Batch after batch, the loss with its gradient, for ever. Its last arguments are how many samples of a batch
# are this process's, and its seed.
Losses = Callable[[PreTrainedModel, Encoder, int, int], Iterator[torch.Tensor]]
OnStep = Callable[[int, float], None]  # steps done, mean loss since the last report


class Fit(Protocol):
    """What a fit is told: the part of a recipe's config that concerns it."""

    @property
    def steps(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def processes(self) -> int: ...
    @property
    def seed(self) -> int: ...


def fit(losses: Losses, checkpoint: Path, config: Fit, on_step: OnStep) -> None:
    """Go on from the weights at `checkpoint` and write the new ones in their place.

    AdamW with a one-cycle learning rate. This process is the first of `config.processes`; `losses` is sent to
    the others, so it has to be a function of a module, or a `functools.partial` of one.
    """
    with tempfile.TemporaryDirectory() as folder:
        rendezvous = f"file://{folder}/rendezvous"
        others = spawn(
            _fit_beside,
            (losses, checkpoint, config, rendezvous),
            config.processes - 1,
            join=False,
            daemon=True,
        )
        _fit(0, losses, checkpoint, config, rendezvous, on_step)
        while not others.join():
            pass


def _fit_beside(index: int, losses: Losses, checkpoint: Path, config: Fit, rendezvous: str) -> None:
    _fit(index + 1, losses, checkpoint, config, rendezvous, lambda *_: None)


def _fit(rank: int, losses: Losses, checkpoint: Path, config: Fit, rendezvous: str, on_step: OnStep) -> None:
    """One data-parallel process: gradients are averaged over all of them after each backward pass."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=rendezvous, rank=rank, world_size=config.processes
    )
    encoder, network = Encoder(checkpoint), open_model(checkpoint).float().train()
    parameters = list(network.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=config.learning_rate, betas=(0.9, 0.95), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, config.learning_rate, total_steps=config.steps, pct_start=_WARM_UP_SHARE
    )
    reported, recent = time.monotonic(), []
    batches = losses(network, encoder, config.batch // config.processes, config.seed + rank)
    for step, loss in enumerate(itertools.islice(batches, config.steps), start=1):
        optimizer.zero_grad()
        loss.backward()
        _average_gradients(parameters, config.processes)
        torch.nn.utils.clip_grad_norm_(parameters, _MAX_GRAD_NORM)
        optimizer.step()
        schedule.step()
        recent.append(float(loss.detach()))
        if rank == 0 and (time.monotonic() - reported > _REPORT_S or step == config.steps):
            on_step(step, sum(recent) / len(recent))
            reported, recent = time.monotonic(), []
    if rank == 0:
        network.save_pretrained(checkpoint)
    torch.distributed.destroy_process_group()


def _average_gradients(parameters: Sequence[torch.nn.Parameter], processes: int) -> None:
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    torch.distributed.all_reduce(flat)
    flat /= processes
    for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))
