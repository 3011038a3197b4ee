"""Checkpoints: exact to resume from, never half there, and refused when a byte is wrong."""

import ast
import errno
import itertools
import json
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import training
from guiagent.errors import InfrastructureError
from training.checkpoints import snapshot as snapshot_module
from training.checkpoints.checkpoint import _seal, load, reopen, save, verify
from training.checkpoints.shards import Learned
from training.checkpoints.snapshot import Snapshot
from training.checkpoints.states import Generator, optimizer_state, rng_state

FILE_CALLS = {"open", "write", "fsync", "mkdir", "rename", "replace", "symlink", "unlink", "rmdir"}
FILE_CALLS |= {"serialize_file"}  # safetensors


class Run:
    """A tiny training run that draws from every kind of generator."""

    def __init__(self, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        parameters = list(self.model.parameters())
        groups = [{"params": parameters[:2]}, {"params": parameters[2:], "lr": 0.02, "weight_decay": 0.1}]
        self.optimizer = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95), amsgrad=True)
        self.rng: dict[str, Generator] = {
            "python": random.Random(seed),
            "numpy": np.random.default_rng(seed),
            "torch": torch.Generator().manual_seed(seed),
        }
        self.step = 0

    def train(self, steps: int) -> "Run":
        for _ in range(steps):
            x = torch.randn(5, 4, generator=self.rng["torch"])
            y = torch.full((5, 2), self.rng["python"].gauss(0, 1) + self.rng["numpy"].normal())
            self.optimizer.zero_grad()
            (self.model(x) - y).square().mean().backward()
            self.optimizer.step()
            self.step += 1
        return self

    @property
    def learned(self) -> Learned:
        return Learned(dict(self.model.named_parameters()), self.optimizer)

    @property
    def bytes(self) -> int:
        return sum(parameter.nbytes for parameter in self.model.parameters())

    def export(self) -> Callable[[Path], object]:
        weights = {name: x.clone() for name, x in self.model.state_dict().items()}

        def write(folder: Path) -> None:
            save_file(weights, folder / "model.safetensors")
            (folder / "config.json").write_text('{"architectures": []}')

        return write

    def snapshot(self, **extra: Mapping[str, torch.Tensor]) -> Snapshot:
        return Snapshot(self.learned, self, extra=extra)

    def save(self, root: Path, **state: Any) -> Path:
        return save(root, self.step, self.snapshot(), state=state, rng=self.rng)

    @classmethod
    def resume(cls, root: Path) -> "Run":
        loaded = load(root)
        assert loaded is not None
        run = cls(seed=99)
        loaded.restore(run.learned)
        loaded.restore_rng(run.rng)
        run.step = loaded.step
        return run

    def everything(self) -> tuple[dict[str, torch.Tensor], str]:
        tensors, numbers = optimizer_state(self.optimizer)
        tensors |= self.model.state_dict() | {"rng": self.rng["torch"].get_state()}
        rest = [numbers, self.rng["python"].getstate(), self.rng["numpy"].bit_generator.state]
        return tensors, json.dumps(rest)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def flip(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    file.write_bytes(data)


# Resuming


def test_a_resumed_run_is_the_same_run_bit_for_bit(root: Path):
    whole = Run().train(20)
    Run().train(7).save(root)
    Run.resume(root).train(6).save(root)
    resumed = Run.resume(root).train(7)
    tensors, numbers = whole.everything()
    resumed_tensors, resumed_numbers = resumed.everything()
    assert tensors.keys() == resumed_tensors.keys()
    assert all(torch.equal(tensors[name], resumed_tensors[name]) for name in tensors)
    assert numbers == resumed_numbers
    assert resumed.optimizer.param_groups[0]["betas"] == (0.9, 0.95)


def test_a_run_that_has_not_stepped_yet_can_be_saved(root: Path):
    Run().save(root)
    assert all(
        map(torch.equal, Run.resume(root).train(3).model.parameters(), Run().train(3).model.parameters())
    )


def test_an_optimiser_with_numbers_and_nothing_in_its_state(root: Path):
    run = Run()
    run.optimizer = torch.optim.SGD(run.model.parameters(), lr=0.1)
    run.train(2).save(root)
    loaded = load(root)
    assert loaded is not None
    other = Run()
    other.optimizer = torch.optim.SGD(other.model.parameters(), lr=0.5)
    loaded.restore(other.learned)
    assert other.optimizer.state_dict() == run.optimizer.state_dict()


def test_the_callers_state_comes_back(root: Path):
    state = {"replay": {"pending": [[1, "a", 2, 8]]}, "version": 12, "best": 0.1 + 0.2, "note": "ä\n"}
    path = Run().train(1).save(root, **state)
    loaded = load(root)
    assert loaded is not None
    assert (loaded.state, loaded.step, loaded.path, loaded.refused) == (state, 1, path, ())


def test_an_empty_folder_has_no_checkpoint(root: Path):
    assert load(root) is None
    root.mkdir()
    (root / "notes.txt").write_text("not ours")
    assert load(root) is None


def test_more_than_one_optimiser_and_named_tensors_come_back(root: Path):
    """What a critic, adapters or a second optimiser need."""
    run = Run().train(3)
    critic = {"head.weight": torch.randn(3, 2).t(), "steps": torch.tensor(7)}
    snapshot = run.snapshot(critic=critic, moments=optimizer_state(run.optimizer)[0])
    path = save(root, run.step, snapshot, state={}, rng=run.rng)
    loaded = load(root)
    assert loaded is not None
    assert torch.equal(loaded.extra("critic")["head.weight"], critic["head.weight"])
    assert loaded.extra("critic")["steps"] == 7
    assert loaded.extra("moments").keys() == optimizer_state(run.optimizer)[0].keys()
    assert loaded.extra("adapters") == {}
    assert torch.equal(Run.resume(root).train(1).model[0].weight, run.train(1).model[0].weight)
    flip(path / "extra-critic.safetensors", 100)
    assert verify(path) == "extra-critic.safetensors is damaged"


def test_the_model_of_a_checkpoint_loads_in_plain_transformers(checkpoint: Path, root: Path):
    """In a process that has nothing of ours, with the weights of the learner that saved it."""
    from training.algorithms import ALGORITHMS
    from training.config import UpdateConfig
    from training.inputs.encoder import Encoder
    from training.learner.learner import Learner

    learner = Learner(checkpoint, Encoder(checkpoint), ALGORITHMS["arpo"], UpdateConfig())
    with torch.no_grad():
        for parameter in learner.model.parameters():
            parameter += 0.01
    path = save(root, 1, learner.snapshot(), state=learner.state(), rng={})
    program = (
        "import sys, safetensors.torch, transformers\n"
        "model = transformers.AutoModelForImageTextToText.from_pretrained(sys.argv[1])\n"
        "transformers.AutoProcessor.from_pretrained(sys.argv[1])\n"
        "weights = {name: x.contiguous().clone() for name, x in model.state_dict().items()}\n"
        "safetensors.torch.save_file(weights, sys.argv[2])\n"
        "assert not any(name.split('.')[0] in ('training', 'guiagent') for name in sys.modules)\n"
    )
    command = [sys.executable, "-c", program, str(path / "model"), str(root / "loaded.safetensors")]
    subprocess.run(command, check=True, cwd=root, timeout=120, stderr=subprocess.DEVNULL)
    loaded = load_file(root / "loaded.safetensors")
    learned = learner.weights()
    assert loaded.keys() == learned.keys()
    assert all(torch.equal(loaded[name], learned[name]) for name in learned)


def test_a_checkpoint_of_an_earlier_version_is_gone_on_from(root: Path):
    """All weights in `model`, one file for the optimiser: the run opens that model, and saves as today."""
    whole, run = Run().train(10), Run().train(4)
    folder = root / "step-000004"
    (folder / "model").mkdir(parents=True)
    run.export()(folder / "model")
    tensors, numbers = optimizer_state(run.optimizer)
    save_file(tensors, folder / "optimizer.safetensors")
    rng, rest = rng_state(run.rng)
    save_file(rng, folder / "rng.safetensors")
    said = {"step": 4, "state": {}, "optimizer": numbers, "rng": rest}
    (folder / "state.json").write_text(json.dumps(said))
    _seal(folder)

    loaded = load(root)
    assert loaded is not None
    assert loaded.opens(Path("the policy that it began with")) == loaded.model
    other = Run(seed=99)
    other.model.load_state_dict(load_file(loaded.model / "model.safetensors"))
    loaded.restore(other.learned)
    loaded.restore_rng(other.rng)
    other.step = loaded.step
    other.train(3).save(root)
    assert (root / "step-000007" / "shards").is_dir()
    now = load(root)
    assert now is not None
    assert now.opens(Path("the policy that it began with")) == Path("the policy that it began with")
    assert all(map(torch.equal, Run.resume(root).train(3).model.parameters(), whole.model.parameters()))


def test_a_large_policy_is_exported_with_the_last_checkpoint_only(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    run = Run().train(1)
    monkeypatch.setattr(snapshot_module, "EXPORT_BYTES", run.bytes - 1)
    path = run.save(root)
    assert not (path / "model").exists()
    assert Run.resume(root).train(1).step == 2
    last = save(root, 2, Snapshot(run.learned, run, last=True), state={}, rng=run.rng)
    assert (last / "model" / "model.safetensors").exists()
    monkeypatch.setattr(snapshot_module, "EXPORT_BYTES", run.bytes)
    assert (run.save(root) / "model").exists()


def test_a_checkpoint_of_another_model_is_refused_in_one_line(root: Path):
    Run().train(1).save(root)
    loaded = load(root)
    assert loaded is not None
    larger, other = torch.nn.Linear(5, 8), torch.nn.Linear(4, 8)
    for model, says in (
        (torch.nn.Sequential(larger), "is of another model: .*0.weight"),
        (torch.nn.ModuleDict({"head": other}), "lacks 2 trained parameters, such as weights/head"),
    ):
        with pytest.raises(InfrastructureError, match=says) as error:
            loaded.restore(Learned(dict(model.named_parameters())))
        assert "\n" not in str(error.value)


# Keeping


def test_the_newest_two_are_kept_and_latest_points_at_the_last(root: Path):
    run = Run()
    for _ in range(4):
        run.train(1).save(root)
    assert names(root) == ["latest", "step-000003", "step-000004"]
    assert (root / "latest").resolve() == root / "step-000004"
    assert (root / "latest" / "model" / "config.json").exists()


def test_a_step_that_is_there_is_never_overwritten(root: Path):
    run = Run().train(1)
    for n in range(5):
        run.save(root, n=n)
        loaded = load(root)
        assert loaded is not None
        assert loaded.state == {"n": n}
    assert names(root) == ["latest", "step-000001.3", "step-000001.4"]


def test_order_is_by_number_and_not_by_name(root: Path):
    run = Run()
    for run.step in (999_999, 1_000_000):
        run.save(root)
    loaded = load(root)
    assert loaded is not None
    assert loaded.step == 1_000_000


def test_after_going_back_the_abandoned_checkpoints_are_removed(root: Path):
    run = Run()
    run.train(1).save(root)
    damaged = run.train(9).save(root)
    flip(damaged / "state.json", 0)
    run = Run.resume(root)
    assert run.step == 1
    run.train(1).save(root)
    assert names(root) == ["latest", "step-000001", "step-000002"]


# Damage


def test_any_flipped_byte_is_found_and_the_one_before_is_used(root: Path):
    run = Run()
    good = run.train(1).save(root)
    newest = run.train(1).save(root)
    files = sorted(path for path in newest.rglob("*") if path.is_file())
    assert [str(file.relative_to(newest)) for file in files] == [
        "manifest.json",
        "model/config.json",
        "model/model.safetensors",
        "rng.safetensors",
        "shards/shard-00001-model-00001-of-00001.safetensors",
        "state.json",
    ]
    for file in files:
        for position in range(0, file.stat().st_size, 1 + file.stat().st_size // 50):
            flip(file, position)
            assert verify(newest) is not None, f"{file} at {position}"
            flip(file, position)
        assert verify(newest) is None
        flip(file, 20)
        loaded = load(root)
        assert loaded is not None
        assert loaded.path == good
        assert loaded.refused == (f"step-000002: {file.relative_to(newest)} is damaged",)
        flip(file, 20)


@pytest.mark.drill
def test_any_flipped_bit_of_any_byte_is_found(root: Path):
    path = Run().train(1).save(root)
    for file in sorted(path.rglob("*.*")):
        data = file.read_bytes()
        for position in range(len(data)):
            changed = bytearray(data)
            changed[position] ^= 1 << position % 8
            file.write_bytes(changed)
            assert verify(path) is not None, f"{file} at {position}"
        file.write_bytes(data)
        assert verify(path) is None


@pytest.mark.parametrize("name", ["manifest.json", "state.json", "model/model.safetensors"])
def test_a_missing_or_cut_file_is_named(root: Path, name: str):
    path = Run().train(1).save(root)
    os.truncate(path / name, 10)
    fault = verify(path)
    assert fault is not None
    assert fault.startswith(name)
    (path / name).unlink()
    assert verify(path) == f"{name}: No such file or directory"


def test_when_none_can_be_used_one_line_says_why_and_what_to_do(root: Path):
    run = Run()
    for _ in range(2):
        (run.train(1).save(root) / "state.json").unlink()
    with pytest.raises(
        InfrastructureError, match=r"step-000002: state.json.*step-000001.*start over"
    ) as error:
        load(root)
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 3


def test_the_last_whole_one_is_not_removed_for_a_damaged_one(root: Path):
    run = Run()
    run.train(1).save(root)
    flip(run.train(1).save(root) / "model" / "model.safetensors", 200)
    Run.resume(root).train(1).save(root)
    assert names(root) == ["latest", "step-000001", "step-000002", "step-000002.1"]
    Run.resume(root).train(1).save(root)
    assert names(root) == ["latest", "step-000002.1", "step-000003"]


def test_a_folder_that_may_not_be_listed_is_not_an_empty_one(root: Path, monkeypatch: pytest.MonkeyPatch):
    """A run that took it for one would start over, and remove what it finds later."""
    run = Run()
    run.train(1).save(root)

    def refused(path: Path) -> list[str]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", refused)
        with pytest.raises(InfrastructureError, match=r"cannot read .*checkpoints: Permission denied"):
            load(root)
        with pytest.raises(InfrastructureError, match="could not be saved"):
            run.train(1).save(root)
    assert names(root) == ["latest", "step-000001"]


@pytest.mark.parametrize("name", ["shards", "rng.safetensors", "extra-critic.safetensors"])
def test_what_goes_bad_between_verifying_and_reading_is_one_line(root: Path, name: str):
    run = Run().train(1)
    path = save(root, 1, run.snapshot(critic={"head": torch.ones(2)}), state={}, rng=run.rng)
    loaded = load(root)
    assert loaded is not None
    shutil.rmtree(path / name) if (path / name).is_dir() else (path / name).unlink()
    with pytest.raises(InfrastructureError, match=rf"cannot read .*{name}: No such file"):
        loaded.restore(Run().learned)
        loaded.restore_rng(run.rng)
        loaded.extra("critic")
    with pytest.raises(InfrastructureError, match=r"cannot read .*step-000009"):
        reopen(root / "step-000009")


# Crashes


def at_file_call(n: int, act: Callable[[], None]) -> Callable[[], bool]:
    """Calls `act` just before this thread's n-th file operation; returns whether that is still to come."""
    left = n

    def profile(frame: FrameType, event: str, called: Any) -> None:
        nonlocal left
        if event == "c_call" and called.__name__ in FILE_CALLS:
            left -= 1
            if left == 0:
                act()

    sys.setprofile(profile)
    return lambda: left > 0


def in_child(body: Callable[[], None]) -> int:
    """Runs `body` in a forked child; the exit status, or minus the signal that killed it."""
    if (pid := os.fork()) == 0:
        status = 70
        try:
            body()
            status = 0
        except InfrastructureError as error:
            status = error.exit_code
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed(save: Callable[[int], object]) -> Iterator[int]:
    """Kills a child that saves before its first, second, third ... file operation, until one gets through."""
    for n in itertools.count(1):

        def body(n: int = n) -> None:
            at_file_call(n, lambda: os.kill(os.getpid(), signal.SIGKILL))
            save(n)

        status = in_child(body)
        yield n
        if status == 0:
            assert n > 30
            return
        assert status == -signal.SIGKILL


@pytest.mark.slow
def test_a_first_save_killed_anywhere_leaves_none_or_a_whole_one(tmp_path: Path):
    run = Run().train(1)
    found = set()
    for n in killed(lambda n: run.save(tmp_path / str(n))):
        loaded = load(tmp_path / str(n))
        found.add(loaded and loaded.step)
    assert found == {None, 1}


@pytest.mark.slow
def test_a_save_killed_anywhere_leaves_the_last_or_the_new_one(root: Path):
    """Each killed save follows on the litter of the one before it."""
    run = Run()
    run.train(1).save(root, n=1)
    run.train(1).save(root, n=2)
    run.train(1)
    steps = []
    for _ in killed(lambda _: run.save(root, n=3)):
        loaded = load(root)
        assert loaded is not None
        assert loaded.refused == ()
        assert loaded.state == {"n": loaded.step}
        steps.append(loaded.step)
    assert set(steps) == {2, 3}
    assert steps == sorted(steps)
    assert torch.equal(Run.resume(root).train(1).model[0].weight, run.train(1).model[0].weight)
    run.save(root, n=4)
    assert len(names(root)) == 3


def test_all_is_synced_before_it_gets_its_name(root: Path, monkeypatch: pytest.MonkeyPatch):
    """A kill leaves the page cache in place, a power cut does not: so the order of the calls matters."""
    calls: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def record_fsync(descriptor: int) -> None:
        calls.append(("fsync", os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def record_rename(source: Path, target: Path) -> None:
        calls.append(("rename", str(target)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "rename", record_rename)
    monkeypatch.setattr(os, "replace", record_rename)
    path = Run().train(1).save(root)

    named = calls.index(("rename", str(path)))
    temporary = root / ".tmp-step-000001"
    inside = [path, *path.rglob("*")]
    assert len(inside) == 9
    assert {name for _, name in calls[:named]} == {str(temporary / item.relative_to(path)) for item in inside}
    assert calls[named + 1 :] == [("rename", str(root / "latest")), ("fsync", str(root))]


# Full and failing disks


def test_a_disk_that_fails_anywhere_is_one_line_and_the_old_checkpoints_stand(root: Path):
    run = Run()
    run.train(1).save(root)
    run.train(1).save(root)
    run.train(1)

    def fail() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for n in itertools.count(1):
        before = load(root)
        assert before is not None
        pending = at_file_call(n, fail)
        try:
            run.save(root)
        except InfrastructureError as error:
            assert "No space left on device" in str(error)
            assert "\n" not in str(error)
        finally:
            sys.setprofile(None)
        assert verify(before.path) is None
        after = load(root)
        assert after is not None
        assert after.refused == ()
        if pending():
            break
    assert n > 30


def test_a_file_that_may_not_grow_is_a_failing_disk_too(root: Path, capfd: pytest.CaptureFixture[str]):
    """The limit is the kernel's, so the writes that fail are real, safetensors' own among them."""
    run = Run().train(1)
    run.save(root)

    def body() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        run.save(root)

    assert in_child(body) == InfrastructureError.exit_code
    assert names(root) == ["latest", "step-000001"]
    assert capfd.readouterr().err == ""


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InfrastructureError, match="could not be saved"):
        Run().save(tmp_path / "file" / "checkpoints")


def test_an_interrupted_save_cleans_up_and_goes_on_rising(root: Path):
    def interrupt(folder: Path) -> None:
        raise KeyboardInterrupt

    run = Run().train(1)
    run.export = lambda: interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        run.save(root)
    assert names(root) == []


# No pickle


def test_nothing_is_pickled_on_the_way_out_or_in(root: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("pickle was used")

    for module, name in [
        *((pickle, name) for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler")),
        *((torch, name) for name in ("save", "load")),
        *((np, name) for name in ("save", "load")),
    ]:
        monkeypatch.setattr(module, name, refuse)
    Run().train(2).save(root)
    Run.resume(root)


def test_no_module_of_the_trainer_names_a_pickle():
    forbidden = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
    for file in Path(training.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Import(names=aliases):
                    imported = {alias.name.split(".")[0] for alias in aliases}
                case ast.ImportFrom(module=str(module)):
                    imported = {module.split(".")[0]}
                case ast.Attribute(value=ast.Name(id="torch"), attr="load" | "save" as name):
                    imported = {name}
                case _:
                    continue
            assert not imported & (forbidden | {"load", "save"}), f"{file}:{node.lineno}"
