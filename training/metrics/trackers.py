"""Sends a run's figures to an experiment tracker (trackio, W&B or MLflow) from a thread of its own.

All figures are in `metrics.jsonl` too, so a tracker that fails or is slow costs only its own curves, with a
warning. Nothing leaves this machine unless the user's environment says so: W&B works offline unless
WANDB_MODE is set, MLflow writes into the run's folder unless MLFLOW_TRACKING_URI is, trackio into its own
local database.
"""

import json
import logging
import os
import re
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Thread
from typing import Any, NamedTuple

from guiagent.errors import MissingProgram
from guiagent.storage.atomic import write_file
from training.config import TrackerName
from training.metrics.tensorboard import scalars

PROJECT = "guiagent"
RECORD = "tracker.json"  # in a run's folder: the ids under which trackers know the run
_MOST_WAITING = 1_000  # updates
_END_S = 30.0  # that the end of a run waits for a tracker
_PACKAGES: dict[TrackerName, str] = {"trackio": "trackio", "wandb": "wandb", "mlflow": "mlflow-skinny"}
_NOT_MLFLOWS = re.compile(r"[^\w\-. /]")
_log = logging.getLogger(__name__)


def require_tracker(name: TrackerName | None) -> None:
    """Raise MissingProgram if the tracker's package is not installed."""
    if name is not None and find_spec(name) is None:
        raise MissingProgram(
            f"tracker {name} is not installed: pip install {_PACKAGES[name]}, or leave out the key tracker"
        )


class Session(NamedTuple):
    """A tracker's run while it is written to; another session goes on with it by its `id`."""

    id: str
    log: Callable[[int, Mapping[str, float]], None]
    finish: Callable[[], object]


class Tracker:
    """The run in `folder` as a tracker sees it. No call waits for it, but `close` for a bounded time.

    Raises:
        MissingProgram: its package is not installed.
    """

    def __init__(self, name: TrackerName, folder: Path) -> None:
        require_tracker(name)
        self._name, self._folder = name, folder
        self._waiting: Queue[tuple[int, dict[str, float]] | None] = Queue(_MOST_WAITING)
        self._failed = False
        self._thread = Thread(target=self._send, name=f"tracker {name}", daemon=True)
        self._thread.start()

    def add(self, step: int, figures: Mapping[str, Any]) -> None:
        """Pass on the finite numbers among `figures`; those of a dict get the dict's name as a prefix."""
        if self._failed:
            return
        try:
            self._waiting.put_nowait((step, dict(scalars(figures))))
        except Full:
            self._give_up(f"{_MOST_WAITING:,} updates wait for it")

    def close(self) -> None:
        """Pass on what waits and end the session, or give it up after some seconds."""
        with suppress(Full):
            self._waiting.put_nowait(None)
        self._thread.join(_END_S)
        if self._thread.is_alive():
            self._give_up(f"it did not end within {_END_S:g} s")

    def _send(self) -> None:
        try:
            session = _OPENERS[self._name](self._folder, _known(self._folder).get(self._name))
            _remember(self._folder, self._name, session.id)
            while not self._failed and (update := self._waiting.get()) is not None:
                session.log(*update)
            session.finish()
        except Exception as error:  # whatever another's package raises is no reason to end a run
            self._give_up(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")

    def _give_up(self, why: str) -> None:
        if self._failed:
            return
        self._failed = True
        with suppress(Empty):
            while True:
                self._waiting.get_nowait()
        _log.warning(
            "warning   no more figures for %s until the next start: %s; metrics.jsonl has all of them",
            self._name,
            why,
        )


def _trackio(folder: Path, id: str | None) -> Session:
    import trackio  # type: ignore[import-not-found,unused-ignore]

    id = id or _new_id(folder)
    run = trackio.init(project=PROJECT, name=id, resume="allow", embed=False)
    return Session(id, lambda step, figures: run.log(dict(figures), step=step), run.finish)


def _wandb(folder: Path, id: str | None) -> Session:
    import wandb  # type: ignore[import-not-found,unused-ignore]

    id = id or _new_id(folder)
    mode = os.environ.get("WANDB_MODE", "offline")
    settings = wandb.Settings(silent=True, console="off")
    run = wandb.init(
        project=PROJECT, id=id, name=id, dir=folder, mode=mode, resume="allow", settings=settings
    )
    # A resumed run makes its last updates again, and W&B drops whatever is not beyond its own last step.
    run.define_metric("*", step_metric="step")
    return Session(id, lambda step, figures: run.log({**figures, "step": step}), run.finish)


def _mlflow(folder: Path, id: str | None) -> Session:
    import mlflow  # type: ignore[import-not-found,unused-ignore]

    # Since version 3 a folder has to be asked for; a database would need the whole of MLflow.
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    own = f"file:{folder.resolve() / 'mlruns'}"
    client = mlflow.MlflowClient(os.environ.get("MLFLOW_TRACKING_URI", own))
    if id is None:
        experiment = client.get_experiment_by_name(PROJECT)
        experiment_id = experiment.experiment_id if experiment else client.create_experiment(PROJECT)
        id = client.create_run(experiment_id, run_name=folder.resolve().name).info.run_id
    else:
        client.update_run(id, status="RUNNING")
    run_id: str = id

    def log(step: int, figures: Mapping[str, float]) -> None:
        from time import time

        from mlflow.entities import Metric  # type: ignore[import-not-found,unused-ignore]

        now = int(time() * 1000)
        metrics = [Metric(_NOT_MLFLOWS.sub("_", name), value, now, step) for name, value in figures.items()]
        client.log_batch(run_id, metrics=metrics)

    return Session(run_id, log, lambda: client.set_terminated(run_id))


_OPENERS: dict[TrackerName, Callable[[Path, str | None], Session]] = {
    "trackio": _trackio,
    "wandb": _wandb,
    "mlflow": _mlflow,
}


def _new_id(folder: Path) -> str:
    return f"{re.sub(r'[^A-Za-z0-9_.-]', '-', folder.resolve().name)[:40]}-{secrets.token_hex(4)}"


def _known(folder: Path) -> dict[str, str]:
    """Return the ids of the run by tracker, as an earlier session wrote them; {} at first."""
    try:
        known = json.loads((folder / RECORD).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return {name: id for name, id in known.items() if isinstance(id, str)} if isinstance(known, dict) else {}


def _remember(folder: Path, name: str, id: str) -> None:
    known = _known(folder)
    if known.get(name) != id:
        write_file(folder / RECORD, (json.dumps({**known, name: id}) + "\n").encode())
