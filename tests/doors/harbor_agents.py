"""Agents of Harbor's that click one button: by the commands in their container, or over MCP."""

import asyncio
import json
import re
from typing import Any

from harbor.agents.base import BaseAgent
from harbor.agents.capabilities import AgentCapabilities
from harbor.environments.base import BaseEnvironment


class Clicking(BaseAgent):
    """Clicks the button that the task asks for, ONE, by commands."""

    capabilities = AgentCapabilities(mcp_servers=True)
    button = "ONE"

    @staticmethod
    def name() -> str:
        return "clicking"

    def version(self) -> str:
        return "1"

    async def setup(self, environment: BaseEnvironment) -> None:
        pass

    async def run(self, instruction: str, environment: BaseEnvironment, context: Any) -> None:
        assert "guiagent-session look" in instruction, instruction
        shown = await self._ran(environment, "guiagent-session look --picture /tmp/screen.png")
        x, y = self._place(shown)
        assert "PNG" in await self._ran(environment, "head -c 4 /tmp/screen.png")
        assert "has ended" in await self._ran(environment, f"guiagent-session click x={x} y={y}")

    def _place(self, shown: str) -> tuple[int, int]:
        place = re.search(rf"button '{self.button}' at x=(\d+) y=(\d+)", shown)
        assert place is not None, shown
        return int(place[1]), int(place[2])

    async def _ran(self, environment: BaseEnvironment, command: str) -> str:
        done = await environment.exec(command)
        assert done.return_code == 0, done
        return done.stdout or ""


class Mistaken(Clicking):
    """Clicks the other button, over the MCP server that the task declares."""

    button = "TWO"

    @staticmethod
    def name() -> str:
        return "mistaken"

    async def run(self, instruction: str, environment: BaseEnvironment, context: Any) -> None:
        first: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}}
        await self._asked(environment, "initialize", first)
        assert "click" in str(await self._asked(environment, "tools/list", {}))
        text, picture = (await self._asked(environment, "tools/call", {"name": "look"}))["content"]
        assert picture["mimeType"] == "image/png"
        x, y = self._place(text["text"])
        done = await self._asked(environment, "tools/call", {"name": "click", "arguments": {"x": x, "y": y}})
        assert not done["isError"], done

    async def _asked(self, environment: BaseEnvironment, method: str, params: dict[str, Any]) -> Any:
        [server] = self.mcp_servers
        assert server.command is not None
        asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        words = " ".join([server.command, *server.args])
        answer = json.loads(await self._ran(environment, f"{words} <<'END'\n{asked}\nEND"))
        return answer["result"]


class Idle(Clicking):
    """Does nothing for so long that the server gives its session up."""

    async def run(self, instruction: str, environment: BaseEnvironment, context: Any) -> None:
        refused = await environment.exec("guiagent-session solve")  # which is for whoever has another token
        assert refused.return_code != 0 and "GUIAGENT_HARBOR_VERDICT_TOKEN" in (refused.stderr or "")
        await asyncio.sleep(8)  # the server looks every 5 s
        gone = await environment.exec("guiagent-session look")
        assert gone.return_code != 0 and "no such rollout" in (gone.stderr or ""), gone
