"""Forks: a new run that begins with the weights of another run's newest checkpoint, and says so."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from guiagent.errors import InfrastructureError, UsageError
from guiagent.storage.atomic import write_file
from training.checkpoints import checkpoint
from training.checkpoints.digests import sync
from training.identity import CONFIG

ORIGIN = "forked.json"  # of a forked run's folder: which run, which checkpoint, which step
_POLICY = "forked-policy"  # a copy: the other run removes its checkpoints for later ones


def forked_policy(run: Path, source: Path | None) -> Path | None:
    """Return the policy that a run begins with if it is a fork, made now if it is not there yet; else None.

    Without `source` only what the run says of itself counts: a fork goes on as other runs do.

    Raises UsageError if `run` holds a run that was not forked from `source`, or `source` has no policy.
    """
    origin = origin_of(run)
    if origin is None:
        return None if source is None else _fork(run, source)
    if source is not None and origin["run"] != str(source.resolve()):
        raise UsageError(f"{run} was forked from {origin['run']}, not from {source}: name another --run")
    return (run / _POLICY).resolve()


def origin_of(run: Path) -> dict[str, Any] | None:
    """Return what a run says of its origin: "run", "checkpoint", "step"; None if it is no fork."""
    try:
        origin: dict[str, Any] = json.loads((run / ORIGIN).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise InfrastructureError(f"cannot read {run / ORIGIN} ({error}): restore it from a copy") from error
    return {**origin, "run": str((run / origin["run"]).resolve())}


def _fork(run: Path, source: Path) -> Path:
    if (run / CONFIG).is_file() or (run / "checkpoints").is_dir():
        raise UsageError(f"{run} holds a run already, which is no fork of {source}: name another --run")
    loaded = checkpoint.load(source / "checkpoints")
    if loaded is None:
        raise UsageError(f"there is no run to fork from in {source}: it has no checkpoint")
    if not (loaded.model / "config.json").is_file():
        raise UsageError(
            f"{loaded.path} has weights, but no policy's folder, which only the last checkpoint of a large "
            "policy has: start that run again and end it by Ctrl-C"
        )
    policy, partial = run / _POLICY, run / f".tmp-{_POLICY}"
    try:
        for left in (policy, partial):  # of a fork that was interrupted
            shutil.rmtree(left, ignore_errors=True)
        shutil.copytree(loaded.model, partial)
        for path in (*partial.rglob("*"), partial):
            sync(path)
        os.rename(partial, policy)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise InfrastructureError(
            f"cannot copy {loaded.model} to {run}: {error.strerror}; make room or choose another folder"
        ) from error
    told = {"run": _told(source, run), "checkpoint": loaded.path.name, "step": loaded.step}
    write_file(run / ORIGIN, json.dumps(told, indent=2).encode() + b"\n")
    return policy.resolve()


def _told(source: Path, run: Path) -> str:
    """The place of the run that was forked; from the fork's own for one beside it, so that both may move."""
    beside = source.resolve().parent == run.resolve().parent
    return f"../{source.resolve().name}" if beside else str(source.resolve())
