"""The live page as one document: template, style and script in one, served or with all its data in it.

Its content security policy allows the page's own style and script by hash and nothing from elsewhere. Data go
in as JSON in which no "<" is left, and the script sets every text of a run as text.
"""

import re
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from importlib.resources import files
from typing import Any

import msgspec

from eval.report.viewer import shown
from eval.watch.run import Cursor, WatchedRun

_MARK = re.compile(r"\{\{(policy|title|style|data|script)\}\}")
_PARTS = files("eval.watch") / "page"
_EXPORTED_EPISODES = 40
_EXPORTED_BYTES = 24 * 2**20  # of frames


def document(data: dict[str, Any] | None = None, title: str = "run", *, beside: bool = False) -> str:
    """Return the page. With `data`, what a server would answer, it needs none.

    Pictures are in the data, or `beside` the page in files of their own.
    """
    style, script = ((_PARTS / name).read_text(encoding="utf-8") for name in ("style.css", "script.js"))
    policy = (
        f'<meta http-equiv="Content-Security-Policy" content="{content_policy(served=False, beside=beside)}">'
    )
    parts = {
        "policy": policy if data is not None else "",
        "title": shown(title, 200),
        "style": style,
        "data": _embedded(data) if data is not None else "null",
        "script": script,
    }
    template = (_PARTS / "index.html").read_text(encoding="utf-8")
    return _MARK.sub(lambda mark: parts[mark[1]], template)


def content_policy(*, served: bool, beside: bool = False) -> str:
    """Return the content security policy of the page; served, it may ask its own server, and only that."""
    style, script = (_digest((_PARTS / name).read_bytes()) for name in ("style.css", "script.js"))
    pictures = "file: 'self'" if beside else "data:"
    allowed = "connect-src 'self'; img-src blob:; frame-ancestors 'none'; "
    allowed = allowed if served else f"img-src {pictures}; "
    return (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; {allowed}"
        "base-uri 'none'; form-action 'none'"
    )


def exported(run: WatchedRun, name: str) -> str:
    """Return the page of a run with its curves, tables, and newest episodes in it."""
    told = run.changes(Cursor(), episodes=_EXPORTED_EPISODES)
    episodes, frames, size = {}, dict[str, str](), 0
    for one in told["episodes"]:
        segment, _, offset = one["at"].partition(".")
        try:
            episode = run.episode((int(segment), int(offset)))
        except KeyError:
            continue
        pictures = dict(_pictures(run, episode, frames))
        size += sum(map(len, pictures.values()))
        if size > _EXPORTED_BYTES:
            break
        frames |= pictures
        episodes[one["at"]] = episode
    told["episodes"] = [one for one in told["episodes"] if one["at"] in episodes]
    return document({"changes": told, "episodes": episodes, "frames": frames}, name)


def _pictures(run: WatchedRun, episode: dict[str, Any], known: dict[str, str]) -> Iterable[tuple[str, str]]:
    for hash in (*(turn["frame"] for turn in episode["turns"]), episode["final_frame"]):
        if hash and hash not in known:
            try:
                media, data = run.frame(hash)
            except KeyError:
                continue
            yield hash, f"data:{media};base64,{b64encode(data).decode()}"


def _embedded(data: dict[str, Any]) -> str:
    text = msgspec.json.encode(data).decode()
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _digest(content: bytes) -> str:
    return "sha256-" + b64encode(sha256(content).digest()).decode()
