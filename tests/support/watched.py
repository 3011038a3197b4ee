"""A run's folder, written as a training run writes it, and hostile text for every place that has some."""

import contextlib
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

from eval.watch.run import WatchedRun
from eval.watch.screens import FarmScreens
from eval.watch.server import LiveServer
from guiagent.errors import Fault
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Ending, PolicyOutput, Score, Step, Trajectory

PAYLOAD = (
    "</pre></title></style></script><script>window.pwned=1</script><img src=x onerror='window.pwned=2'>"
    "\"><svg onload=window.pwned=3><a href='javascript:window.pwned=4'>x</a>${window.pwned=5}<!--"
)


def picture(colour: str, size: tuple[int, int] = (160, 224)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "png")
    return buffer.getvalue()


def episode(store: TrajectoryStore, id: str, success: bool = True, text: str = "", **more: Any) -> Trajectory:
    action = {"type": "click", "x": 40, "y": 60}
    output = PolicyOutput(text or "Action: click", [action], completion_ids=[1, 2], logprobs=[-0.5, -1.5])
    frames = [store.put_frame(picture(colour)) for colour in ("#d33", "#36c")]
    fields: dict[str, Any] = {
        "task": text or "click-test",
        "seed": 7,
        "instruction": text or "Click on the red box.",
        "steps": [Step(frame, 160, 224, output, action_error=text or None) for frame in frames],
        "stop": "task_done",
        "score": Score(float(success), reason=text, evidence={"said": text}, side_effects=[text], reward=0.5),
        "audit": Score(0.0, reason=text),
        "ending": Ending(answer=text or None),
        "final_frame": store.put_frame(picture("#3a3")),
        "device": text or "browser-1",
        "group": "g",
    }
    return Trajectory(id, **(fields | more))


def fault(store: TrajectoryStore, id: str, text: str) -> Trajectory:
    return episode(store, id, score=None, stop="fault", fault=Fault("device", "crashed", text))


def line(step: int, **figures: Any) -> str:
    """A line of metrics.jsonl."""
    figures = {
        "step": step,
        "steps": 100,
        "seconds": 2.0 * step,
        "episodes": 8 * step,
        "env_steps": 12 * step,
        "success": min(1.0, step / 50),
        "entropy": 1 / step,
        "loss": -0.1,
        "health": {"mixed": 0.5, "parse_errors": 0.0},
        "tasks": {"click-test": {"successes": min(8, step // 6), "episodes": 8}},
        **figures,
    }
    return json.dumps(figures) + "\n"


def write_run(root: Path, updates: int = 40, text: str = "") -> Path:
    """Write a run with so many updates and three episodes; `text` goes into every place for text."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "config.toml").write_text(f"# {text}\nsteps = 100\n")
    more: dict[str, Any] = {}
    if text:
        more = {
            "warnings": [text],
            "faults_by_code": {text: 1},
            "tasks": {text: {"successes": 1, "episodes": 2}},
            text: 1.0,
            "phase_seconds": {text: 1.0},
        }
    (root / "metrics.jsonl").write_text("".join(line(step, **more) for step in range(1, updates + 1)))
    (root / "checkpoints" / "step-000020").mkdir(parents=True)
    with TrajectoryStore(root / "trajectories") as store:
        store.commit([episode(store, "e0", False, text), fault(store, "e1", text or "gone")])
        store.commit([episode(store, "e2", True, text)])
    return root


@contextlib.contextmanager
def serving(root: Path, screens: FarmScreens | None = None, name: str = "runs/demo") -> Iterator[LiveServer]:
    """The live page of a run on a thread; it ends with the context."""
    run = WatchedRun(root, name, f"guiagent train --recipe {root}/config.toml --run {root}")
    server = LiveServer(run, screens or FarmScreens(lambda: None), name)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()
