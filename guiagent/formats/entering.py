"""Episodes on their way in: files of others read within bounds, and committed to a new store.

What they hold is a stranger's: JSON is decoded into typed structs, replies are parsed by a dialect, pictures
are bounded. Token ids and log-probs are not taken over: nobody here sampled them.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

import msgspec

from guiagent.actions import ACTION, ACTIONS, Action
from guiagent.dialects import Dialect
from guiagent.episode import ending_of, split_at_end
from guiagent.errors import DECODE_ERRORS, DialectError, UsageError
from guiagent.formats.about import About
from guiagent.formats.leaving import Counts
from guiagent.formats.pictures import Picture
from guiagent.formats.words import in_words
from guiagent.seeds import DEMONSTRATIONS, EVALUATION
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Ending, PolicyOutput, Score, Step, Trajectory

MOST_TURNS = 1_000  # of an episode
_MOST_LINE = 256 * 2**20  # an episode with its pictures in base64
_T = TypeVar("_T")


class Turn(NamedTuple):
    """What the policy saw and what it replied."""

    picture: Picture
    reply: PolicyOutput


class Entering(NamedTuple):
    """An episode that a file tells. `at` says where, for errors."""

    at: str
    about: About
    turns: list[Turn]
    final: Picture | None = None


class Reading(NamedTuple):
    """How files are read: the language of their replies, and where instructions are that they lack."""

    dialect: Dialect
    tasks: Path | None = None


def reply(text: str, dialect: Dialect, size: tuple[int, int]) -> PolicyOutput:
    """Return a reply with its actions, or with the reason why it has none."""
    try:
        return output(text, dialect.parse(text, size))
    except DialectError as error:
        return PolicyOutput(text, error=str(error))


def after(turns: Sequence[Turn], shown: Picture | None) -> Picture | None:
    """Return the picture that was shown last, if that was after the last turn."""
    return None if turns and turns[-1].picture is shown else shown


def output(text: str, actions: Iterable[Action]) -> PolicyOutput:
    return PolicyOutput(text, [ACTION.dump_python(action, mode="json") for action in actions])


def enter(
    episodes: Iterable[Entering], store: TrajectoryStore, into: Dialect | None, demonstrations: bool
) -> Counts:
    """Commit episodes to a store; with `into`, replies are written anew in that dialect.

    With `demonstrations`, an episode without a score counts as a success, as a person's demonstration does;
    else its score is unknown, and nothing learns from it.

    Raises:
        UsageError: two episodes have one id, an episode has too many turns or no instruction, or there is
            none at all; the error says where.
    """
    counts = Counts()
    for number, one in enumerate(episodes):
        id = one.about.id or f"imported-{number:06d}"
        if id in store:
            raise UsageError(f"{one.at}: the episode {id[:80]!r} is there twice")
        _require_sensible(one)
        if not one.turns:
            counts.blind += 1
            continue
        try:
            turns = [Turn(turn.picture, _said(turn, into)) for turn in one.turns]
        except DialectError:
            counts.inexpressible += 1
            continue
        told = _trajectory(id, number, one, turns, store, demonstrations)
        store.commit([told])
        counts.episodes += 1
        counts.turns += len(turns)
        counts.faulted += not told.valid
        counts.evaluation += told.seed in EVALUATION
        counts.unreadable += sum(turn.reply.error is not None for turn in turns)
    if not counts.episodes:
        raise UsageError(
            "no episode could be taken over: "
            f"{counts.blind} have no turn with a picture, {counts.inexpressible} have an action that --into "
            "has no words for"
        )
    if counts.unreadable == counts.turns:
        raise UsageError("no reply is in the language that was named: name the files' own with --dialect")
    return counts


def _require_sensible(one: Entering) -> None:
    if len(one.turns) > MOST_TURNS:
        raise UsageError(f"{one.at}: more than {MOST_TURNS:,} turns")
    if not one.about.instruction:
        raise UsageError(f"{one.at}: there is no instruction")


def _said(turn: Turn, into: Dialect | None) -> PolicyOutput:
    """The reply, or the same actions in the words of another dialect, and as that one reads them back."""
    if into is None or turn.reply.error is not None:
        return turn.reply
    text = in_words(ACTIONS.validate_python(turn.reply.actions), into, turn.picture.size)
    return output(text, into.parse(text, turn.picture.size))


def _trajectory(
    id: str, number: int, one: Entering, turns: list[Turn], store: TrajectoryStore, demonstrations: bool
) -> Trajectory:
    about = one.about
    try:
        score = about.score.score() if about.score else None
    except UsageError as error:
        raise UsageError(f"{one.at}: {error}") from None
    if score is None and demonstrations and about.fault is None:
        score = Score(1.0, "judge", "taken for a success, as a demonstration, when it was imported")
    steps = [
        Step(store.put_frame(picture.data), picture.width, picture.height, said) for picture, said in turns
    ]
    ending = _ending(turns[-1].reply)
    return Trajectory(
        id=id,
        task=about.task or "imported",
        seed=number % DEMONSTRATIONS.stop if about.seed is None else about.seed,
        instruction=about.instruction or "",
        steps=steps,
        stop=about.stop or ("max_steps" if ending == Ending() else "agent_done"),
        score=score,
        ending=ending,
        fault=about.fault,
        final_frame=store.put_frame(one.final.data) if one.final else "",
        device="imported",
    )


def _ending(last: PolicyOutput) -> Ending:
    _, ends = split_at_end(ACTIONS.validate_python(last.actions))
    return ending_of(ends)


# -- files ---------------------------------------------------------------------------------------------------


def objects(path: Path, kind: type[_T], *suffixes: str) -> Iterator[tuple[str, Path, _T]]:
    """Yield the objects of a file, or of the files in a folder that have one of these suffixes, each with
    where it is and the file's folder.

    A .jsonl file has one a line; any other is an object or a list of them.

    Raises:
        UsageError: there is no file, or an object is not as it should be.
    """
    files = [path] if path.is_file() else sorted(one for one in path.glob("*") if one.suffix in suffixes)
    if not files:
        raise UsageError(
            f"no {' or '.join(suffixes)} file at {path}: give the file, or the folder that has it"
        )
    for file in files:
        found = lines(file, kind) if file.suffix == ".jsonl" else _members(file, kind)
        for at, one in found:
            yield at, file.parent, one


def _members(file: Path, kind: type[_T]) -> Iterator[tuple[str, _T]]:
    data = _whole(file)
    if not data.lstrip().startswith(b"["):
        yield str(file), decoded(data, kind, str(file))
        return
    members = decoded(data, list[kind], str(file))  # type: ignore[valid-type]
    for number, member in enumerate(members):
        yield f"{file}[{number}]", member


def lines(file: Path, kind: type[_T]) -> Iterator[tuple[str, _T]]:
    """Yield each line of a file with where it is, decoded.

    Raises:
        UsageError: a line is too long, or not as it should be.
    """
    with _opened(file) as stream:
        number = 0
        while line := stream.readline(_MOST_LINE + 1):
            number += 1
            at = f"{file}:{number}"
            if len(line) > _MOST_LINE:
                raise UsageError(f"{at}: a line of more than {_MOST_LINE // 2**20} MiB")
            if line.strip():
                yield at, decoded(line, kind, at)


def document(file: Path, kind: type[_T]) -> _T:
    """Return a whole file, decoded. Raises UsageError if it is too long, or not as it should be."""
    return decoded(_whole(file), kind, str(file))


def _whole(file: Path) -> bytes:
    with _opened(file) as stream:
        data = stream.read(_MOST_LINE + 1)
    if len(data) > _MOST_LINE:
        raise UsageError(f"{file}: more than {_MOST_LINE // 2**20} MiB")
    return data


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    try:
        if not file.is_file():  # opening a pipe would wait for its writer
            raise UsageError(f"{file} is no file")
        with file.open("rb") as stream:
            yield stream
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None


def decoded(data: bytes, kind: type[_T], at: str) -> _T:
    """Decode JSON into a typed struct. Raises UsageError if it does not fit; NaN does not."""
    try:
        return msgspec.json.decode(data, type=kind)
    except DECODE_ERRORS as error:
        raise UsageError(f"{at}: {str(error)[:160]}") from None
