"""NeMo Gym's own agent and collection of rollouts, unmodified, on a suite's tasks on a browser."""

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from guiagent.cli import app
from tests.support.doors import ROOT, TOKEN, python_of, serving

pytestmark = [pytest.mark.doors, pytest.mark.browser]

PASSWORD = TOKEN.replace(" ", "-")  # it stands in an address
WANTED = {0: "ONE", 1: "TWO"}  # by rollout: the task of both is to click ONE


def decided(conversation: list[dict[str, Any]], rollout: int) -> dict[str, Any]:
    """What a model answers that looks, clicks the wanted button, and then has nothing more to say."""
    told = [item["output"] for item in conversation if item.get("type") == "function_call_output"]
    if told and told[-1] == "The task has ended.":
        text = {"type": "output_text", "text": "It is done.", "annotations": []}
        return {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
    called, arguments = "look", dict[str, int]()
    if told:
        place = re.search(rf"button '{WANTED[rollout]}' at x=(\d+) y=(\d+)", told[-1])
        assert place is not None, told
        called, arguments = "click", {"x": int(place[1]), "y": int(place[2])}
    call = {"type": "function_call", "id": "f", "call_id": f"c{len(told)}", "status": "completed"}
    return {**call, "name": called, "arguments": json.dumps(arguments)}


@contextmanager
def model() -> Iterator[str]:
    """A stand-in for a model behind OpenAI's Responses API."""
    begun = []
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    common = {"id": "r", "object": "response", "created_at": 0, "model": "stand-in", "tools": []}
    common |= {"parallel_tool_calls": False, "tool_choice": "auto", "usage": usage | details}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if len(asked["input"]) == 1:
                begun.append(asked)
            said = {**common, "output": [decided(asked["input"], len(begun) - 1)]}
            data = json.dumps(said).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


def test_its_collection_of_rollouts_has_the_scores_of_our_checks(tmp_path: Path) -> None:
    python = python_of("nemo-gym")
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    app(["nemo-gym", "miniwob-demo", "--rows", str(rows), "--episodes", "2"], standalone_mode=False)
    kept = [line for line in rows.read_text().splitlines() if json.loads(line)["task"] == "click-test-2"]
    rows.write_text("".join(f"{line}\n" for line in kept))
    words = ("nemo-gym", "miniwob-demo", "--devices", "1", "--http", "0")
    with model() as upstream, serving(*words, GUIAGENT_NEMO_GYM_TOKEN=PASSWORD) as url:
        server = {"host": f"guiagent:{PASSWORD}@127.0.0.1", "port": int(url.rpartition(":")[2])}
        asked = {"server": server, "model": upstream, "rows": str(rows), "out": str(out)}
        done = subprocess.run(
            [str(python), str(ROOT / "tests" / "doors" / "nemo_gym_run.py")],
            input=json.dumps(asked),
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    collected = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(one["task"], one["reward"]) for one in collected] == [
        ("click-test-2", 1.0),
        ("click-test-2", 0.0),
    ]
    [metrics] = json.loads((tmp_path / "out_aggregate_metrics.json").read_text())
    assert metrics["key_metrics"] == {"rollouts": 2, "mean/reward": 0.5}
