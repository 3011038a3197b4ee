"""Your own agent, a loop around the package `openai`, is trained: two updates on pages of MiniWoB++.

Run it, and it starts `guiagent train`, which starts it again for every episode, with OpenAI's variables
pointing at the policy in training, and the leased device at $GUIAGENT_DEVICE_URL.
"""

import os
import subprocess
import sys

import httpx
import openai

from guiagent.dialects import find_dialect
from guiagent.errors import DialectError


def agent() -> None:
    client, dialect = openai.OpenAI(), find_dialect("ui-tars")
    device = httpx.Client(base_url=os.environ["GUIAGENT_DEVICE_URL"], timeout=60)
    device.headers["Authorization"] = f"Bearer {os.environ['OPENAI_API_KEY']}"
    shown = device.post("/observe").json()
    said = [{"type": "text", "text": dialect.prompt(os.environ["GUIAGENT_INSTRUCTION"])}]
    messages = []
    while not shown["over"]:
        picture = {"url": f"data:{shown['media_type']};base64,{shown['frame']}"}
        messages.append({"role": "user", "content": [*said, {"type": "image_url", "image_url": picture}]})
        reply = client.chat.completions.create(model=os.environ["OPENAI_MODEL"], messages=messages)
        text = reply.choices[0].message.content
        messages.append({"role": "assistant", "content": text})
        try:
            actions = dialect.parse(text, (shown["width"], shown["height"]))
        except DialectError:
            break  # the policy's own failure: the task's check scores the screen as it is
        shown = device.post("/act", json=[action.model_dump(mode="json") for action in actions]).json()
        said = []


def train() -> None:
    settings = {
        "tasks": ["click-test-2"],
        "steps": 2,
        "rollout.devices": 2,
        "rollout.group_size": 2,
        "rollout.agent.command": [sys.executable, __file__],
        "update.groups": 1,
        "update.max_staleness": 0,
    }
    command = [sys.executable, "-m", "guiagent.cli", "train", "--recipe", "arpo-demo", "--run", "runs/agent"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    agent() if "GUIAGENT_DEVICE_URL" in os.environ else train()
