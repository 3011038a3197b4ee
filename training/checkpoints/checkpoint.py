"""Checkpoints that survive a kill at any instant: a folder `step-000123/` is complete or absent.

    shards/                the trained parameters and the optimiser's tensors, a part from each process
    model/                 the policy as an ordinary Hugging Face folder, where one was exported
    extra-*.safetensors    whatever else is learned: a critic and its optimiser
    rng.safetensors        the torch generators
    state.json             the optimiser's numbers, the other generators, and the caller's own state
    manifest.json          the xxh3-128 and the size of each of these, and of itself

A checkpoint is written to a temporary folder, synced file by file, and renamed. The link `latest` is for
people; `load` trusts only what it verifies. Nothing here is ever unpickled.

A checkpoint does not depend on the number of processes that wrote it. What is not trained is not in it: it is
read again from the policy that the run began with. A policy of up to 1 GiB is exported with every checkpoint,
a larger one with the last of a run. Checkpoints of earlier versions, with all weights in `model/` and one
`optimizer.safetensors`, are still read.
"""

import json
import logging
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import xxhash
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from guiagent.errors import InfrastructureError
from training.checkpoints.digests import Written, difference, sync, written_in
from training.checkpoints.shards import Learned, read_shards
from training.checkpoints.snapshot import MODEL, SHARDS, Snapshot, extra_file
from training.checkpoints.states import Generator, restore_optimizer, restore_rng, rng_state

_log = logging.getLogger(__name__)
_NAME = re.compile(r"step-(\d{6,})(?:\.(\d+))?")
_TEMPORARY = ".tmp-"
_WHOLE_OPTIMIZER = "optimizer.safetensors"  # of earlier versions

_NO_FILES: Mapping[str, Written] = {}


@dataclass(frozen=True)
class Loaded:
    """A verified checkpoint: the caller's `state`, and in `refused` why newer ones could not be used."""

    path: Path
    step: int
    state: dict[str, Any]
    refused: tuple[str, ...]
    _files: frozenset[str]
    _optimizer: dict[str, Any]
    _rng: dict[str, Any]

    @property
    def model(self) -> Path:
        """The folder that `from_pretrained` reads, if the policy was exported."""
        return self.path / MODEL

    def opens(self, start: Path) -> Path:
        """The model to open before `restore`: what the run began with, whose trained weights are replaced."""
        return start if SHARDS in self._files else self.model

    def extra(self, name: str) -> dict[str, Tensor]:
        """The extra tensors saved under a name; {} if none were. Raises InfrastructureError."""
        return self._tensors(extra_file(name)) if extra_file(name) in self._files else {}

    def restore(self, learned: Learned) -> None:
        """Restore what is learned, as far as this process has it.

        Raises InfrastructureError if they cannot be read after all, or are not those of this model.
        """
        if SHARDS in self._files:
            try:
                read_shards(self.path / SHARDS, learned, self._optimizer)
            except (OSError, SafetensorError, RuntimeError) as error:
                raise _unreadable(self.path / SHARDS, error) from error
            except ValueError as error:
                raise InfrastructureError(
                    f"{self.path} is of another model: {error}; go on with the policy and the update.lora "
                    "that the run began with"
                ) from error
        elif learned.optimizer is not None:
            restore_optimizer(learned.optimizer, self._tensors(_WHOLE_OPTIMIZER), self._optimizer)

    def restore_rng(self, rng: Mapping[str, Generator]) -> None:
        """Restore random generators, by their names. Raises InfrastructureError if they cannot be read."""
        restore_rng(rng, self._tensors("rng.safetensors"), self._rng)

    def _tensors(self, name: str) -> dict[str, Tensor]:
        try:
            return load_file(self.path / name)
        except (OSError, SafetensorError, RuntimeError) as error:  # the last is torch's, for a failing disk
            raise _unreadable(self.path / name, error) from error


def save(
    root: Path, step: int, snapshot: Snapshot, *, state: dict[str, Any], rng: Mapping[str, Generator]
) -> Path:
    """Write a checkpoint durably and return its folder; keep only it and the last whole one before it.

    For rank 0; the others follow their own snapshots. `state` is JSON. If the step was saved before (a run
    that went back, a last save), the name gets the suffix `.1`: no checkpoint is ever overwritten. After a
    run went back to an older checkpoint, the later ones are removed.

    Raises:
        InfrastructureError: the disk is full or failing; the earlier checkpoints are untouched.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        _sweep(root)
        temporary = root / f"{_TEMPORARY}step-{step:06d}"
        temporary.mkdir()
        try:
            others = snapshot.write(temporary)
            rng_tensors, rng_rest = rng_state(rng)
            save_file(rng_tensors, temporary / "rng.safetensors")
            saved = {"step": step, "state": state, "optimizer": snapshot.numbers, "rng": rng_rest}
            (temporary / "state.json").write_text(json.dumps(saved))
            _seal(temporary, others)
            path = _new_name(root, step)
            os.rename(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        _point(root, path)
        _prune(root, path)
    except (OSError, SafetensorError) as error:
        raise InfrastructureError(
            f"the checkpoint of step {step} could not be saved in {root}: {_reason(error)}; the earlier ones "
            "are untouched: make room, then start the run again to go on from the last of them"
        ) from error
    finally:
        snapshot.abandon()
    return path


def load(root: Path) -> Loaded | None:
    """Open the newest whole checkpoint in `root`, logging a warning for each newer one; None if it has none.

    Raises:
        InfrastructureError: there are checkpoints but none is whole, or `root` cannot be read.
    """
    refused: list[str] = []
    try:
        checkpoints = _checkpoints(root)
    except OSError as error:
        raise _unreadable(root, error) from error
    for path in reversed(checkpoints.values()):
        fault = verify(path)
        if fault is None:
            try:
                return _opened(path, tuple(refused))
            except OSError as error:
                fault = f"state.json: {error.strerror}"
        refused.append(f"{path.name}: {fault}")
    if refused:
        raise InfrastructureError(
            f"no checkpoint in {root} can be used ({'; '.join(refused)}): restore one from a copy, "
            "or delete the folder to start over"
        )
    return None


def reopen(path: Path) -> Loaded:
    """Open a checkpoint that another process has verified already. Raises InfrastructureError."""
    try:
        return _opened(path, ())
    except OSError as error:
        raise _unreadable(path, error) from error


def verify(path: Path) -> str | None:
    """Why a checkpoint cannot be used, in a few words; None if every byte is what was written."""
    name = "manifest.json"
    try:
        raw = (path / name).read_bytes()
        manifest = json.loads(raw)
        if raw != _manifest_bytes(manifest["files"]):
            return "manifest.json is damaged"
        for name, expected in msgspec.convert(manifest["files"], dict[str, Written]).items():
            if found := difference(path / name, expected):
                return f"{name} {found}"
    except (ValueError, TypeError, KeyError, AttributeError, msgspec.ValidationError):
        return "manifest.json is damaged"
    except OSError as error:
        return f"{name}: {error.strerror}"
    return None


def _opened(path: Path, refused: tuple[str, ...]) -> Loaded:
    """Open a verified checkpoint, and log a warning for each newer one that was `refused`."""
    saved = json.loads((path / "state.json").read_bytes())
    files = frozenset(os.listdir(path))
    for fault in refused:
        _log.warning("warning   passed over a damaged checkpoint: %s", fault)
    return Loaded(path, saved["step"], saved["state"], refused, files, saved["optimizer"], saved["rng"])


def _unreadable(path: Path, error: Exception) -> InfrastructureError:
    return InfrastructureError(
        f"cannot read {path}: {_reason(error)}; mend the disk, then start the run again: what is damaged is "
        "passed over"
    )


def _reason(error: Exception) -> str:
    """The error's reason in one line; safetensors' own OSError has no `strerror`."""
    return (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())


def _seal(folder: Path, others: Mapping[str, Written] = _NO_FILES) -> None:
    """Sync every file, write and sync the manifest, and sync the folders that hold them.

    `others` were written, hashed and made durable by other processes.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    own = [file for file in files if str(file.relative_to(folder)) not in others]
    manifest = folder / "manifest.json"
    manifest.write_bytes(_manifest_bytes(msgspec.to_builtins({**written_in(folder, own), **others})))
    for path in (*files, manifest, *(path for path in folder.rglob("*") if path.is_dir()), folder):
        sync(path)


def _manifest_bytes(files: dict[str, Any]) -> bytes:
    """The manifest of `files`, byte for byte, with its own hash."""
    listed = json.dumps(files, indent=1, sort_keys=True)
    return f'{{"files": {listed},\n"xxh3_128": "{xxhash.xxh3_128_hexdigest(listed.encode())}"}}\n'.encode()


def _checkpoints(root: Path) -> dict[tuple[int, int], Path]:
    """The checkpoints in `root` by step and attempt, oldest first."""
    found = {match: root / name for name in _names(root) if (match := _NAME.fullmatch(name))}
    return dict(sorted(((int(match[1]), int(match[2] or 0)), path) for match, path in found.items()))


def _names(root: Path) -> list[str]:
    """The names in a folder. Not by glob, which takes an unreadable folder for an empty one: the run would
    start over in it."""
    try:
        return os.listdir(root)
    except FileNotFoundError:
        return []


def _new_name(root: Path, step: int) -> Path:
    """`step-000123`; if the step was saved before, with the number of the next attempt: `step-000123.1`."""
    attempts = [attempt for saved, attempt in _checkpoints(root) if saved == step]
    return root / (f"step-{step:06d}.{max(attempts) + 1}" if attempts else f"step-{step:06d}")


def _point(root: Path, path: Path) -> None:
    """Point the link `latest` to `path`, and make both names durable."""
    link = root / f"{_TEMPORARY}latest"
    link.symlink_to(path.name)
    link.replace(root / "latest")
    sync(root)


def _prune(root: Path, newest: Path) -> None:
    """Remove the checkpoints before the last whole one before `newest`, and those after `newest`.

    The latter exist if the run has gone back to an older step.
    """
    checkpoints = list(_checkpoints(root).values())
    kept = {newest}
    for path in reversed(checkpoints[: checkpoints.index(newest)]):
        kept.add(path)
        if verify(path) is None:
            break
    for path in set(checkpoints) - kept:
        shutil.rmtree(path)  # if interrupted, `verify` refuses what is left, and the next save removes it


def _sweep(root: Path) -> None:
    """Remove what an interrupted save left."""
    for path in (root / name for name in _names(root) if name.startswith(_TEMPORARY)):
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path)
