"""Calls of a tool in `<tool_call>` tags, as in Qwen's chat templates, and the prompt that asks for them.

A call is JSON with `name` and `arguments`, or, from Qwen3.5 on, `<function=NAME>` with a `<parameter=KEY>`
for each argument. Text around the calls, such as a model's thoughts, is left alone.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from guiagent.dialects.language import MAX_ACTIONS, excerpt, json_value, objects
from guiagent.errors import DialectError

Form = Literal["json", "xml"]

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_FUNCTION = re.compile(r"\s*<function=(\w{1,60})>(.*?)(?:</function>\s*)?", re.DOTALL)
_PARAMETER = re.compile(r"\s*<parameter=(\w{1,60})>\n?(.*?)\n?</parameter>\s*", re.DOTALL)


def read_calls(text: str, tool: str, form: Form, texts: frozenset[str] = frozenset()) -> list[dict[str, Any]]:
    """The arguments of each call in a reply, in order; `texts` are those that XML writes as they are.

    Raises:
        DialectError: there is none, there are too many, or one of another tool, or one that is no such call.
    """
    # A reply that was stopped at its end token may lack the last closing tag.
    bodies = [part.partition(_CLOSE)[0] for part in text.split(_OPEN)[1:]]
    if not bodies:
        raise DialectError(f"no {_OPEN} in {excerpt(text)}")
    if len(bodies) > MAX_ACTIONS:
        raise DialectError(f"the reply has {len(bodies)} calls, over the limit of {MAX_ACTIONS}")
    found = []
    for body in bodies:
        name, arguments = _json_call(body) if form == "json" else _xml_call(body, texts)
        if name != tool:
            raise DialectError(f"there is no tool {excerpt(str(name))}, only {tool}")
        found.append(arguments)
    return found


def before_calls(text: str) -> str:
    """What a reply says before its first call."""
    return text.partition(_OPEN)[0].strip()


def write_call(
    tool: str, arguments: Mapping[str, Any], form: Form, texts: frozenset[str] = frozenset()
) -> str:
    """A call in its tags. Raises DialectError for a text that XML cannot hold."""
    if form == "xml":
        if any("</parameter>" in value for value in arguments.values() if isinstance(value, str)):
            raise DialectError(f"{tool} cannot write its own tags in {excerpt(str(dict(arguments)))}")
        return f"{_OPEN}\n{_xml(tool, arguments, texts)}\n{_CLOSE}"
    said = json.dumps({"name": tool, "arguments": arguments}, ensure_ascii=False)
    return f"{_OPEN}\n{said.replace('<', chr(92) + 'u003c')}\n{_CLOSE}"


def tool_prompt(
    tool: str,
    description: str,
    actions: Mapping[str, tuple[Sequence[str], str]],
    schemas: Mapping[str, dict[str, Any]],
    form: Form = "json",
) -> str:
    """The system turn with a tool's signature and how to call it.

    Args:
        actions: for each value of the argument `action`, which other arguments it takes and what it does.
        schemas: the JSON schema of every argument; those that no action takes are left out.
    """
    used = {argument for arguments, _ in actions.values() for argument in arguments}
    meanings = [f"{name}({', '.join(arguments)}): {what}" for name, (arguments, what) in actions.items()]
    signature = {
        "type": "function",
        "function": {
            "name": tool,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {
                    "action": {"type": "string", "enum": list(actions), "description": "\n".join(meanings)},
                    **{name: schema for name, schema in schemas.items() if name in used},
                },
                "required": ["action"],
            },
        },
    }
    how, example = (
        ("JSON", f'{{"name": "{tool}", "arguments": {{"action": ...}}}}')
        if form == "json"
        else ("tags", _xml(tool, {"action": "...", "coordinate": [0, 0]}, frozenset({"action"})))
    )
    return (
        "# Tools\n\nThis function is there to carry out the user's task:\n"
        f"<tools>\n{json.dumps(signature)}\n</tools>\n\n"
        f"Answer every picture of the screen with what you think and then the next call, as {how}:\n"
        f"{_OPEN}\n{example}\n{_CLOSE}"
    )


def _json_call(body: str) -> tuple[Any, dict[str, Any]]:
    match objects(body):
        case [{"name": name, "arguments": dict() as arguments}]:
            return name, arguments
        case _:
            raise DialectError(f"not a call with a name and arguments: {excerpt(body)}")


def _xml_call(body: str, texts: frozenset[str]) -> tuple[str, dict[str, Any]]:
    function = _FUNCTION.fullmatch(body)
    if function is None:
        raise DialectError(f"not a call: {excerpt(body)}")
    arguments: dict[str, Any] = {}
    at = 0
    while at < len(function[2].rstrip()):
        found = _PARAMETER.match(function[2], at)
        if found is None or found[1] in arguments:
            raise DialectError(f"not an argument, or one twice: {excerpt(function[2][at:])}")
        arguments[found[1]] = found[2] if found[1] in texts else json_value(found[2])
        at = found.end()
    return function[1], arguments


def _xml(tool: str, arguments: Mapping[str, Any], texts: frozenset[str]) -> str:
    said = "\n".join(
        f"<parameter={name}>\n{value if name in texts else json.dumps(value)}\n</parameter>"
        for name, value in arguments.items()
    )
    return f"<function={tool}>\n{said}\n</function>"
