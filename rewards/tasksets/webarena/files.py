"""Task files of WebArena and of WebArena-Verified: the keys that are read, and where they name sites."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from guiagent.errors import DECODE_ERRORS, UsageError
from rewards.tasksets.task_files import content

RESPONSE = "AgentResponseEvaluator"  # of WebArena-Verified
EVENT = "NetworkEventEvaluator"
MEDIA = "media"  # in the task files' folder: the pictures and videos that tasks name
_MAX_FILE = 64 << 20


class Target(msgspec.Struct, frozen=True):
    """A place to look at after the episode: an address, "last" or a function; and an expression to read."""

    url: str
    required_contents: dict[str, Any]
    locator: str = ""


class Evaluation(msgspec.Struct, frozen=True):
    eval_types: list[str]
    reference_answers: dict[str, Any] | None = None
    reference_url: str | None = None
    program_html: list[Target] | None = None
    string_note: str = ""
    url_note: str = "GOLD in PRED"


class TaskFile(msgspec.Struct, frozen=True):
    """The keys of a task of WebArena's that are read; others are ignored."""

    task_id: int | str
    intent: str
    start_url: str
    eval: Evaluation
    sites: list[str] = []
    require_login: bool = False
    intent_template_id: int | str | None = None
    image: str | list[str] | None = None  # VisualWebArena: pictures that belong to the intent
    video: str | None = None  # VideoWebArena: the name of a video that belongs to it
    viewport_size: dict[str, int] | None = None


class Response(msgspec.Struct, frozen=True):
    """What a task of WebArena-Verified expects of the agent's answer; a list in it holds alternatives."""

    task_type: str
    status: str
    retrieved_data: list[Any] | None = None


class Event(msgspec.Struct, frozen=True):
    """What a task of WebArena-Verified expects of a request that the browser sent; lists are alternatives."""

    url: str | list[str]
    headers: dict[str, Any] | None = None
    query_params: dict[str, Any] | None = None
    post_data: dict[str, Any] | None = None
    response_content: Any = None
    response_cookies: Any = None
    response_status: int = 200
    http_method: str = "GET"


class Evaluator(msgspec.Struct, frozen=True):
    """One evaluator of a task of WebArena-Verified, by its name; what it expects is of a shape of its own."""

    evaluator: str
    expected: dict[str, Any]
    results_schema: dict[str, Any] = {}  # of the data that an answer holds
    ordered: bool = False
    # Of requests:
    last_event_only: bool = True
    ignored_query_params: list[str] | None = None
    ignored_query_params_patterns: list[str] | None = None
    ignored_post_data_params_patterns: list[str] | None = None
    decode_base64_query: bool = False
    query_params_schema: dict[str, Any] | None = None
    post_data_schema: dict[str, Any] | None = None
    should_not_exist: bool = False

    @property
    def response(self) -> Response:
        """What an `AgentResponseEvaluator` expects. Raises ValidationError if it is no such thing."""
        return msgspec.convert(self.expected, Response)

    @property
    def event(self) -> Event:
        """What a `NetworkEventEvaluator` expects. Raises ValidationError if it is no such thing."""
        return msgspec.convert(self.expected, Event)


class VerifiedFile(msgspec.Struct, frozen=True):
    """The keys of a task of WebArena-Verified that are read."""

    task_id: int | str
    intent: str
    start_urls: list[str]
    eval: list[Evaluator]
    sites: list[str] = []
    intent_template_id: int | str | None = None


def read(path: Path) -> Iterator[TaskFile | VerifiedFile]:
    """Read the task, or the list of tasks, of a file.

    Raises:
        UsageError: it is no such file; the message names file and key.
        InfrastructureError: it cannot be read.
    """
    text = content(path, _MAX_FILE)
    try:
        found = msgspec.json.decode(text)
    except DECODE_ERRORS as error:
        raise UsageError(f"{path} is no WebArena task file: {error}") from error
    for number, one in enumerate(found if isinstance(found, list) else [found], 1):
        verified = isinstance(one, dict) and "start_urls" in one
        try:
            yield _verified(one) if verified else msgspec.convert(one, TaskFile)
        except msgspec.ValidationError as error:
            raise UsageError(f"{path} is no WebArena task file: task {number} in it: {error}") from error


def _verified(one: dict[str, Any]) -> VerifiedFile:
    """A task of WebArena-Verified, in which evaluators expect what they can."""
    file = msgspec.convert(one, VerifiedFile)
    for evaluator in file.eval:
        if evaluator.evaluator == RESPONSE:
            _ = evaluator.response
        elif evaluator.evaluator == EVENT:
            _ = evaluator.event
    return file


def paths(where: Path) -> list[Path]:
    """List the task files below a folder, or the one file. Raises UsageError if there is none."""
    if not where.is_dir():
        return [where]
    found = sorted(path for path in where.rglob("*.json") if MEDIA not in path.relative_to(where).parts)
    if not found:
        raise UsageError(f"{where} holds no task files (*.json)")
    return found
