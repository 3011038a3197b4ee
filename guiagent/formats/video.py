"""Episodes as videos for people: an MP4 (H.264) an episode, with clicks drawn and a caption for each action.

Made by PyAV (extra `video`). A turn takes 1.5 s: the screen, and then the action drawn on it. A file is
bounded by the number of turns, of pixels, and of bits a second.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont
from pydantic import ValidationError

from guiagent.actions import ACTIONS, Action, Drag, Swipe, points
from guiagent.errors import MissingProgram, UsageError
from guiagent.formats.folder import file_name
from guiagent.formats.leaving import Leaving, Wish
from guiagent.frames import rgb

_FPS = 4
_FRAMES_A_TURN = 6  # 1.5 s
_MOST_TURNS = 500
_LONGEST_SIDE = 1280  # pixels; larger screens are scaled down
_CAPTION = 28  # pixels below the screen
_BITS_A_SECOND = 400_000
_MOST_TEXT = 160  # characters of a caption
_MARK, _HALO = "#e6194b", "white"


def write(episodes: Iterable[Leaving], folder: Path, wish: Wish) -> None:
    """Write a video for each episode. Raises MissingProgram if PyAV is not installed."""
    try:
        import av  # noqa: F401
    except ImportError:
        raise MissingProgram("videos need the package av: pip install 'guiagent[video]'") from None
    for one in episodes:
        _write(one, folder / f"{file_name(one.id)}.mp4")


def _write(one: Leaving, path: Path) -> None:
    import av

    turns = one.trajectory.steps[:_MOST_TURNS]
    first = _picture(one.frame(turns[0].frame))
    scale = min(1.0, _LONGEST_SIDE / max(first.size))
    size = (_even(first.width * scale), _even(first.height * scale))
    with av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"}) as container:
        stream = container.add_stream("libx264", rate=_FPS, options={"preset": "veryfast"})
        stream.width, stream.height = size[0], size[1] + _CAPTION
        stream.pix_fmt, stream.bit_rate = "yuv420p", _BITS_A_SECOND
        stream.time_base = Fraction(1, _FPS)
        for picture in _pictures(one, size, scale):
            frame = av.VideoFrame.from_image(picture)  # type: ignore[no-untyped-call]
            for packet in stream.encode(frame):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)


def _pictures(one: Leaving, size: tuple[int, int], scale: float) -> Iterator[Image.Image]:
    """The frames of the video: of each turn the screen with its action drawn on it, at last the final one."""
    steps = one.trajectory.steps
    for number, step in enumerate(steps[:_MOST_TURNS], 1):
        try:
            actions = ACTIONS.validate_python(step.policy.actions)
        except ValidationError:
            actions = []
        caption = f"{number}/{len(steps)}  {_words(actions) or step.policy.text or 'no action'}"
        screen = _screen(one.frame(step.frame), size, caption)
        plain, marked = screen, screen.copy()
        for action in actions:
            _mark(marked, [(round(x * scale), round(y * scale)) for x, y in points(action)], action)
        yield from (plain, *[marked] * (_FRAMES_A_TURN - 1))
    if final := one.trajectory.final_frame:
        screen = _screen(one.frame(final), size, f"the end: {one.trajectory.stop.replace('_', ' ')}")
        yield from [screen] * _FRAMES_A_TURN


def _screen(data: bytes, size: tuple[int, int], caption: str) -> Image.Image:
    """A picture of a screen with a line of text below it. Another screen's size is fitted into this one."""
    picture = _picture(data)
    picture.thumbnail(size)
    canvas = Image.new("RGB", (size[0], size[1] + _CAPTION), "black")
    canvas.paste(picture, (0, 0))
    text = "".join(c if c.isprintable() else " " for c in caption)[:_MOST_TEXT]
    ImageDraw.Draw(canvas).text((8, size[1] + 7), text, "white", font=ImageFont.load_default(14))
    return canvas


def _mark(picture: Image.Image, path: Sequence[tuple[int, int]], action: Action) -> None:
    """Draw a ring at the action's point, or the way of a movement; a light halo under the colour."""
    if not path:
        return
    draw, radius = ImageDraw.Draw(picture), max(6, min(picture.size) // 40)
    moves = isinstance(action, Drag | Swipe)
    for colour, width in ((_HALO, 5), (_MARK, 3)):
        if moves:
            draw.line(list(path), colour, width)
        x, y = path[-1]
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), outline=colour, width=width)


def _words(actions: Sequence[Action]) -> str:
    """What the actions are, with their arguments, in one line."""
    return "; ".join(
        " ".join([action.type.replace("_", " "), *(f"{value}" for value in _told(action))])
        for action in actions
    )


def _told(action: Action) -> list[Any]:
    return list(action.model_dump(exclude_defaults=True, exclude={"type"}).values())


def _picture(data: bytes) -> Image.Image:
    """A stored picture. Raises UsageError if it is none: anyone may have written the store."""
    try:
        return rgb(data)
    except ValueError as error:
        raise UsageError(f"a picture of the episode cannot be read: {error}") from error


def _even(pixels: float) -> int:
    """An even number of pixels, as the codec wants it."""
    return max(2, round(pixels) // 2 * 2)
