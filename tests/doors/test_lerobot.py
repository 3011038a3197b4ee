"""LeRobot, unmodified, loads exported episodes pixel by pixel; what its tools write anew comes in again."""

import hashlib
import io
import json
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from guiagent.cli import app
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import PolicyOutput
from tests.support.doors import ROOT, run_in
from tests.support.watched import episode, picture

pytestmark = pytest.mark.doors

LOADED = """
import hashlib, json, sys
from lerobot.datasets.compute_stats import aggregate_stats, get_feature_stats
from lerobot.datasets.dataset_tools import delete_episodes, merge_datasets
from lerobot.datasets.lerobot_dataset import LeRobotDataset

folder, anew = sys.argv[1:]
dataset = LeRobotDataset("local/episodes", root=folder)
rows = []
for item in dataset:
    screen = (item["observation.images.screen"].permute(1, 2, 0) * 255).round().byte().numpy()
    words = {name: item[name] for name in ("task", "reply.text", "reply.actions", "reply.error")}
    named = ("action", "observation.state", "next.reward", "next.done")
    numbers = {name: item[name].tolist() for name in named}
    rows.append({"screen": hashlib.sha256(screen.tobytes()).hexdigest(), **words, **numbers})

kept = dataset.meta.stats["action"]
actions = dataset.hf_dataset.with_format("numpy")
parts = [
    get_feature_stats(actions[one["dataset_from_index"] : one["dataset_to_index"]]["action"], 0, False)
    for one in dataset.meta.episodes
]
theirs = aggregate_stats([{"action": part} for part in parts])["action"]
apart = {name: float(abs(kept[name] - value).max()) for name, value in theirs.items()}

windows = LeRobotDataset("local/episodes", root=folder, delta_timestamps={"action": [0, 1, 2]})
last = windows[len(windows) - 1]
less = delete_episodes(dataset, [0], output_dir=f"{anew}/less", repo_id="local/less")
both = merge_datasets([less, dataset], output_repo_id="local/both", output_dir=f"{anew}/both")
padded = last["action_is_pad"].tolist()
print(json.dumps({"rows": rows, "apart": apart, "padded": padded, "both": both.num_episodes}))
"""


def alone(folder: Path) -> dict[str, str]:
    """No network, and a cache of its own."""
    return {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "cache")}


def exported(folder: Path) -> Path:
    """A success, and a failure with an answer and an instruction of its own."""
    answer = PolicyOutput("It is 7.", [{"type": "answer", "text": "7"}])
    with TrajectoryStore(folder / "run" / "trajectories") as store:
        other = episode(store, "other", success=False, instruction="How many?")
        other.steps[-1].policy = answer
        store.commit([episode(store, "one"), other])
    words = ["export", folder / "run", "--as", "lerobot", "--to", folder / "out"]
    ended = CliRunner().invoke(app, [str(word) for word in words])
    assert ended.exit_code == 0, ended.output
    return folder / "out"


def test_the_example_loads_a_batch(tmp_path: Path) -> None:
    folder = exported(tmp_path)
    example = ROOT / "examples" / "doors" / "lerobot_dataset.py"
    said = run_in("lerobot", example, LEROBOT_FOLDER=str(folder), **alone(tmp_path))
    assert said.splitlines() == [
        "2 episodes, 4 frames",
        "'Click on the red box.': click at 40,60",
        "a batch: (2, 3, 224, 160) (2, 26)",
    ]


def test_pixels_words_and_statistics_are_as_lerobot_has_them(tmp_path: Path) -> None:
    folder, script = exported(tmp_path), tmp_path / "loaded.py"
    script.write_text(LOADED)
    said = run_in("lerobot", script, str(folder), str(tmp_path / "anew"), **alone(tmp_path))
    told = json.loads(said.splitlines()[-1])
    screens = [
        hashlib.sha256(Image.open(io.BytesIO(picture(colour))).tobytes()).hexdigest()
        for colour in ("#d33", "#36c")
    ]
    rows = told["rows"]
    assert [row["screen"] for row in rows] == screens * 2
    assert [row["task"] for row in rows] == ["Click on the red box."] * 2 + ["How many?"] * 2
    assert [row["next.reward"] for row in rows] == [0, 1, 0, 0]
    assert [row["next.done"] for row in rows] == [False, True] * 2
    assert [json.loads(row["reply.actions"])[0]["type"] for row in rows] == ["click"] * 3 + ["answer"]
    assert rows[0]["observation.state"] == [0.5, 0.5, 0] and rows[1]["observation.state"][2] == 1
    exact = {name: value for name, value in told["apart"].items() if not name.startswith("q")}
    assert max(exact.values()) < 1e-6 and set(exact) == {"min", "max", "mean", "std", "count"}
    assert told["padded"] == [False, True, True] and told["both"] == 3

    words = ["import", tmp_path / "anew" / "less", "--as", "lerobot", "--run", tmp_path / "back"]
    ended = CliRunner().invoke(app, [str(word) for word in words])
    assert ended.exit_code == 0, ended.output
    with TrajectoryStore(tmp_path / "back" / "trajectories", readonly=True) as store:
        [one] = store
    assert one.instruction == "How many?" and one.ending.answer == "7" and not one.success
    assert one.score is not None and one.score.value == 0.0
