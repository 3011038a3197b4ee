"""The demo's whole loop with a policy of a hundred million random weights.

On browsers, where there is one, else on made-to-order apps (`lab`), which need nothing but Python. A random
policy does nothing right, so an entropy term gives every episode a gradient: what is measured is the loop,
not learning.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from guiagent.errors import MissingProgram
from tests.bench.gpu.scale import Machine, policy_100m, rehearsal, save
from tests.bench.rows import Arm, Row, reported

_SCREEN = (160, 224)
_SETTINGS = (
    "update.objective.entropy.coef=0.001",
    "rollout.max_new_tokens=16",
    "update.groups=4",
    "checkpoint_minutes=60",
    "health.stop_after=0",
)


def rows(machine: Machine, rehearsed: bool) -> Iterator[Row]:
    steps, devices = (2, 2) if rehearsed else (12, 32)
    with tempfile.TemporaryDirectory() as name:
        folder, run = Path(name) / "policy", Path(name) / "run"
        config = rehearsal("100M").config if rehearsed else policy_100m()
        save(folder, config, _SCREEN, machine.device)
        kind = _kind()
        settings = [f"policy={folder}", f"steps={steps}", f"rollout.devices={devices}", *_SETTINGS]
        if kind == "lab":
            settings += ["taskset=lab", "device.kind=lab", 'tasks=["reach-2"]', "rollout.max_steps=4"]
        if rehearsed:
            settings += ["rollout.group_size=2", "update.groups=1"]
        _train(run, settings)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steady = lines[1:] if len(lines) > 1 else lines  # the first one prepares
    updates = [line for line in steady if "learner_seconds" in line]
    spent = updates[-1]["seconds"] - lines[0]["seconds"] or updates[-1]["seconds"]
    name = f"loop of the demo, {'tiny' if rehearsed else '100 M'} policy on {devices} devices of kind {kind}"
    turns = updates[-1]["env_steps"] - (lines[0]["env_steps"] if len(lines) > 1 else 0)
    yield reported(f"{name}: turns played and learned", "turns/s", Arm.of(turns / spent))
    tokens = Arm.of(*(line["packed_tokens_per_second"] for line in updates))
    yield reported(f"{name}: learner", "packed tokens/s", tokens)
    share = sum(line["learner_seconds"] for line in updates) / spent
    yield reported(f"{name}: learning, of the time", "share", Arm.of(share))


def _kind() -> str:
    try:
        from devices.drivers.browser import find

        find()
    except (ImportError, MissingProgram):
        return "lab"
    return "browser"


def _train(run: Path, settings: list[str]) -> None:
    command = [sys.executable, "-m", "guiagent.cli", "train", "--recipe", "arpo-demo", "--run", str(run)]
    command += [word for setting in settings for word in ("--set", setting)]
    subprocess.run(command, check=True, env=os.environ | {"TERM": "dumb"}, stdout=sys.stderr)
