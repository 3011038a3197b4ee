"""Reads OSWorld's accessibility XML: its elements as nodes of AT-SPI, for `devices.drivers.atspi`.

Elements are roles; `name`, `cp:screencoord="(x, y)"`, `cp:size="(w, h)"`, `st:...="true"` and `val:value` are
attributes in namespaces that differ between guests, so only their local names are read.
"""

import re
from xml.etree import ElementTree

from devices.drivers.atspi import MAX_NODES, Told
from guiagent.errors import Fault, FaultError

_PAIR = re.compile(r"\(\s*(-?\d{1,6})\s*,\s*(-?\d{1,6})\s*\)")
_MAX_STATES = 64
_MAX_TAGS = 100_000  # far above what an OSWorld server looks at, 5,000 elements


def told(xml: str) -> list[Told]:
    """Elements with a size, in document order, at most MAX_NODES.

    Raises FaultError if `xml` is not XML, or has so many elements that it would take long to look at them.
    """
    if xml.count("<") > _MAX_TAGS:  # a screen of its own making costs a guest four bytes an element
        raise _broken(f"has over {_MAX_TAGS} tags")
    try:
        root = ElementTree.fromstring(xml)
    except ElementTree.ParseError as error:
        raise _broken(f"is not XML: {error}") from error
    found: list[Told] = []
    stack: list[tuple[ElementTree.Element, int | None]] = [(root, None)]
    while stack and len(found) < MAX_NODES:
        element, parent = stack.pop()
        if (one := _told(element, len(found), parent)) is not None:
            parent = len(found)
            found.append(one)
        stack += [(child, parent) for child in reversed(element)]
    return found


def _told(element: ElementTree.Element, id: int, parent: int | None) -> Told | None:
    attributes = {_local(key): value for key, value in element.attrib.items()}
    place, size = (_PAIR.fullmatch(attributes.get(key, "")) for key in ("screencoord", "size"))
    if place is None or size is None or int(size[1]) < 1 or int(size[2]) < 1:
        return None
    states = [
        _local(key).replace("_", "-")
        for key, value in element.attrib.items()
        if "state" in key and value == "true"
    ][:_MAX_STATES]
    if states and not {"enabled", "sensitive"}.intersection(states):
        states.append("disabled")
    return Told(
        role=_local(element.tag),
        name=attributes.get("name", ""),
        id=id,
        parent=parent,
        value=(element.text or "").strip() or attributes.get("value", ""),
        box=(int(place[1]), int(place[2]), int(size[1]), int(size[2])),
        states=tuple(states),
    )


def _broken(what: str) -> FaultError:
    return FaultError(Fault("device", "osworld", f"its accessibility tree {what}", retryable=True))


def _local(name: str) -> str:
    return name.rpartition("}")[2]
