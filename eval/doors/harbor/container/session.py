#!/usr/bin/env python3
"""The session of a trial of Harbor's, in its containers: tools over MCP or as commands, and the verdict.

Needs nothing but Python 3.10. GUIAGENT_HARBOR_URL and GUIAGENT_HARBOR_TOKEN say where the server
is and who asks. The session's name lies among the trial's artifacts, so that a verifier in a container of its
own finds it.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from typing import Any

FILE = os.environ.get("GUIAGENT_HARBOR_SESSION", "/logs/artifacts/guiagent-session")
LONGEST_S = 300
WAIT_S = 3600  # for a free device, and for the trial before of the same task and seed
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # of MCP, alike as far as it is used here
USE = "guiagent-session tools | mcp | TOOL [NAME=VALUE...] [--picture FILE]"


class Refused(Exception):
    """What the server answered, or why it did not."""


class Busy(Refused):
    """What may be granted later: a device, most of all."""


def ask(path: str, said: dict[str, Any] | None = None, token: str = "GUIAGENT_HARBOR_TOKEN") -> Any:
    for name in ("GUIAGENT_HARBOR_URL", token):
        if not os.environ.get(name):
            raise Refused("set " + name + " where Harbor runs")
    data = None if said is None else json.dumps(said).encode()
    headers = {"Authorization": "Bearer " + os.environ[token], "Content-Type": "application/json"}
    asked = urllib.request.Request(os.environ["GUIAGENT_HARBOR_URL"].rstrip("/") + path, data, headers)
    try:
        with urllib.request.urlopen(asked, timeout=LONGEST_S) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        said_back = error.read(4096).decode("utf-8", "replace").strip()
        raise (Busy if error.code == 503 else Refused)(said_back) from None
    except (OSError, ValueError) as error:
        raise Refused("no answer of " + os.environ["GUIAGENT_HARBOR_URL"] + ": " + str(error)) from None


def session() -> str:
    try:
        with open(FILE, encoding="ascii") as file:
            return file.read(4096).strip()
    except (OSError, ValueError) as error:
        raise Refused("there is no session: " + str(error)) from None


def begin(task: str, seed: int) -> None:
    if os.path.exists(FILE):
        return
    late = time.monotonic() + WAIT_S
    while True:
        try:
            name = ask("/begin", {"task": task, "seed": seed})["session"]
            break
        except Busy:
            if time.monotonic() > late:
                raise
            time.sleep(2)
    os.makedirs(os.path.dirname(FILE), exist_ok=True)
    with open(FILE, "w", encoding="ascii") as file:
        file.write(name)
    os.chmod(FILE, 0o644)


def reward(task: str, seed: int) -> float:
    said = {"session": session(), "task": task, "seed": seed}
    return float(ask("/verdict", said, "GUIAGENT_HARBOR_VERDICT_TOKEN")["reward"])


def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    answer = ask("/call", {"session": session(), "tool": tool, "arguments": arguments})
    assert isinstance(answer, dict)
    return answer


def parsed(words: list[str]) -> dict[str, Any]:
    """`x=3 text=hello` as arguments: JSON where it is, else text."""
    found: dict[str, Any] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign:
            raise Refused("write NAME=VALUE instead of " + word)
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def result(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The result of a call over MCP; what is refused is told to the model."""
    try:
        answer = call(tool, arguments)
    except Refused as refused:
        return {"content": [{"type": "text", "text": str(refused)}], "isError": True}
    content = [{"type": "text", "text": answer["text"]}]
    if "picture" in answer:
        content.append({"type": "image", "data": answer["picture"], "mimeType": "image/png"})
    return {"content": content, "isError": False}


def named(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool as MCP has it."""
    return {
        "name": tool["name"],
        "description": tool["description"],
        "inputSchema": tool["parameters"],
    }


def reply(line: str) -> dict[str, Any] | None:
    """The answer to a message over MCP; none to a notification."""
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    if not isinstance(message, dict):
        return {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "this is no message"}}
    if "id" not in message or "method" not in message:
        return None
    asked, method = message.get("params") or {}, message["method"]
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    if method == "initialize":
        about = {"name": "guiagent", "version": "1"}
        version = asked.get("protocolVersion")
        version = version if version in VERSIONS else VERSIONS[0]
        answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
    elif method == "ping":
        answer["result"] = {}
    elif method == "tools/list":
        answer["result"] = {"tools": [named(tool) for tool in ask("/tools")]}
    elif method == "tools/call":
        answer["result"] = result(str(asked.get("name")), asked.get("arguments") or {})
    else:
        answer["error"] = {"code": -32601, "message": "there is no " + str(method)}
    return answer


def mcp() -> None:
    """Serve the tools over MCP: JSON-RPC, a line a message, on stdin and stdout."""
    for line in sys.stdin:
        answer = reply(line)
        if answer is not None:
            print(json.dumps(answer), flush=True)


def main(words: list[str]) -> None:
    if words[:1] == ["mcp"]:
        return mcp()
    if words[:1] == ["begin"]:
        return begin(words[1], int(words[2]))
    if words[:1] == ["reward"]:
        return print(json.dumps({"reward": reward(words[1], int(words[2]))}))
    if words[:1] == ["solve"]:
        return print(ask("/solve", {"session": session()}, "GUIAGENT_HARBOR_VERDICT_TOKEN")["text"])
    if not words or words[0] == "tools":
        print(USE)
        for tool in ask("/tools"):
            print("\n" + tool["name"] + " " + " ".join(tool["parameters"]["properties"]))
            print(tool["description"])
        return None
    picture = None
    if "--picture" in words[:-1]:
        place = words.index("--picture")
        picture, words = words[place + 1], words[:place] + words[place + 2 :]
    answer = call(words[0], parsed(words[1:]))
    print(answer["text"])
    if picture and "picture" in answer:
        import base64

        with open(picture, "wb") as file:
            file.write(base64.b64decode(answer["picture"]))
    return None


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Refused as refused:
        sys.exit("guiagent-session: " + str(refused))
