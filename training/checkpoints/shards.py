"""Shards of what is learned: each process writes its own part, and any number of processes reads them again.

    weights/<parameter>             a trained parameter, or this process's slice of it
    optimizer/<parameter>/<name>    one of the tensors that the optimiser keeps for it

torch.distributed.checkpoint plans and reads; the files are safetensors, whose headers say which slice of the
whole tensor each one is. Its own index of a checkpoint is a pickle, so there is none: a reader puts the
headers together. No process asks another, so that a shard can be written beside training.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple
from warnings import filterwarnings

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta, TensorStorageMetadata
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner, WriteItem
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from training.checkpoints.states import groups_from
from training.distributed.buckets import buckets

# Of a file, or a tensor that has more: it is in memory twice while it is written, and holds the GIL so long.
FILE_BYTES = 64 * 2**20
_WEIGHTS, _OPTIMIZER = "weights/", "optimizer/"


class Learned(NamedTuple):
    """What is learned: the trained parameters by name, plain or sharded, and their optimiser."""

    parameters: Mapping[str, Tensor]
    optimizer: Optimizer | None = None


class Shard(SavePlanner):
    """This process's part of what is learned, copied to main memory: what it is made of may change again.

    `numbers` is JSON: what the optimiser keeps that is no tensor. Plain tensors, which every process has, are
    in rank 0's shard.
    """

    def __init__(self, learned: Learned, rank: int = 0) -> None:
        tensors, self.numbers = _tensors_and_numbers(learned)
        own = {name: x for name, x in tensors.items() if rank == 0 or isinstance(x, DTensor)}
        planner = DefaultSavePlanner()
        planner.set_up_planner(own)
        self._rank = rank
        self._items = planner.create_local_plan().items
        self._copies = {
            item.index: planner.resolve_data(item).detach().to("cpu", copy=True).contiguous()  # type: ignore[union-attr]
            for item in self._items
        }

    def write(self, folder: Path) -> None:
        """Write this shard's files, durably, into `folder`. Raises OSError, SafetensorError."""
        sizes = {index.fqn: max(copy.nbytes, 1) for index, copy in self._copies.items()}
        files = {
            piece.name: number
            for number, bucket in enumerate(buckets(sizes, FILE_BYTES), 1)
            for piece in bucket
            if piece.start == 0
        }
        filterwarnings("ignore", "torch.distributed is disabled", UserWarning)  # said of every `no_dist`
        with _first_error():
            save({}, storage_writer=_Files(folder, self._rank, files), planner=self, no_dist=True)

    # -- SavePlanner ----------------------------------------------------------------------------------------

    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        storage_meta: StorageMeta | None = None,
        is_coordinator: bool = False,
    ) -> None:
        pass

    def create_local_plan(self) -> SavePlan:
        return SavePlan(self._items)

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        return all_plans, Metadata({})  # nobody's but our own: readers put the headers together

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Tensor:
        return self._copies[write_item.index]


class _Files(HuggingFaceStorageWriter):
    """The files of one shard, named after its rank."""

    def __init__(self, folder: Path, rank: int, files: dict[str, int]) -> None:
        super().__init__(str(folder), fqn_to_index_mapping=files, save_distributed=True)
        self._number = rank + 1

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        named = super().prepare_global_plan(plans)
        return [replace(one, storage_data=one.storage_data | {"shard_index": self._number}) for one in named]


class _Headers(HuggingFaceStorageReader):
    """Reads the headers of all files once: `load` makes an AssertionError of what fails in reading them."""

    @cached_property
    def metadata(self) -> Metadata:
        return super().read_metadata()

    def read_metadata(self) -> Metadata:
        return self.metadata


def read_shards(folder: Path, learned: Learned, numbers: Mapping[str, Any]) -> None:
    """Read into `learned` what any number of processes wrote into `folder`; each reads only its own slices.

    `numbers` are those of rank 0's shard. Raises OSError, SafetensorError, or ValueError if a parameter is
    missing or has another shape.
    """
    reader = _Headers(str(folder))
    known = reader.metadata.state_dict_metadata
    wanted: dict[str, Any] = {
        _WEIGHTS + name: parameter.detach() for name, parameter in learned.parameters.items()
    }
    if lacking := [name for name in wanted if name not in known]:
        raise ValueError(f"it lacks {len(lacking)} trained parameters, such as {lacking[0]}")
    moments: dict[str, dict[str, Tensor]] = {}
    for key, saved in known.items():
        if key.startswith(_OPTIMIZER) and isinstance(saved, TensorStorageMetadata):
            name, _, moment = key.removeprefix(_OPTIMIZER).rpartition("/")
            if learned.optimizer is not None and name in learned.parameters:
                wanted[key] = _room(saved, learned.parameters[name])
                moments.setdefault(name, {})[moment] = wanted[key]
    filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
    with _first_error():
        load(wanted, storage_reader=reader, no_dist=True)
    if learned.optimizer is not None:
        _restore(learned.optimizer, learned.parameters, moments, numbers)


def _restore(
    optimizer: Optimizer,
    parameters: Mapping[str, Tensor],
    moments: Mapping[str, Mapping[str, Tensor]],
    numbers: Mapping[str, Any],
) -> None:
    ordered = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    place = {id(parameter): index for index, parameter in enumerate(ordered)}
    state: dict[int, dict[str, Any]] = {}
    for name, parameter in parameters.items():
        if found := {**moments.get(name, {}), **numbers["state"].get(name, {})}:
            state[place[id(parameter)]] = found
    optimizer.load_state_dict({"state": state, "param_groups": groups_from(numbers["param_groups"])})


def _room(saved: TensorStorageMetadata, parameter: Tensor) -> Tensor:
    """Room for a tensor of the optimiser's: sharded as its parameter is, if it has the same shape."""
    dtype = saved.properties.dtype
    if saved.size == parameter.shape:
        return torch.zeros_like(parameter, dtype=dtype, requires_grad=False)
    return torch.zeros(saved.size, dtype=dtype)


def _tensors_and_numbers(learned: Learned) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors = {_WEIGHTS + name: parameter.detach() for name, parameter in learned.parameters.items()}
    if learned.optimizer is None:
        return tensors, {"state": {}, "param_groups": []}
    names = {id(parameter): name for name, parameter in learned.parameters.items()}
    numbers: dict[str, dict[str, Any]] = {}
    for parameter, values in learned.optimizer.state.items():
        name = names[id(parameter)]
        for key, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"{_OPTIMIZER}{name}/{key}"] = value
            else:
                numbers.setdefault(name, {})[key] = value
    groups = Optimizer.state_dict(learned.optimizer)["param_groups"]
    return tensors, {"state": numbers, "param_groups": groups}


@contextmanager
def _first_error() -> Iterator[None]:
    """Raise what went wrong, in place of the list of ranks and tracebacks that DCP makes of it."""
    try:
        yield
    except CheckpointException as failed:
        raise next(error for error, _ in failed.failures.values()) from None
