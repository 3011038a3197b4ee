"""A snapshot of what is learned, taken between two updates, and written by all processes beside training.

Rank 0 names the folder, everybody writes a shard into it, and says which files it wrote and what they hash
to. Where a rank is on a machine that does not see rank 0's folder, it sends its files there. Rank 0 raises
whatever failed anywhere; nobody else does.
"""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec
from safetensors.torch import save_file
from torch import Tensor

from training.checkpoints.digests import Written, written_in
from training.checkpoints.shards import Learned, Shard
from training.distributed.parallel import collective
from training.distributed.writers import LoneWriter, Writers

SHARDS, MODEL = "shards", "model"
EXPORT_BYTES = 2**30  # a policy with more is exported with a run's last checkpoint only
_LONE = LoneWriter()
_NOTHING: Mapping[str, Mapping[str, Tensor]] = {}


class Policy(Protocol):
    """The model whose folder is exported."""

    @property
    def bytes(self) -> int: ...

    def export(self) -> Callable[[Path], object]:
        """Copy the weights to main memory, and return what writes them as a Hugging Face folder. Collective;
        what is returned is for rank 0."""
        ...


class _Report(msgspec.Struct):
    fault: str
    files: dict[str, Written]


_encode, _decode = msgspec.json.encode, msgspec.json.Decoder(_Report).decode


class Snapshot:
    """What is learned, as it was when this was made. Collective to make; small or `last` it has a policy.

    Then, in any thread, rank 0 calls `write` and the others call `follow`, once. `extra` are named sets of
    more tensors, the same on all ranks.
    """

    def __init__(
        self,
        learned: Learned,
        policy: Policy | None = None,
        writers: Writers = _LONE,
        *,
        extra: Mapping[str, Mapping[str, Tensor]] = _NOTHING,
        last: bool = False,
    ) -> None:
        self._writers = writers
        self._shard = Shard(learned, writers.rank)
        self._extra = {
            name: {key: x.detach().to("cpu", copy=True).contiguous() for key, x in tensors.items()}
            for name, tensors in extra.items()
        }
        exported = policy is not None and (last or policy.bytes <= EXPORT_BYTES)
        self._export = policy.export() if policy is not None and exported else None
        self._announced = False

    @property
    def numbers(self) -> dict[str, object]:
        """What the optimiser keeps that is no tensor, as JSON."""
        return self._shard.numbers

    def write(self, folder: Path) -> dict[str, Written]:
        """On rank 0: write all ranks' parts below `folder`; return the files of the others' shards.

        Raises OSError, SafetensorError.
        """
        with collective("writing a checkpoint"):
            return self._write(folder)

    def follow(self) -> None:
        """On every other rank: write this one's shard where rank 0 says, if it says so."""
        with collective("writing a checkpoint"):
            announced, *_ = self._writers.exchange(b"")
            if announced:
                self._follow(Path(announced.decode()) / SHARDS)

    def abandon(self) -> None:
        """On rank 0: let the others go, if `write` was never called or failed before they were told."""
        if not self._announced:
            self._announced = True
            self._writers.exchange(b"")

    def _write(self, folder: Path) -> dict[str, Written]:
        (folder / SHARDS).mkdir()
        self._announced = True
        self._writers.exchange(str(folder).encode())
        failed: BaseException | None = None
        try:
            self._shard.write(folder / SHARDS)
            for name, tensors in self._extra.items():
                save_file(tensors, folder / extra_file(name))
            if self._export is not None:
                (folder / MODEL).mkdir()
                self._export(folder / MODEL)
        except BaseException as error:
            failed = error
        reports = [_decode(one) for one in self._writers.exchange(_encode(_Report(_fault(failed), {})))]
        if failed is not None:
            raise failed
        if faults := [f"rank {rank}: {one.fault}" for rank, one in enumerate(reports) if one.fault]:
            raise OSError("; ".join(faults))
        away = [rank for rank, one in enumerate(reports) if not _all_there(folder / SHARDS, one.files)]
        self._writers.exchange(_encode(away))
        for rank in away:
            for name, written in reports[rank].files.items():
                data = self._writers.receive(rank, written.bytes)
                (folder / SHARDS / Path(name).name).write_bytes(data)
        return {f"{SHARDS}/{Path(name).name}": x for one in reports for name, x in one.files.items()}

    def _follow(self, folder: Path) -> None:
        if folder.is_dir():
            return self._follow_in(folder)
        with tempfile.TemporaryDirectory(prefix="guiagent-shard-") as own:  # rank 0's disk is not ours
            self._follow_in(Path(own))

    def _follow_in(self, folder: Path) -> None:
        report = _Report("", {})
        try:
            self._shard.write(folder)
            own = f"shard-{self._writers.rank + 1:05d}-*.safetensors"
            report.files = written_in(folder, folder.glob(own))
        except Exception as error:  # rank 0 waits for the report, and raises it
            report.fault = _fault(error)
        leader, *_ = reports = [_decode(one) for one in self._writers.exchange(_encode(report))]
        if leader.fault or any(one.fault for one in reports):
            return
        away, *_ = self._writers.exchange(b"[]")
        if self._writers.rank in msgspec.json.decode(away, type=list[int]):
            for name in report.files:
                self._writers.send((folder / name).read_bytes())
                with suppress(OSError):
                    (folder / name).unlink()


def extra_file(name: str) -> str:
    return f"extra-{name}.safetensors"


def _all_there(folder: Path, files: Mapping[str, Written]) -> bool:
    for name, written in files.items():
        try:
            if (folder / Path(name).name).stat().st_size != written.bytes:
                return False
        except FileNotFoundError:
            return False
    return True


def _fault(error: BaseException | None) -> str:
    return "" if error is None else " ".join(f"{type(error).__name__}: {error}".split())[:300]
