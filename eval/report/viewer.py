"""Episodes step by step, as HTML: each frame with the action drawn on it, and the text the policy emitted.

All text shown here was written by a model or a page, so all of it is escaped, cut to a length, and kept out
of attributes other than labels; frames are embedded only if their bytes are a JPEG or a PNG.
"""

from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from itertools import groupby
from unicodedata import category

from pydantic import ValidationError

from eval.report.overlay import describe, overlay
from guiagent.actions import ACTIONS, Action
from guiagent.storage.trajectories import TrajectoryStore
from guiagent.types import Step, Trajectory

OPEN_CARDS = 4  # the first few are unfolded
MAX_SHOWN = 1200  # characters of any one text
_MEDIA = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png"}
STOPS = {
    "task_done": "ended by the task",
    "agent_done": "the agent said done",
    "max_steps": "out of steps",
    "parse_error": "unreadable action",
    "fault": "fault",
}

_Pair = tuple[Trajectory | None, Trajectory]  # before and after

Frames = Callable[[str], bytes]
"""Returns the bytes of a stored frame by its hash. Raises KeyError if there is none."""


def select(
    before: Iterable[Trajectory], after: Iterable[Trajectory], count: int
) -> list[tuple[str, Trajectory]]:
    """Select about `count` episodes to show, in pairs if both sides ran the same task and seed.

    The kinds of outcome (gained, kept, never solved, lost) take turns, and each kind picks the task shown
    least so far, so that neither the best nor the easiest fill the page. Episodes without a verdict are left
    out.
    """
    was = {(t.task, t.seed): t for t in before if t.valid}
    pairs = [(was.get((t.task, t.seed)), t) for t in after if t.valid]
    pairs.sort(key=lambda pair: (pair[1].seed, pair[1].task))
    chosen: list[tuple[str, Trajectory]] = []
    for old, new in _in_turn(pairs):
        if len(chosen) >= count:
            break
        chosen += [("before", old), ("after", new)] if old else [("episode", new)]
    return chosen


def _in_turn(pairs: Sequence[_Pair]) -> Iterator[_Pair]:
    kinds = [
        [p for p in pairs if (p[0] is not None and p[0].success, p[1].success) == kind]
        for kind in ((False, True), (True, True), (False, False), (True, False))
    ]
    times: Counter[str] = Counter()
    while any(kinds):
        for candidates in filter(None, kinds):
            best = min(candidates, key=lambda pair: times[pair[1].task])
            candidates.remove(best)
            times[best[1].task] += 1
            yield best


def frames_of(stores: Sequence[TrajectoryStore]) -> Frames:
    """One getter over several stores: a frame is the same in each of them, since its name is its hash."""

    def frame(hash: str) -> bytes:
        for store in stores:
            try:
                return store.frame(hash)
            except KeyError:
                continue
        raise KeyError(hash)

    return frame


def media_type(data: bytes) -> str | None:
    """The media type of a picture by its first bytes; None if it is neither a JPEG nor a PNG."""
    return next((media for magic, media in _MEDIA.items() if data.startswith(magic)), None)


def cards(episodes: Sequence[tuple[str, Trajectory]], frames: Frames) -> str:
    """HTML cards, one per task and seed; neighbours with the same task and seed share a card."""
    together = groupby(episodes, key=lambda item: (item[1].task, item[1].seed))
    return "".join(
        _card(list(items), frames, unfolded=number < OPEN_CARDS) for number, (_, items) in enumerate(together)
    )


def shown(text: str, most: int = MAX_SHOWN) -> str:
    """Make untrusted text safe for HTML: cut to a length, escaped, without control characters."""
    return escape(plain(text, most))


def plain(text: str, most: int) -> str:
    """Cut untrusted text to a length and take its control characters out; it is not escaped yet.

    Control and format characters (among them those that change the writing direction) and lone surrogates
    become U+FFFD.
    """
    if len(text) > most:
        text = f"{text[:most]}… ({len(text) - most:,} more characters)"
    steering = ("Cc", "Cf", "Cs")
    kept = (c if c in "\n\t" or category(c) not in steering else "\N{REPLACEMENT CHARACTER}" for c in text)
    return "".join(kept)


def _card(items: Sequence[tuple[str, Trajectory]], frames: Frames, unfolded: bool) -> str:
    first = items[0][1]
    episodes = "".join(_episode(label, t, frames, unfolded) for label, t in items)
    return (
        f'<section class="card"><h3>{shown(first.task)} <small>seed {first.seed}</small></h3>'
        f'<p class="instruction">{shown(first.instruction)}</p><div class="sides">{episodes}</div></section>'
    )


def _episode(label: str, trajectory: Trajectory, frames: Frames, unfolded: bool) -> str:
    kind, verdict = _verdict(trajectory)
    score = trajectory.score
    value = "unknown" if score is None or score.value is None else f"{score.value:g}"
    turns = "1 step" if len(trajectory.steps) == 1 else f"{len(trajectory.steps)} steps"
    why = trajectory.fault.message if trajectory.fault else score.reason if score else ""
    reason = f'<p class="reason">{shown(why)}</p>' if why else ""
    film = "".join(_step(i, step, frames) for i, step in enumerate(trajectory.steps, 1))
    if trajectory.steps:
        last = trajectory.steps[-1]
        picture = _picture(trajectory.final_frame, (last.width, last.height), "the last frame", "", frames)
        film += f'<li>{picture}<p class="did"><b>end</b> {verdict}</p></li>'
    wide = any(step.width > 1.2 * step.height for step in trajectory.steps)
    return (
        f'<details class="episode {kind}"{" open" if unfolded else ""}><summary>'
        f'<span class="verdict">{verdict}</span> <span class="label">{shown(label)}</span> '
        f'<span class="facts">score {value} · {turns} · {STOPS[trajectory.stop]}</span></summary>'
        f'{reason}<ol class="film{" wide" if wide else ""}">{film}</ol></details>'
    )


def _verdict(trajectory: Trajectory) -> tuple[str, str]:
    if trajectory.fault is not None:
        return "fault", f"! {shown(trajectory.fault.origin)} fault ({shown(trajectory.fault.code)})"
    if not trajectory.valid:
        return "fault", "? no verdict"
    return ("success", "✓ success") if trajectory.success else ("failure", "✗ failure")


def _step(number: int, step: Step, frames: Frames) -> str:
    actions, size = _readable(step), (step.width, step.height)
    did = "; ".join(describe(a) for a in actions) or "nothing was executed"
    picture = _picture(step.frame, size, did, overlay(actions, *size), frames)
    errors = "".join(f'<p class="error">{shown(e)}</p>' for e in (step.policy.error, step.action_error) if e)
    return (
        f'<li class="step">{picture}<p class="did"><b>{number}</b> {shown(did)}</p>'
        f'<pre class="text">{shown(step.policy.text)}</pre>{errors}</li>'
    )


def _readable(step: Step) -> list[Action]:
    """The stored actions; [] if they are not valid actions, since anyone may have written the store."""
    try:
        return ACTIONS.validate_python(step.policy.actions)
    except ValidationError:
        return []


def _picture(frame: str, size: tuple[int, int], label: str, marks: str, frames: Frames) -> str:
    try:
        data = frames(frame)
    except KeyError:
        return '<p class="error">this frame was not kept</p>'
    media = media_type(data)
    if media is None:
        return '<p class="error">this frame is neither a JPEG nor a PNG</p>'
    width, height = size
    source = f"data:{media};base64,{b64encode(data).decode()}"
    return (
        f'<svg class="frame" viewBox="0 0 {width} {height}" role="img" aria-label="{shown(label)}">'
        f'<image width="{width}" height="{height}" href="{source}"/>{marks}</svg>'
    )
