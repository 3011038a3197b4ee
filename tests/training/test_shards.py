"""Shards of several processes: read by any number of others, sent where no disk is shared, and never named
before all of them are there.
"""

import errno
import os
import traceback
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.distributed.tensor import Shard as ByRows

from guiagent.errors import InfrastructureError
from tests.support.shards import whole_shards
from training.checkpoints import checkpoint, shards, snapshot
from training.checkpoints.saver import Saver
from training.checkpoints.shards import Learned, Shard
from training.checkpoints.snapshot import Snapshot
from training.distributed.buckets import Piece, buckets
from training.distributed.parallel import Distributed, LostProcess, joined

Body = Callable[[Distributed, Path], None]


def together(world: int, folder: Path, body: Body) -> list[int]:
    """Run `body` in so many processes; their exit codes."""
    torch.set_num_threads(1)
    meeting = folder / f"meeting-{world}-{len(list(folder.iterdir()))}"

    def run(rank: int) -> None:
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), GLOO_SOCKET_IFNAME="lo")
        try:
            with joined(meeting.as_uri()) as ranks:
                body(ranks, folder)
        except BaseException:
            traceback.print_exc()
            os._exit(70)
        os._exit(0)

    processes = [get_context("fork").Process(target=run, args=(rank,)) for rank in range(world)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
        process.kill()
    return [process.exitcode for process in processes]  # type: ignore[misc]


def learned(ranks: Distributed, seed: int = 0) -> Learned:
    """Rows that no number of processes divides, and parameters of which some processes have nothing."""
    mesh = init_device_mesh("cpu", (ranks.world,))
    generator = torch.Generator().manual_seed(seed)

    def sharded(*shape: int) -> DTensor:
        whole = torch.randn(shape, generator=generator)
        return distribute_tensor(whole, mesh, [ByRows(0)], src_data_rank=None)

    shapes = {"0.weight": (5, 4), "0.bias": (5,), "2.weight": (1, 5), "2.bias": (1,)}
    parameters = {name: torch.nn.Parameter(sharded(*shape)) for name, shape in shapes.items()}
    optimizer = torch.optim.AdamW(parameters.values(), lr=0.01, betas=(0.8, 0.9), fused=True)
    for _ in range(2):
        for name, shape in shapes.items():
            parameters[name].grad = sharded(*shape)
        optimizer.step()
    return Learned(parameters, optimizer)


def save(ranks: Distributed, root: Path, step: int, what: Learned) -> Path | None:
    made = Snapshot(what, None, ranks.writers)
    if ranks.rank:
        return made.follow()
    return checkpoint.save(root, step, made, state={}, rng={})


def begin(ranks: Distributed, folder: Path) -> None:
    save(ranks, folder / "checkpoints", 1, learned(ranks))


def pass_on(ranks: Distributed, folder: Path) -> None:
    """Load the newest checkpoint into other weights, and save it again as the next step."""
    loaded = checkpoint.load(folder / "checkpoints")
    assert loaded is not None
    ranks.sum([0.0])  # all have found it before rank 0 writes the next one
    what = learned(ranks, seed=loaded.step)
    loaded.restore(what)
    save(ranks, folder / "checkpoints", loaded.step + 1, what)


def test_what_two_wrote_is_read_by_one_and_then_by_three_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "FILE_BYTES", 64)
    root = tmp_path / "checkpoints"
    assert together(2, tmp_path, begin) == [0, 0]
    first = whole_shards(root / "step-000001")
    assert {name.partition("/")[0] for name in first} == {"weights", "optimizer"}
    assert first["weights/0.weight"].shape == (5, 4) and first["optimizer/2.bias/step"] == 2
    files = [path.name for path in (root / "step-000001" / "shards").iterdir()]
    assert {name[:11] for name in files} == {"shard-00001", "shard-00002"} and len(files) > 4
    assert together(1, tmp_path, pass_on) == [0]
    second = whole_shards(root / "step-000002")
    assert together(3, tmp_path, pass_on) == [0, 0, 0]
    third = whole_shards(root / "step-000003")
    assert first.keys() == second.keys() == third.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert all(torch.equal(first[name], third[name]) for name in first)
    assert checkpoint.verify(root / "step-000003") is None


def test_headers_are_read_once_so_that_a_disk_that_fails_then_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch's loader asks for them again, and makes an AssertionError of what it meets."""
    read, times = HuggingFaceStorageReader.read_metadata, 0

    def once(reader: HuggingFaceStorageReader) -> Metadata:
        nonlocal times
        times += 1
        if times > 1:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return read(reader)

    monkeypatch.setattr(HuggingFaceStorageReader, "read_metadata", once)
    assert together(1, tmp_path, begin) == [0]
    assert together(1, tmp_path, pass_on) == [0]


def test_it_is_written_beside_what_the_processes_compute(tmp_path: Path) -> None:
    def body(ranks: Distributed, folder: Path) -> None:
        what, saver = learned(ranks), Saver()
        for step in (1, 2, 3):
            made = Snapshot(what, None, ranks.writers)
            root = folder / "checkpoints"

            def write(step: int = step, made: Snapshot = made, root: Path = root) -> Path | None:
                return made.follow() if ranks.rank else checkpoint.save(root, step, made, state={}, rng={})

            saver.begin(write)
            for number in range(20):
                assert ranks.sum([float(number)]) == [2.0 * number]
                for parameter in what.parameters.values():
                    parameter.data.add_(1)
        saver.settle()

    assert together(2, tmp_path, body) == [0, 0]
    first, last = (whole_shards(tmp_path / "checkpoints" / f"step-00000{n}") for n in (2, 3))
    assert torch.allclose(first["weights/0.weight"] + 20, last["weights/0.weight"])


def test_shards_are_sent_where_a_process_does_not_see_the_folder(tmp_path: Path) -> None:
    def body(ranks: Distributed, folder: Path) -> None:
        if ranks.rank:
            snapshot.SHARDS = "on another disk"  # type: ignore[misc]
        begin(ranks, folder)

    assert together(2, tmp_path, body) == [0, 0]
    path = tmp_path / "checkpoints" / "step-000001"
    assert checkpoint.verify(path) is None
    assert whole_shards(path)["weights/0.weight"].shape == (5, 4)
    assert together(1, tmp_path, pass_on) == [0]


def test_what_fails_on_one_disk_is_one_line_of_rank_0_and_nothing_is_named(tmp_path: Path) -> None:
    def full(shard: Shard, folder: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def body(ranks: Distributed, folder: Path) -> None:
        what = learned(ranks)
        save(ranks, folder / "checkpoints", 1, what)
        if ranks.rank:
            Shard.write = full  # type: ignore[method-assign]
            save(ranks, folder / "checkpoints", 2, what)
            return
        with pytest.raises(InfrastructureError, match=r"step 2 .*rank 1: .*No space left on device"):
            save(ranks, folder / "checkpoints", 2, what)

    assert together(2, tmp_path, body) == [0, 0]
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["latest", "step-000001"]


def test_where_rank_0_cannot_begin_the_others_do_not_wait(tmp_path: Path) -> None:
    def body(ranks: Distributed, folder: Path) -> None:
        what = learned(ranks)
        if ranks.rank:
            save(ranks, folder, 1, what)
            return
        (folder / "file").write_text("")
        with pytest.raises(InfrastructureError, match="could not be saved"):
            save(ranks, folder / "file" / "checkpoints", 1, what)

    assert together(2, tmp_path, body) == [0, 0]


def test_a_process_that_dies_while_it_writes_is_missed(tmp_path: Path) -> None:
    def die(shard: Shard, folder: Path) -> None:
        os._exit(9)

    def body(ranks: Distributed, folder: Path) -> None:
        what = learned(ranks)
        if ranks.rank:
            Shard.write = die  # type: ignore[method-assign]
        with pytest.raises(LostProcess, match="while writing a checkpoint"):
            save(ranks, folder / "checkpoints", 1, what)
        os._exit(0)

    assert together(2, tmp_path, body) == [0, 9]
    assert list((tmp_path / "checkpoints").iterdir()) == []


def test_buckets_are_full_in_order_and_have_every_byte_once() -> None:
    sizes = {"a": 5, "none": 0, "b": 12, "c": 3, "d": 8}
    found = buckets(sizes, 8)
    assert found[0] == [Piece("a", 0, 5), Piece("b", 0, 3)]
    held = [sum(piece.end - piece.start for piece in bucket) for bucket in found]
    assert held == [8, 8, 8, 4]
    for name, size in sizes.items():
        own = [byte for bucket in found for p in bucket if p.name == name for byte in range(p.start, p.end)]
        assert own == list(range(size))
    assert buckets({}, 8) == buckets({"none": 0}, 8) == []
