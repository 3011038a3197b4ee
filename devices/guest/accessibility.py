"""The desktop's accessibility tree, as our list of nodes or as OSWorld's XML, within a deadline.

The walk runs in `devices.guest.atspi`, one process that is kept between requests. If it is late it is
killed, and the answer is what it had sent by then.
"""

import contextlib
import json
import os
import re
import select
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from devices.guest.needs import Missing, Unavailable

_PACKAGES = Path(__file__).resolve().parents[2]
_GRACE_S = 0.1  # how late the walker may be before it is killed
_NAMESPACE = "https://accessibility.ubuntu.example.org/ns/"
_PREFIXES = {
    "st": "state",
    "attr": "attributes",
    "cp": "component",
    "doc": "document",
    "docattr": "document/attributes",
    "txt": "text",
    "val": "value",
    "act": "action",
}
# The states of a node that a reader can use; "disabled" is added if it is neither "sensitive" nor "enabled".
_TELLING = frozenset(
    {"active", "busy", "checked", "collapsed", "editable", "expandable", "expanded", "focused"}
    | {"indeterminate", "invalid-entry", "modal", "pressed", "read-only", "required", "selected"}
    | {"selectable"}
)
_MAX_VALUE = 400


@dataclass(frozen=True)
class Tree:
    """Nodes of a walk, parents before children.

    Attributes:
        truncated: nodes are missing, for lack of time, because of the cap, or because programs were silent.
        silent: number of programs that did not answer.
    """

    nodes: list[dict[str, Any]]
    truncated: bool
    silent: int = 0


class Accessibility:
    """The accessibility bus of this session."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._walker: subprocess.Popen[bytes] | None = None

    def walk(self, deadline_s: float, max_nodes: int, full: bool = False, app: str = "") -> Tree:
        """Collect at most `max_nodes` nodes of programs whose name contains `app`, within `deadline_s`.

        The time includes waiting for another walk. Raises Unavailable if there is no accessibility bus,
        Missing if the guest lacks AT-SPI.
        """
        until = time.monotonic() + deadline_s
        if not self._turn.acquire(timeout=deadline_s):
            return Tree([], truncated=True)
        try:
            walker = self._ready()
            ask = {"deadline_s": until - time.monotonic(), "max_nodes": max_nodes, "full": full, "app": app}
            return self._collect(walker, json.dumps(ask).encode() + b"\n", until + _GRACE_S)
        finally:
            self._turn.release()

    def close(self) -> None:
        walker, self._walker = self._walker, None
        if walker is not None:
            walker.kill()
            walker.wait()
            for pipe in (walker.stdin, walker.stdout):
                assert pipe is not None
                with contextlib.suppress(OSError):
                    pipe.close()

    def _ready(self) -> "subprocess.Popen[bytes]":
        if not os.environ.get("DBUS_SESSION_BUS_ADDRESS"):
            raise Unavailable("there is no D-Bus session (DBUS_SESSION_BUS_ADDRESS), so no accessibility bus")
        if self._walker is None or self._walker.poll() is not None:
            self.close()
            self._walker = subprocess.Popen(
                [sys.executable, "-m", "devices.guest.atspi"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": str(_PACKAGES), "PYTHONWARNINGS": "ignore"},
                cwd="/",
                start_new_session=True,
            )
        return self._walker

    def _collect(self, walker: "subprocess.Popen[bytes]", ask: bytes, until: float) -> Tree:
        assert walker.stdin is not None and walker.stdout is not None
        nodes: list[dict[str, Any]] = []
        unread = b""
        with contextlib.suppress(BrokenPipeError):
            walker.stdin.write(ask)
            walker.stdin.flush()
        while (left := until - time.monotonic()) > 0 and select.select([walker.stdout], [], [], left)[0]:
            chunk = os.read(walker.stdout.fileno(), 1 << 20)
            if not chunk:
                code = walker.wait()
                self.close()
                if nodes:
                    break  # a program crashed the walker half way
                reason = f"the accessibility walker ended at once ({code})"
                raise Missing(f"{reason}: apt-get install python3-gi gir1.2-atspi-2.0 at-spi2-core")
            *lines, unread = (unread + chunk).split(b"\n")
            for line in lines:
                said = json.loads(line)
                nodes += said["nodes"]
                if "end" in said:
                    return Tree(nodes, said["end"]["truncated"], said["end"]["silent"])
        self.close()
        return Tree(nodes, truncated=True)


def as_list(tree: Tree) -> list[dict[str, Any]]:
    """The nodes as observations carry them: id, parent, role, name, value, box, states."""
    listed = []
    for node in tree.nodes:
        one: dict[str, Any] = {key: node[key] for key in ("id", "parent", "role", "name") if key in node}
        value = node.get("text") or node.get("value")
        if value is not None and value != node["name"]:
            one["value"] = str(value)[:_MAX_VALUE]
        box = node.get("box", [0, 0, 0, 0])
        one["box"] = box if min(box[2:]) > 0 else [0, 0, 0, 0]
        states = sorted(_TELLING.intersection(node["states"]))
        if not {"sensitive", "enabled"}.intersection(node["states"]) and node["role"] != "application":
            states.append("disabled")
        if states:
            one["states"] = states
        listed.append(one)
    return listed


def as_xml(tree: Tree) -> str:
    """OSWorld's XML: one element per node, named after its role, below `desktop-frame`."""
    for prefix, name in _PREFIXES.items():
        ElementTree.register_namespace(prefix, _NAMESPACE + name)
    root = ElementTree.Element("desktop-frame")
    elements: dict[int, ElementTree.Element] = {}
    for node in tree.nodes:
        parent = elements.get(node.get("parent", 0), root)
        element = ElementTree.SubElement(parent, _xml_name(node["role"]), _attributes(node))
        element.text = _xml_text(node.get("text", "")) or None
        elements[node["id"]] = element
    return ElementTree.tostring(root, encoding="unicode")


def _attributes(node: dict[str, Any]) -> dict[str, str]:
    def qualified(prefix: str, name: str) -> str:
        return f"{{{_NAMESPACE}{_PREFIXES[prefix]}}}{_xml_name(name)}"

    found = {"name": node["name"]}
    found |= {qualified("st", state.replace("-", "_")): "true" for state in node["states"]}
    found |= {
        qualified("attr", name): str(value) for name, value in node.get("attributes", {}).items() if name
    }
    if "box" in node:
        x, y, width, height = node["box"]
        found[qualified("cp", "screencoord")] = f"({x}, {y})"
        found[qualified("cp", "size")] = f"({width}, {height})"
    found |= {kind: "true" for kind in ("image", "selection") if node.get(kind)}
    for limit in ("value", "min", "max", "step"):
        if node.get(limit) is not None:
            found[qualified("val", limit)] = str(node[limit])
    for name, description, keys in node.get("actions", []):
        if name:
            found[qualified("act", f"{name}_desc")] = description
            found[qualified("act", f"{name}_kb")] = keys
    return {name: _xml_text(value) for name, value in found.items()}


def _xml_name(text: str) -> str:
    """Convert a name that a program chose to a legal XML name without a prefix."""
    name = re.sub(r"[^\w.-]", "-", text.strip().replace(" ", "-"), flags=re.ASCII) or "unknown"
    return name if re.match(r"[A-Za-z_]", name) else f"_{name}"


def _xml_text(text: str) -> str:
    """`text` without the characters that XML 1.0 cannot hold."""
    return re.sub("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", text)


def terminal_text(tree: Tree) -> str | None:
    """The text of the focused terminal in the active window; None if there is not exactly one."""
    by_id = {node["id"]: node for node in tree.nodes}

    def in_active_frame(node: dict[str, Any]) -> bool:
        while (above := by_id.get(node.get("parent", 0))) is not None:
            if above["role"] == "frame" and "active" in above["states"]:
                return True
            node = above
        return False

    found = [
        node
        for node in tree.nodes
        if node["role"] == "terminal" and "focused" in node["states"] and in_active_frame(node)
    ]
    return found[0].get("text", "").rstrip() if len(found) == 1 else None
