"""Another agent hands a task over; `guiagent agent a2a browser=1 --policy MODEL` carries it out."""

import asyncio
import io
import os
import sys

import httpx
from a2a.client import ClientConfig, create_client
from a2a.helpers import get_data_parts, get_raw_parts, new_text_message
from a2a.types import Role, SendMessageRequest, TaskState
from PIL import Image

URL = os.environ.get("A2A_URL", "http://127.0.0.1:8703")
TOKEN = {"Authorization": f"Bearer {os.environ['GUIAGENT_AGENT_TOKEN']}"}
TASK = sys.argv[1] if len(sys.argv) > 1 else "Find the opening hours and tell them"


async def main():
    async with httpx.AsyncClient(headers=TOKEN, timeout=None, trust_env=False) as http:
        client = await create_client(URL, ClientConfig(httpx_client=http))
        asked = SendMessageRequest(message=new_text_message(TASK, role=Role.ROLE_USER))
        async for event in client.send_message(asked):
            if event.HasField("artifact_update"):
                artifact = event.artifact_update.artifact
                (data,) = get_data_parts(artifact.parts)
                if artifact.name == "screen":
                    (picture,) = get_raw_parts(artifact.parts)
                    done = [action["type"] for action in data["actions"]]
                    print(
                        "did",
                        *done,
                        "and sees",
                        Image.open(io.BytesIO(picture)).size,
                        data["screen"]["title"],
                    )
                else:
                    print("result:", data["status"], "after", int(data["steps"]), "steps")
            elif event.HasField("status_update"):
                state = event.status_update.status.state
                if state != TaskState.TASK_STATE_WORKING:
                    print(TaskState.Name(state))


asyncio.run(main())
