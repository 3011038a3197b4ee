"""Dockerfiles of Harbor's tasks as far as a desktop can stand in for them: a plain base image, and files.

Nothing is built or fetched. What a Dockerfile does beyond that is named, and its task cannot be run here.
"""

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

_PLAIN = re.compile(
    r"(docker\.io/)?(library/)?(debian|ubuntu|python|buildpack-deps)(:[\w.-]+)?(@sha256:[0-9a-f]{64})?"
)
_WITHOUT_EFFECT = {
    "LABEL",
    "MAINTAINER",
    "EXPOSE",
    "CMD",
    "USER",
    "STOPSIGNAL",
}  # on a desktop, where one user is
_MOST_LINES = 2_000


@dataclass(frozen=True)
class Copied:
    """A file or folder of `environment/`, "" for all of it, and where it goes: into `target` as a folder, or
    as the file `target`."""

    source: str
    target: str
    into: bool


@dataclass(frozen=True)
class Image:
    """What a container of an image starts with. `lacks` says what a desktop cannot stand in for."""

    base: str = ""
    workdir: str = "/"
    env: dict[str, str] = field(default_factory=dict)
    copied: tuple[Copied, ...] = ()
    lacks: tuple[str, ...] = ()


def plain(name: str) -> bool:
    """Whether an image is a distribution's own, with nothing of a task in it."""
    return bool(_PLAIN.fullmatch(name))


def read(text: str) -> Image:
    """What a Dockerfile says."""
    base, workdir, folders = "", "/", {"/"}
    env: dict[str, str] = {}
    copied: list[Copied] = []
    lacks: list[str] = []
    for number, line in _instructions(text):
        word, _, rest = line.partition(" ")
        word, rest = word.upper(), rest.strip()
        words = [one for one in _words(rest) if not one.startswith("--")]
        try:
            if word == "FROM" and words and not base:
                base = words[0]
                if not plain(base):
                    lacks.append(f"the image {base[:120]!r}")
            elif word == "WORKDIR" and words and "$" not in rest:
                workdir = _joined(workdir, words[0])
                folders.add(workdir)
            elif word == "ENV" and words and "$" not in rest:
                env |= _variables(rest, words)
            elif word in ("COPY", "ADD") and len(words) > 1 and not _odd(rest, words[:-1]):
                new = _copied(words[:-1], words[-1], workdir, folders)
                folders |= {one.target for one in new if one.into}
                copied += new
            elif word not in _WITHOUT_EFFECT:
                raise ValueError(line)
        except ValueError:
            lacks.append(f"{line[:60]!r} (Dockerfile, line {number})")
    if not base:
        lacks.append("a FROM in its Dockerfile")
    return Image(base, workdir, env, tuple(copied), tuple(dict.fromkeys(lacks)))


def _instructions(text: str) -> list[tuple[int, str]]:
    """Instructions with the numbers of their first lines, comments left out and continued lines joined."""
    found, begun = [], list[str]()
    first = 0
    for number, line in enumerate(text.splitlines()[:_MOST_LINES], 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        first = first if begun else number
        if line.endswith("\\"):
            begun.append(line[:-1])
            continue
        found.append((first, " ".join("".join([*begun, line]).split())))
        begun = []
    return found


def _words(rest: str) -> list[str]:
    """The words of an instruction, also of one in JSON; all of it is a word where quotes do not end."""
    bare = re.sub(r"^(--\S+\s+)+", "", rest)
    if bare.startswith("["):
        try:
            words = json.loads(bare)
        except ValueError:
            return [rest]
        if isinstance(words, list) and all(isinstance(word, str) for word in words):
            return words
    try:
        return shlex.split(rest)
    except ValueError:
        return [rest]


def _odd(rest: str, sources: Sequence[str]) -> bool:
    """Whether files come from elsewhere than `environment/`, or by a pattern."""
    if re.search(r"--(from|parents|exclude)\b", rest) or "$" in rest or "<<" in rest:
        return True
    return any(
        "://" in one or one.startswith("git@") or ".." in PurePosixPath(one).parts or set(one) & set("*?[")
        for one in sources
    )


def _copied(sources: Sequence[str], target: str, workdir: str, folders: set[str]) -> list[Copied]:
    whole = _joined(workdir, target)
    into = target.endswith(("/", "/.")) or target == "." or len(sources) > 1 or whole in folders
    plain = [str(PurePosixPath(one.lstrip("/"))) for one in sources]
    return [Copied("" if one == "." else one, whole, into) for one in plain]


def _joined(workdir: str, path: str) -> str:
    """An absolute path in the container. Raises ValueError for one that leads upwards."""
    joined = PurePosixPath(workdir, path)
    if ".." in joined.parts or "\0" in path:
        raise ValueError(path)
    return str(joined)


def _variables(rest: str, words: Sequence[str]) -> dict[str, str]:
    """Variables in Docker's two forms: `A=1 B=2`, and `A the rest`."""
    pairs = [word.partition("=") for word in words]
    if "=" not in words[0]:
        pairs = [(words[0], "=", rest.partition(" ")[2])]
    if not all(re.fullmatch(r"[A-Za-z_]\w*", name) and sign for name, sign, _ in pairs):
        raise ValueError(rest)
    return {name: value for name, _, value in pairs}
