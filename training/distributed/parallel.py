"""Several processes on one optimiser step: FSDP2 shards the model over them, and a few sums are all-reduced.

Every process holds a slice of each weight, of its gradient and of its optimiser state; a layer's weights are
gathered while it computes. The gradients of the processes' parts add up, as those of one process's
micro-batches do. With one process nothing here changes a number.

Whatever gathers (`whole`, an optimiser's state) or computes is collective: all processes do it, in the same
order and equally often. A process that has nothing left to compute repeats a computation with weight 0.
"""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import Store
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from guiagent.errors import InfrastructureError
from training.distributed.writers import GlooWriters

MEETING = "GUIAGENT_MEETING"  # environment variable: where processes of this machine meet
STEP_TIMEOUT = timedelta(minutes=10)  # a process that is later than this for a step counts as dead
_IDLE_TIMEOUT = timedelta(days=30)  # between messages, hours may pass; a death is noticed at once anyway

Model = TypeVar("Model", bound=nn.Module)


class LostProcess(InfrastructureError):
    """Another process of the run died, or is ten minutes late for a step."""


class Distributed:
    """The processes of torch.distributed's default group, as `training.distributed.ranks.ProcessGroup`."""

    def __init__(self, device: torch.device) -> None:
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()
        self.device = device
        self._messages = dist.new_group(backend="gloo", timeout=_IDLE_TIMEOUT)
        self.writers = GlooWriters(dist.new_group(backend="gloo", timeout=_IDLE_TIMEOUT))

    def sum(self, values: Sequence[float]) -> list[float]:
        return self._reduced(values, dist.ReduceOp.SUM)

    def largest(self, values: Sequence[float]) -> list[float]:
        return self._reduced(values, dist.ReduceOp.MAX)

    def send(self, message: bytes) -> None:
        """Send a message from rank 0 to all others, which call `receive`."""
        dist.broadcast(torch.tensor([len(message)]), 0, self._messages)
        dist.broadcast(torch.frombuffer(bytearray(message), dtype=torch.uint8), 0, self._messages)

    def receive(self) -> bytes:
        """Wait for the next message of rank 0, however long that takes."""
        length = torch.zeros(1, dtype=torch.long)
        dist.broadcast(length, 0, self._messages)
        message = torch.empty(int(length), dtype=torch.uint8)
        dist.broadcast(message, 0, self._messages)
        return message.numpy().tobytes()

    def scatter(self, message: Callable[[int], bytes]) -> bytes:
        if self.rank:
            length = torch.zeros(1, dtype=torch.long)
            dist.recv(length, 0, self._messages)
            received = torch.empty(int(length), dtype=torch.uint8)
            dist.recv(received, 0, self._messages)
            return received.numpy().tobytes()
        for rank in range(1, self.world):
            sent = torch.frombuffer(bytearray(message(rank)), dtype=torch.uint8)
            dist.send(torch.tensor([len(sent)]), rank, self._messages)
            dist.send(sent, rank, self._messages)
        return b""

    def _reduced(self, values: Sequence[float], operation: dist.ReduceOp.RedOpType) -> list[float]:
        if not values:
            return []
        numbers = torch.tensor(list(values), dtype=torch.float64, device=self.device)
        dist.all_reduce(numbers, operation)
        return [float(number) for number in numbers.tolist()]


@contextmanager
def joined(
    meeting: str | Store | None = None, gpu: int | None = None, place: tuple[int, int] | None = None
) -> Iterator[Distributed]:
    """Join the processes that a launcher started: over NCCL if each has a GPU, over gloo on CPUs.

    They meet at `meeting`, a URL or a store of torch.distributed; by default the one that the environment
    names. `place` is this process's rank and how many there are, by default $RANK and $WORLD_SIZE; its GPU is
    `gpu`, by default the one of its $LOCAL_RANK.
    All of them raise LostProcess if one dies, or is ten minutes late for a step.
    """
    device = _device(gpu)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    with collective("joining the others"):
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        rank, world = place or (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
        meeting = meeting or os.environ.get(MEETING, "env://")
        met = {"store": meeting} if isinstance(meeting, Store) else {"init_method": meeting}
        dist.init_process_group(backend, timeout=STEP_TIMEOUT, world_size=world, rank=rank, **met)
        ranks = Distributed(device)
    yield ranks
    dist.destroy_process_group()  # not after an error: it would wait for a process that died


@contextmanager
def collective(doing: str) -> Iterator[None]:
    """Raise LostProcess in place of what torch.distributed raises when another process is lost."""
    try:
        yield
    except RuntimeError as error:  # gloo's own carry no type, only the name of its source file
        if not isinstance(error, dist.DistError) and "gloo" not in str(error):
            raise
        reason = str(error).strip().partition("\n")[0][:200]
        raise LostProcess(
            f"another process of this run was lost while {doing} ({reason}); "
            "the same command goes on from the last checkpoint"
        ) from error


def shard(model: Model, ranks: Distributed, precision: torch.dtype = torch.float32) -> Model:
    """Shard a Qwen-VL model in place over all processes, a layer of text or vision at a time; return it.

    `precision` is that of the weights while they compute, and of activations; the shards, the sums of
    gradients and the optimiser stay float32. Create optimisers after this. Call the model only through its
    `forward` and its `get_image_features`.
    """
    # The warning is about writing into outputs that are views, which nothing here does.
    warnings.filterwarnings("ignore", "FSDP2-wrapped module", UserWarning)
    mesh = init_device_mesh(ranks.device.type, (ranks.world,))
    policy = MixedPrecisionPolicy()
    if precision != torch.float32:
        policy = MixedPrecisionPolicy(param_dtype=precision, reduce_dtype=torch.float32)
    # The tower is a unit of its own: the model's backward pass ends before the tower's begins.
    units: list[nn.Module] = [*_blocks(model), *_towers(model), model]
    for module in units:
        fully_shard(module, mesh=mesh, mp_policy=policy)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)  # a sum, not a mean
            module.set_force_sum_reduction_for_comms(True)
    return model


def whole(tensor: Tensor) -> Tensor:
    """Gather a sharded tensor on rank 0; other ranks get an empty one. Plain tensors as is. Collective."""
    if not isinstance(tensor, DTensor):
        return tensor.detach()
    gathered = tensor.full_tensor().detach()
    return gathered.cpu() if dist.get_rank() == 0 else torch.empty(0)


def copied(tensor: Tensor) -> Tensor:
    """Copy a tensor, gathered if it is sharded, to rank 0's main memory; other ranks get an empty one.

    The copy stays as it is while learning goes on. Collective.
    """
    found = whole(tensor)
    if isinstance(tensor, DTensor) and tensor.device_mesh.size() > 1:
        return found
    return found.to("cpu", copy=True)


def sharded_like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """This process's shard of a plain tensor if `parameter` is sharded and of the same shape; else the
    tensor."""
    if not isinstance(parameter, DTensor) or tensor.shape != parameter.shape:
        return tensor
    mesh = parameter.device_mesh
    return distribute_tensor(tensor.to(mesh.device_type), mesh, parameter.placements, src_data_rank=None)


def clip_gradients(parameters: Iterable[Tensor], largest: float) -> float:
    """Scale all gradients down to a joint norm of at most `largest`; return the norm before. Collective."""
    norm = nn.utils.clip_grad_norm_(parameters, largest)
    return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)


def shares(costs: Sequence[float], parts: int) -> list[list[int]]:
    """Divide items among `parts`, the costliest first, each to the part with the least load so far.

    The result is the same on every process. The largest share costs at most 4/3 of the best division's
    largest (Graham 1969, the LPT rule).
    """
    taken: list[list[int]] = [[] for _ in range(parts)]
    load = [0.0] * parts
    for item in sorted(range(len(costs)), key=lambda item: (-costs[item], item)):
        least = min(range(parts), key=lambda part: (load[part], part))
        taken[least].append(item)
        load[least] += costs[item]
    return [sorted(items) for items in taken]


def _blocks(model: nn.Module) -> list[nn.Module]:
    """The modules that the model's own class says must not be split: decoder layers and vision blocks."""
    kinds = {kind for module in model.modules() for kind in getattr(module, "_no_split_modules", None) or ()}
    return [module for module in model.modules() if type(module).__name__ in kinds]


def _towers(model: nn.Module) -> list[nn.Module]:
    return [module for name, module in model.named_modules() if name.rpartition(".")[2] == "visual"]


def _device(gpu: int | None) -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) if gpu is None else gpu)
