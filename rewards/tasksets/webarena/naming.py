"""Names of WebArena's tasksets: where the files are, the address of each site, and who compares answers."""

import re
from collections.abc import Iterable
from pathlib import Path

from guiagent.errors import UsageError
from rewards.tasksets.webarena.taskset import WebArena

PREFIX = "webarena:"
_JUDGE = "judge"
_WORDS = re.compile(r",(?=\w+=)")


def named(name: str) -> WebArena:
    """The taskset `webarena:PATH[,SITE=ADDRESS...][,judge=FILE]`; FILE has the url and model of a server.

    Raises:
        UsageError: there is no path, a word is no site's address, or the judge's file is no such file.
    """
    where, *words = _WORDS.split(name.removeprefix(PREFIX))
    if not where:
        raise UsageError(f"{name} names no file or folder: write {PREFIX}PATH")
    told = dict(word.split("=", 1) for word in words)
    judge = told.pop(_JUDGE, None)
    if judge is None:
        return WebArena(Path(where), told)
    from rewards.tasksets.webarena.meaning import (
        model_meaning,
    )  # imports what most users of a name do without

    return WebArena(Path(where), told, model_meaning(Path(judge)))


def with_words(name: str, sites: Iterable[str], judge: Path | None) -> str:
    """A name with the words that options gave. Raises UsageError if it has no room for them."""
    words = [*sites, *([f"{_JUDGE}={judge}"] if judge is not None else [])]
    if words and not name.startswith(PREFIX):
        raise UsageError(f"--site and --judge are for the suite {PREFIX}PATH, not for {name}")
    if bad := next((word for word in words if not re.match(r"\w+=", word)), None):
        raise UsageError(f"--site {bad}: write SITE=ADDRESS, such as SHOPPING=http://127.0.0.1:7770")
    return ",".join([name, *words])
