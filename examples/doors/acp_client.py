"""An editor hands a task to `guiagent agent acp`, which it starts; GUIAGENT_POLICY names who carries it out.

An editor such as Zed does the same with the command in its settings.
"""

import asyncio
import base64
import io
import os
import sys

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from PIL import Image

TASK = sys.argv[1] if len(sys.argv) > 1 else "Find the opening hours and tell them"
COMMAND = [
    "-m",
    "guiagent.cli",
    "agent",
    "acp",
    "browser=1@800x600",
    "--policy",
    os.environ["GUIAGENT_POLICY"],
]


class Editor:
    async def session_update(self, session_id, update, **_):
        match update.session_update:
            case "tool_call":
                picture = Image.open(io.BytesIO(base64.b64decode(update.content[0].content.data)))
                print(f"{update.status}: {update.title}; it sees {picture.size}")
            case "agent_message_chunk":
                print("it says:", update.content.text)


async def main():
    command = [*COMMAND, *sys.argv[2:]]
    async with spawn_agent_process(Editor(), sys.executable, *command, env=dict(os.environ)) as (agent, _):
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        session = await agent.new_session(cwd=os.getcwd(), mcp_servers=[])
        ended = await agent.prompt(session_id=session.session_id, prompt=[text_block(TASK)])
        print(ended.stop_reason, ended.field_meta["guiagent"]["status"])


asyncio.run(main())
