"""Supervised training of a small model in a few processes of one thread each, gradients averaged.

Killed at any instant and started again, it continues bit-exactly from its newest checkpoint.
"""

import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
import torch.distributed
from torch import Tensor
from transformers import PreTrainedModel

from training.checkpoints import checkpoint as checkpoints
from training.checkpoints.shards import Learned
from training.distributed.beside import beside
from training.distributed.parallel import collective
from training.inputs.checkpoint_files import preparation_files
from training.inputs.encoder import Encoder
from training.learner.fitting import Fit, Schedule, claimed
from training.model.pretrained import open_model

_MAX_GRAD_NORM = 1.0
_CHECKPOINT_MINUTES = 1.0
_REPORT_S = 5.0

# Yields the loss of one batch, with its gradient, for each of the generators, the only source of randomness.
# The int is this process's number of samples per batch.
Losses = Callable[[PreTrainedModel, Encoder, int, Iterator[random.Random]], Iterator[Tensor]]
OnStep = Callable[[int, float], None]  # steps done, mean loss since the last report


class Fitting(Protocol):
    """The part of a recipe's config that a fit reads."""

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


class _Work(NamedTuple):
    """The arguments of every process of a fit."""

    losses: Losses
    start: Path
    begin: Path | None  # the checkpoint to continue from
    folder: Path  # of checkpoints
    config: Fitting


def fit(losses: Losses, start: Path, folder: Path, config: Fitting, on_step: OnStep) -> Path:
    """Fit from the newest checkpoint in `folder`, else from the model at `start`; return the fitted model's
    folder.

    AdamW with a one-cycle learning rate. This process is the first of `config.processes`; `losses` is sent to
    the others, so it has to be a function of a module, or a `functools.partial` of one.

    Raises:
        InfrastructureError: a process was lost, another run fits there, a checkpoint is damaged, or the disk
            is full.
        DivergedError: five losses or gradients in a row were not finite.
    """
    with claimed(folder):
        loaded = checkpoints.load(folder)
        if loaded is not None and loaded.step >= config.steps:
            return loaded.model
        begin = loaded.path if loaded else None
        work = _Work(losses, start, begin, folder, config)
        with beside(_fit, config.processes, work) as meeting:
            saved = _fit(0, meeting, work, on_step)
        return saved / "model"


@contextmanager
def made_of(model: Path, output: Path) -> Iterator[Path]:
    """A copy of a model's folder to work on, which replaces `output` when the block ends without an error."""
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".tmp-") as temporary:
        made = Path(shutil.copytree(model, Path(temporary) / output.name))
        yield made
        shutil.rmtree(output, ignore_errors=True)
        made.rename(output)


def _fit(rank: int, meeting: str, work: _Work, on_step: OnStep = lambda *_: None) -> Path:
    """Run one data-parallel process: gradients are averaged over all of them after each backward pass.

    Returns the last checkpoint's folder on rank 0.
    """
    torch.set_num_threads(1)
    config = work.config
    with collective("joining the others"):
        torch.distributed.init_process_group(
            "gloo", init_method=meeting, rank=rank, world_size=config.processes
        )
    loaded = checkpoints.reopen(work.begin) if work.begin else None
    opened = open_model(loaded.opens(work.start) if loaded else work.start)
    encoder, network = Encoder(work.start), opened.float().train()
    parameters = list(network.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=config.learning_rate, betas=(0.9, 0.95), weight_decay=0.01)

    fit = Fit(
        work.folder,
        Learned(dict(network.named_parameters()), optimizer),
        _Policy(network, preparation_files(work.start)),
        Schedule(config.steps, config.learning_rate, _MAX_GRAD_NORM, _CHECKPOINT_MINUTES),
        loaded,
    )
    reported, recent = time.monotonic(), []
    generators = (random.Random(f"{config.seed}/{rank}/{step}") for step in range(fit.step, fit.steps))
    for loss in work.losses(network, encoder, config.batch // config.processes, generators):
        optimizer.zero_grad()
        loss.backward()
        with collective("fitting"):
            recent.append(_averaged(loss.detach(), parameters, config.processes))
        fit.update(parameters, recent[-1])
        if rank:
            continue
        if fit.due or fit.step == fit.steps:
            fit.save({})
        if time.monotonic() - reported > _REPORT_S or fit.step == fit.steps:
            on_step(fit.step, sum(recent) / len(recent))
            reported, recent = time.monotonic(), []
    torch.distributed.destroy_process_group()
    return fit.finish() or Path()


@dataclass(frozen=True)
class _Policy:
    """The network of rank 0, which is that of all, and the files that prepare its inputs."""

    network: PreTrainedModel
    preparation: Mapping[str, bytes]

    @property
    def bytes(self) -> int:
        return sum(parameter.numel() * parameter.element_size() for parameter in self.network.parameters())

    def export(self) -> Callable[[Path], None]:
        weights = {name: x.detach().clone() for name, x in self.network.state_dict().items()}

        def write(folder: Path) -> None:
            self.network.save_pretrained(folder, state_dict=weights)
            for name, data in self.preparation.items():
                (folder / name).write_bytes(data)

        return write


def _averaged(loss: Tensor, parameters: Sequence[Tensor], processes: int) -> float:
    """Average every gradient over all processes, in place; return the mean loss."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    flat = torch.cat([loss.reshape(1), *(gradient.reshape(-1) for gradient in gradients)])
    torch.distributed.all_reduce(flat)
    flat /= processes
    for gradient, part in zip(gradients, flat[1:].split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))
    return float(flat[0])
