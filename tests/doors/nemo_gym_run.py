"""NeMo Gym's own servers and its collection of rollouts, on a resources server of ours.

Reads as JSON: `server` (host, with who asks, and port), `model` (the URL of an API like OpenAI's), `rows` and
`out`, JSON lines. `ng_run` starts the same head, agent and model, each in an environment that it makes first.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

asked = json.load(sys.stdin)


def free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def entry(kind: str, name: str, **config: Any) -> dict[str, Any]:
    return {kind: {name: {"entrypoint": "app.py", "host": "127.0.0.1", **config}}}


def awaited(port: int) -> None:
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1)
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"nobody answers at port {port}")


import ray  # noqa: E402 (what follows takes seconds to import)

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
ports = {"agent": free(), "model": free(), "head": free()}
model = {"openai_base_url": asked["model"], "openai_api_key": "k", "openai_model": "stand-in"}
config = {
    "head_server": {"host": "127.0.0.1", "port": ports["head"]},
    "ray_head_node_address": ray.get_runtime_context().gcs_address,
    "dry_run": False,
    "guiagent": entry("resources_servers", "guiagent", domain="agent", verified=False, **asked["server"]),
    "policy_model": entry("responses_api_models", "openai_model", port=ports["model"], **model),
    "simple_agent": entry(
        "responses_api_agents",
        "simple_agent",
        port=ports["agent"],
        max_steps=8,
        resources_server={"type": "resources_servers", "name": "guiagent"},
        model_server={"type": "responses_api_models", "name": "policy_model"},
    ),
}
os.environ["NEMO_GYM_CONFIG_DICT"] = json.dumps(config)

from nemo_gym.rollout_collection import RolloutCollectionConfig, RolloutCollectionHelper  # noqa: E402
from nemo_gym.server_utils import HeadServer  # noqa: E402

packages = Path(__import__("nemo_gym").__file__).parents[1]
started = []
try:
    for name, app, port in (
        ("policy_model", "responses_api_models/openai_model", "model"),
        ("simple_agent", "responses_api_agents/simple_agent", "agent"),
    ):
        own = {**os.environ, "NEMO_GYM_CONFIG_PATH": name, "PYTHONPATH": str(packages)}
        started.append(subprocess.Popen([sys.executable, "app.py"], cwd=packages / app, env=own, stdout=2))
        awaited(ports[port])
    HeadServer.run_webserver()
    awaited(ports["head"])
    wanted = RolloutCollectionConfig(
        agent_name="simple_agent",
        input_jsonl_fpath=asked["rows"],
        output_jsonl_fpath=asked["out"],
        num_samples_in_parallel=1,
    )
    asyncio.run(RolloutCollectionHelper().run_from_config(wanted))
finally:
    for server in started:
        server.kill()
        server.wait()
    ray.shutdown()
