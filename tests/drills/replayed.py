"""A training run on replayed trajectories, made to be killed: all but the rollouts is the trainer's own.

A session goes on from the run's checkpoint, and for every step commits the next group one member at a time,
learns from it, writes its metrics, takes a snapshot and mirrors, each in the thread that the trainer does it
in; the checkpoint is written beside the next step, as the trainer's is.
`python -m tests.drills.replayed` forks sessions off a process that has all modules in memory, so that each
takes as long as its work, and does no other file operations.
"""

import asyncio
import contextlib
import copy
import ctypes
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import xxhash
from PIL import Image
from safetensors.torch import load_file

from guiagent.episode import PastTurn
from guiagent.errors import GuiAgentError
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Observation, Score, Step, Trajectory
from tests.drills import mutants
from training.algorithms import ALGORITHMS
from training.checkpoints import checkpoint
from training.checkpoints.mirror import Mirror, pull
from training.checkpoints.saver import Saver
from training.checkpoints.storage import Storage
from training.config import UpdateConfig
from training.engine.policy import LocalPolicy
from training.engine.sampling import Sampling
from training.inputs.encoder import Encoder
from training.learner.learner import Learner
from training.metrics.writer import Metrics
from training.replay import Replay
from training.replay.scheduler import Limits

_TASK, _SIZE = "task", 4
_ALL_FAIL = 2  # the group that is rescued by a success of an earlier one
_NEVER_S = 3600.0  # rounds of the mirror are the sessions' own
_TRACER = 0x59616D61, -1  # prctl: let any process of this user trace us (Yama)


class Outcome(NamedTuple):
    """How a session ended: its exit code, or minus the signal that killed it, and what it said."""

    code: int
    said: str


def sample(policy: Path, folder: Path, groups: int) -> None:
    """A store of groups that the policy at `policy` samples on pictures of noise."""

    async def episode(store: TrajectoryStore, group: int, index: int) -> Trajectory:
        name = f"t{group}-{index}"
        score = float(group != _ALL_FAIL and index % 2 == group % 2)
        found = Trajectory(
            name, _TASK, group, "Click on Tab #2.", [], "task_done", Score(score),
            group=f"g{group:06d}", group_index=index, group_size=_SIZE,
        )  # fmt: skip
        history: list[PastTurn] = []
        for turn in range(1 + index % 2):
            shown = _noise(100 * group + (turn and 10 * index + turn))
            output = await sampler.act(name, found.instruction, history, shown)
            found.steps.append(Step(store.put_frame(shown.frame), shown.width, shown.height, output))
            history.append(PastTurn(shown, output))
        sampler.forget(name)
        return found

    async def play() -> None:
        with TrajectoryStore(folder) as store:
            pairs = [(group, index) for group in range(groups) for index in range(_SIZE)]
            store.commit(await asyncio.gather(*(episode(store, *pair) for pair in pairs)))

    sampler = LocalPolicy(Encoder(policy), Sampling(max_new_tokens=4), seed=0)
    try:
        asyncio.run(play())
    finally:
        sampler.close()


async def session(run: Path, source: Path, policy: Path, steps: int, poison: int | None = None) -> None:
    """Train in `run` until `steps` on what `source` holds; goes on where an earlier session was cut.

    From the update after step `poison` on, no gradient is finite.
    """
    algorithm = ALGORITHMS["arpo"]
    with (
        TrajectoryStore(source, readonly=True) as given,
        Mirror(Storage(bucket(run)), run, _NEVER_S, lambda status: _warn(status.error)) as mirror,
        TrajectoryStore(run / "trajectories") as store,
        contextlib.ExitStack() as held,
    ):
        members = {(t.group, t.group_index): t for t in given}
        frames = {step.frame: given.frame(step.frame) for t in members.values() for step in t.steps}
        loaded = checkpoint.load(run / "checkpoints")
        learner = Learner(policy, Encoder(policy), algorithm, UpdateConfig(learning_rate=1e-3))
        saver = Saver()
        held.callback(saver.wait)
        rng = random.Random(0)
        step = loaded.step if loaded else 0
        if loaded:
            learner.load(loaded)
            loaded.restore_rng({"rng": rng})
        replay = Replay(algorithm.replay, 0, limits=Limits(groups=1, max_staleness=steps, devices=1))
        replay.restore(loaded.state["replay"] if loaded else None, store)
        metrics = Metrics(run, after_step=step)
        for trajectory in store.read(loaded.state["counted"] if loaded else 0):
            metrics.episode(trajectory)
        while step < steps:
            if not replay.ready and not replay.missing():
                replay.open_group(_TASK, replay.opened, _SIZE)
            for seat in replay.missing():
                trajectory = members[seat.group, seat.index]
                for shown in trajectory.steps:
                    store.put_frame(frames[shown.frame])
                store.commit([trajectory])
                metrics.episode(trajectory)
                replay.add(trajectory)
            if step == poison:
                next(learner.model.parameters()).register_hook(lambda gradient: gradient * torch.nan)
            groups = replay.take(current_version=step, timeout=0.0)
            update = await asyncio.to_thread(learner.step, groups, store.frame)
            step += 1
            drawn = {"step": step, "group": groups[0].id, "drawn": rng.random()}
            metrics.update(drawn | {n: x for n, x in update.metrics.items() if "second" not in n})
            state = {"replay": replay.state(), "learner": learner.state(), "counted": len(store)}
            snapshot = await asyncio.to_thread(learner.snapshot)
            write = partial(checkpoint.save, run / "checkpoints", step, snapshot)
            saver.begin(partial(write, state=json.loads(json.dumps(state)), rng={"rng": copy.copy(rng)}))
            await asyncio.to_thread(mirror._round)
        await asyncio.to_thread(saver.settle)
        metrics.close()


def bucket(run: Path) -> str:
    """The URL that a run is mirrored to. It lies in the run's folder, where a copy of the run has its own."""
    return f"file://{run}/bucket"


def _warn(text: str) -> None:
    if text:
        print(f"warning   {text}", file=sys.stderr)


def evidence(run: Path) -> dict[str, Any]:
    """All that a finished run must agree on with one that was never killed; times and file names left out."""
    loaded = checkpoint.load(run / "checkpoints")
    assert loaded is not None
    assert not loaded.refused, loaded.refused
    tensors = ["model/model.safetensors", *map(str, _shards(loaded.path))]
    with TrajectoryStore(run / "trajectories", readonly=True) as store:
        ids = store.ids
    _mirrored(run, loaded.path.name)
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {
        "step": loaded.step,
        "state": loaded.state,
        "hashes": [_digest(loaded.path / name) for name in tensors],
        "trajectories": ids,
        "tasks": _tally(line.pop("tasks") for line in metrics),
        "metrics": metrics,
    }


def _tally(counts: Iterable[dict[str, dict[str, int]]]) -> dict[str, Counter[str]]:
    """Episodes and successes of each task in the whole run: a step that is made again counts those that ended
    in the steps after it too, which were committed by then."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for tasks in counts:
        for task, numbers in tasks.items():
            found[task].update(numbers)
    return dict(found)


def _digest(file: Path) -> str:
    """The digest of a safetensors file's tensors: what else its header says has another order each time."""
    digest = xxhash.xxh3_128()
    for name, tensor in sorted(load_file(file).items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _shards(checkpoint: Path) -> list[Path]:
    return sorted(file.relative_to(checkpoint) for file in (checkpoint / "shards").iterdir())


def _mirrored(run: Path, newest: str) -> None:
    """What the storage gives back is the run."""
    with tempfile.TemporaryDirectory() as folder:
        manifest = pull(Storage(bucket(run)), Path(folder))
        assert manifest is not None
        assert any(name.startswith(f"checkpoints/{newest}/") for name in manifest.files)
        assert {"metrics.jsonl", "trajectories/segment-000001.log"} <= manifest.files.keys()
        for name in manifest.files:
            assert (Path(folder) / name).read_bytes() == (run / name).read_bytes(), name


class _Words(io.TextIOBase):
    """stderr by another system call than those that a drill lets fail."""

    def write(self, text: str) -> int:
        os.writev(2, [text.encode()])
        return len(text)


class Sessions:
    """The process that sessions are forked off."""

    def __init__(self, source: Path, policy: Path) -> None:
        self._folder = tempfile.TemporaryDirectory()  # not the run's, whose disk may be full
        self._said = Path(self._folder.name, "said")
        command = [sys.executable, "-m", "tests.drills.replayed", str(source), str(policy), str(self._said)]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._folder.cleanup()

    def run(self, run: Path, steps: int, *strace: str, poison: int | None = None) -> Outcome:
        """One session, under strace with these arguments if there are any."""
        self._tell({"run": str(run), "steps": steps, "stopped": bool(strace), "poison": poison})
        pid = int(self._hear())
        with contextlib.ExitStack() as stack:
            if strace:
                tracer = stack.enter_context(_attached(pid, *strace))
                os.kill(pid, signal.SIGCONT)
                code = int(self._hear())
                tracer.wait()
            else:
                code = int(self._hear())
        return Outcome(code, self._said.read_text())

    def _tell(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def _hear(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the process that forks sessions ended with {self._process.poll()}"
        return line


@contextlib.contextmanager
def _attached(pid: int, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """strace, once it has hold of the process."""
    command = ["strace", "-p", str(pid), *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        line = tracer.stderr.readline()
        if "attached" not in line:
            os.kill(pid, signal.SIGKILL)
            raise PermissionError(line.strip())
        yield tracer


def _noise(seed: int) -> Observation:
    data = io.BytesIO()
    Image.frombytes("RGB", (96, 64), random.Random(seed).randbytes(96 * 64 * 3)).save(data, "PNG")
    return Observation(96, 64, media_type="image/png", frame=data.getvalue())


def main() -> None:
    source, policy, said = map(Path, sys.argv[1:])
    torch.set_num_threads(1)
    mutants.seed()
    Learner(policy, Encoder(policy), ALGORITHMS["arpo"], UpdateConfig())  # brings the last modules
    for line in sys.stdin:
        asked = json.loads(line)
        run = Path(asked["run"])
        run.mkdir(exist_ok=True)
        if (pid := os.fork()) == 0:
            os._exit(_child(run, source, policy, said, asked))
        if asked["stopped"]:
            os.waitpid(pid, os.WUNTRACED)  # until it waits to be traced
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _child(run: Path, source: Path, policy: Path, said: Path, asked: dict[str, Any]) -> int:
    with said.open("w") as file:
        os.dup2(file.fileno(), 2)
        sys.stderr = _Words()
        if asked["stopped"]:
            ctypes.CDLL(None).prctl(*_TRACER)
            os.kill(os.getpid(), signal.SIGSTOP)
        try:
            asyncio.run(session(run, source, policy, asked["steps"], asked["poison"]))
        except GuiAgentError as error:
            print(f"guiagent: {error}", file=sys.stderr)
            return error.exit_code
        except BaseException as error:
            traceback.print_exception(error)
            return 70
    return 0


def copied(run: Path, to: Path) -> Path:
    """A run as it stood, for one session to be killed in."""
    shutil.copytree(run, to, symlinks=True)
    return to


if __name__ == "__main__":
    main()
