"""The accessibility tree of a page: what `tree.js` finds in it, and its conversion to nodes."""

from importlib.resources import files
from typing import Any

import msgspec

from guiagent.errors import Fault, FaultError
from guiagent.nodes import ROLES
from guiagent.types import Node

SOURCE = files(__package__).joinpath("tree.js").read_text()
"""The expression whose value `nodes` reads; the page's own scripts can change what it finds."""
_MAX_NODES = 500


def nodes(told: Any) -> list[Node]:
    """The nodes in the JSON value of `SOURCE`. Raises FaultError (origin "task") for anything else."""
    try:
        found = msgspec.convert(told, list[Node])
    except msgspec.ValidationError as error:
        message = f"the page's own scripts spoil its accessibility tree: {error}"
        raise FaultError(Fault("task", "no_tree", message[:300])) from error
    return [_known(node) for node in found[:_MAX_NODES]]


def _known(node: Node) -> Node:
    """The node with a role of the vocabulary: a page can give an element any."""
    role = node.role if node.role in ROLES else "text" if node.name else "generic"
    return msgspec.structs.replace(node, role=role)
