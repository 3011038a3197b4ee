"""ATIF, Harbor's Agent Trajectory Interchange Format: a JSON document an episode, its pictures in `images/`.

Format: harbor-framework/harbor, `rfcs/0001-trajectory-format.md`; 1.7 is written, and any 1.x is read.
Step 1 is the user's: the instruction and the first screenshot. Each reply is an agent's step whose tool calls
are our actions (`function_name` the type, `arguments` the fields), and whose observation is the next
screenshot. Token ids and log-probs go out with a reply; what ATIF has no field for is in `extra`.

In: the same, and documents of other agents with pictures, also several in a list or as JSON lines, as the
Agent Data Protocol has them (neulab/agent-data-protocol). A dialect reads the arguments of their calls, if
need be with the function's name among them. An agent's last words without a call end the episode; other words
without one, and copied context, are left out.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from guiagent.actions import ACTION, ACTIONS, Action, Done
from guiagent.dialects import Dialect
from guiagent.errors import DialectError, UsageError
from guiagent.formats import pictures
from guiagent.formats.about import About
from guiagent.formats.entering import Entering, Reading, Turn, after, objects, output
from guiagent.formats.folder import file_name
from guiagent.formats.leaving import Leaving, Wish
from guiagent.formats.pictures import Album, Picture
from guiagent.types import PolicyOutput, Step

_VERSION = "ATIF-v1.7"
_IMAGES = "images"
_SCHEMA = ACTION.json_schema()


def write(episodes: Iterable[Leaving], folder: Path, wish: Wish) -> None:
    """Write a document for each episode, and the pictures of all."""
    for one in episodes:
        document = msgspec.json.format(msgspec.json.encode(_document(one, folder)), indent=1)
        (folder / f"{file_name(one.id)}.json").write_bytes(document + b"\n")


def _document(one: Leaving, folder: Path) -> dict[str, Any]:
    told = one.trajectory
    frames = [*(step.frame for step in told.steps), told.final_frame]
    shown = [_image(folder, hash, one.frame(hash)) if hash else None for hash in frames]
    begin = {"type": "text", "text": told.instruction}
    steps = [{"step_id": 1, "source": "user", "message": [begin, *filter(None, shown[:1])]}]
    for number, (step, words) in enumerate(zip(told.steps, one.words, strict=True), 1):
        steps.append(_step(number + 1, step, words, shown[number]))
    final = shown[-1]["source"]["path"] if shown[-1] else None
    about = msgspec.to_builtins(About.of(one.id, told, final))
    return {
        "schema_version": _VERSION,
        "session_id": one.id,
        "trajectory_id": one.id,
        "agent": {"name": "guiagent", "version": version("guiagent"), "tool_definitions": _definitions()},
        "steps": steps,
        "final_metrics": {"total_steps": len(steps), "extra": {"score": about["score"]}},
        "extra": {"guiagent": about},
    }


def _step(number: int, step: Step, words: str, after: dict[str, Any] | None) -> dict[str, Any]:
    said = step.policy
    calls = [
        {
            "tool_call_id": f"call_{number}_{place}",
            "function_name": action["type"],
            "arguments": {name: value for name, value in action.items() if name != "type"},
        }
        for place, action in enumerate(said.actions if said.error is None else [])
    ]
    told: dict[str, Any] = {"step_id": number, "source": "agent", "message": words}
    if calls:
        told["tool_calls"] = calls
        content = [{"type": "text", "text": step.action_error or "done"}, *filter(None, [after])]
        told["observation"] = {"results": [{"source_call_id": calls[-1]["tool_call_id"], "content": content}]}
    if ids := [token for call in said.sampled for token in call.completion_ids]:
        told["metrics"] = {
            "completion_tokens": len(ids),
            "completion_token_ids": ids,
            "logprobs": [logprob for call in said.sampled for logprob in call.logprobs],
            "extra": {"policy_version": said.policy_version},
        }
    if said.error is not None:
        told["extra"] = {"error": said.error}
    return told


def _image(folder: Path, hash: str, data: bytes) -> dict[str, Any]:
    name = pictures.keep(folder / _IMAGES, hash, data)
    source = {"media_type": pictures.media_and_suffix(data)[0], "path": f"{_IMAGES}/{name}"}
    return {"type": "image", "source": source}


def _definitions() -> list[dict[str, Any]]:
    """Our actions as tools, in the form of OpenAI's functions."""
    tools = []
    for name, reference in sorted(_SCHEMA["discriminator"]["mapping"].items()):
        schema = _SCHEMA["$defs"][reference.rpartition("/")[2]]
        fields = {field: about for field, about in schema["properties"].items() if field != "type"}
        parameters = {"type": "object", "properties": fields, "required": schema.get("required", [])}
        described = schema.get("description", name)
        function = {"name": name, "description": described, "parameters": parameters}
        tools.append({"type": "function", "function": function})
    return tools


# -- in ------------------------------------------------------------------------------------------------------


class _Source(msgspec.Struct):
    path: str


class _Part(msgspec.Struct):
    type: Literal["text", "image", "audio"]
    text: str | None = None
    source: _Source | None = None


class _Call(msgspec.Struct):
    function_name: str
    arguments: dict[str, Any]


class _Result(msgspec.Struct):
    content: str | list[_Part] | None = None


class _Observation(msgspec.Struct):
    results: list[_Result]


class _TheirStep(msgspec.Struct):
    source: Literal["system", "user", "agent"]
    message: str | list[_Part] = ""
    tool_calls: list[_Call] | None = None
    observation: _Observation | None = None
    is_copied_context: bool | None = None
    extra: dict[str, Any] | None = None


class _Extra(msgspec.Struct):
    guiagent: About = About()


class _Document(msgspec.Struct):
    schema_version: str
    steps: list[_TheirStep]
    trajectory_id: str | None = None
    session_id: str | None = None
    extra: _Extra | None = None


def read(path: Path, reading: Reading) -> Iterator[Entering]:
    """Yield the episodes of a file, or of those in a folder. Raises UsageError for what is wrong."""
    for at, root, told in objects(path, _Document, ".json", ".jsonl"):
        try:
            yield _episode(at, root, told, reading.dialect)
        except UsageError as error:
            raise UsageError(f"{at}: {error}") from None


def _episode(at: str, root: Path, told: _Document, dialect: Dialect) -> Entering:
    if not told.schema_version.startswith("ATIF-v1."):
        raise UsageError(f"the version {told.schema_version[:40]!r} is none of ATIF 1")
    about = (told.extra or _Extra()).guiagent
    steps = [step for step in told.steps if not step.is_copied_context]
    id = about.id or told.trajectory_id or told.session_id
    about = replace(about, id=id, instruction=about.instruction or _instruction(steps))
    album = Album(root)
    turns: list[Turn] = []
    shown: Picture | None = None
    for step in steps:
        shown = _last(step.message, album) or shown if step.source != "agent" else shown
        if step.source == "agent" and shown is not None:
            said = _reply(step, dialect, shown, last=step is steps[-1])
            turns += [Turn(shown, said)] if said is not None else []
        for result in step.observation.results if step.observation else []:
            shown = _last(result.content or "", album) or shown
    return Entering(at, about, turns, after(turns, shown))


def _reply(step: _TheirStep, dialect: Dialect, shown: Picture, last: bool) -> PolicyOutput | None:
    text = _text(step.message)
    if step.extra is not None and isinstance(error := step.extra.get("error"), str):
        return PolicyOutput(text, error=error[:400])
    try:
        actions = [action for call in step.tool_calls or [] for action in _actions(call, dialect, shown)]
    except DialectError as error:
        return PolicyOutput(text, error=str(error))
    if not actions and not (last and text):
        return None
    actions = actions or [Done()]
    return output(text or ACTIONS.dump_json(actions).decode(), actions)


def _instruction(steps: Sequence[_TheirStep]) -> str:
    """What the user says first; of a document without a user, what anybody says first."""
    said = [(step.source, _text(step.message)) for step in steps if step.source != "system"]
    return next((text for source, text in said if source == "user"), next((text for _, text in said), ""))


def _actions(call: _Call, dialect: Dialect, shown: Picture) -> list[Action]:
    """What a dialect reads from a call's arguments, with the function's name under the word that dialects
    have for it, or without. Raises DialectError if it can read none of them."""
    for named in ("type", "action_type", "action"):
        with suppress(DialectError):
            return dialect.parse(json.dumps({named: call.function_name, **call.arguments}), shown.size)
    return dialect.parse(json.dumps(call.arguments), shown.size)


def _text(message: str | list[_Part]) -> str:
    return message if isinstance(message, str) else "\n".join(part.text for part in message if part.text)


def _last(content: str | list[_Part], album: Album) -> Picture | None:
    """The last picture of a message or a result."""
    images = (
        [] if isinstance(content, str) else [one for one in content if one.type == "image" and one.source]
    )
    return album.picture(images[-1].source.path) if images and images[-1].source else None
