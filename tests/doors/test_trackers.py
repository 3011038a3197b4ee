"""The experiment trackers' own packages, offline: a run in two sessions is read back from what they kept."""

import json
from pathlib import Path

import pytest

from tests.support.doors import run_in

pytestmark = pytest.mark.doors

WRITTEN = """
import sys
from pathlib import Path
from training.metrics.writer import Metrics

run, name = Path(sys.argv[1]), sys.argv[2]
for step in (1, 2):  # the second session goes on in the tracker's same run
    metrics = Metrics(run, after_step=step - 1, tracker=name)
    metrics.update({"step": step, "loss": 0.5 / step, "groups": {"mixed": 3}, "kl": float("nan")})
    metrics.close()
"""
READERS = {
    "mlflow": """
import json, sys
from pathlib import Path
import mlflow

run = Path(sys.argv[1])
client = mlflow.MlflowClient(f"file:{run / 'mlruns'}")
(id,) = json.loads((run / "tracker.json").read_text()).values()
assert client.get_run(id).info.status == "FINISHED"
print(json.dumps([[one.step, one.value] for one in client.get_metric_history(id, "loss")]))
""",
    "wandb": """
import json, struct, sys
from pathlib import Path
from wandb.proto import wandb_internal_pb2

BLOCK, HEADER = 32768, 7  # LevelDB's log format, after a head of seven bytes

def records(data):
    at, whole = HEADER, b""
    while at + HEADER <= len(data):
        left = BLOCK - at % BLOCK
        if left < HEADER:
            at += left
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        whole += data[at + HEADER : at + HEADER + length]
        at += HEADER + length
        if kind in (1, 4):  # whole, or the last part
            yield wandb_internal_pb2.Record.FromString(whole)
            whole = b""

run = Path(sys.argv[1])
(id,) = json.loads((run / "tracker.json").read_text()).values()
found = []
for file in (run / "wandb").glob(f"offline-run-*-{id}/run-{id}.wandb"):
    for record in records(file.read_bytes()):
        items = record.history.item
        told = {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}
        if "loss" in told:
            assert told["groups/mixed"] == 3 and "kl" not in told
            found.append([told["step"], told["loss"]])
print(json.dumps(sorted(found)))
""",
    "trackio": """
import json, sys
from pathlib import Path
from trackio.sqlite_storage import SQLiteStorage

run = Path(sys.argv[1])
(id,) = json.loads((run / "tracker.json").read_text()).values()
print(json.dumps([[one["step"], one["loss"]] for one in SQLiteStorage.get_logs("guiagent", id)]))
""",
}


@pytest.mark.parametrize("name", READERS)
def test_a_run_in_two_sessions_is_one_run_of_the_tracker(name: str, tmp_path: Path) -> None:
    run = tmp_path / "my run"
    (tmp_path / "write.py").write_text(WRITTEN)
    (tmp_path / "read.py").write_text(READERS[name])
    own = {"TRACKIO_DIR": str(tmp_path / "trackio"), "GRADIO_ANALYTICS_ENABLED": "False"}
    own |= {"MLFLOW_ALLOW_FILE_STORE": "true", "HOME": str(tmp_path)}
    run_in("trackers", tmp_path / "write.py", str(run), name, **own)
    said = run_in("trackers", tmp_path / "read.py", str(run), **own)
    assert json.loads(said.splitlines()[-1]) == [[1, 0.5], [2, 0.25]]
